package pgclaims_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"

	"tenaq/claims"
	"tenaq/claims/pgclaims"
	"tenaq/records"
	"tenaq/records/recordstest"
)

var levels = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}

// A commit completes the claim, and the claim finds out in whatever way it asks.
func TestCommit(t *testing.T) {
	for _, level := range levels {
		for name, ask := range map[string]func(context.Context, *claims.Claim) error{
			"ended":   func(ctx context.Context, c *claims.Claim) error { _, err := c.Ended(ctx); return err },
			"renew":   func(ctx context.Context, c *claims.Claim) error { return ended(c.Renew(ctx)) },
			"fail":    func(ctx context.Context, c *claims.Claim) error { return ended(c.Fail(ctx, "no answer")) },
			"release": func(ctx context.Context, c *claims.Claim) error { return ended(c.Release(ctx)) },
			"again":   func(ctx context.Context, c *claims.Claim) error { return c.Complete(ctx, resultOf(c)) },
			"other":   func(ctx context.Context, c *claims.Claim) error { return ended(c.Complete(ctx, nil)) },
		} {
			t.Run(fmt.Sprint(level, "/", name), func(t *testing.T) {
				ctx, r := t.Context(), newRig(t)
				c := acquire(t, r.ledger(claims.Config{}), "k")
				tx := r.begin(level)
				result, err := order(ctx, tx, c)
				must(t, err)
				must(t, pgclaims.Complete(ctx, tx, c, result))
				r.wantNothing("k", claims.Held)
				if got := c.Entry().State; got != claims.Held {
					t.Errorf("before the commit the claim says %s", got)
				}
				must(t, tx.Commit(ctx))
				r.wantDone("k", c.Fence())
				must(t, ask(ctx, c))
				r.wantDone("k", c.Fence())
				if e := c.Entry(); e.State != claims.Completed || string(e.Result) != string(result) {
					t.Errorf("the claim says %s with %q", e.State, e.Result)
				}
				if yes, err := c.Ended(ctx); !yes || err != nil {
					t.Errorf("ended: %t, error %v", yes, err)
				}
				_, err = r.ledger(claims.Config{}).Acquire(ctx, "k")
				done, ok := errors.AsType[*claims.Refused](err)
				if !ok || done.Why != claims.Done || string(done.Result) != string(result) {
					t.Errorf("acquire: error %v, want done with %q", err, result)
				}
			})
		}
	}
}

// ended is nil if an error says that the claim was ended already.
func ended(err error) error {
	if errors.Is(err, claims.ErrEnded) {
		return nil
	}
	return fmt.Errorf("error %v, want ErrEnded", err)
}

// A rollback leaves the claim as it was, to be ended in any way.
func TestRollback(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(context.Context, *rig, *claims.Claim) error
		want claims.State
	}{
		"renew":    {func(ctx context.Context, r *rig, c *claims.Claim) error { return c.Renew(ctx) }, claims.Held},
		"fail":     {func(ctx context.Context, r *rig, c *claims.Claim) error { return c.Fail(ctx, "") }, claims.Failed},
		"exhaust":  {func(ctx context.Context, r *rig, c *claims.Claim) error { return c.Exhaust(ctx, "") }, claims.Exhausted},
		"release":  {func(ctx context.Context, r *rig, c *claims.Claim) error { return c.Release(ctx) }, claims.Released},
		"complete": {func(ctx context.Context, r *rig, c *claims.Claim) error { return c.Complete(ctx, nil) }, claims.Completed},
		"again":    {func(ctx context.Context, r *rig, c *claims.Claim) error { return inTx(ctx, r.pool, c) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, r := t.Context(), newRig(t)
			claim := acquire(t, r.ledger(claims.Config{}), "k")
			tx := r.begin("")
			result, err := order(ctx, tx, claim)
			must(t, err)
			must(t, pgclaims.Complete(ctx, tx, claim, result))
			must(t, tx.Rollback(ctx))
			if yes, err := claim.Ended(ctx); yes || err != nil {
				t.Errorf("ended: %t, error %v", yes, err)
			}
			r.wantNothing("k", claims.Held)
			must(t, c.end(ctx, r, claim))
			if c.want == "" {
				r.wantDone("k", claim.Fence())
			} else {
				r.wantNothing("k", c.want)
			}
		})
	}
}

// The transaction of a holder whose claim was taken over is refused as a whole, whether it began
// before or after that, and even when its error is ignored.
func TestZombie(t *testing.T) {
	for _, level := range levels {
		for _, when := range []string{"before", "after"} {
			t.Run(fmt.Sprint(level, "/begun ", when), func(t *testing.T) {
				ctx, r := t.Context(), newRig(t)
				zombie := acquire(t, r.ledger(claims.Config{}), "k")
				var second *claims.Claim
				takeOver := func() {
					r.advance(lease)
					second = acquire(t, r.ledger(claims.Config{}), "k")
				}
				if when == "after" {
					takeOver()
				}
				tx := r.begin(level)
				result, err := order(ctx, tx, zombie)
				must(t, err)
				if when == "before" {
					takeOver()
				}
				err = pgclaims.Complete(ctx, tx, zombie, result)
				if level == pgx.ReadCommitted || when == "after" {
					wantIs(t, "complete", err, claims.ErrLost)
				} else if !hasCode(err, "40001") {
					t.Errorf("complete: error %v, want serialization_failure", err)
				}
				wantIs(t, "commit", tx.Commit(ctx), pgx.ErrTxCommitRollback)
				wantIs(t, "again", inTx(ctx, r.pool, zombie), claims.ErrLost)
				r.wantNothing("k", claims.Held)
				must(t, inTx(ctx, r.pool, second))
				r.wantDone("k", second.Fence())
				wantIs(t, "later", inTx(ctx, r.pool, zombie), claims.ErrLost)
				r.wantDone("k", second.Fence())
			})
		}
	}
}

func hasCode(err error, code string) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == code
}

// A zombie that comes while the holder is about to commit waits for that, and is refused.
func TestZombieMeanwhile(t *testing.T) {
	ctx, r := t.Context(), newRig(t)
	zombie := acquire(t, r.ledger(claims.Config{}), "k")
	r.advance(lease)
	second := acquire(t, r.ledger(claims.Config{}), "k")
	tx := r.begin("")
	result, err := order(ctx, tx, second)
	must(t, err)
	must(t, pgclaims.Complete(ctx, tx, second, result))
	answer := make(chan error)
	go func() { answer <- inTx(ctx, r.pool, zombie) }()
	r.blocked()
	must(t, tx.Commit(ctx))
	wantIs(t, "the zombie", <-answer, claims.ErrLost)
	r.wantDone("k", second.Fence())
}

// Between completion and commit no holder can take over, however long ago the lease expired; the
// commit decides the outcome.
func TestTakeOverWaits(t *testing.T) {
	for _, commit := range []bool{true, false} {
		t.Run(fmt.Sprint("commit=", commit), func(t *testing.T) {
			ctx, r := t.Context(), newRig(t)
			first := acquire(t, r.ledger(claims.Config{}), "k")
			tx := r.begin("")
			result, err := order(ctx, tx, first)
			must(t, err)
			must(t, pgclaims.Complete(ctx, tx, first, result))
			r.advance(10 * lease)
			var second *claims.Claim
			answer := make(chan error)
			go func() {
				var err error
				second, err = r.ledger(claims.Config{}).Acquire(ctx, "k")
				answer <- err
			}()
			r.blocked()
			if commit {
				must(t, tx.Commit(ctx))
				if err := <-answer; !errors.Is(err, claims.Done) {
					t.Errorf("acquire: error %v, want done", err)
				}
				r.wantDone("k", first.Fence())
				return
			}
			must(t, tx.Rollback(ctx))
			must(t, <-answer)
			if before := second.TakenOver(); before == nil || before.Fence != first.Fence() {
				t.Errorf("taken over from %+v", before)
			}
			_, err = first.Ended(ctx)
			wantIs(t, "ended", err, claims.ErrLost)
			wantIs(t, "fail", first.Fail(ctx, ""), claims.ErrLost)
			wantIs(t, "again", inTx(ctx, r.pool, first), claims.ErrLost)
			r.wantNothing("k", claims.Held)
			must(t, inTx(ctx, r.pool, second))
		})
	}
}

// A renewal that comes in between waits, and then knows. So does a caller that asks whether the
// claim has ended.
func TestRenewalWaits(t *testing.T) {
	for _, commit := range []bool{true, false} {
		t.Run(fmt.Sprint("commit=", commit), func(t *testing.T) {
			ctx, r := t.Context(), newRig(t)
			c := acquire(t, r.ledger(claims.Config{}), "k")
			tx := r.begin("")
			result, err := order(ctx, tx, c)
			must(t, err)
			must(t, pgclaims.Complete(ctx, tx, c, result))

			short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			defer cancel()
			wantIs(t, "an impatient renewal", c.Renew(short), context.DeadlineExceeded)

			renewed, asked := make(chan error), make(chan error)
			go func() { renewed <- c.Renew(ctx) }()
			go func() {
				yes, err := c.Ended(ctx)
				if err == nil && yes != commit {
					err = fmt.Errorf("ended: %t", yes)
				}
				asked <- err
			}()
			r.blocked()
			if commit {
				must(t, tx.Commit(ctx))
				wantIs(t, "renew", <-renewed, claims.ErrEnded)
			} else {
				must(t, tx.Rollback(ctx))
				must(t, <-renewed)
			}
			must(t, <-asked)
			if commit {
				r.wantDone("k", c.Fence())
			} else {
				r.wantNothing("k", claims.Held)
				must(t, inTx(ctx, r.pool, c))
				r.wantDone("k", c.Fence())
			}
		})
	}
}

// A renewal that took effect although its answer was an error is not in the way of the completion.
func TestUncertainRenewal(t *testing.T) {
	ctx, r := t.Context(), newRig(t)
	store := &sick{Store: r.store}
	l, err := claims.New(claims.Config{Store: store, Lease: lease})
	must(t, err)
	c := acquire(t, l, "k")
	store.ill.Store(true)
	version := c.Entry().Version
	wantIs(t, "renew", c.Renew(ctx), recordstest.ErrInjected)
	if e, err := l.Entry(ctx, "k"); err != nil || e.Version <= version {
		t.Fatalf("version %d (error %v), want one above %d", e.Version, err, version)
	}
	must(t, inTx(ctx, r.pool, c))
	r.wantDone("k", c.Fence())
}

// A renewal that waits for the connection which the transaction has does not hold the completion
// up.
func TestOneConnection(t *testing.T) {
	ctx, r := t.Context(), newRig(t)
	pool := r.open(1)
	store := over(t, pool)
	l, err := claims.New(claims.Config{Store: store, Lease: time.Hour})
	must(t, err)
	c := acquire(t, l, "k")
	renewed := make(chan error)
	must(t, pgclaims.InTx(ctx, pool, c, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		go func() { renewed <- c.Renew(context.WithoutCancel(ctx)) }()
		time.Sleep(50 * time.Millisecond) // by then it waits, mostly
		return order(ctx, tx, c)
	}))
	if err := <-renewed; err != nil { // the transaction may have been faster
		wantIs(t, "renew", err, claims.ErrEnded)
	}
	r.wantDone("k", c.Fence())
}

// If a completion is refused, for any reason, the transaction cannot be committed.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		complete func(*testing.T, *rig, *claims.Claim, pgx.Tx) error
		want     string
	}{
		"twice": {func(t *testing.T, r *rig, c *claims.Claim, tx pgx.Tx) error {
			must(t, pgclaims.Complete(t.Context(), tx, c, resultOf(c)))
			return pgclaims.Complete(t.Context(), tx, c, resultOf(c))
		}, claims.ErrEnded.Error()},
		"result too long": {func(t *testing.T, r *rig, c *claims.Claim, tx pgx.Tx) error {
			return pgclaims.Complete(t.Context(), tx, c, make([]byte, claims.ResultMax+1))
		}, "store it elsewhere"},
		"context ended": {func(t *testing.T, r *rig, c *claims.Claim, tx pgx.Tx) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return pgclaims.Complete(ctx, tx, c, nil)
		}, context.Canceled.Error()},
		"ended already": {func(t *testing.T, r *rig, c *claims.Claim, tx pgx.Tx) error {
			must(t, c.Fail(t.Context(), "no luck"))
			must(t, acquire(t, r.ledger(claims.Config{}), "k").Release(t.Context()))
			return pgclaims.Complete(t.Context(), tx, c, nil)
		}, claims.ErrEnded.Error()},
		"reopened": {func(t *testing.T, r *rig, c *claims.Claim, tx pgx.Tx) error {
			must(t, r.ledger(claims.Config{}).Reopen(t.Context(), "k", ""))
			return pgclaims.Complete(t.Context(), tx, c, nil)
		}, claims.ErrLost.Error()},
		"settled": {func(t *testing.T, r *rig, c *claims.Claim, tx pgx.Tx) error {
			must(t, r.ledger(claims.Config{}).Settle(t.Context(), "k", nil, ""))
			return pgclaims.Complete(t.Context(), tx, c, nil)
		}, claims.ErrLost.Error()},
		"no record": {func(t *testing.T, r *rig, c *claims.Claim, tx pgx.Tx) error {
			r.exec("DELETE FROM tenaq_records")
			return pgclaims.Complete(t.Context(), tx, c, nil)
		}, "is this the database that the ledger is in?"},
		"no tables": {func(t *testing.T, r *rig, c *claims.Claim, tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "SET LOCAL search_path = pg_catalog")
			must(t, err)
			return pgclaims.Complete(t.Context(), tx, c, nil)
		}, "the transaction must be in the database of the records"},
		"another kind of store": {func(t *testing.T, r *rig, c *claims.Claim, tx pgx.Tx) error {
			l, err := claims.New(claims.Config{Store: recordstest.NewMemory()})
			must(t, err)
			return pgclaims.Complete(t.Context(), tx, acquire(t, l, "k"), nil)
		}, "the ledger keeps its records in a *recordstest.Memory"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			claim := acquire(t, r.ledger(claims.Config{}), "k")
			tx := r.begin("")
			_, err := order(t.Context(), tx, claim)
			must(t, err)
			wantText(t, "complete", c.complete(t, r, claim, tx), c.want)
			if err := tx.Commit(t.Context()); err == nil {
				t.Error("the transaction was committed")
			}
			if got := r.fences("k"); len(got) != 0 {
				t.Errorf("orders under fences %d, want none", got)
			}
		})
	}
}

// A savepoint that is rolled back takes the completion with it, and a commit of the whole commits
// it.
func TestSavepoint(t *testing.T) {
	ctx, r := t.Context(), newRig(t)
	l := r.ledger(claims.Config{})
	c := acquire(t, l, "k")
	tx := r.begin("")
	for range 2 {
		inner, err := tx.Begin(ctx)
		must(t, err)
		result, err := order(ctx, inner, c)
		must(t, err)
		must(t, pgclaims.Complete(ctx, inner, c, result))
		must(t, inner.Rollback(ctx))
	}
	inner, err := tx.Begin(ctx)
	must(t, err)
	result, err := order(ctx, inner, c)
	must(t, err)
	must(t, pgclaims.Complete(ctx, inner, c, result))
	must(t, inner.Commit(ctx))
	r.wantNothing("k", claims.Held)
	must(t, tx.Commit(ctx))
	r.wantDone("k", c.Fence())
}

// If the client of a transaction falls silent, the key is free within a lease, whether or not the
// claim was completed in the transaction, and even if it holds locks that the next holder needs.
// The transaction can no longer be committed.
func TestSilentTransaction(t *testing.T) {
	for _, completed := range []bool{true, false} {
		t.Run(fmt.Sprint("completed=", completed), func(t *testing.T) {
			ctx, r := t.Context(), newRig(t)
			r.exec("CREATE UNIQUE INDEX ON orders (id)")
			first := acquire(t, r.ledger(claims.Config{Lease: time.Second}), "k")
			silent := func() {
				r.advance(time.Second)
				second := acquire(t, r.ledger(claims.Config{}), "k") // it waits, if it has to
				must(t, inTx(ctx, r.pool, second))
				r.wantDone("k", second.Fence())
			}
			if completed {
				tx := r.begin("")
				_, err := order(ctx, tx, first)
				must(t, err)
				must(t, pgclaims.Complete(ctx, tx, first, nil))
				silent()
				if err := tx.Commit(ctx); err == nil {
					t.Error("committed after all")
				}
			} else if err := pgclaims.InTx(ctx, r.pool, first, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
				_, err := order(ctx, tx, first)
				must(t, err)
				silent()
				return nil, nil
			}); err == nil {
				t.Error("committed after all")
			}
			if got := r.fences("k"); len(got) != 1 || got[0] == first.Fence() {
				t.Errorf("orders under fences %d, want one that is not the first, %d", got, first.Fence())
			}
		})
	}
}

// The limit of silence is a lease, or the limit of the connection if that is shorter, and applies
// only to the transaction.
func TestIdleLimit(t *testing.T) {
	for setting, want := range map[string]string{"0": "30s", "1h": "30s", "30s": "30s", "31s": "30s", "29999": "29999ms", "7s": "7s"} {
		t.Run(setting, func(t *testing.T) {
			ctx, r := t.Context(), newRig(t)
			pool := r.open(1)
			_, err := pool.Exec(ctx, "SET idle_in_transaction_session_timeout = '"+setting+"'")
			must(t, err)
			show := func(db interface {
				QueryRow(context.Context, string, ...any) pgx.Row
			}) (s string) {
				must(t, db.QueryRow(ctx, "SHOW idle_in_transaction_session_timeout").Scan(&s))
				return s
			}
			before := show(pool)
			l := r.ledger(claims.Config{})
			must(t, pgclaims.InTx(ctx, pool, acquire(t, l, "a"), func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
				if got := show(tx); got != want {
					t.Errorf("in a transaction of InTx %s, want %s", got, want)
				}
				return nil, nil
			}))
			tx, err := pool.Begin(ctx)
			must(t, err)
			must(t, pgclaims.Complete(ctx, tx, acquire(t, l, "b"), nil))
			if got := show(tx); got != want {
				t.Errorf("after Complete %s, want %s", got, want)
			}
			must(t, tx.Commit(ctx))
			if got := show(pool); got != before {
				t.Errorf("behind the transaction %s, want %s", got, before)
			}
		})
	}
}

// The same through package database/sql.
func TestCompleteSQL(t *testing.T) {
	ctx, r := t.Context(), newRig(t)
	db, err := sql.Open("pgx", r.url)
	must(t, err)
	defer db.Close()
	l := r.ledger(claims.Config{})
	attempt := func(c *claims.Claim) (*sql.Tx, error) {
		t.Helper()
		tx, err := db.BeginTx(ctx, nil)
		must(t, err)
		t.Cleanup(func() { _ = tx.Rollback() })
		_, err = tx.ExecContext(ctx, "INSERT INTO orders (id, fence) VALUES ($1, $2)", c.Key(), int64(c.Fence()))
		must(t, err)
		return tx, pgclaims.CompleteSQL(ctx, tx, c, resultOf(c))
	}
	first := acquire(t, l, "k")
	tx, err := attempt(first)
	must(t, err)
	must(t, tx.Rollback())
	r.wantNothing("k", claims.Held)
	must(t, first.Renew(ctx))

	r.advance(lease)
	second := acquire(t, l, "k")
	tx, err = attempt(first)
	wantIs(t, "the zombie", err, claims.ErrLost)
	if err := tx.Commit(); err == nil {
		t.Error("the zombie could commit")
	}
	r.wantNothing("k", claims.Held)

	tx, err = attempt(second)
	must(t, err)
	must(t, tx.Commit())
	r.wantDone("k", second.Fence())
	_, err = attempt(second)
	wantIs(t, "again", err, claims.ErrEnded)

	other, err := claims.New(claims.Config{Store: struct{ records.Store }{r.store}})
	must(t, err)
	_, err = attempt(acquire(t, other, "other"))
	wantText(t, "another store", err, "the ledger keeps its records in a struct { records.Store }")
}
