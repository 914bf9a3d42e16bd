package pgoutbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tenaq/internal/testing/pgtest"
	"tenaq/internal/testing/proof"
	"tenaq/outbox"
)

// Transactions notify during a Wait, and not otherwise: NOTIFY takes turns over all commits.
func TestNotify_FD14(t *testing.T) {
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	ear := dial(t, url)
	var oid string
	if err := ear.QueryRow(t.Context(), `SELECT 'outbox'::regclass::oid::text`).Scan(&oid); err != nil {
		t.Fatal(err)
	}
	if _, err := ear.Exec(t.Context(), `LISTEN tenaq_outbox_`+oid); err != nil {
		t.Fatal(err)
	}
	// Notifications come in the order of the commits, so what comes before that of the end is all.
	heard := func() (n int) {
		exec(t, url, `NOTIFY tenaq_outbox_`+oid+`, 'end'`)
		for ; ; n++ {
			switch note, err := ear.WaitForNotification(t.Context()); {
			case err != nil:
				t.Fatal(err)
			case note.Payload == "end":
				return n
			}
		}
	}
	insert := `INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT 'q', 'k', 'b' FROM generate_series(1, 3)`
	exec(t, url, insert)
	if n := heard(); n != 0 {
		t.Errorf("%d notifications without a Wait", n)
	}
	if err := b.Wait(t.Context(), time.Minute); err != nil { // it has just begun to listen
		t.Fatal(err)
	}
	exec(t, url, insert+`; `+insert) // one transaction
	exec(t, url, `INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT 'q', 'k', 'b' WHERE false`)
	exec(t, url, `BEGIN; `+insert+`; ROLLBACK`)
	if n := heard(); n != 1 {
		t.Errorf("%d notifications of one transaction, want 1", n)
	}
	exec(t, url, `SELECT setval('outbox_waiting', 1)`) // as after a few seconds
	exec(t, url, insert)
	if n := heard(); n != 0 {
		t.Errorf("%d notifications after the last Wait", n)
	}
}

// waits checks how long Wait takes, once it listens.
func waits(t testing.TB, b *Box, most time.Duration, least, less time.Duration) {
	t.Helper()
	began := time.Now()
	if err := b.Wait(t.Context(), most); err != nil {
		t.Errorf("wait: %v", err)
	}
	if took := time.Since(began); took < least || took > less {
		t.Errorf("a wait of %v took %v, want %v to %v", most, took, least, less)
	}
}

// A notification that gets lost costs one wait, and one that comes between two waits is kept for
// the next one.
func TestWaitKeepsNotifications(t *testing.T) {
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	insert := `INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ('q', 'k', 'b')`
	waits(t, b, time.Minute, 0, 30*time.Second) // for nothing: it has just begun to listen
	exec(t, url, insert)
	waits(t, b, time.Minute, 0, 30*time.Second)
	waits(t, b, 300*time.Millisecond, 300*time.Millisecond, 30*time.Second)
	exec(t, url, `SELECT setval('outbox_waiting', 1)`)
	exec(t, url, insert)
	waits(t, b, 300*time.Millisecond, 0, 30*time.Second)

	// Several may wait on one box.
	var group sync.WaitGroup
	var woken atomic.Int32
	for range 3 {
		group.Go(func() {
			for n := 0; n < 2; {
				began := time.Now()
				if err := b.Wait(t.Context(), time.Minute); err != nil {
					t.Errorf("wait: %v", err)
					return
				}
				if time.Since(began) > 2*freshMax {
					n++
				}
				woken.Add(1)
			}
		})
	}
	stop := make(chan struct{})
	go func() {
		group.Wait()
		close(stop)
	}()
	for waiting := true; waiting; {
		select {
		case <-stop:
			waiting = false
		case <-time.After(3 * freshMax):
			exec(t, url, insert)
		}
	}

	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Wait(t.Context(), 10*time.Millisecond); err == nil {
		t.Error("a closed box waits")
	}
}

// A connection that cannot listen makes Wait sleep, neither fail nor return at once, and one that
// ended is replaced.
func TestWaitWithoutConnection(t *testing.T) {
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	insert := `INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ('q', 'k', 'b')`
	for range 3 {
		waits(t, b, 10*time.Millisecond, 0, 30*time.Second)
		done := make(chan struct{})
		go func() {
			defer close(done)
			waits(t, b, 10*time.Second, 0, 30*time.Second)
		}()
		time.Sleep(100 * time.Millisecond)
		exec(t, url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		<-done
	}
	for range 20 { // a wait of a minute on a connection that listens
		began := time.Now()
		go func() {
			time.Sleep(2 * freshMax)
			conn, err := b.pool.Acquire(context.Background())
			if err == nil {
				conn.Exec(context.Background(), insert)
				conn.Release()
			}
		}()
		if err := b.Wait(t.Context(), time.Minute); err != nil {
			t.Errorf("wait: %v", err)
		}
		if took := time.Since(began); took > freshMax && took < 30*time.Second {
			return
		}
	}
	t.Error("Wait was never woken after its connection had ended")
}

// PostgreSQL is killed again and again in the middle of everything: nothing that was committed is
// lost, nothing is sent twice that was settled, and all continues by itself.
func TestKill(t *testing.T) {
	server := pgtest.New(t, "synchronous_commit=off", "wal_writer_delay=10s", "wal_writer_flush_after=0", "max_connections=50")
	pool := connect(t, server.URL())
	over(t, server.URL(), Config{})
	seed := proof.Seed(t)
	rounds := 4
	if testing.Short() {
		rounds = 1
	}

	var mu sync.Mutex
	written, settled := make(map[string]bool), make(map[string]bool)
	claimed := make(map[string]int)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	for i := range 3 {
		group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				m := outbox.Message{ID: outbox.NewID(), Queue: "q.fifo", Key: fmt.Sprint(n % 5), Body: "b"}
				tx, err := pool.Begin(ctx)
				if err == nil {
					_, _ = tx.Exec(ctx, `SET LOCAL synchronous_commit = on`)
					err = Enqueue(ctx, tx, m)
				}
				if err == nil {
					err = tx.Commit(ctx)
				}
				if tx != nil {
					_ = tx.Rollback(context.Background())
				}
				if err != nil {
					time.Sleep(5 * time.Millisecond)
					continue
				}
				mu.Lock()
				written[m.ID] = true
				mu.Unlock()
			}
		})
		b := over(t, server.URL(), Config{})
		group.Go(func() {
			name := fmt.Sprint("relay ", i)
			const lease = 500 * time.Millisecond
			for ctx.Err() == nil {
				began := time.Now()
				rows, _, err := b.Claim(ctx, outbox.Claim{Relay: name, Lease: lease, Rows: 20, Bytes: 1 << 20, Stream: 5})
				if err != nil || len(rows) == 0 {
					_ = b.Wait(ctx, 100*time.Millisecond)
					continue
				}
				var outcomes []outbox.Outcome
				mu.Lock()
				for _, r := range rows {
					if settled[r.ID] && time.Since(began) < lease { // after the lease, by another relay
						t.Errorf("row %s was claimed after it was settled", r.ID)
					}
					claimed[r.ID]++
					outcomes = append(outcomes, outbox.Outcome{ID: r.ID, Fate: outbox.Sent})
				}
				mu.Unlock()
				if _, err := b.Renew(ctx, name, lease); err != nil {
					continue
				}
				if b.Settle(ctx, name, outcomes) == nil {
					mu.Lock()
					for _, o := range outcomes {
						settled[o.ID] = true
					}
					mu.Unlock()
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	for range rounds {
		time.Sleep(300*time.Millisecond + time.Duration(rng.IntN(300))*time.Millisecond)
		server.Kill(t)
		server.Restart(t)
	}
	time.Sleep(500 * time.Millisecond)
	mu.Lock()
	before := len(settled)
	mu.Unlock()
	for range 600 { // it goes on
		time.Sleep(100 * time.Millisecond)
		mu.Lock()
		after := len(settled)
		mu.Unlock()
		if after > before {
			break
		}
	}
	cancel()
	group.Wait()
	if len(settled) == before {
		t.Error("nothing was sent any more after the server had come back")
	}

	b := over(t, server.URL(), Config{})
	for range 100 { // leases have to end
		rows, _, err := b.Claim(t.Context(), outbox.Claim{Relay: "last", Lease: time.Minute, Rows: 10_000, Bytes: 1 << 30, Stream: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			claimed[r.ID]++
		}
		if s, err := b.Stats(t.Context()); err != nil || s.Pending == 0 {
			break
		}
		var outcomes []outbox.Outcome
		for _, r := range rows {
			outcomes = append(outcomes, outbox.Outcome{ID: r.ID, Fate: outbox.Sent})
		}
		if err := b.Settle(t.Context(), "last", outcomes); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	for id := range written {
		if claimed[id] == 0 {
			t.Errorf("row %s was committed and never claimed", id)
		}
	}
	t.Logf("%d rows, %d settled", len(written), len(settled))
}
