package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"tenaq/claims"
	"tenaq/worker"
)

// Who counts hears of every answer of the ledger once, and which failures no other attempt would have mended.
func TestClaimed(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		var down atomic.Bool
		ledger, err := claims.New(outage(r.store, &down), claims.Config{Owner: "test"})
		if err != nil {
			t.Fatal(err)
		}
		cfg := byBody(r.config(func(ctx context.Context, m *worker.Message) error {
			switch m.Body {
			case "bad":
				return fmt.Errorf("order: %w", worker.Poison(errors.New("no amount")))
			case "failing":
				return errors.New("the bank is down")
			}
			return sleepOr(ctx, 10*time.Second)
		}))
		byKey := cfg.Key
		cfg.Key = func(m *worker.Message) (string, error) {
			if m.Body == "nameless" {
				return "", errors.New("it has no id")
			}
			return byKey(m)
		}
		cfg.Claims, cfg.Attempts = ledger, 1
		cfg.Events.Claimed = func(m *worker.Message, err error) {
			switch e := err.(type) {
			case nil, *claims.Busy, *claims.Done, *claims.UsedUp, *claims.NeedsPerson:
				r.note("claimed %s %T", m.Body, e)
			default:
				r.note("claimed %s unknown", m.Body)
			}
		}
		cfg.Events.Failed = func(m *worker.Message, err error, _ time.Duration) {
			r.note("failed %s poison=%t", m.Body, worker.IsPoison(err))
		}
		stop := r.start(cfg)
		step := func(body string) {
			t.Helper()
			r.send(body)
			r.sleep(5 * time.Minute)
		}
		r.send("a")
		step("a")
		step("bad")
		step("failing")
		step("nameless")
		down.Store(true)
		r.send("b")
		r.sleep(time.Second)
		down.Store(false)
		r.sleep(5 * time.Minute)
		r.wantLines([]string{
			"claimed a <nil>", "claimed a *claims.Busy", "claimed a *claims.Done",
			"claimed bad <nil>", "failed bad poison=true",
			"claimed failing <nil>", "failed failing poison=false",
			"failed nameless poison=true",
			"claimed b unknown", "claimed b <nil>",
		}, "claimed", "failed")
		r.mustStop(stop)
	})
}
