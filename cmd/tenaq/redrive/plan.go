package redrive

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/redrivehost"
	"tenaq/redrive"
	"tenaq/redrive/breaker"
)

type planFlags struct {
	*flags
	spec   redrivehost.Spec // what the flags say of it
	policy *redrive.Policy
}

func newPlanCmd(a *cli.App, r *flags) *cobra.Command {
	f := &planFlags{flags: r}
	cmd := &cobra.Command{
		Use:   "plan QUEUE...",
		Short: "Print the next step of a redriver without taking it",
		Long: `Print what the next step of a redriver would do with the messages of dead-letter
queues, and why. Nothing is sent, deleted or recorded. Add the flags of "tenaq
redrive run". With --no-claims the plan also shows how messages that do not come
back are judged.

SQS cannot show a message without delivering it. The plan receives the messages
that it looks at, only a few more than the rate has room for, and gives them
back at its end. A tenaq server takes back the receives as well; on another
server the receive counts grow by one.

While a redriver is paused, this is the first step after its pause.`,
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
	cli.Text(flags, &f.spec.Target, "target", "redrive to this `queue` (default: the origin)")
	cli.SomeTime(flags, &f.spec.Look, "look", redrivehost.PlanLook.String(),
		"`duration` to hide messages")
	cli.Value(flags, &f.spec.Schedule, "schedule", redrivehost.ScheduleDefault,
		"`schedule` of steps", redrivehost.ParseSchedule)
	f.policy = redrivehost.PolicyFlags(flags)
	return cmd
}

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
	Hidden    int                         `json:"hidden"` // could not be given back
	Decisions []decisionDocument          `json:"decisions"`
	// null with a ledger, and if no message was looked at
	Silence *silenceDocument `json:"silence,omitempty"`
}

// A silenceDocument says how messages that do not come back are judged, as --json prints it.
type silenceDocument struct {
	Visibility float64 `json:"visibilityTimeoutSeconds"`
	Receives   int     `json:"receives"`
	Step       float64 `json:"stepSeconds"`
	// after the message became visible, as the next one
	Half    float64 `json:"halfSuccessAfterSeconds"`
	Settled float64 `json:"settledAfterSeconds"`
	Formula string  `json:"formula"`

	text string
}

func newSilenceDocument(s *redrive.Silence) *silenceDocument {
	if s == nil {
		return nil
	}
	half := "min(visibility + step, settled)"
	if s.FIFO {
		half = "settled"
	}
	formula := "half = " + half + "; settled = min(receives * max(visibility, 30 s) + 60 s, 24 h)"
	return &silenceDocument{
		Visibility: s.Visibility.Seconds(), Receives: s.Receives, Step: s.Step.Seconds(),
		Half: s.Half().Seconds(), Settled: s.Settled().Seconds(), Formula: formula,
		text: fmt.Sprintf("without a ledger, a message that has not come back counts as half a success %s after its delay, and can come back for %s; %s; visibility = %s, receives = %d, step = %s. A tenaq server reports deletes at once",
			cli.HumanDuration(s.Half()), cli.HumanDuration(s.Settled()), formula,
			cli.HumanDuration(s.Visibility), s.Receives, cli.HumanDuration(s.Step)),
	}
}

// run plans for one queue after the other. If one fails the others are still planned for.
func (f *planFlags) run(ctx context.Context, a *cli.App, queues []string) error {
	spec := f.spec
	spec.Policy = *f.policy
	if most := spec.Schedule.Interval(); spec.Look > most {
		return cli.Usagef("--look: %s is longer than the %s between two steps",
			cli.HumanDuration(spec.Look), cli.HumanDuration(most))
	}
	h, err := f.host(ctx, newReporter(a, &cli.LogFlags{}).logger, f.openOrEmpty)
	if err != nil {
		return err
	}
	defer h.Close()
	plans := []planDocument{}
	var last error
	for _, queue := range queues {
		spec.DeadLetter = queue
		plan, err := plan(ctx, h, &spec)
		if err == nil {
			plans = append(plans, plan)
		} else if last = err; len(queues) > 1 {
			a.Complain(err)
		}
	}
	if len(plans) > 0 {
		if err := printPlans(a, plans, spec.Look); err != nil {
			return err
		}
	}
	switch failed := len(queues) - len(plans); {
	case last == nil || len(queues) == 1:
		return last
	case len(plans) > 0:
		return cli.Codedf(cli.ExitPartly, "there is no plan for %d of %d queues; see above", failed,
			len(queues))
	}
	return cli.Codedf(cli.ExitCode(last), "there is no plan for any of %d queues; see above",
		len(queues))
}

func plan(ctx context.Context, h *redrivehost.Host, s *redrivehost.Spec) (planDocument, error) {
	v, err := h.View(ctx, s)
	if err != nil {
		return planDocument{}, err
	}
	r, err := v.Plan(ctx)
	if err != nil {
		return planDocument{}, err
	}
	return planDocument{
		Queue: v.Queue, Breaker: redrivehost.NewBreakerDocument(r.State.Breaker, &s.Policy),
		Paused: r.State.Paused, Rate: r.State.Rate, OnTheWay: len(r.State.Flights), Depth: r.Depth,
		Redrive: r.Count(redrive.Redrive), Park: r.Count(redrive.Park), Hold: r.Count(redrive.Hold),
		Hidden:    r.Hidden,
		Decisions: decisionDocuments(r.Decisions), Silence: newSilenceDocument(r.Silence),
	}, nil
}

func printPlans(a *cli.App, plans []planDocument, look time.Duration) error {
	if a.JSON {
		return a.PrintJSON(map[string]any{"queues": plans})
	}
	t := cli.Table{Head: []string{"QUEUE", "MESSAGE", "KEY", "REDRIVES", "STRIKES", "ACTION",
		"DELAY", "REASON", "WHY"}}
	for _, p := range plans {
		for _, d := range p.Decisions {
			t.Add(p.Queue, d.Message, d.Key, strconv.Itoa(d.Redrives), strconv.Itoa(d.Strikes),
				string(d.Action), d.delayText(), cli.OrDash(cli.FirstWords(d.Reason, 40)), d.Why)
		}
	}
	if len(t.Rows) > 0 {
		if err := a.PrintTable(t); err != nil {
			return err
		}
	}
	for _, p := range plans {
		a.Note("%s", cli.OneLine(p.summary()))
		if p.Silence != nil {
			a.Note("%s: %s", p.Queue, p.Silence.text)
		}
	}
	if len(t.Rows) > 0 {
		a.Note("nothing was changed")
	}
	for _, p := range plans {
		if p.Hidden > 0 {
			a.Note("%s could not be given back, and stay hidden in %s for up to %s", cli.Counted(p.Hidden, "dead letter", "dead letters"), p.Queue, cli.HumanDuration(look))
		}
	}
	return nil
}

// delayText is the delay of a redrive, or until when a message is held at least.
func (d *decisionDocument) delayText() string {
	switch {
	case d.Delay > 0:
		return cli.HumanDuration(time.Duration(d.Delay * float64(time.Second)))
	case d.Until != nil:
		return "until " + d.Until.Format(time.TimeOnly)
	}
	return "-"
}

func (p *planDocument) summary() string {
	text := fmt.Sprintf("%s: %s", p.Queue, cli.Counted(p.Depth, "dead letter", "dead letters"))
	switch n := len(p.Decisions); {
	case n > 0:
		text += fmt.Sprintf(", %d looked at: %d to redrive, %d to park, %d to hold", n, p.Redrive,
			p.Park, p.Hold)
	case p.Breaker.State == breaker.Open:
		return text + ", and the breaker is open until " +
			p.Breaker.HalfOpenAt.Format(time.RFC3339) + p.pausedText()
	case p.Depth > 0:
		text += ", none of which can be received now: they are hidden, or the rate has no room for more"
	}
	return text + fmt.Sprintf("; the breaker is %s, and %d of at most %d would be on their way",
		p.Breaker.State, p.OnTheWay, p.Rate) + p.pausedText()
}

func (p *planDocument) pausedText() string {
	return cli.OrEmpty(p.Paused != "", "; paused: "+cli.OneLine(p.Paused)+
		". This is the first step after: tenaq redrive resume "+p.Queue)
}
