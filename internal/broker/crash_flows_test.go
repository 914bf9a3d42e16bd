package broker

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/testing/audit"
	"tenaq/internal/testing/proof"
)

// Messages flow from queue to queue, in groups and under deduplication IDs, to dead-letter queues
// and with move tasks back again, and the power is cut as in TestCrashes. In the end every message
// is in one place, in its order.
// [FIFO-12, FIFO-16, FIFO-17, DEDUP-12, DEDUP-13, DLQ-23, DLQ-34, MOVE-14, TASK-9]
func TestCrashesOfFlows(t *testing.T) {
	rng := proof.Random(t)
	left := crashes() / 2
	quota := left / 4 // of each thing that should happen
	var total totals
	var sum audit.Report
	add := func(sim *simulation) {
		total.add(sim)
		if r := sim.flows.report; r != nil {
			sum.Acknowledged += r.Acknowledged
			sum.Unanswered += r.Unanswered
			sum.Deliveries += r.Deliveries
			sum.Duplicates += r.Duplicates
			sum.Ordered += r.Ordered
			sum.DeadLettered += r.DeadLettered
			sum.Moved += r.Moved
		}
	}
	everything := func() bool {
		return min(sum.Unanswered, sum.Duplicates, sum.Ordered, sum.DeadLettered, sum.Moved) >= quota
	}
	simulate(t, rng, left, newFlowSimulation, add)
	// Things happen in clusters, so that a few simulations may miss one. More are added then, but
	// not without end.
	for added := 0; !everything() && added < 10 && !t.Failed(); added++ {
		simulate(t, rng, crashesEach, newFlowSimulation, add)
	}
	t.Logf("%v; %d bodies, %d sends unanswered, %d deliveries, %d duplicates, %d behind others, %d dead letters, %d moved",
		&total, sum.Acknowledged, sum.Unanswered, sum.Deliveries, sum.Duplicates, sum.Ordered, sum.DeadLettered, sum.Moved)
	total.checkVariety(t)
	if !everything() {
		t.Errorf("the simulation did not get around to everything")
	}
}

// The simulation finds losses of flows as well.
func TestCrashesOfFlowsFindLosses(t *testing.T) { findLosses(t, newFlowSimulation) }

// The queues of flows, in an order in which they can be created. A message that is received twice
// from line or work goes to dead; one that is received twice more from dead goes to buried; and
// left and right are there for move tasks between them.
var flowing = map[string]audit.Queue{
	"buried":    {},
	"dead":      {DeadLetter: "buried", MaxReceives: 4},
	"work":      {DeadLetter: "dead", MaxReceives: 2},
	"dead.fifo": {FIFO: true},
	"line.fifo": {FIFO: true, DeadLetter: "dead.fifo", MaxReceives: 2},
	"left":      {DeadLetter: "right", MaxReceives: 1000},
	"right":     {DeadLetter: "left", MaxReceives: 1000},
}

var flowingNames = []string{"buried", "dead", "work", "dead.fifo", "line.fifo", "left", "right"}

// entrances are the queues to which messages are sent.
var entrances = []string{"work", "line.fifo", "line.fifo", "left"}

func arn(queue string) string { return "arn:aws:sqs:elsewhere:000000000000:" + queue }

// retentionOfFlows is longer than a simulation takes by any clock.
const retentionOfFlows = 14 * day

// flows is what clients of these queues did and saw. It is guarded by the lock of the simulation's
// history, whose moments it counts.
type flows struct {
	sim     *simulation
	audit   audit.History
	report  *audit.Report
	sent    []audit.Send                // one for each body
	lineage map[engine.MessageID]string // bodies
	answers int                         // of receives and of sends
	keyed   []keyedSend                 // under deduplication IDs
	still   bool                        // there are no move tasks, so that every message keeps its ID
}

func newFlowSimulation() *simulation {
	s := newSimulation()
	s.flows = &flows{audit: audit.History{Queues: flowing}, lineage: make(map[engine.MessageID]string)}
	return s
}

// begin is called with the simulation's seed chosen.
func (f *flows) begin(s *simulation) { f.sim, f.still = s, s.rng.IntN(3) == 0 }

// at puts a moment into the time of the audit, which is broker time: timeouts and windows are
// measured in it. Much happens at one time in a bubble; the moments order it, and there are too few
// of them to matter as nanoseconds.
func (f *flows) at(t time.Duration, moment int64) time.Duration {
	return t.Truncate(time.Millisecond) + time.Duration(moment)
}

// span returns when an attempt was made, at the earliest and at the latest, and what became of it
// unless it was refused.
func (f *flows) span(a *attempt) (audit.Span, audit.Outcome) {
	h := f.sim.history
	call := f.at(h.earliest(a), a.called)
	if !a.answered {
		return audit.Span{Call: call, Return: call}, audit.Unknown
	}
	return audit.Span{Call: call, Return: f.at(h.latest(a), a.returned)}, audit.Done
}

// look creates the queues, where they are missing.
func (f *flows) look(r *rig) {
	for _, name := range flowingNames {
		q := flowing[name]
		op := &engine.CreateQueue{Queue: named(name), NameSet: true, Attributes: map[string]string{
			"MessageRetentionPeriod": strconv.Itoa(int(retentionOfFlows.Seconds())),
		}}
		if q.FIFO {
			op.Attributes["FifoQueue"] = "true"
		}
		r.do(op)
	}
	for _, name := range flowingNames {
		if q := flowing[name]; q.DeadLetter != "" {
			r.do(&engine.SetQueueAttributes{Queue: named(name), Values: map[string]string{
				"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, arn(q.DeadLetter), q.MaxReceives),
			}})
		}
	}
}

// drain waits until no task moves anything and no timeout runs, and then receives and deletes
// everything.
func (f *flows) drain(r *rig) {
	for range 1000 {
		tasks := do(r, &engine.ListTasks{Account: named("").Account, Active: true, Max: engine.TasksPage}).Tasks
		if len(tasks) == 0 {
			break
		}
		for _, t := range tasks {
			if t.Status == "PAUSED" { // the power was cut before it was resumed
				r.do(&engine.ChangeTask{Account: named("").Account, ID: t.ID, Change: engine.ResumeTask})
			}
		}
		time.Sleep(time.Second)
	}
	time.Sleep(3 * time.Minute)
	counted := 0
	for _, name := range flowingNames {
		n, _ := strconv.Atoi(r.attribute(name, "ApproximateNumberOfMessages"))
		counted += n
	}
	c := &flowClient{flows: f, rig: r, rng: f.sim.rng, ctx: context.Background()}
	drained := 0
	for found := true; found; {
		found = false
		for _, name := range flowingNames {
			for got := c.receive(name, 30, 0); len(got) > 0; got = c.receive(name, 30, 0) {
				found = true
				drained += len(got)
				for _, d := range got {
					c.delete(d)
				}
			}
		}
	}
	if drained != counted {
		f.sim.complain("the queues held %d messages, want %d as they had counted", drained, counted)
	}
	f.audit.Drained = true
}

// check judges everything.
func (f *flows) check() (problems []string) {
	f.report = audit.Check(&f.audit, audit.Options{})
	for _, v := range f.report.Violations {
		problems = append(problems, v.String())
	}
	return append(problems, checkWindows(f.keyed)...)
}
