package workertest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/claims"
	"tenaq/records/recordstest"
	"tenaq/worker"
	"tenaq/workertest"
)

func TestDelivery(t *testing.T) {
	for name, c := range map[string]struct {
		cfg     workertest.Config
		attempt int
		fence   uint64
		lost    bool
	}{
		"zero":            {workertest.Config{}, 1, 1, false},
		"any":             {workertest.Config{Attempt: 3, Fence: 42}, 3, 42, false},
		"fence below":     {workertest.Config{Attempt: 9, Fence: 2}, 9, 2, false},
		"taken over":      {workertest.Config{TakenOver: true, Fence: 1 << 60}, 2, 1 << 60, true},
		"taken over late": {workertest.Config{TakenOver: true, Attempt: 5}, 5, 1, true},
		"no claims":       {workertest.Config{NoClaims: true, Attempt: 4}, 4, 0, false},
		"generation":      {workertest.Config{Key: "k", Generation: 2}, 1, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := workertest.New(t, c.cfg)
			if d.Attempt() != c.attempt || d.Fence() != c.fence || (d.TakenOver() != nil) != c.lost || d.Receives != c.attempt {
				t.Errorf("attempt %d, fence %d, taken over from %+v; want %d, %d, %t",
					d.Attempt(), d.Fence(), d.TakenOver(), c.attempt, c.fence, c.lost)
			}
			if c.cfg.NoClaims {
				if d.Claim() != nil {
					t.Error("there is a claim")
				}
				return
			}
			if got := d.Claim().Key(); got != d.EffectKey() {
				t.Errorf("the claim is on %q, want %q", got, d.EffectKey())
			}
			if err := d.Claim().Renew(t.Context()); err != nil || d.Fence() != c.fence {
				t.Errorf("renewed with error %v, fence %d", err, d.Fence())
			}
			if err := d.Claim().Complete(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWhatTheHandlerDid(t *testing.T) {
	d := workertest.New(t, workertest.Config{})
	if d.Result() != nil || d.Progressed() != 0 {
		t.Errorf("before the handler: result %q, progress %d", d.Result(), d.Progressed())
	}
	d.Progress()
	d.Progress()
	if err := d.SetResult([]byte("paid")); err != nil {
		t.Fatal(err)
	}
	if string(d.Result()) != "paid" || d.Progressed() != 2 {
		t.Errorf("result %q, progress %d; want paid, 2", d.Result(), d.Progressed())
	}
}

// A handler that holds the claim finds out that it was lost.
func TestLoseClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := workertest.New(t, workertest.Config{Attempt: 2})
		ctx, stop := d.Claim().Hold(t.Context())
		defer stop()
		time.Sleep(10 * time.Minute)
		if ctx.Err() != nil {
			t.Fatalf("it was lost before: %v", context.Cause(ctx))
		}
		d.LoseClaim(t)
		<-ctx.Done()
		if err := d.Claim().Complete(t.Context(), nil); !errors.Is(err, claims.ErrLost) || context.Cause(ctx) != claims.ErrLost {
			t.Errorf("completed with error %v, the context ended by %v; want ErrLost", err, context.Cause(ctx))
		}
	})
}

func TestOwnClaim(t *testing.T) {
	ledger, err := claims.New(claims.Config{Store: recordstest.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	claim, err := ledger.Acquire(t.Context(), "order-17")
	if err != nil {
		t.Fatal(err)
	}
	d := workertest.New(t, workertest.Config{Key: "order-17", Claim: claim})
	if d.Claim() != claim || d.Fence() != claim.Fence() || d.Attempt() != 1 {
		t.Errorf("claim %p, fence %d, attempt %d", d.Claim(), d.Fence(), d.Attempt())
	}
	if err := worker.HandlerFunc(func(ctx context.Context, m *worker.Message) error {
		return m.Claim().Complete(ctx, nil)
	}).Handle(t.Context(), d.Message); err != nil {
		t.Error(err)
	}
}
