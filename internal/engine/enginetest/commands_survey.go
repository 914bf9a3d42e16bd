package enginetest

import (
	"fmt"
	"strings"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/observe/tally"
)

// survey has a line for each queue, or for one, of where its messages are and how old, and one of
// what was counted if there is anything and it is not to be left out.
func (p *Player) survey(a *args, _ []string) (string, error) {
	one, some := a.queue()
	uncounted := a.flag("uncounted")
	var b strings.Builder
	op := &engine.Survey{Max: 2}
	for range againMax {
		if refusal, err := p.simple(a, op); refusal != "" || err != nil {
			return refusal, err
		}
		for i := range op.Gauges {
			if g := &op.Gauges[i]; !some || g.Queue == one {
				fmt.Fprintln(&b, showGauge(g))
				if uncounted {
					continue
				}
				if counts := showCounts(p.machine.Tally().Of(g.Queue.Account,
					g.Queue.Name)); counts != "" {
					fmt.Fprintln(&b, "  "+counts)
				}
			}
		}
		if !op.More {
			return b.String(), nil
		}
		op.After = op.Last
	}
	return "", fmt.Errorf("a survey does not end")
}

func showGauge(g *engine.Gauge) string {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	text := fmt.Sprintf("%s visible=%d in-flight=%d delayed=%d age=%v aws-age=%v kept=%v timeout=%v retention=%v",
		g.Queue.Name, g.Visible, g.InFlight, g.Delayed, ms(g.Age), ms(g.AWSAge), ms(g.Kept),
		ms(g.VisibilityTimeout), ms(g.Retention))
	if g.FIFO {
		text += " fifo"
	}
	if g.Fair {
		text += fmt.Sprintf(" noisy=%d quiet=%d/%d/%d", g.Noisy, g.Quiet.Visible, g.Quiet.InFlight,
			g.Quiet.Delayed)
	}
	if g.DeadLetterTarget != "" {
		text += " dead-letters-to=" + g.DeadLetterTarget
	}
	return text
}

// showCounts shows what is not zero.
func showCounts(q *tally.Queue) string {
	var shown []string
	for _, c := range []struct {
		name string
		n    int64
	}{
		{"sent", q.Sent.Value()},
		{"deduplicated", q.Deduplicated.Value()},
		{"received", q.Received.Value()},
		{"redelivered", q.Redelivered.Value()},
		{"timed-out", q.TimedOut.Value()},
		{"timed-out-changed", q.TimedOutChanged.Value()},
		{"deleted", q.Deleted.Value()},
		{"stale", q.DeletedStale.Value()},
		{"gone", q.DeletedGone.Value()},
		{"expired", q.Expired.Value()},
		{"dead-lettered", q.DeadLetters.Value()},
		{"moved", q.Moved.Value()},
		{"arrived", q.Arrived.Value()},
	} {
		if c.n != 0 {
			shown = append(shown, fmt.Sprintf("%s=%d", c.name, c.n))
		}
	}
	if _, n := q.Handled.Quantiles(); n != q.Deleted.Value() { // a task has deleted some
		shown = append(shown, fmt.Sprint("handled=", n))
	}
	if s := q.SizeExtremes.Take(); s.Count > 0 {
		shown = append(shown, fmt.Sprintf("sizes=%v..%v sum=%v count=%v", s.Min, s.Max, s.Sum,
			s.Count))
	}
	return strings.Join(shown, " ")
}
