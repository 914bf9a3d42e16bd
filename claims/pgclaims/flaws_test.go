package pgclaims_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"tenaq/claims"
	"tenaq/claims/pgclaims"
	"tenaq/outbox/pgoutbox"
	"tenaq/records/recordstest"
)

// The usual ways to keep an order from being worked on twice, with PostgreSQL alone, have known
// flaws. Each test here is named after one, shows it if it can, and then that a claim in PostgreSQL
// does otherwise. The flaws that do not need a database are in the tests of package claims.

// Usual: pg_try_advisory_xact_lock outside of a transaction, released when the statement is over.
// Ours: a record that stays.
func TestClaimOutlivesTheStatement_FC1(t *testing.T) {
	ctx, r := t.Context(), newRig(t)
	for range 2 {
		var got bool
		must(t, r.pool.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(17)").Scan(&got))
		if !got {
			t.Fatal("the flaw is gone: the second did not get the lock")
		}
	}
	c := acquire(t, r.ledger(claims.Config{}), "order-17")
	if _, err := r.ledger(claims.Config{}).Acquire(ctx, "order-17"); !errors.Is(err, claims.Busy) {
		t.Errorf("the second: error %v, want busy", err)
	}
	must(t, inTx(ctx, r.pool, c))
}

// Usual: a session's lock, while the pool gives each query whatever connection is free; a second
// worker that gets the same one has the lock as well. Ours: the claim belongs to a fence, and
// outlives all connections.
func TestClaimBelongsToNoConnection_FC2(t *testing.T) {
	ctx, r := t.Context(), newRig(t)
	pool := r.open(1)
	for range 2 {
		var got bool
		must(t, pool.QueryRow(ctx, "SELECT pg_try_advisory_lock(17)").Scan(&got))
		if !got {
			t.Fatal("the flaw is gone: the second did not get the lock")
		}
	}
	c := acquire(t, r.ledger(claims.Config{}), "order-17")
	other := r.open(1)
	_, err := other.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	must(t, err)
	r.pool.Reset()
	if _, err := r.ledger(claims.Config{}).Acquire(ctx, "order-17"); !errors.Is(err, claims.Busy) {
		t.Errorf("the second: error %v, want busy", err)
	}
	must(t, inTx(ctx, other, c))
	r.wantDone("order-17", c.Fence())
}

// Usual: a transaction that is held open while a payment takes its time; it keeps a connection, its
// locks and the oldest row versions that vacuum has to leave. Ours: none is open between claiming
// and completing, and one that a program opens and forgets ends by itself (TestSilentTransaction).
func TestNothingIsHeldOpen_FC3(t *testing.T) {
	ctx, r := t.Context(), newRig(t)
	watcher := r.open(1)
	watch := func() (open int) {
		must(t, watcher.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
			AND backend_type = 'client backend' AND (xact_start IS NOT NULL OR backend_xmin IS NOT NULL)`).Scan(&open))
		return open
	}
	c := acquire(t, r.ledger(claims.Config{}), "order-17")
	held, stop := c.Hold(ctx)
	defer stop()
	must(t, c.Renew(ctx))
	if n := watch(); n != 0 || r.pool.Stat().AcquiredConns() != 0 {
		t.Errorf("during the payment %d transactions are open and %d connections in use, want none", n, r.pool.Stat().AcquiredConns())
	}
	must(t, pgclaims.InTx(held, r.pool, c, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		result, err := order(ctx, tx, c)
		if n := watch(); n != 1 {
			t.Errorf("%d transactions are open while one is, want 1", n) // so that the test can fail
		}
		return result, err
	}))
	r.wantDone("order-17", c.Fence())
}

// Usual: UPDATE orders SET status = 'completed' WHERE id = …, by the last writer. Ours: in one
// commit with the claim, by its holder. TestZombie has the same for transactions that began
// earlier.
func TestCompletionIsTheHolders_FC13(t *testing.T) {
	ctx, r := t.Context(), newRig(t)
	l := r.ledger(claims.Config{})
	first := acquire(t, l, "order-17")
	r.advance(lease)
	second := acquire(t, l, "order-17")
	wantIs(t, "the first", inTx(ctx, r.pool, first), claims.ErrLost)
	r.wantNothing("order-17", claims.Held)
	must(t, inTx(ctx, r.pool, second))
	wantIs(t, "the first", inTx(ctx, r.pool, first), claims.ErrLost)
	r.wantDone("order-17", second.Fence())
}

// Usual: the mail is sent after the commit, and a crash in between loses it. Ours: it is in the
// outbox by the same commit, whatever becomes of that, and once however often the message is
// delivered. The handler is that of the example.
func TestMailIsInTheCommit_FC14(t *testing.T) {
	for name, how := range map[string]recordstest.How{
		"well": recordstest.Works, "crash before the commit": recordstest.Before, "crash behind the commit": recordstest.After,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, r := t.Context(), newRig(t)
			box, err := pgoutbox.New(pgoutbox.Config{Pool: r.pool})
			must(t, err)
			defer box.Close()
			must(t, box.Migrate(ctx))
			l := r.ledger(claims.Config{})
			count := func(table string) (n int) {
				must(t, r.pool.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&n))
				return n
			}
			err = placeOrder(ctx, lose(r.pool, recordstest.Fault{How: how}), l, "order-17")
			want := 1
			if how == recordstest.Before {
				want = 0
				wantIs(t, "the order", err, recordstest.ErrInjected)
			} else {
				must(t, err)
			}
			if orders, mails := count("orders"), count("outbox"); orders != want || mails != want {
				t.Errorf("%d orders and %d mails, want %d of each", orders, mails, want)
			}
			for range 3 { // deliveries
				must(t, placeOrder(ctx, r.pool, l, "order-17"))
			}
			if orders, mails := count("orders"), count("outbox"); orders != 1 || mails != 1 {
				t.Errorf("in the end %d orders and %d mails, want 1 of each", orders, mails)
			}
		})
	}
}
