package queues

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"tenaq/internal/api/v1"
	"tenaq/internal/cli"
)

// A handling says how long consumers of a queue took, as a tenaq server answers it. [V1-22]
type handling v1.Handling

// tookText is a measured time, or bounds.
func tookText(t *v1.Took) string {
	short := func(ms int64) string {
		if d := time.Duration(ms) * time.Millisecond; d < time.Minute {
			return cli.ShortDuration(d)
		}
		return cli.HumanDuration(time.Duration(ms/1000) * time.Second)
	}
	switch {
	case t.MS != nil && *t.MS == 0:
		return "under 1 ms"
	case t.MS != nil:
		return short(*t.MS)
	case t.ToMS == 0:
		return "over " + short(t.FromMS)
	case t.FromMS == 0:
		return "at most " + short(t.ToMS)
	}
	return "between " + short(t.FromMS) + " and " + short(t.ToMS)
}

// findHandling asks for the handling times of a queue; nil from a server that does not have them,
// or does not tell this caller.
func findHandling(ctx context.Context, v *cli.V1Client, queue string) *handling {
	var d struct {
		Handling *handling `json:"handling"`
	}
	if v.Get(ctx, "show", queue, "/queues/"+url.PathEscape(queue), nil, &d) != nil {
		return nil
	}
	return d.Handling
}

func (h *handling) table(timeout string, now time.Time) cli.Table {
	t := cli.Table{Head: []string{"HANDLED IN", "TIME", "MEANS"}}
	if h == nil || h.P50 == nil {
		return t
	}
	means := "of " + cli.Counted(int(h.Messages), "delete", "deletes") + " since " +
		cli.HumanTime(h.Since, now)
	t.Add("p50", tookText(h.P50), means)
	t.Add("p95", tookText(h.P95))
	if seconds, err := strconv.Atoi(timeout); err == nil {
		means = "beside a visibility timeout of " +
			cli.HumanDuration(time.Duration(seconds)*time.Second)
	}
	t.Add("p99", tookText(h.P99), means)
	return t
}

// note says what to do about the handling times.
func (h *handling) note(a *cli.App, queue, timeout string) {
	seconds, _ := strconv.ParseInt(timeout, 10, 64)
	switch {
	case h == nil || h.P50 == nil:
	case h.P50.MS == nil && h.Watched:
		a.Note("deletes are measured from now on, while you repeat this command at least every ten minutes")
	case h.P50.MS == nil:
		a.Note("too many other queues are watched to measure this one")
	case h.TimeoutS > seconds:
		a.Note("workers take longer than the visibility timeout: work is done twice (%d of %s); let workers extend it, or set it: "+
			"tenaq queue set %s --attribute VisibilityTimeout=%d", h.Late, cli.Counted(int(h.Messages), "message", "messages"), queue, h.TimeoutS)
	case h.TimeoutS > 0:
		a.Note("workers take longer than the visibility timeout of their receives, which is shorter than that of the queue: "+
			"work is done twice; let workers extend it, or receive with %d s", h.TimeoutS)
	}
}
