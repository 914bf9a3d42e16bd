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

// The events report every answer of the ledger once, and say which failures another attempt could
// not have fixed.
func TestClaimed(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		var down atomic.Bool
		ledger, err := claims.New(claims.Config{Store: outage(r.store, &down), Owner: "test"})
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
			refused, ok := errors.AsType[*claims.Refused](err)
			switch {
			case err == nil:
				r.note("claimed %s", m.Body)
			case ok:
				r.note("claimed %s %s", m.Body, refused.Why)
			default:
				r.note("claimed %s unknown", m.Body)
			}
		}
		cfg.Events.Outcome = func(m *worker.Message, o worker.Outcome) {
			if o.Kind == worker.Failed {
				r.note("failed %s poison=%t", m.Body, worker.IsPoison(o.Err))
			}
		}
		r.run(cfg)
		step := func(body string) {
			t.Helper()
			r.send(body)
			r.sleep(5 * time.Minute)
		}
		r.send("a")
		r.sleep(time.Second) // or each might be the one that is claimed
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
			"claimed a", "claimed a busy", "claimed a done",
			"claimed bad", "failed bad poison=true",
			"claimed failing", "failed failing poison=false",
			"failed nameless poison=true",
			"claimed b unknown", "claimed b",
		}, "claimed", "failed")
	})
}
