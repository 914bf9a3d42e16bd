package redrive

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tenaq/internal/cli"
	"tenaq/internal/redrivehost"
	"tenaq/redrive"
	"tenaq/redrive/breaker"
)

func TestOnceVerdict(t *testing.T) {
	fine := redrivehost.Step{Queue: "fine", Report: redrive.Report{State: redrive.State{Breaker: breaker.Breaker{State: breaker.Closed}}}}
	open := redrivehost.Step{Queue: "open", Report: redrive.Report{State: redrive.State{Breaker: breaker.Breaker{State: breaker.Open}}}}
	gone := redrivehost.Step{Queue: "gone", Err: cli.Codedf(cli.ExitNotFound, "no such queue")}
	met := redrivehost.Step{Queue: "met", Err: fmt.Errorf("write: %w", redrive.ErrOverlap)}
	for _, test := range []struct {
		steps []redrivehost.Step
		code  int
		text  string
	}{
		{[]redrivehost.Step{fine}, cli.ExitOK, ""},
		{[]redrivehost.Step{fine, open}, cli.ExitRefused, "the breaker of open is open"},
		{[]redrivehost.Step{fine, met}, cli.ExitRefused, "another redriver took a step for met"},
		{[]redrivehost.Step{gone}, cli.ExitNotFound, "no such queue"},
		{[]redrivehost.Step{gone, gone}, cli.ExitNotFound, "none of 2 steps was taken"},
		{[]redrivehost.Step{gone, open}, cli.ExitPartly, "the steps of gone failed"},
	} {
		err := onceVerdict(test.steps)
		if cli.ExitCode(err) != test.code || err != nil && !strings.Contains(err.Error(), test.text) {
			t.Errorf("%v: exit code %d, error %v, want %d and %q", test.steps, cli.ExitCode(err), err, test.code, test.text)
		}
	}
}

// The texts of a step: the line on a terminal, and the attributes in the log.
func TestStepTexts(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	state := redrive.State{Breaker: breaker.Breaker{State: breaker.Closed}, Flights: make([]redrive.Flight, 2), Successes: 7, Parked: 1}
	paused := state
	paused.Paused = "by somebody"
	steps := map[string]redrivehost.Step{
		"a": {Queue: "a", Report: redrive.Report{State: state, Depth: 40}, Drain: 3 * time.Hour, Next: now.Add(90 * time.Second)},
		"b": {Queue: "b", Err: errors.New("it hangs\n")},
		"c": {Queue: "c", Report: redrive.Report{State: paused}},
	}
	want := `a CLOSED: 40 dead, 2 on their way, 7 done, 1 parked, about 3 h to go, next in 1 min 30 s | b: it hangs\n | c is paused`
	if got := stepsText(steps, now); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	for _, s := range []redrivehost.Step{
		steps["a"], // in which nothing happened
		{Queue: "d", Err: redrive.ErrOverlap},
		{Queue: "e", Err: errors.New("it hangs"), Next: now},
	} {
		redrivehost.LogStep(logger, &s)
	}
	if text := log.String(); strings.Contains(text, "queue=a") || strings.Count(text, "WARN") != 1 ||
		!strings.Contains(text, `at the same time" queue=d`) || !strings.Contains(text, `queue=e error="it hangs" next=2027-01-15T08:00:00Z`) {
		t.Errorf("got\n%s", text)
	}
}
