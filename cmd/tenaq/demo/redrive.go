package demo

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"tenaq/internal/cli"
	"tenaq/internal/demo/redrive"
	"tenaq/internal/redrivehost"
)

var redriveScenario = scenario{
	name: "redrive",
	text: "dead letters go back to a sick consumer at its pace, and poison is parked",
	run:  runRedrive,
	breaks: []breakage{
		{name: string(redrive.Breakers), text: "no failure opens the breaker, and 200 messages may be on their way from the first"},
		{name: string(redrive.Identities), text: "redriven messages do not say which work they are"},
	},
	child: workRedrive,
}

// runRedrive makes the queues and has the story told.
func runRedrive(ctx context.Context, env *demoEnv) ([]demoRow, error) {
	s, err := env.openSQS(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	cfg := redrive.Config{
		API: s.api, Scale: redrive.Full,
		Dir: env.dir, Seed: env.seed, Break: redrive.Breakage(env.broken),
		Redriver: func() (*exec.Cmd, error) { return s.childCommand("redrive") },
		Say:      env.progress.Say, Line: env.progress.Line,
	}
	switch {
	case s.server == nil:
		cfg.Scale = redrive.Slow
	case cfg.Break != redrive.Nothing:
		cfg.Scale = redrive.Small
	}
	if cfg.Usual, err = redriveQueues(ctx, s, "redrive-usual"); err != nil {
		return nil, err
	}
	if cfg.Ours, err = redriveQueues(ctx, s, "redrive"); err != nil {
		return nil, err
	}
	out, err := redrive.Run(ctx, cfg)
	return append(redriveRows(out, cfg.Break), s.alarmRow(ctx)), err
}

// redriveQueues makes the queues of one part.
func redriveQueues(ctx context.Context, s *demoSQS, name string) (q redrive.Queues, err error) {
	longest := map[string]string{"MessageRetentionPeriod": redrivehost.RetentionMost}
	if q.Parking, err = s.createQueue(ctx, name+"-parking", longest); err != nil {
		return q, err
	}
	if q.Dead, err = s.createQueue(ctx, name+"-dead", longest); err != nil {
		return q, err
	}
	dead, err := s.queueARN(ctx, q.Dead)
	if err != nil {
		return q, err
	}
	if q.Work, err = s.createQueue(ctx, name+"-work", redrive.QueueAttributes(dead)); err != nil {
		return q, err
	}
	q.DeadSource, err = s.queueARN(ctx, q.Work)
	return q, err
}

// workRedrive is a redriver process.
func workRedrive(ctx context.Context, a *cli.App, args []string) error {
	api, err := childClient(ctx, args)
	if err != nil {
		return err
	}
	return redrive.Work(ctx, a.Stdin, api)
}

// redriveRows shows what became of the dead letters.
func redriveRows(o *redrive.Outcome, broken redrive.Breakage) []demoRow {
	poison, parked := 0, 0
	for why, n := range redrive.Poison {
		poison, parked = poison+n, parked+o.Parked[why]
	}
	rows := append(usualRedriveRows(o, broken), []demoRow{
		shownRow("dead letters at first", o.Scale.Orders),
		shownRow("of these, written as a worker writes them, to save time", o.Scale.Orders-o.Scale.ByWorker),
		shownRow("orders that came in meanwhile", o.Live),
		wantRow("redriven in the first step", redrive.RateFirst, o.First),
		atMostRow("calls of the sick warehouse by redriven messages", redriveBound(o), o.Sick),
		wantRow("breaker", "CLOSED, OPEN, HALF_OPEN, CLOSED", breakerPath(o.States)),
		atLeastRow("times it opened in the outage", redrive.TripsLeast, o.Trips),
		wantRow("redrivers killed (kill -9) between send and delete", 1, o.Killed),
		atLeastRow("copies that the worker turned away, the order being booked", 1, o.TurnedAway),
		wantRow("orders booked", o.Scale.Orders+o.Live-poison, o.Booked),
		wantRow("orders booked twice", 0, o.Doubled),
	}...)
	for _, why := range slices.Sorted(maps.Keys(redrive.Poison)) {
		rows = append(rows, wantRow("parked: "+why, redrive.Poison[why], o.Parked[why]))
	}
	return append(rows, []demoRow{
		wantRow("parked for another reason, or without need", 0, o.ParkedWrong),
		wantRow("messages left in the queues", 0, o.Left),
		shownRow("calls of the healthy warehouse by poison", o.PoisonCalls),
		shownRow("messages on their way, at most", o.Most),
		shownRow("from the end of the outage until all were booked", bookedAfter(o)),
	}...)
}

// usualRedriveRows shows what a redriver does that is written as usual. If it did no harm the rest would prove
// nothing.
func usualRedriveRows(o *redrive.Outcome, broken redrive.Breakage) []demoRow {
	const (
		sick   = "as usual: calls of the sick warehouse"
		rounds = "as usual: rounds of each poison message, to be parked after 5"
		parked = "as usual: parked"
	)
	if broken != redrive.Nothing {
		return []demoRow{skippedRow(sick, "left out too"), skippedRow(rounds, "left out too"), skippedRow(parked, "left out too")}
	}
	return []demoRow{
		atLeastRow(fmt.Sprintf("%s, with %d dead letters", sick, o.Scale.Usual), redrive.UsualTimes*o.Scale.Usual, o.Usual.Sick),
		atLeastRow(rounds, redrive.UsualRounds, o.Usual.Rounds),
		shownRow(parked, o.Usual.Parked),
	}
}

// redriveBound is how often redriven messages may call a sick warehouse: as many as may be on their way before
// anything is known, and a canary after each time that the breaker opened.
func redriveBound(o *redrive.Outcome) int { return (redrive.RateFirst + o.Trips) * redrive.Attempts }

// atMostRow is a check for an upper bound.
func atMostRow(check string, want, got int) demoRow {
	r := demoRow{Check: check, Want: fmt.Sprintf("<= %d", want), Got: fmt.Sprint(got), OK: rowFailed}
	if got <= want {
		r.OK = rowOK
	}
	return r
}

// breakerPath is how a breaker came from state to state until it was closed again, without the canaries that
// failed.
func breakerPath(states []string) string {
	var path []string
	for _, state := range states {
		if i := slices.Index(path, state); i > 0 {
			path = path[:i]
		}
		path = append(path, state)
		if state == "CLOSED" && len(path) > 1 {
			break
		}
	}
	return strings.Join(path, ", ")
}

func bookedAfter(o *redrive.Outcome) string {
	if o.After == 0 {
		return "they were not"
	}
	return seconds(o.After)
}
