package crash

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"tenaq/internal/testing/audit/load"
	"tenaq/internal/testing/proof"
)

// history is the tag of queues whose outcomes the audit compares with what clients saw.
var history = map[string]string{"tenaq:history": "1d"}

// Tasks that select, replacements and deletes with a confirmation continue after each death of the
// server: every message is in one place, what a filter does not find stays, and a task took as many
// messages as it says. [TASK-1, TASK-4, TASK-6, TASK-9, TASK-12, TASK-14, TASK-17]
//
// Three queues are loaded with messages of ten kinds. Operators take them from one to another while
// two workers receive some, and the server is killed until it has died often enough. The long form
// has four servers, because operators delete a message now and then, and would leave none.
func TestKillTasks(t *testing.T) {
	t.Parallel()
	seed := proof.Seed(t)
	for i := range proof.Count(1, 1, 1, 4) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			killTasks(t, seed+uint64(i), proof.Count(2, 10, 30, 250))
		})
	}
}

func killTasks(t *testing.T, seed uint64, n int) {
	const grace = time.Second
	r := newRig(t, grace)
	var urls []string
	for _, name := range []string{"orders", "broken", "parked"} {
		url, _ := r.queue(name, nil)
		r.tag(url, history)
		urls = append(urls, url)
	}
	var kinds []string
	for i := range 10 {
		kinds = append(kinds, fmt.Sprintf(`"kind": "k%d"`, i))
	}
	const bodies = 600
	r.with(seed, urls[0], grace, func(cfg *load.Config) {
		cfg.Body = func(n int) string { return fmt.Sprintf(`{"order": %d, %s}`, n, kinds[n%len(kinds)]) }
		cfg.Bodies, cfg.Producers, cfg.Workers, cfg.Canaries = bodies, 4, 2, 980
		cfg.Pause, cfg.Nacks, cfg.History = 0, 200, true
		cfg.Operators = load.Operators{Queues: urls[1:], Selects: kinds}
	})
	r.judge(func(ctx context.Context) error {
		// All is sent before the first kill, so that it is known how many messages there are.
		err := until(ctx, func() bool { return r.load.Progress().Acknowledged == bodies })
		if r.sent = true; err == nil {
			err = r.disturb(ctx, seed, n, nil)
		}
		return errors.Join(err, until(ctx, func() bool {
			did := r.load.Operated()
			return min(did.Tasks, did.Taken/10, did.Replaced) >= n && did.Deleted > 0
		}))
	})
	t.Logf("%+v", r.load.Operated())
}

// until waits for what makes a run mean anything, which takes longer on a busy machine.
func until(ctx context.Context, enough func() bool) error {
	for end := time.Now().Add(time.Minute); !enough(); wait(ctx, 20*time.Millisecond) {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Now().After(end):
			return errors.New("got too little within a minute to mean anything")
		}
	}
	return nil
}

// Reports of consumers about messages survive kills, and the history of a queue has each message
// that left it once: after an answered delete, either the message or its outcome is there.
// [NACK-1, NACK-4 to NACK-6, NACK-11, HIST-1, HIST-2]
func TestKillNacks(t *testing.T) {
	t.Parallel()
	const grace = time.Second
	seed := proof.Seed(t)
	r := newRig(t, grace)
	n := (kills() + 1) / 2
	url, dead := r.pair("orders", "", 3)
	for _, queue := range []string{url, dead.URL} {
		r.tag(queue, history)
	}
	r.with(seed, url, grace, func(cfg *load.Config) {
		cfg.Producers, cfg.Workers, cfg.Nacks, cfg.History = 2, 8, 300, true
		cfg.Pause, cfg.DeadLetter = 40*time.Millisecond, dead
	})
	report := r.judge(func(ctx context.Context) error {
		return errors.Join(r.disturb(ctx, seed, n, nil), until(ctx, func() bool {
			return r.load.Operated().Nacked >= 20*n
		}))
	})
	endings := len(r.load.History().Endings)
	t.Logf("%d nacks, %d outcomes", r.load.Operated().Nacked, endings)
	if min(endings, report.Repeated, report.DeadLettered+report.Moved) < n {
		t.Errorf("got too little in %d kills to mean anything", n)
	}
}
