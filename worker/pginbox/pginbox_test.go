package pginbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"tenaq/claims"
	"tenaq/claims/pgclaims"
	"tenaq/internal/testing/pgtest"
	"tenaq/internal/testing/sqstest"
	"tenaq/outbox"
	"tenaq/outbox/pgoutbox"
	"tenaq/records/pgrecords"
	"tenaq/records/recordstest"
	"tenaq/worker"
	"tenaq/worker/pginbox"
)

// lease is that of messages and claims.
const lease = 3 * time.Second

// A rig is a database with orders, records and an outbox, and a server with the queues orders,
// mails and dead. Nothing keeps an order from being there twice but what is tested.
type rig struct {
	testing.TB
	url    string
	pool   *pgxpool.Pool
	ledger *claims.Ledger
	box    *pgoutbox.Box
	server *sqstest.Server
	queue  string

	events chan string
}

func newRig(t testing.TB) *rig { return rigOn(t, pgtest.URL(t)) }

func rigOn(t testing.TB, url string) *rig {
	t.Helper()
	r := &rig{TB: t, url: url, server: sqstest.New(t), events: make(chan string, 1000)}
	r.pool, r.ledger = open(t, r.url)
	var err error
	r.box, err = pgoutbox.New(pgoutbox.Config{Pool: r.pool})
	must(t, err)
	must(t, r.box.Migrate(t.Context()))
	_, err = r.pool.Exec(t.Context(), "CREATE TABLE orders (id text NOT NULL, fence bigint NOT NULL)")
	must(t, err)
	r.server.Queue(t, "dead")
	r.server.Queue(t, "mails")
	r.queue = r.server.Queue(t, "orders", "RedrivePolicy", sqstest.RedrivePolicy("dead", "20"))
	return r
}

// open opens the database of a worker.
func open(t testing.TB, url string) (*pgxpool.Pool, *claims.Ledger) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	must(t, err)
	t.Cleanup(pool.Close)
	store, err := pgrecords.New(pgrecords.Config{Pool: pool})
	must(t, err)
	must(t, store.Migrate(t.Context()))
	ledger, err := claims.New(claims.Config{Store: store, Lease: lease})
	must(t, err)
	return pool, ledger
}

// order does the work of a message: it writes an order, and enqueues the mail about it.
func order(ctx context.Context, tx pgx.Tx, m *worker.Message) ([]byte, error) {
	if _, err := tx.Exec(ctx, "INSERT INTO orders (id, fence) VALUES ($1, $2)", m.Body, int64(m.Fence())); err != nil {
		return nil, err
	}
	err := pgoutbox.Enqueue(ctx, tx, outbox.Message{Queue: "mails", Key: m.Body, Body: "order " + m.Body + " is placed"})
	return []byte("placed " + m.Body), err
}

// config is that of a worker whose work is named by the bodies, and whose events are told.
func (r *rig) config(h worker.Handler) worker.Config {
	tell := func(what string, m *worker.Message) { r.events <- what + " " + m.Body }
	return worker.Config{
		Client: r.server.Client(), QueueURL: r.queue, Handler: h, Claims: r.ledger, Lease: lease, RetryBase: time.Millisecond,
		Key:    func(m *worker.Message) (string, error) { return m.Body, nil },
		Logger: slog.New(slog.DiscardHandler),
		Events: worker.Events{Outcome: func(m *worker.Message, o worker.Outcome) {
			switch o.Kind {
			case worker.Busy:
			case worker.Duplicate:
				done, _ := errors.AsType[*claims.Refused](o.Err)
				tell("duplicate "+string(done.Result)+",", m)
			case worker.DeadLettered:
				tell("dead: "+o.Reason+",", m)
			default:
				r.Logf("%s: %v", m.Body, o)
				tell(string(o.Kind), m)
			}
		}},
	}
}

// start runs a worker until the end of the test, or until stop is called.
func (r *rig) start(cfg worker.Config) (stop func()) {
	r.Helper()
	w, err := worker.New(cfg)
	must(r, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.Errorf("the worker ended with %v", err)
		}
	})
	r.Cleanup(stop)
	return stop
}

// want waits for events in their order.
func (r *rig) want(events ...string) {
	r.Helper()
	for _, want := range events {
		select {
		case got := <-r.events:
			if got != want {
				r.Fatalf("got %q, want %q", got, want)
			}
		case <-time.After(time.Minute):
			r.Fatalf("nothing happens, want %q", want)
		}
	}
}

func (r *rig) send(body string) {
	r.Helper()
	_, err := r.server.Client().SendMessage(r.Context(), &sqs.SendMessageInput{QueueUrl: &r.queue, MessageBody: &body})
	must(r, err)
}

// wantOnce wants one order, one mail about it, and the claim that was completed with them.
func (r *rig) wantOnce(id string) {
	r.Helper()
	e, err := r.ledger.Entry(r.Context(), id)
	must(r, err)
	if e.State != claims.Completed || string(e.Result) != "placed "+id {
		r.Errorf("the claim on %s is %s with %q, want it completed", id, e.State, e.Result)
	}
	if fences, mails := r.written(id); !slices.Equal(fences, []int64{int64(e.Fence)}) || mails != 1 {
		r.Errorf("%s is ordered under the fences %d, with %d mails; want one under %d, with one", id, fences, mails, e.Fence)
	}
}

// wantNothing wants neither an order nor a mail, and a claim that is as the state says.
func (r *rig) wantNothing(id string, state claims.State, attempts int) {
	r.Helper()
	e, err := r.ledger.Entry(r.Context(), id)
	must(r, err)
	if e.State != state || e.Attempts != attempts {
		r.Errorf("the claim on %s is %s after %d attempts, want %s after %d", id, e.State, e.Attempts, state, attempts)
	}
	if fences, mails := r.written(id); len(fences) != 0 || mails != 0 {
		r.Errorf("%s is ordered under the fences %d, with %d mails; want none", id, fences, mails)
	}
}

func (r *rig) written(id string) (fences []int64, mails int) {
	r.Helper()
	rows, err := r.pool.Query(r.Context(), "SELECT fence FROM orders WHERE id = $1", id)
	must(r, err)
	fences, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	must(r, err)
	must(r, r.pool.QueryRow(r.Context(), "SELECT count(*) FROM outbox WHERE aggregateid = $1", id).Scan(&mails))
	return fences, mails
}

// A relay that does not learn that its message was accepted sends it again, under another message
// id. The work is done once, and so is what follows from it.
func TestSentTwice(t *testing.T) {
	r := newRig(t)
	client, sends := r.server.Client(), 0
	client.SetFault(func(operation string) sqstest.Fault {
		if operation == "SendMessageBatch" {
			if sends++; sends == 1 {
				return sqstest.Unanswered
			}
		}
		return sqstest.None
	})
	r.relay(client)
	must(t, pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
		return pgoutbox.Enqueue(t.Context(), tx, outbox.Message{Queue: "orders", Key: "customer-1", Body: "17"})
	}))
	cfg := r.config(pginbox.Handler(r.pool, order))
	cfg.Key = nil // the relay names the work
	r.start(cfg)
	r.want("done 17", "duplicate placed 17, 17")
	if fences, mails := r.written("17"); len(fences) != 1 || mails != 1 {
		t.Errorf("17 is ordered under the fences %d, with %d mails; want one each", fences, mails)
	}
	next := worker.Config{
		Client: client, QueueURL: strings.TrimSuffix(r.queue, "orders") + "mails", Claims: r.ledger, Logger: slog.New(slog.DiscardHandler),
		Handler: worker.HandlerFunc(func(_ context.Context, m *worker.Message) error {
			r.events <- "mail: " + m.Body
			return nil
		}),
	}
	r.start(next)
	r.want("mail: order 17 is placed")
}

// relay sends the rows of the outbox until the end of the test.
func (r *rig) relay(client outbox.SQS) {
	r.Helper()
	relay, err := outbox.New(outbox.Config{Box: r.box, Client: client, Poll: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	must(r, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = relay.Run(ctx) })
	r.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// Work that fails writes nothing, however far it came, and a later attempt writes all of it. What
// it says about the message counts.
func TestWorkFails(t *testing.T) {
	r := newRig(t)
	r.start(r.config(pginbox.Handler(r.pool, func(ctx context.Context, tx pgx.Tx, m *worker.Message) ([]byte, error) {
		result, err := order(ctx, tx, m)
		switch {
		case err != nil:
			return nil, err
		case m.Body == "poison":
			return nil, worker.Poison(errors.New("no such product"))
		case m.Body == "panic" && m.Attempt() == 1:
			panic("a bug")
		case m.Body == "fail" && m.Attempt() == 1:
			return nil, errors.New("out of stock")
		}
		return result, nil
	})))
	r.send("poison")
	r.want("failed poison", "dead: no such product, poison")
	r.wantNothing("poison", claims.Exhausted, 1)
	for _, id := range []string{"fail", "panic"} {
		r.send(id)
		r.want("failed "+id, "done "+id)
		r.wantOnce(id)
	}
}

// A result that cannot be recorded undoes the work.
func TestResultTooLarge(t *testing.T) {
	r := newRig(t)
	cfg := r.config(pginbox.Handler(r.pool, func(ctx context.Context, tx pgx.Tx, m *worker.Message) ([]byte, error) {
		_, err := order(ctx, tx, m)
		return make([]byte, claims.ResultMax+1), err
	}))
	cfg.Attempts = 1
	r.send("a")
	stop := r.start(cfg)
	r.want("failed a")
	stop()
	r.wantNothing("a", claims.Exhausted, 1)
}

// A lossy database loses the answer to each commit of work, which it carries out or not.
type lossy struct {
	pgclaims.Beginner
	how recordstest.How
}

func (l lossy) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	tx, err := l.Beginner.BeginTx(ctx, o)
	return lossyTx{tx, l.how}, err
}

type lossyTx struct {
	pgx.Tx
	how recordstest.How
}

func (tx lossyTx) Commit(ctx context.Context) error {
	do := tx.Tx.Commit
	if tx.how == recordstest.Before {
		do = tx.Tx.Rollback
	}
	if err := do(ctx); err != nil {
		return err
	}
	return recordstest.ErrInjected
}

// A commit without an answer is done when it was carried out, and a failed attempt when it was not.
func TestLostAnswer(t *testing.T) {
	r := newRig(t)
	r.send("a")
	stop := r.start(r.config(pginbox.Handler(lossy{r.pool, recordstest.After}, order)))
	r.want("done a")
	r.wantOnce("a")
	stop()

	r.send("b")
	stop = r.start(r.config(pginbox.Handler(lossy{r.pool, recordstest.Before}, order)))
	r.want("failed b")
	stop()
	r.wantNothing("b", claims.Failed, 1)
	r.start(r.config(pginbox.Handler(r.pool, order)))
	r.want("done b")
	r.wantOnce("b")
}

// A handler whose claim was taken over during its transaction commits nothing. The next one does.
func TestTakenOver(t *testing.T) {
	r := newRig(t)
	r.send("a")
	stop := r.start(r.config(pginbox.Handler(r.pool, func(ctx context.Context, tx pgx.Tx, m *worker.Message) ([]byte, error) {
		result, err := order(ctx, tx, m)
		return result, errors.Join(err, r.ledger.Reopen(ctx, "a", "a test"))
	})))
	// The commit is refused. If the worker learns of the lost claim only afterwards, it reports a
	// failed attempt first.
	if got := <-r.events; got != "lost a" {
		if got != "failed a" {
			t.Errorf("got %q, want lost a", got)
		}
		r.want("lost a")
	}
	stop()
	r.wantNothing("a", claims.Released, 0)
	r.start(r.config(pginbox.Handler(r.pool, order)))
	r.want("done a")
	r.wantOnce("a")
}

// A message is not to blame if the database is away, whenever that is noticed. It is to blame for
// errors of its own.
func TestDatabaseAway(t *testing.T) {
	r := newRig(t)
	shutdown := fmt.Errorf("insert: %w", &pgconn.PgError{Code: "57P01", Message: "terminating connection due to administrator command"})
	for name, test := range map[string]struct {
		db   pgclaims.Beginner
		err  error
		want string
		left claims.State
		n    int
	}{
		"begin":    {refusing{}, nil, "deferred", claims.Released, 0},
		"shutdown": {r.pool, shutdown, "deferred", claims.Released, 0},
		"unknown":  {r.pool, pgclaims.ErrUnknown, "deferred", claims.Released, 0},
		"own":      {r.pool, &pgconn.PgError{Code: "23505"}, "failed", claims.Failed, 1},
	} {
		stop := r.start(r.config(pginbox.Handler(test.db, func(ctx context.Context, tx pgx.Tx, m *worker.Message) ([]byte, error) {
			_, err := order(ctx, tx, m)
			return nil, errors.Join(test.err, err)
		})))
		r.send(name)
		r.want(test.want + " " + name)
		stop()
		r.wantNothing(name, test.left, test.n)
		_, err := r.server.Client().PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: &r.queue})
		must(t, err)
	}
}

// A database that is killed and comes back finds every message's work done once in the end.
func TestDatabaseKilled(t *testing.T) {
	const orders = 60
	kills := 2
	if testing.Short() {
		kills = 1
	}
	db := pgtest.New(t)
	r := rigOn(t, db.URL())
	for i := range orders {
		r.send(fmt.Sprint(i))
	}
	cfg := r.config(pginbox.Handler(r.pool, order))
	cfg.Attempts, cfg.Events = 20, worker.Events{Outcome: func(m *worker.Message, o worker.Outcome) {
		if o.Kind == worker.Done || o.Kind == worker.Duplicate {
			r.events <- m.Body
		}
	}}
	r.start(cfg)
	done := make(map[string]bool)
	for n := 0; len(done) < orders; {
		select {
		case id := <-r.events:
			done[id] = true
		case <-time.After(2 * time.Minute):
			t.Fatalf("%d of %d orders are done, and nothing happens", len(done), orders)
		}
		if n < kills && len(done) > (n+1)*orders/4 {
			n++
			db.Kill(t)
			db.Restart(t)
		}
	}
	for i := range orders {
		r.wantOnce(fmt.Sprint(i))
	}
}

// A refusing database begins no transactions.
type refusing struct{}

func (refusing) BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error) {
	return nil, errors.New("connection refused")
}

// Work that takes longer than the lease of its claim, and lets its transaction be idle meanwhile,
// is done in its first attempt.
func TestWorkLongerThanLease(t *testing.T) {
	r := newRig(t)
	r.send("a")
	r.start(r.config(pginbox.Handler(r.pool, func(ctx context.Context, tx pgx.Tx, m *worker.Message) ([]byte, error) {
		result, err := order(ctx, tx, m)
		must(t, err)
		var pid int
		must(t, tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid))
		for open := time.Duration(0); open < lease+lease/2 && ctx.Err() == nil; { // by the clock of the server
			time.Sleep(50 * time.Millisecond)
			if err := r.pool.QueryRow(ctx, "SELECT clock_timestamp() - xact_start FROM pg_stat_activity WHERE pid = $1", pid).Scan(&open); err != nil {
				return nil, err
			}
		}
		return result, nil
	})))
	r.want("done a")
	r.wantOnce("a")
}

// A worker that has to stop during a transaction gives its message back as if it had not begun.
func TestDrained(t *testing.T) {
	r := newRig(t)
	began := make(chan bool)
	cfg := r.config(pginbox.Handler(r.pool, func(ctx context.Context, tx pgx.Tx, m *worker.Message) ([]byte, error) {
		if _, err := order(ctx, tx, m); err != nil {
			return nil, err
		}
		close(began)
		_, err := tx.Exec(ctx, "SELECT pg_sleep(60)")
		return nil, err
	}))
	cfg.Drain = time.Second
	r.send("a")
	stop := r.start(cfg)
	<-began
	stop()
	r.want("deferred a")
	r.wantNothing("a", claims.Released, 0)
}

// A handler may do something before its transaction, which takes an effect key, and then complete
// in it.
func TestInTx(t *testing.T) {
	r := newRig(t)
	r.start(r.config(worker.JSON(func(ctx context.Context, id int, m *worker.Message) error {
		receipt := "receipt for " + m.EffectKey()
		return pginbox.InTx(ctx, r.pool, m, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			if receipt != "receipt for 17" || id != 17 {
				return nil, fmt.Errorf("order %d with a %s", id, receipt)
			}
			return order(ctx, tx, m)
		})
	})))
	r.send("17")
	r.want("done 17")
	r.wantOnce("17")
}

// Without a ledger, work could be done more than once, so it is refused.
func TestNoLedger(t *testing.T) {
	r := newRig(t)
	err := pginbox.Handler(r.pool, order).Handle(t.Context(), &worker.Message{Body: "a"})
	if err == nil || !strings.Contains(err.Error(), "worker.Config.Claims") {
		t.Errorf("got %v, want an error that says what is missing", err)
	}
	if fences, mails := r.written("a"); len(fences) != 0 || mails != 0 {
		t.Errorf("it is ordered under the fences %d, with %d mails; want none", fences, mails)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
