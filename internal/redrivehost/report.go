package redrivehost

import (
	"log/slog"
	"time"

	"tenaq/redrive"
)

// OutcomeCounts counts what became of redriven messages. One that is gone has succeeded.
func OutcomeCounts(r *redrive.Report) (succeeded, failed int) {
	for _, o := range r.Outcomes {
		switch o.Result {
		case redrive.Succeeded, redrive.Gone:
			succeeded++
		case redrive.Failed:
			failed++
		}
	}
	return succeeded, failed
}

// LogStep logs each message that was sent on, changes of the breaker, and errors. A step in which
// nothing happened leaves no line.
func LogStep(l *slog.Logger, s *Step) {
	l = l.With("queue", s.Queue)
	r := &s.Report
	for _, d := range r.Decisions {
		switch d.Action {
		case redrive.Redrive:
			l.Info("redriven", "message", d.ID, "key", d.Key, "delay", d.Delay, "why", d.Why)
		case redrive.Park:
			l.Warn("parked", "message", d.ID, "key", d.Key, "why", d.Why)
		}
	}
	if r.Changed {
		l.Warn("the breaker is "+string(r.State.Breaker.State), "trips", r.State.Breaker.Trips)
	}
	switch {
	case IsOverlap(s.Err):
		l.Info("redrive step skipped: another redriver took one at the same time")
	case s.Err != nil:
		l.Warn("redrive step failed; the next one continues what it began", "error", s.Err, "next",
			s.Next.UTC().Format(time.RFC3339))
	case s.eventful(), s.Next.IsZero(): // the only step of a command is always of interest
		succeeded, failed := OutcomeCounts(r)
		l.Info("redrive step", "breaker", r.State.Breaker.State, "dead", r.Depth, "redriven",
			r.Count(redrive.Redrive), "parked", r.Count(redrive.Park),
			"held", r.Count(redrive.Hold), "succeeded", succeeded, "failed", failed, "on_their_way",
			len(r.State.Flights))
	}
}
