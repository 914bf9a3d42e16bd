package outbox_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tenaq/claims"
	"tenaq/claims/pgclaims"
	"tenaq/internal/testing/pgtest"
	"tenaq/outbox"
	"tenaq/outbox/pgoutbox"
	"tenaq/records/pgrecords"
)

// Usual: a worker marks its job as done and then sends the message for the next step, two writes
// again. Ours: the claim, the job and the next message are one transaction, whichever step of it
// fails.
func TestInbox_FD13(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), pgtest.URL(t))
	must(t, err)
	t.Cleanup(pool.Close)
	store, err := pgrecords.New(pgrecords.Config{Pool: pool})
	must(t, err)
	must(t, store.Migrate(t.Context()))
	ledger, err := claims.New(claims.Config{Store: store})
	must(t, err)
	box, err := pgoutbox.New(pgoutbox.Config{Pool: pool})
	must(t, err)
	must(t, box.Migrate(t.Context()))
	_, err = pool.Exec(t.Context(), "CREATE TABLE jobs (id text PRIMARY KEY)")
	must(t, err)

	broken := errors.New("the power fails here")
	steps := []string{"before", "after the job", "after the message", "nowhere"}
	var found []string
	for _, fails := range steps {
		claim, err := ledger.Acquire(t.Context(), "job-17")
		must(t, err)
		err = pgclaims.InTx(t.Context(), pool, claim, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			for _, step := range []struct {
				name string
				do   func() error
			}{
				{"before", func() error { return nil }},
				{"after the job", func() error { _, err := tx.Exec(ctx, "INSERT INTO jobs VALUES ('job-17')"); return err }},
				{"after the message", func() error {
					return pgoutbox.Enqueue(ctx, tx, outbox.Message{Queue: "publish", Key: "job-17", Body: "done"})
				}},
			} {
				if err := step.do(); err != nil {
					return nil, err
				}
				if step.name == fails {
					return nil, broken
				}
			}
			return []byte("ok"), nil
		})
		if fails == "nowhere" {
			must(t, err)
		} else if !errors.Is(err, broken) {
			t.Fatalf("it failed %s with %v", fails, err)
		} else {
			must(t, claim.Fail(t.Context(), broken.Error()))
		}
		var jobs int
		must(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM jobs").Scan(&jobs))
		entry, err := ledger.Entry(t.Context(), "job-17")
		must(t, err)
		stats, err := box.Stats(t.Context())
		must(t, err)
		switch all := [3]bool{jobs == 1, stats.Pending == 1, entry.State == claims.Completed}; all {
		case [3]bool{}:
			found = append(found, "nothing")
		case [3]bool{true, true, true}:
			found = append(found, "all")
		default:
			t.Errorf("it failed %s: job, message and claim are written: %v", fails, all)
		}
	}
	if want := []string{"nothing", "nothing", "nothing", "all"}; !slices.Equal(found, want) {
		t.Errorf("failing %q left %q, want %q", steps, found, want)
	}
	rows, _, err := box.Claim(t.Context(), outbox.Claim{Relay: "r", Lease: time.Minute, Rows: 10, Bytes: 1 << 20, Stream: 1})
	must(t, err)
	if len(rows) != 1 || rows[0].Body != "done" {
		t.Errorf("the relay gets %+v", rows)
	}
}
