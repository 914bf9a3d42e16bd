package v1

import (
	"cmp"
	"strings"

	"tenaq/internal/engine"
)

// What a replay has beside other tasks. [REPLAY-1]

// readOutcome reads which outcomes a replay is about.
func (f *filter) readOutcome(in *engine.TaskFilter) error {
	kind, ok := engine.OutcomeKindOf(string(f.Outcome))
	if in.Outcome = kind; !ok && f.Outcome != "" {
		return errValue("outcome", string(f.Outcome),
			"one of "+strings.Join(engine.OutcomeKinds(), ", "))
	}
	return nil
}

// allowTask refuses a task of a caller who may not do what the task does. [TASK-18, REPLAY-14]
func (c *call) allowTask(in *startIn) error {
	if in.Do == works[engine.TaskReplay] {
		if err := c.allow(in.Queue, c.route.right(), searchHistory); err != nil {
			return err
		}
		return c.allow(cmp.Or(string(in.To), in.Queue), "sqs:SendMessage")
	}
	if err := c.allow(in.Queue, c.route.right(), "sqs:ReceiveMessage",
		"sqs:DeleteMessage"); err != nil {
		return err
	}
	if in.To != "" || in.Do == works[engine.TaskMove] {
		return c.allowTo(string(in.To))
	}
	return nil
}

// searchHistory is the right to see what a replay sends again.
const searchHistory = "tenaq:SearchHistory"

// ReplaySkips are what Skipped of a replay is made of. [REPLAY-10]
type ReplaySkips struct {
	Live    int64 `json:"live" doc:"a queue has a message of the lineage"`
	Later   int64 `json:"later" doc:"the lineage has a later outcome, which counts"`
	Refused int64 `json:"refused" doc:"too large for the destination"`
}

// addReplay adds what a part of the count of a replay has found.
func (t *taskCount) addReplay(op *engine.CountTask) {
	if !op.Replay {
		return
	}
	if t.Skips == nil {
		t.Skips = new(ReplaySkips)
	}
	t.Skips.Live += op.Skips.Live
	t.Skips.Later += op.Skips.Later
	t.Skips.Refused += op.Skips.Refused
	for i := range op.Outcomes {
		if len(t.Outcomes) < engine.CountSamples {
			t.Outcomes = append(t.Outcomes, shownOutcome(&op.Outcomes[i], sampleBody, false))
		}
	}
}
