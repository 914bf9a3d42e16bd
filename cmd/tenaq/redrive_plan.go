package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/breaker"
	"tenaq/redrive"
)

type redrivePlanFlags struct {
	*redriveFlags
	policyFlags
	target, look, schedule string
}

func newRedrivePlanCmd(a *app, r *redriveFlags) *cobra.Command {
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

` + recordsHelp,
		Example: `  tenaq redrive plan orders-dlq
  tenaq redrive plan orders-dlq mail-dlq --redrives 3
  tenaq redrive plan orders-dlq --json | jq '.queues[].decisions[] | select(.action == "park")'`,
		Args: wants(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), a, args)
		},
	}
	f.registerClaims(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.target, "target", "", "as if everything were redriven to this `queue` (default: where each message came from)")
	flags.StringVar(&f.look, "look", "30s", "hide messages that were looked at for this `duration`, and look for half of it at most")
	flags.StringVar(&f.schedule, "schedule", scheduleDefault, "the `schedule` of the redriver; with --no-claims the wait for a message depends on it")
	f.policyFlags.register(flags)
	return cmd
}

// A planDocument is the plan for a queue as --json prints it.
type planDocument struct {
	Queue     string             `json:"queue"`
	Breaker   breakerDocument    `json:"breaker"`
	Paused    string             `json:"paused,omitempty"`
	Rate      int                `json:"rate"`
	OnTheWay  int                `json:"thenOnTheirWay"` // after the step
	Depth     int                `json:"depth"`
	Redrive   int                `json:"redrive"`
	Park      int                `json:"park"`
	Hold      int                `json:"hold"`
	Decisions []decisionDocument `json:"decisions"`
	Silence   *silenceDocument   `json:"silence,omitempty"` // null with a ledger, and when no message was looked at
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
	seconds := func(s float64) string { return humanDuration(time.Duration(s * float64(time.Second))) }
	return fmt.Sprintf("without a ledger a message that has not come back is a success of weight 1/2 %s after its delay, and can come back for %s; "+
		"%s; visibility = %s, receives = %d, step = %s. A tenaq server says at once what was deleted",
		seconds(d.Half), seconds(d.Settled), d.Formula, seconds(d.Visibility), d.Receives, seconds(d.Step))
}

func newPlanDocument(queue string, r *redrive.Report, p *redrive.Policy) planDocument {
	d := planDocument{
		Queue: queue, Breaker: newBreakerDocument(r.State.Breaker, p), Paused: r.State.Paused, Rate: r.State.Rate,
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
func (f *redrivePlanFlags) run(ctx context.Context, a *app, queues []string) error {
	spec := redriveSpec{target: f.target}
	var err error
	if spec.look, err = someDuration(f.look); err != nil {
		return usagef("--look: %v", err)
	}
	if spec.schedule, err = parseSchedule(f.schedule); err != nil {
		return usagef("--schedule: %v", err)
	}
	if most := spec.schedule.interval(); spec.look > most {
		return usagef("--look: %s is longer than the %s between two steps", f.look, humanDuration(most))
	}
	if spec.policy, err = f.policy(); err != nil {
		return err
	}
	h, err := f.host(ctx, newRedriveTeller(a).logger, f.openExisting)
	if err != nil {
		return err
	}
	defer h.close()
	plans := []planDocument{}
	var last error
	for _, queue := range queues {
		spec.deadLetter = queue
		plan, err := h.plan(ctx, &spec)
		if err != nil {
			if last = err; len(queues) > 1 {
				a.complain(err)
			}
			continue
		}
		plans = append(plans, plan)
	}
	if len(plans) > 0 {
		if err := a.printPlans(plans, spec.look); err != nil {
			return err
		}
	}
	switch {
	case last != nil && len(queues) == 1:
		return last
	case last != nil && len(plans) > 0:
		return codedf(exitPartly, "%d of %s could not be planned for; see above", len(queues)-len(plans), counted(len(queues), "queue", "queues"))
	case last != nil:
		return codedf(exitCode(last), "none of %d queues was planned for; see above", len(queues))
	}
	return nil
}

// plan plans for one queue.
func (h *redriveHost) plan(ctx context.Context, s *redriveSpec) (planDocument, error) {
	v, err := h.view(ctx, s)
	if err != nil {
		return planDocument{}, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, max(s.look, h.client.timeout), errNoAnswer)
	defer cancel()
	report, err := v.redriver.Plan(bounded)
	if err != nil {
		return planDocument{}, h.client.explainStep(v.queue, withCause(bounded, err))
	}
	return newPlanDocument(v.queue, &report, &s.policy), nil
}

func (a *app) printPlans(plans []planDocument, look time.Duration) error {
	if a.json {
		return a.printJSON(map[string]any{"queues": plans})
	}
	t := table{head: []string{"QUEUE", "MESSAGE", "KEY", "REDRIVES", "STRIKES", "ACTION", "DELAY", "REASON", "WHY"}}
	looked := 0
	for _, p := range plans {
		for _, d := range p.Decisions {
			t.add(p.Queue, d.Message, d.Key, strconv.Itoa(d.Redrives), strconv.Itoa(d.Strikes), string(d.Action), d.delayText(), orDash(firstWords(d.Reason, 40)), d.Why)
		}
		looked += len(p.Decisions)
	}
	if looked > 0 {
		if err := a.printTable(t); err != nil {
			return err
		}
	}
	for _, p := range plans {
		a.note("%s", oneLine(p.summary()))
		if p.Silence != nil {
			a.note("%s: %s", p.Queue, p.Silence.text())
		}
	}
	if looked > 0 {
		a.note("nothing was changed; the messages above are hidden from others for up to %s, and were received once more", humanDuration(look))
	}
	return nil
}

// delayText is the delay of a redrive, or for how long a message is held at least.
func (d *decisionDocument) delayText() string {
	switch {
	case d.Delay > 0:
		return humanDuration(time.Duration(d.Delay * float64(time.Second)))
	case d.Until != nil:
		return "until " + d.Until.Format(time.TimeOnly)
	}
	return "-"
}

// summary is one sentence about a queue.
func (p *planDocument) summary() string {
	text := fmt.Sprintf("%s: %s", p.Queue, counted(p.Depth, "dead letter", "dead letters"))
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

// firstWords cuts what is too long for a column.
func firstWords(text string, most int) string {
	text, _, _ = strings.Cut(text, "\n")
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}
