package pgoutbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tenaq/internal/testing/pgtest"
	"tenaq/internal/testing/proof"
	"tenaq/internal/work/pgdb"
	"tenaq/outbox"
)

// At every isolation level of the writers, and whichever relays die when: no row is lost, no two
// relays have one at once, and each stream is sent in the order of its commits. Each transaction
// draws a number from a sequence of the key once it has written its rows. No other transaction
// writes to the stream until it ends, so these numbers are in the order of the commits.
func TestOrder(t *testing.T) {
	for _, isolation := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(isolation), func(t *testing.T) {
			url := pgtest.URL(t)
			over(t, url, Config{})
			for key := range keys {
				exec(t, url, fmt.Sprintf(`CREATE SEQUENCE "key %d"`, key))
			}
			seed := proof.Seed(t)
			o := order{t: t, pool: connect(t, url), isolation: isolation, deadline: time.Now().Add(map[bool]time.Duration{false: 4 * time.Second, true: time.Second}[testing.Short()])}

			var writers, relays sync.WaitGroup
			for i := range 8 {
				writers.Go(func() { o.write(rand.New(rand.NewPCG(seed, uint64(i)))) })
			}
			var done atomic.Bool
			for i := range 4 {
				relays.Go(func() { o.relay(rand.New(rand.NewPCG(seed, uint64(100+i))), over(t, url, Config{}), i, done.Load) })
			}
			writers.Wait()
			done.Store(true)
			relays.Wait()

			last := make(map[string]int64)
			sent := make(map[string]bool)
			for _, id := range o.sent {
				w, ok := o.written[id]
				if !ok {
					t.Errorf("row %s is sent and was not committed", id)
				}
				if sent[id] || w.key == "" {
					continue
				}
				sent[id] = true
				if w.n < last[w.key] {
					t.Errorf("row %d of %s is sent after row %d", w.n, w.key, last[w.key])
				}
				last[w.key] = w.n
			}
			for id, w := range o.written {
				if !slices.Contains(o.sent, id) {
					t.Errorf("row %s, %d of %q, was committed and is not sent", id, w.n, w.key)
				}
			}
			t.Logf("%d rows, %d refused transactions, %d relays died", len(o.written), o.refused, o.deaths)
			if !o.enough() {
				t.Errorf("%d rows were written and %d relays died: too few to tell anything", len(o.written), o.deaths)
			}
		})
	}
}

type order struct {
	t         *testing.T
	pool      *pgxpool.Pool
	isolation pgx.TxIsoLevel
	deadline  time.Time

	mu      sync.Mutex
	written map[string]numbered // by id, what was committed
	sent    []string            // ids, some of them twice
	refused int
	deaths  int
}

// A numbered row is the nth of its key; those without an order have none.
type numbered struct {
	key string
	n   int64
}

const keys = 6

// goOn says whether writers write on: until their time is over, and on a busy machine until enough
// has happened.
func (o *order) goOn() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	late := time.Since(o.deadline)
	return late < 0 || late < time.Minute && !o.enough()
}

// enough says whether what has happened can tell something.
func (o *order) enough() bool { return len(o.written) >= 50 && o.deaths > 0 }

// write commits transactions; some write nothing after all.
func (o *order) write(rng *rand.Rand) {
	for o.goOn() {
		rows := make(map[string]numbered)
		err := pgx.BeginTxFunc(o.t.Context(), o.pool, pgx.TxOptions{IsoLevel: o.isolation}, func(tx pgx.Tx) error {
			ordered := make(map[string]string)
			for range 1 + rng.IntN(2) {
				key := fmt.Sprint("key ", rng.IntN(keys))
				if _, ok := ordered[key]; ok {
					continue
				}
				if rng.IntN(3) == 0 {
					savepoint, err := tx.Begin(o.t.Context())
					if err != nil {
						return err
					}
					if err := Enqueue(o.t.Context(), savepoint, outbox.Message{Queue: "q.fifo", Key: key, Body: "never"}); err != nil {
						return err
					}
					if err := savepoint.Rollback(o.t.Context()); err != nil {
						return err
					}
				}
				m := outbox.Message{ID: outbox.NewID(), Queue: "q.fifo", Key: key, Body: "ordered"}
				free := outbox.Message{ID: outbox.NewID(), Queue: "q", Key: key, Body: "free"}
				if err := Enqueue(o.t.Context(), tx, m, free); err != nil {
					return err
				}
				ordered[key], rows[free.ID] = m.ID, numbered{}
			}
			if rng.IntN(2) == 0 {
				time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond)
			}
			for key, id := range ordered {
				var n int64
				if err := tx.QueryRow(o.t.Context(), `SELECT nextval('"`+key+`"')`).Scan(&n); err != nil {
					return err
				}
				rows[id] = numbered{key, n}
			}
			if rng.IntN(8) == 0 {
				return errNever
			}
			return nil
		})
		o.mu.Lock()
		switch {
		case err == nil:
			if o.written == nil {
				o.written = make(map[string]numbered)
			}
			maps.Copy(o.written, rows)
		case errors.Is(err, errNever):
		case pgdb.HasCode(err, "40001", pgdb.DeadlockDetected):
			o.refused++
		default:
			o.t.Errorf("write: %v", err)
		}
		o.mu.Unlock()
	}
}

var errNever = errors.New("this transaction is rolled back")

// relay claims and settles, and dies now and then: it continues under another name then.
func (o *order) relay(rng *rand.Rand, b *Box, i int, done func() bool) {
	const lease = 400 * time.Millisecond
	for life := 0; ; life++ {
		name := fmt.Sprint("relay ", i, " ", life)
		for {
			last := done()
			began := time.Now()
			rows, next, err := b.Claim(o.t.Context(), outbox.Claim{Relay: name, Lease: lease, Rows: 1 + rng.IntN(30), Bytes: 1 << 20, Stream: 1 + rng.IntN(10)})
			if err != nil {
				o.t.Errorf("claim: %v", err)
				return
			}
			if len(rows) == 0 && next == outbox.NextMax {
				if last {
					if s, err := b.Stats(o.t.Context()); err != nil || s.Pending == 0 {
						return
					}
				}
				_ = b.Wait(o.t.Context(), lease/2)
				continue
			}
			dies := rng.IntN(12) == 0
			var outcomes []outbox.Outcome
			for n, r := range rows {
				if dies && n == len(rows)/2 {
					break
				}
				if !o.send(r, began.Add(lease/2)) {
					dies = true
					break
				}
				outcomes = append(outcomes, outbox.Outcome{ID: r.ID, Fate: outbox.Sent, SentTo: r.Queue, MessageID: "m"})
			}
			if dies && rng.IntN(2) == 0 {
				o.mu.Lock()
				o.deaths++
				o.mu.Unlock()
				break
			}
			if err := b.Settle(o.t.Context(), name, outcomes); err != nil {
				o.t.Errorf("settle: %v", err)
				return
			}
			if dies {
				o.mu.Lock()
				o.deaths++
				o.mu.Unlock()
				break
			}
		}
	}
}

// send refuses when the lease cannot be relied on any more.
func (o *order) send(r outbox.Row, until time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Now().After(until) {
		return false
	}
	o.sent = append(o.sent, r.ID)
	return true
}

// A transaction that is open for long loses nothing, and delays only those of its stream.
func TestLongTransaction_FD4(t *testing.T) {
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	conn := dial(t, url)
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.Serializable})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if err := Enqueue(t.Context(), tx, outbox.Message{Queue: "q", Key: "k", Body: "late"}, outbox.Message{Queue: "q.fifo", Key: "k", Body: "late"}); err != nil {
		t.Fatal(err)
	}
	claim := func() (bodies string) {
		for {
			rows, next, err := b.Claim(t.Context(), outbox.Claim{Relay: "r", Lease: time.Minute, Rows: 500, Bytes: 1 << 20, Stream: 100})
			if err != nil {
				t.Fatal(err)
			}
			var outcomes []outbox.Outcome
			for _, r := range rows {
				bodies += r.Body + " "
				outcomes = append(outcomes, outbox.Outcome{ID: r.ID, Fate: outbox.Sent})
			}
			if err := b.Settle(t.Context(), "r", outcomes); err != nil {
				t.Fatal(err)
			}
			if len(rows) == 0 && next > 0 {
				return bodies
			}
		}
	}
	for range 10 {
		exec(t, url, `INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT q, 'other', 'young' FROM unnest('{q,q.fifo}'::text[]) q, generate_series(1, 500)`)
		if got := strings.Count(claim(), "young"); got != 1000 {
			t.Fatalf("%d of 1000 rows were claimed beside a transaction that is open", got)
		}
		exec(t, url, `VACUUM outbox_pending`)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := claim(); got != "late late " {
		t.Errorf("%q was claimed after the long transaction, want its two rows", got)
	}
}
