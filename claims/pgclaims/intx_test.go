package pgclaims_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"tenaq/claims"
	"tenaq/claims/pgclaims"
	"tenaq/records/recordstest"
)

// A lossy database loses the answers to commits.
type lossy struct {
	pgclaims.Beginner
	fault func() recordstest.Fault // of the next commit; it fails in no other way than How
	late  sync.WaitGroup
}

func lose(db pgclaims.Beginner, faults ...recordstest.Fault) *lossy {
	return &lossy{Beginner: db, fault: func() (f recordstest.Fault) {
		if len(faults) > 0 {
			f, faults = faults[0], faults[1:]
		}
		return f
	}}
}

func (l *lossy) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	tx, err := l.Beginner.BeginTx(ctx, o)
	return &lossyTx{Tx: tx, l: l, f: l.fault()}, err
}

// wait waits for commits that are late.
func (l *lossy) wait() { l.late.Wait() }

type lossyTx struct {
	pgx.Tx
	l    *lossy
	f    recordstest.Fault
	gone bool // the client has no connection any more, and PostgreSQL may not have noticed
}

func (tx *lossyTx) Commit(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	switch tx.f.How {
	case recordstest.Works:
		return tx.Tx.Commit(ctx)
	case recordstest.Before:
		_ = tx.Tx.Rollback(ctx)
	case recordstest.After:
		if err := tx.Tx.Commit(ctx); err != nil {
			return err
		}
	case recordstest.Late:
		tx.l.late.Go(func() {
			time.Sleep(tx.f.LateBy)
			_ = tx.Tx.Commit(ctx)
		})
	case lateRollback:
		tx.l.late.Go(func() {
			time.Sleep(tx.f.LateBy)
			_ = tx.Tx.Rollback(ctx)
		})
	}
	tx.gone = true
	return recordstest.ErrInjected
}

// lateRollback is what becomes of a commit that is not received: PostgreSQL notices later that the
// client is gone.
const lateRollback recordstest.How = 100

func (tx *lossyTx) Rollback(ctx context.Context) error {
	if tx.gone {
		return pgx.ErrTxClosed
	}
	return tx.Tx.Rollback(ctx)
}

// Even if the answer to a commit is lost, InTx knows whether it was committed, and the effect is
// there once.
func TestLostAnswer(t *testing.T) {
	const late = 300 * time.Millisecond
	for name, c := range map[string]struct {
		fault recordstest.Fault
		done  bool
	}{
		"not carried out":        {recordstest.Fault{How: recordstest.Before}, false},
		"carried out":            {recordstest.Fault{How: recordstest.After}, true},
		"carried out later":      {recordstest.Fault{How: recordstest.Late, LateBy: late}, true},
		"given up by the server": {recordstest.Fault{How: lateRollback, LateBy: late}, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, r := t.Context(), newRig(t)
			l := r.ledger(claims.Config{})
			claim := acquire(t, l, "k")
			db := lose(r.pool, c.fault)
			defer db.wait()
			err := inTx(ctx, db, claim)
			if c.done {
				must(t, err)
			} else {
				wantIs(t, "a commit without an answer", err, recordstest.ErrInjected)
				if errors.Is(err, pgclaims.ErrUnknown) {
					t.Errorf("it is known that nothing was committed, but the error is %v", err)
				}
				r.wantNothing("k", claims.Held)
				must(t, inTx(ctx, db, claim))
			}
			r.wantDone("k", claim.Fence())
			if e := claim.Entry(); e.State != claims.Completed {
				t.Errorf("the claim says %s", e.State)
			}
			wantIs(t, "again", inTx(ctx, db, claim), claims.ErrEnded)
			wantIs(t, "fail", claim.Fail(ctx, ""), claims.ErrEnded)
			r.wantDone("k", claim.Fence())
		})
	}
}

// When the ledger cannot be asked either, the outcome is unknown, and whatever the holder does next
// is right.
func TestNobodyKnows(t *testing.T) {
	for name, how := range map[string]recordstest.How{"not carried out": recordstest.Before, "carried out": recordstest.After} {
		for next, do := range map[string]func(context.Context, *rig, *claims.Claim) error{
			"again": func(ctx context.Context, r *rig, c *claims.Claim) error { return inTx(ctx, r.pool, c) },
			"fail":  func(ctx context.Context, r *rig, c *claims.Claim) error { return c.Fail(ctx, "no answer") },
			"dies":  nil,
		} {
			t.Run(name+"/"+next, func(t *testing.T) {
				ctx, r := t.Context(), newRig(t)
				store := &sick{Store: r.store}
				l, err := claims.New(claims.Config{Store: store, Lease: lease})
				must(t, err)
				c := acquire(t, l, "k")
				db := lose(r.pool, recordstest.Fault{How: how})
				store.ill.Store(true)
				err = inTx(ctx, db, c)
				wantIs(t, "a commit without an answer", err, pgclaims.ErrUnknown)
				wantIs(t, "a commit without an answer", err, recordstest.ErrInjected)
				store.ill.Store(false)
				if do != nil {
					err = do(ctx, r, c)
					if how == recordstest.After {
						wantIs(t, next, err, claims.ErrEnded)
						if e := c.Entry(); e.State != claims.Completed {
							t.Errorf("the claim says %s", e.State)
						}
					} else {
						must(t, err)
					}
				}
				r.advance(lease)
				last, err := l.Acquire(ctx, "k")
				switch {
				case errors.Is(err, claims.Done):
					r.wantDone("k", c.Fence())
				case how == recordstest.After:
					t.Fatalf("acquire: error %v, want done", err)
				default:
					must(t, err)
					must(t, inTx(ctx, r.pool, last))
					r.wantDone("k", last.Fence())
				}
			})
		}
	}
}

// A claim that another holder got while a commit had no answer is lost, and nothing was committed.
func TestLostAnswerAndClaim(t *testing.T) {
	ctx, r := t.Context(), newRig(t)
	l := r.ledger(claims.Config{})
	c := acquire(t, l, "k")
	db := lose(r.pool, recordstest.Fault{How: lateRollback, LateBy: 300 * time.Millisecond})
	defer db.wait()
	reopened := make(chan error)
	err := pgclaims.InTx(ctx, db, c, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		result, err := order(ctx, tx, c)
		must(t, err)
		_, err = tx.Exec(ctx, "SELECT FROM tenaq_records FOR UPDATE") // as the completion does, but earlier
		must(t, err)
		go func() { reopened <- l.Reopen(ctx, "k", "") }()
		r.blocked() // so it is before the holder that asks what became of the commit
		return result, nil
	})
	must(t, <-reopened)
	wantIs(t, "a commit without an answer", err, claims.ErrLost)
	wantIs(t, "a commit without an answer", err, recordstest.ErrInjected)
	r.wantNothing("k", claims.Released)
	second := acquire(t, l, "k")
	must(t, inTx(ctx, r.pool, second))
	r.wantDone("k", second.Fence())
}

// Errors and panics of the work leave nothing behind, and the claim as it was.
func TestWorkFails(t *testing.T) {
	ctx, r := t.Context(), newRig(t)
	pool := r.open(1)
	c := acquire(t, r.ledger(claims.Config{}), "k")
	broken := errors.New("broken")
	fails := func(how func() ([]byte, error)) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = p.(error)
			}
		}()
		return pgclaims.InTx(ctx, pool, c, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			if _, err := order(ctx, tx, c); err != nil {
				return nil, err
			}
			return how()
		})
	}
	if err := fails(func() ([]byte, error) { return nil, broken }); err != broken {
		t.Errorf("error %v, want that of the work as it is", err)
	}
	if err := fails(func() ([]byte, error) { panic(broken) }); err != broken {
		t.Errorf("panic %v, want that of the work", err)
	}
	if err := fails(func() ([]byte, error) { return make([]byte, claims.ResultMax+1), nil }); err == nil {
		t.Error("completed with a result that is too long")
	}
	short, cancel := context.WithCancel(ctx)
	wantIs(t, "a context that ends", pgclaims.InTx(short, pool, c, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		result, err := order(ctx, tx, c)
		cancel()
		return result, err
	}), context.Canceled)
	r.wantNothing("k", claims.Held)
	must(t, inTx(ctx, pool, c)) // the connection is free
	r.wantDone("k", c.Fence())
}

// A transaction that PostgreSQL refuses to serialize is run again, wherever it is refused: in the
// work, in the completion because the claim was renewed meanwhile, or at its commit.
func TestRunAgain(t *testing.T) {
	ctx, r := t.Context(), newRig(t)
	r.exec(`CREATE TABLE doctors (name text PRIMARY KEY, on_call boolean NOT NULL);
		INSERT INTO doctors VALUES ('alice', true), ('bob', true)`)
	r.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database()); END $$`)
	pool := r.open(5)
	l := r.ledger(claims.Config{})
	for name, disturb := range map[string]func(tx pgx.Tx, c *claims.Claim) error{
		"work": func(tx pgx.Tx, c *claims.Claim) error {
			r.exec("UPDATE doctors SET on_call = true WHERE name = 'alice'")
			_, err := tx.Exec(ctx, "UPDATE doctors SET on_call = true WHERE name = 'alice'")
			return err
		},
		"completion": func(tx pgx.Tx, c *claims.Claim) error { return c.Renew(ctx) },
		"commit": func(tx pgx.Tx, c *claims.Claim) error {
			// Each takes one off call because both are on call.
			other, err := pool.Begin(ctx)
			must(t, err)
			for name, tx := range map[string]pgx.Tx{"alice": tx, "bob": other} {
				var n int
				must(t, tx.QueryRow(ctx, "SELECT count(*) FROM doctors WHERE on_call").Scan(&n))
				_, err := tx.Exec(ctx, "UPDATE doctors SET on_call = false WHERE name = $1", name)
				must(t, err)
			}
			return other.Commit(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := acquire(t, l, name)
			calls := 0
			must(t, pgclaims.InTx(ctx, pool, c, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
				result, err := order(ctx, tx, c)
				if calls++; calls == 1 && err == nil {
					err = disturb(tx, c)
				}
				return result, err
			}))
			if calls != 2 {
				t.Errorf("the work was called %d times, want 2", calls)
			}
			r.wantDone(name, c.Fence())
		})
	}
	t.Run("for ever", func(t *testing.T) {
		c := acquire(t, l, "for ever")
		calls := 0
		err := pgclaims.InTx(ctx, pool, c, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			calls++
			return nil, &pgconn.PgError{Code: "40P01"}
		})
		if !hasCode(err, "40P01") || calls < 10 || calls > 100 {
			t.Errorf("after %d calls error %v", calls, err)
		}
	})
}

// A claim that is over does not even begin.
func TestOver(t *testing.T) {
	ctx, r := t.Context(), newRig(t)
	c := acquire(t, r.ledger(claims.Config{}), "k")
	must(t, c.Release(ctx))
	wantIs(t, "released", pgclaims.InTx(ctx, r.pool, c, func(context.Context, pgx.Tx) ([]byte, error) {
		t.Error("the work was called")
		return nil, nil
	}), claims.ErrEnded)
	r.pool.Close()
	wantText(t, "without a database", inTx(ctx, r.pool, acquireFrom(t)), "begin a transaction: ")
}

func acquireFrom(t *testing.T) *claims.Claim {
	l, err := claims.New(claims.Config{Store: recordstest.NewMemory()})
	must(t, err)
	return acquire(t, l, "k")
}
