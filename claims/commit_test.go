package claims_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/claims"
	"tenaq/records"
	"tenaq/records/recordstest"
)

// A pending write is a transaction in which one write waits for its commit. No test writes to the
// record meanwhile.
type pending struct {
	store records.Store
	write records.Write
}

func (p *pending) put(ctx context.Context, store records.Store, w records.Write) (records.Record, error) {
	r, err := store.Get(ctx, w.Key)
	if err != nil && !errors.Is(err, records.ErrNotFound) {
		return r, err
	}
	if r.Version != w.If {
		return r, &records.Conflict{Current: r}
	}
	p.store, p.write = store, w
	return records.Record{Key: w.Key, Value: w.Value, Version: w.If + 1}, nil
}

func (p *pending) commit(t *testing.T) {
	t.Helper()
	_, err := p.store.Put(t.Context(), p.write)
	must(t, err)
}

func TestCompleteIn(t *testing.T) {
	for name, c := range map[string]struct {
		then  func(t *testing.T, p *pending, c *claims.Claim, committed func()) error
		want  error
		state claims.State
	}{
		"committed": {func(t *testing.T, p *pending, c *claims.Claim, committed func()) error {
			p.commit(t)
			committed()
			committed()
			return c.Complete(t.Context(), []byte("r"))
		}, nil, claims.Completed},
		"committed, another end": {func(t *testing.T, p *pending, c *claims.Claim, committed func()) error {
			p.commit(t)
			committed()
			return c.Fail(t.Context(), "")
		}, claims.ErrEnded, claims.Completed},
		"committed, not told": {func(t *testing.T, p *pending, c *claims.Claim, _ func()) error {
			p.commit(t)
			return c.Complete(t.Context(), []byte("r"))
		}, nil, claims.Completed},
		"committed, not told, another end": {func(t *testing.T, p *pending, c *claims.Claim, _ func()) error {
			p.commit(t)
			return c.Fail(t.Context(), "")
		}, claims.ErrEnded, claims.Completed},
		"committed, not told, again": {func(t *testing.T, p *pending, c *claims.Claim, _ func()) error {
			p.commit(t)
			_, err := c.CompleteIn(t.Context(), []byte("r"), p.put)
			return err
		}, claims.ErrEnded, claims.Completed},
		"rolled back, again": {func(t *testing.T, p *pending, c *claims.Claim, _ func()) error {
			_, err := c.CompleteIn(t.Context(), []byte("r"), p.put)
			p.commit(t)
			return err
		}, nil, claims.Completed},
		"rolled back": {func(t *testing.T, p *pending, c *claims.Claim, _ func()) error {
			return c.Renew(t.Context())
		}, nil, claims.Held},
		"rolled back, failed": {func(t *testing.T, p *pending, c *claims.Claim, _ func()) error {
			return c.Fail(t.Context(), "")
		}, nil, claims.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				l := newLedger(t, recordstest.NewMemory(), claims.Config{})
				claim := acquire(t, l, "k")
				held, stop := claim.Hold(t.Context())
				defer stop()
				time.Sleep(time.Minute)
				var p pending
				committed, err := claim.CompleteIn(t.Context(), []byte("r"), p.put)
				must(t, err)
				if e := claim.Entry(); e.State != claims.Held {
					t.Errorf("before the commit the claim says %s", e.State)
				}
				if err := c.then(t, &p, claim, committed); !errors.Is(err, c.want) || c.want == nil && err != nil {
					t.Errorf("error %v, want %v", err, c.want)
				}
				e := wantState(t, l, "k", c.state)
				if c.state == claims.Completed && string(e.Result) != "r" {
					t.Errorf("result %q", e.Result)
				}
				time.Sleep(2 * lease) // at the latest a renewal finds out
				if got := claim.Entry().State; got != c.state {
					t.Errorf("the claim says %s, want %s", got, c.state)
				}
				if held.Err() != nil {
					t.Errorf("the context ended: %v", context.Cause(held))
				}
			})
		})
	}
}

// Held work learns at once that a completion found the claim lost, and nothing when it was the
// transaction's own doing.
func TestCompleteInLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := recordstest.NewMemory()
		l := newLedger(t, store, claims.Config{})
		c := acquire(t, l, "k")
		held, stop := c.Hold(t.Context())
		defer stop()
		must(t, store.Delete(t.Context(), "claim/k", c.Entry().Version))
		var p pending
		_, err := c.CompleteIn(t.Context(), nil, p.put)
		wantLost(t, "without a record", err)
		synctest.Wait()
		if held.Err() != nil {
			t.Error("believes that the record is gone, from a transaction that may be elsewhere")
		}
		acquire(t, l, "k")
		_, err = c.CompleteIn(t.Context(), nil, p.put)
		wantLost(t, "with another's record", err)
		synctest.Wait()
		wantLost(t, "the context", context.Cause(held))
		if _, err = c.CompleteIn(t.Context(), nil, nil); !errors.Is(err, claims.ErrLost) {
			t.Errorf("again: error %v", err)
		}
		want := `complete the claim on "k" in a transaction: the claim was lost: its lease expired before it was renewed or ended`
		if err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
	})
}

// An invalid completion is refused before the database is asked.
func TestCompleteInRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := acquire(t, newLedger(t, recordstest.NewMemory(), claims.Config{}), "k")
		if _, err := c.CompleteIn(t.Context(), make([]byte, claims.ResultMax+1), nil); err == nil {
			t.Error("completed with a result that is too long")
		}
		broken := errors.New("broken")
		put := func(context.Context, records.Store, records.Write) (records.Record, error) {
			return records.Record{}, broken
		}
		if _, err := c.CompleteIn(t.Context(), nil, put); !errors.Is(err, broken) {
			t.Errorf("error %v, want that of the write", err)
		}
		must(t, c.Release(t.Context()))
		if _, err := c.CompleteIn(t.Context(), nil, nil); !errors.Is(err, claims.ErrEnded) {
			t.Errorf("after the end: error %v", err)
		}
	})
}

// The outcome is known while a renewal is on its way, which then changes nothing.
func TestCommitDuringRenewal(t *testing.T) {
	for name, how := range map[string]recordstest.How{"answered": recordstest.Works, "not answered": recordstest.After} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				memory := recordstest.NewMemory()
				store := &slow{Store: memory, how: how}
				c := acquire(t, newLedger(t, store, claims.Config{}), "k")
				store.on = true
				go func() { _ = c.Renew(context.Background()) }()
				time.Sleep(time.Second) // it is done, and its answer is on its way
				var p pending
				committed, err := c.CompleteIn(t.Context(), nil, func(ctx context.Context, _ records.Store, w records.Write) (records.Record, error) {
					return p.put(ctx, memory, w)
				})
				must(t, err)
				p.commit(t)
				committed()
				time.Sleep(time.Minute)
				if e := c.Entry(); e.State != claims.Completed {
					t.Errorf("the claim says %s", e.State)
				}
				wantState(t, newLedger(t, memory, claims.Config{}), "k", claims.Completed)
			})
		})
	}
}

// A slow store takes ten seconds to answer what it has done.
type slow struct {
	records.Store
	on  bool
	how recordstest.How
}

func (s *slow) Put(ctx context.Context, w records.Write) (records.Record, error) {
	r, err := s.Store.Put(ctx, w)
	if s.on {
		time.Sleep(10 * time.Second)
		if s.how == recordstest.After {
			return records.Record{}, recordstest.ErrInjected
		}
	}
	return r, err
}

func TestEnded(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*testing.T, *claims.Ledger, *claims.Claim)
		want   bool
		lost   bool
	}{
		"held":      {func(*testing.T, *claims.Ledger, *claims.Claim) {}, false, false},
		"lease out": {func(*testing.T, *claims.Ledger, *claims.Claim) { time.Sleep(2 * lease) }, false, false},
		"completed": {func(t *testing.T, _ *claims.Ledger, c *claims.Claim) { must(t, c.Complete(t.Context(), nil)) }, true, false},
		"failed":    {func(t *testing.T, _ *claims.Ledger, c *claims.Claim) { must(t, c.Fail(t.Context(), "")) }, true, false},
		"committed": {func(t *testing.T, _ *claims.Ledger, c *claims.Claim) {
			var p pending
			_, err := c.CompleteIn(t.Context(), nil, p.put)
			must(t, err)
			p.commit(t)
		}, true, false},
		"settled":    {func(t *testing.T, l *claims.Ledger, _ *claims.Claim) { must(t, l.Settle(t.Context(), "k", nil, "")) }, false, true},
		"taken over": {func(t *testing.T, l *claims.Ledger, _ *claims.Claim) { time.Sleep(lease); acquire(t, l, "k") }, false, true},
		"expired":    {func(*testing.T, *claims.Ledger, *claims.Claim) { time.Sleep(16 * 24 * time.Hour) }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := recordstest.NewMemory()
				l := newLedger(t, store, claims.Config{})
				claim := acquire(t, l, "k")
				c.before(t, l, claim)
				before, _ := store.Get(t.Context(), "claim/k")
				for range 2 {
					yes, err := claim.Ended(t.Context())
					if yes != c.want || c.lost != errors.Is(err, claims.ErrLost) || !c.lost && err != nil {
						t.Errorf("ended: %t, error %v, want %t, lost: %t", yes, err, c.want, c.lost)
					}
				}
				if after, _ := store.Get(t.Context(), "claim/k"); after.Version != before.Version {
					t.Error("the question changed the record")
				}
			})
		})
	}
}

// Held work learns at once what Ended found out.
func TestEndedTellsTheWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		c := acquire(t, l, "k")
		held, stop := c.Hold(t.Context())
		defer stop()
		must(t, l.Reopen(t.Context(), "k", ""))
		_, err := c.Ended(t.Context())
		wantLost(t, "ended", err)
		synctest.Wait()
		wantLost(t, "the context", context.Cause(held))
	})
}

// An error of the store does not say whether a claim has ended, so the ledger asks again before it
// gives up the claim.
func TestEndedUnderFaults(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		bubble(t, func(t *testing.T) {
			memory := recordstest.NewMemory()
			c := acquire(t, newLedger(t, faulty(memory, script(2, times(n, recordstest.Fault{How: recordstest.After})...)), claims.Config{}), "k")
			yes, err := c.Ended(t.Context())
			if fails := n == 3; yes || fails != (err != nil) || errors.Is(err, claims.ErrLost) {
				t.Errorf("%d faults: ended: %t, error %v", n, yes, err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), `check whether the claim on "k" has been ended: `) {
				t.Errorf("error %q", err)
			}
			must(t, c.Complete(t.Context(), nil))
		})
	}
	bubble(t, func(t *testing.T) {
		c := acquire(t, newLedger(t, faulty(recordstest.NewMemory(), script(2, recordstest.Fault{Delay: time.Hour})), claims.Config{}), "k")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Ended(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}
