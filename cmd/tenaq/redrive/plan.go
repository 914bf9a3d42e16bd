package redrive

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/redrivehost"
	"tenaq/internal/work/breaker"
	"tenaq/redrive"
)

type redrivePlanFlags struct {
	*redriveFlags
	redrivehost.PolicyFlags
	target, look, schedule string
}

func newRedrivePlanCmd(a *cli.App, r *redriveFlags) *cobra.Command {
	f := &redrivePlanFlags{redriveFlags: r}
	cmd := &cobra.Command{
		Use:   "plan QUEUE...",
		Short: "Say what a redriver would do now, and do nothing",
		Long: `Say what the next step of a redriver would do with the messages of dead-letter queues, and why. Nothing is
sent, deleted or written down. Give it the flags that "tenaq redrive run" is given.

With --no-claims the plan also shows how messages that do not come back are judged, with the values of the
queue that they are sent to.

SQS cannot show a message without handing it out: what was looked at is hidden from others for --look, and has
been received once more. So a redriver that takes a step meanwhile does not see these messages, and takes them
in its next one. It looks at no more than the rate has room for, and a little more: what is beyond that would
have to wait anyway.

` + cli.RecordsHelp,
		Example: `  tenaq redrive plan orders-dlq
  tenaq redrive plan orders-dlq mail-dlq --redrives 3
  tenaq redrive plan orders-dlq --json | jq '.queues[].decisions[] | select(.action == "park")'`,
		Args: cli.Wants(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), a, args)
		},
	}
	f.registerClaims(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.target, "target", "", "as if everything were redriven to this `queue` (default: where each message came from)")
	flags.StringVar(&f.look, "look", "30s", "hide messages that were looked at for this `duration`, and look for half of it at most")
	flags.StringVar(&f.schedule, "schedule", redrivehost.ScheduleDefault, "the `schedule` of the redriver; with --no-claims the wait for a message depends on it")
	f.PolicyFlags.Register(flags)
	return cmd
}

// A planDocument is the plan for a queue as --json prints it.
type planDocument struct {
	Queue     string                      `json:"queue"`
	Breaker   redrivehost.BreakerDocument `json:"breaker"`
	Paused    string                      `json:"paused,omitempty"`
	Rate      int                         `json:"rate"`
	OnTheWay  int                         `json:"thenOnTheirWay"` // after the step
	Depth     int                         `json:"depth"`
	Redrive   int                         `json:"redrive"`
	Park      int                         `json:"park"`
	Hold      int                         `json:"hold"`
	Decisions []decisionDocument          `json:"decisions"`
	Silence   *silenceDocument            `json:"silence,omitempty"` // null with a ledger, and when no message was looked at
}

// A silenceDocument says how messages that do not come back are judged, as --json prints it.
type silenceDocument struct {
	Visibility float64 `json:"visibilityTimeoutSeconds"`
	Receives   int     `json:"receives"`
	Step       float64 `json:"stepSeconds"`
	Half       float64 `json:"halfSuccessAfterSeconds"` // after it became visible, as the next one
	Settled    float64 `json:"settledAfterSeconds"`
	Formula    string  `json:"formula"`
}

func newSilenceDocument(s *redrive.Silence) *silenceDocument {
	if s == nil {
		return nil
	}
	d := &silenceDocument{
		Visibility: s.Visibility.Seconds(), Receives: s.Receives, Step: s.Step.Seconds(),
		Half: s.Half().Seconds(), Settled: s.Settled().Seconds(),
		Formula: "half = min(visibility + step, settled); settled = min(receives * max(visibility, 30 s) + 60 s, 24 h)",
	}
	if s.FIFO {
		d.Formula = "half = settled; settled = min(receives * max(visibility, 30 s) + 60 s, 24 h)"
	}
	return d
}

// text is the formula with its values.
func (d *silenceDocument) text() string {
	seconds := func(s float64) string { return cli.HumanDuration(time.Duration(s * float64(time.Second))) }
	return fmt.Sprintf("without a ledger a message that has not come back is a success of weight 1/2 %s after its delay, and can come back for %s; "+
		"%s; visibility = %s, receives = %d, step = %s. A tenaq server says at once what was deleted",
		seconds(d.Half), seconds(d.Settled), d.Formula, seconds(d.Visibility), d.Receives, seconds(d.Step))
}

func newPlanDocument(queue string, r *redrive.Report, p *redrive.Policy) planDocument {
	d := planDocument{
		Queue: queue, Breaker: redrivehost.NewBreakerDocument(r.State.Breaker, p), Paused: r.State.Paused, Rate: r.State.Rate,
		OnTheWay: len(r.State.Flights), Depth: r.Depth,
		Redrive: r.Count(redrive.Redrive), Park: r.Count(redrive.Park), Hold: r.Count(redrive.Hold), Decisions: []decisionDocument{},
		Silence: newSilenceDocument(r.Silence),
	}
	for _, one := range r.Decisions {
		d.Decisions = append(d.Decisions, newDecisionDocument(&one))
	}
	return d
}

// run plans for one queue after the other. One that fails does not keep the others from being planned.
func (f *redrivePlanFlags) run(ctx context.Context, a *cli.App, queues []string) error {
	spec := redrivehost.Spec{Target: f.target}
	var err error
	if spec.Look, err = cli.SomeDuration(f.look); err != nil {
		return cli.Usagef("--look: %v", err)
	}
	if spec.Schedule, err = redrivehost.ParseSchedule(f.schedule); err != nil {
		return cli.Usagef("--schedule: %v", err)
	}
	if most := spec.Schedule.Interval(); spec.Look > most {
		return cli.Usagef("--look: %s is longer than the %s between two steps", f.look, cli.HumanDuration(most))
	}
	if spec.Policy, err = f.Policy(); err != nil {
		return err
	}
	h, err := f.host(ctx, newRedriveTeller(a).logger, f.OpenExisting)
	if err != nil {
		return err
	}
	defer h.Close()
	plans := []planDocument{}
	var last error
	for _, queue := range queues {
		spec.DeadLetter = queue
		plan, err := plan(h, ctx, &spec)
		if err != nil {
			if last = err; len(queues) > 1 {
				a.Complain(err)
			}
			continue
		}
		plans = append(plans, plan)
	}
	if len(plans) > 0 {
		if err := printPlans(a, plans, spec.Look); err != nil {
			return err
		}
	}
	switch {
	case last != nil && len(queues) == 1:
		return last
	case last != nil && len(plans) > 0:
		return cli.Codedf(cli.ExitPartly, "%d of %s could not be planned for; see above", len(queues)-len(plans), cli.Counted(len(queues), "queue", "queues"))
	case last != nil:
		return cli.Codedf(cli.ExitCode(last), "none of %d queues was planned for; see above", len(queues))
	}
	return nil
}

// plan plans for one queue.
func plan(h *redrivehost.Host, ctx context.Context, s *redrivehost.Spec) (planDocument, error) {
	v, err := h.View(ctx, s)
	if err != nil {
		return planDocument{}, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, max(s.Look, h.Client.Timeout), cli.ErrNoAnswer)
	defer cancel()
	report, err := v.Redriver.Plan(bounded)
	if err != nil {
		return planDocument{}, redrivehost.ExplainStep(h.Client, v.Queue, cli.WithCause(bounded, err))
	}
	return newPlanDocument(v.Queue, &report, &s.Policy), nil
}

func printPlans(a *cli.App, plans []planDocument, look time.Duration) error {
	if a.JSON {
		return a.PrintJSON(map[string]any{"queues": plans})
	}
	t := cli.Table{Head: []string{"QUEUE", "MESSAGE", "KEY", "REDRIVES", "STRIKES", "ACTION", "DELAY", "REASON", "WHY"}}
	looked := 0
	for _, p := range plans {
		for _, d := range p.Decisions {
			t.Add(p.Queue, d.Message, d.Key, strconv.Itoa(d.Redrives), strconv.Itoa(d.Strikes), string(d.Action), d.delayText(), cli.OrDash(cli.FirstWords(d.Reason, 40)), d.Why)
		}
		looked += len(p.Decisions)
	}
	if looked > 0 {
		if err := a.PrintTable(t); err != nil {
			return err
		}
	}
	for _, p := range plans {
		a.Note("%s", cli.OneLine(p.summary()))
		if p.Silence != nil {
			a.Note("%s: %s", p.Queue, p.Silence.text())
		}
	}
	if looked > 0 {
		a.Note("nothing was changed; the messages above are hidden from others for up to %s, and were received once more", cli.HumanDuration(look))
	}
	return nil
}

// delayText is the delay of a redrive, or for how long a message is held at least.
func (d *decisionDocument) delayText() string {
	switch {
	case d.Delay > 0:
		return cli.HumanDuration(time.Duration(d.Delay * float64(time.Second)))
	case d.Until != nil:
		return "until " + d.Until.Format(time.TimeOnly)
	}
	return "-"
}

// summary is one sentence about a queue.
func (p *planDocument) summary() string {
	text := fmt.Sprintf("%s: %s", p.Queue, cli.Counted(p.Depth, "dead letter", "dead letters"))
	switch n := len(p.Decisions); {
	case n > 0:
		text += fmt.Sprintf(", %d looked at: %d to redrive, %d to park, %d to hold", n, p.Redrive, p.Park, p.Hold)
	case p.Paused != "":
		return text + ", and it is paused: " + p.Paused
	case p.Breaker.State == breaker.Open:
		return text + ", and the breaker is open until " + p.Breaker.HalfOpenAt.Format(time.RFC3339)
	case p.Depth > 0:
		text += ", none of which can be seen now: they are hidden, or there is no room for more"
	}
	return text + fmt.Sprintf("; the breaker is %s, and %d would then be on their way, of %d at most", p.Breaker.State, p.OnTheWay, p.Rate)
}
