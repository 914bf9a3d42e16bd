package cluster

import (
	"cmp"
	"slices"
	"time"

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/internal/testing/audit"
)

// An outcome is what the scenario has found. Its rows are a function of it alone.
type outcome struct {
	Ours    bool // the nodes are the demo's own
	Kills   int
	Report  *audit.Report // nil if the load did not come to its end
	Silence time.Duration // the longest without an acknowledgement
	Left    int           // messages in the queue
	Differ  string        // how the rows of the nodes differ; empty if they do not
	Ended   string        // how the nodes ended; "0" for all with status 0
}

// silenceMax is the promise for a failover.
const silenceMax = 10 * time.Second

// least is how many messages a run has at least, or it proves nothing.
const least = 100

// rows judges the outcome.
func (o *outcome) rows() []stage.Row {
	r := cmp.Or(o.Report, &audit.Report{})
	return append([]stage.Row{
		stage.AtLeast("messages sent and acknowledged", least, r.Acknowledged),
		stage.Want("lost", 0, r.Count(audit.Lost)),
		stage.Want("stored twice under one deduplication id", 0,
			r.Count(audit.Deduplicated, audit.Multiplied)),
		stage.Want("delivered before an earlier one of their group", 0,
			r.Count(audit.Order, audit.Sequence)),
		stage.Want("delivered while surely in flight elsewhere", 0, r.Count(audit.InFlight)),
		stage.Want("delivered after an acknowledged delete", 0, r.Count(audit.Deleted)),
		stage.Want("receive counts going backwards", 0, r.Count(audit.Counts)),
		stage.Want("invented or altered", 0, r.Count(audit.Invented, audit.Fixed)),
		stage.Want("left in the queue, by its own counters", 0, o.Left),
		stage.Show("sends that were answered as known already", r.Duplicates),
		stage.Show("sends whose outcome the client never learnt", r.Unanswered),
	}, stage.Unless(!o.Ours, stage.NotOurs,
		stage.AtLeast("leaders killed (kill -9)", 3, o.Kills),
		stage.AtMost("longest time without an acknowledgement, in ms",
			int(silenceMax.Milliseconds()), int(o.Silence.Milliseconds())),
		stage.Want("rows of the three nodes", "equal", cmp.Or(o.Differ, "equal")),
		stage.Want("exit status of the nodes after SIGTERM", 0, o.Ended))...)
}

// silence is the longest time between two acknowledgements of sends.
func silence(h *audit.History) (longest time.Duration) {
	var acknowledged []time.Duration
	for _, s := range h.Sends {
		if s.Outcome == audit.Done {
			acknowledged = append(acknowledged, s.Return)
		}
	}
	slices.Sort(acknowledged)
	for i := range acknowledged {
		if i > 0 {
			longest = max(longest, acknowledged[i]-acknowledged[i-1])
		}
	}
	return longest
}
