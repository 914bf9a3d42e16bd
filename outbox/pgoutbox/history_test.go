package pgoutbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"tenaq/internal/testing/pgtest"
	"tenaq/internal/testing/proof"
	"tenaq/internal/work/pgdb"
	"tenaq/outbox"
)

// held is a source that is looked through as long as a transaction holds a lock.
var held = outbox.Source{Query: `SELECT 'q' AS aggregatetype, 'b' AS payload, n AS dedup_id FROM generate_series(1, 3) n, pg_advisory_xact_lock(4711)`}

// stageHeld begins to stage a replay, and returns when that waits; release lets it continue.
func stageHeld(t *testing.T, b *Box, url string) (r outbox.Replay, release func() (outbox.Replay, error)) {
	t.Helper()
	tx := begin(t, url)
	if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(4711)`); err != nil {
		t.Fatal(err)
	}
	r, err := b.BeginReplay(t.Context(), outbox.Replay{State: outbox.Preparing, Source: held, Runner: "me"})
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		r   outbox.Replay
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		r, err := b.StageReplay(t.Context(), r.Number)
		answers <- answer{r, err}
	}()
	for waiting := 0; waiting == 0; {
		err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
	}
	return r, func() (outbox.Replay, error) {
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		a := <-answers
		return a.r, a.err
	}
}

// A replay can be cancelled while its messages are being listed; the listing is then discarded.
func TestCancelWhileStaging(t *testing.T) {
	url := pgtest.URL(t)
	b, other := over(t, url, Config{}), over(t, url, Config{})
	r, release := stageHeld(t, b, url)
	cancelled, err := outbox.CancelReplay(t.Context(), other, r.Number, "no")
	if err != nil {
		t.Fatal(err)
	}
	if r, err := release(); err != nil || r.State != outbox.Cancelled || r.Version != cancelled.Version {
		t.Errorf("to stage a replay that was cancelled meanwhile says %+v, %v", r, err)
	}
	if staged, err := b.Staged(t.Context(), r.Number, 0, 10); len(staged) != 0 || err != nil {
		t.Errorf("%d rows are staged for it, %v", len(staged), err)
	}
}

// A process that is overtaken while it prepares a replay has prepared nothing.
func TestTakenOverWhileStaging(t *testing.T) {
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	r, release := stageHeld(t, b, url)
	theirs := r
	theirs.Runner = "they"
	theirs, err := b.StepReplay(t.Context(), theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := release(); !errors.Is(err, outbox.ErrMoved) {
		t.Errorf("to stage a replay that another process has taken over: %v, want ErrMoved", err)
	}
	if found, err := b.Replay(t.Context(), r.Number); err != nil || found.State != outbox.Preparing || found.Version != theirs.Version {
		t.Errorf("the replay is %+v, %v", found, err)
	}
	if r, err = b.StageReplay(t.Context(), r.Number); err != nil || r.Found != 3 || r.State != outbox.Running || r.Runner != "they" {
		t.Errorf("staged by them it is %+v, %v", r, err)
	}
}

// Several may stage the same replay, while rows continue to be sent: it is staged once.
func TestStageAtOnce(t *testing.T) {
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	seed := proof.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	fill := `INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT 'q.fifo', 'k' || n % 7, 'b' FROM generate_series(1, 200) n`
	exec(t, url, fill)
	bodies(t, b)
	for range 5 {
		r, err := b.BeginReplay(t.Context(), outbox.Replay{State: outbox.Preparing, Source: always})
		if err != nil {
			t.Fatal(err)
		}
		exec(t, url, fill)
		var group sync.WaitGroup
		staged := make([]outbox.Replay, 6)
		group.Go(func() { bodies(t, b) })
		for i := range staged {
			pause := time.Duration(rng.IntN(5)) * time.Millisecond
			group.Go(func() {
				time.Sleep(pause)
				var err error
				if staged[i], err = b.StageReplay(t.Context(), r.Number); err != nil {
					t.Errorf("stage: %v", err)
				}
			})
		}
		group.Wait()
		for _, s := range staged {
			if s.State != outbox.Running || s.Version != r.Version+1 || s.Found != staged[0].Found {
				t.Errorf("staged by several it is %+v, and %+v", s, staged[0])
			}
		}
		all, err := b.Staged(t.Context(), r.Number, 0, 10_000)
		if err != nil || len(all) != staged[0].Found {
			t.Errorf("%d rows are staged, %v, and %d are said to be", len(all), err, staged[0].Found)
		}
		ids := make(map[string]bool)
		for i, s := range all {
			if ids[s.ID] || s.Place != int64(i)+1 {
				t.Errorf("row %d is %s at place %d", i, s.ID, s.Place)
			}
			ids[s.ID] = true
		}
	}
}

// Replays write to the streams that programs write to, at the same time and in every isolation:
// each row once, and in the order of the replay.
func TestStepsBesidePrograms(t *testing.T) {
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	const replays, steps, perStep, keys = 3, 30, 10, 4
	pool := connect(t, url)
	stop := make(chan struct{})
	var programs, replayers sync.WaitGroup
	for i, isolation := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		programs.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				err := pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: isolation}, func(tx pgx.Tx) error {
					return Enqueue(t.Context(), tx, outbox.Message{Queue: "q.fifo", Key: fmt.Sprint("k", (n+i)%keys), Body: "program"},
						outbox.Message{Queue: "q.fifo", Key: fmt.Sprint("k", (n+i+1)%keys), Body: "program"})
				})
				if err != nil && !pgdb.HasCode(err, "40001", pgdb.DeadlockDetected) {
					t.Errorf("write: %v", err)
					return
				}
			}
		})
	}
	for range replays {
		replayers.Go(func() {
			r, err := b.BeginReplay(t.Context(), outbox.Replay{State: outbox.Running})
			for step := 0; err == nil && step < steps; step++ {
				var rows []outbox.Message
				for n := range perStep {
					rows = append(rows, outbox.Message{ID: outbox.NewID(), Queue: "q.fifo", Key: fmt.Sprint("k", n%keys), Body: fmt.Sprintf("replay %d %05d", r.Number, step*perStep+n)})
				}
				if r, err = b.StepReplay(t.Context(), r, rows); err == nil {
					// As a process that did not learn that it is done.
					r, err = b.StepReplay(t.Context(), r, rows[:perStep/2])
				}
			}
			if err != nil || r.Written != steps*perStep {
				t.Errorf("replay %d has written %d rows, %v", r.Number, r.Written, err)
			}
		})
	}
	replayers.Wait()
	close(stop)
	programs.Wait()
	rows, err := b.pool.Query(t.Context(), `SELECT o.aggregateid || ' ' || split_part(o.payload, ' ', 2), o.payload
		FROM outbox_pending p JOIN outbox o USING (id) WHERE o.payload LIKE 'replay%' ORDER BY p.seq`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	last, n := make(map[string]string), 0
	for ; rows.Next(); n++ {
		var stream, body string
		if err := rows.Scan(&stream, &body); err != nil {
			t.Fatal(err)
		}
		if body <= last[stream] {
			t.Errorf("%q comes after %q", body, last[stream])
		}
		last[stream] = body
	}
	if rows.Err() != nil || n != replays*steps*perStep {
		t.Errorf("there are %d rows of replays, %v; want %d", n, rows.Err(), replays*steps*perStep)
	}
}

// While a program holds one of the groups of a step, others can write to all other groups nearly
// all the time, the step is made when the program has ended.
func TestStepGivesWay(t *testing.T) {
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	pool := connect(t, url)
	const groups = 24
	message := func(n int, body string) outbox.Message {
		return outbox.Message{ID: outbox.NewID(), Queue: "q.fifo", Key: fmt.Sprint("k", n), Body: body}
	}
	r, err := b.BeginReplay(t.Context(), outbox.Replay{State: outbox.Running})
	if err != nil {
		t.Fatal(err)
	}
	held, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Rollback(context.Background()) }()
	if err := Enqueue(t.Context(), held, message(0, "held")); err != nil {
		t.Fatal(err)
	}
	var rows []outbox.Message
	for n := range groups {
		rows = append(rows, message(n, "replay"))
	}
	stepped := make(chan error, 1)
	go func() {
		_, err := b.StepReplay(t.Context(), r, rows)
		stepped <- err
	}()
	written := 0
	for n := 1; n < groups; n++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a step waits for 200 ms
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return Enqueue(ctx, tx, message(n, "program")) })
		cancel()
		if err != nil {
			break
		}
		written++
		time.Sleep(20 * time.Millisecond)
	}
	if written != groups-1 {
		t.Errorf("of %d programs %d could write while a step waited for another one", groups-1, written)
	}
	if err := held.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-stepped; err != nil {
		t.Errorf("the step: %v", err)
	}
	if found, err := b.Replay(t.Context(), r.Number); err != nil || found.Written != groups {
		t.Errorf("%d rows were written, %v", found.Written, err)
	}
}

// If two processes take the same step, one waits until the other has done it, and then has nothing
// to do.
func TestStepsInTurn(t *testing.T) {
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	r, err := b.BeginReplay(t.Context(), outbox.Replay{State: outbox.Running})
	if err != nil {
		t.Fatal(err)
	}
	// A program that writes to the stream keeps the first one from its end.
	tx := begin(t, url)
	if err := Enqueue(t.Context(), tx, outbox.Message{Queue: "q.fifo", Key: "k", Body: "program"}); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 2)
	for n := range 2 {
		go func() {
			_, err := b.StepReplay(t.Context(), r, []outbox.Message{{Queue: "q.fifo", Key: "k", Body: "replay"}})
			errs <- err
		}()
		for waiting := 0; waiting <= n; {
			err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	one, two := <-errs, <-errs
	if one != nil {
		one, two = two, one
	}
	if one != nil || !errors.Is(two, outbox.ErrMoved) {
		t.Errorf("two at the same step: %v and %v, want nil and ErrMoved", one, two)
	}
	if got := bodies(t, b); got != "program replay" {
		t.Errorf("%q was written", got)
	}
}

// The rows of a replay wake waiting relays, and numbers are not reused.
func TestReplayWakes(t *testing.T) {
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	r, err := b.BeginReplay(t.Context(), outbox.Replay{State: outbox.Running})
	if err != nil {
		t.Fatal(err)
	}
	waits(t, b, time.Minute, 0, 30*time.Second) // for nothing: it has just begun to listen
	m := outbox.Message{ID: outbox.NewID(), Queue: "q", Body: "b"}
	if r, err = b.StepReplay(t.Context(), r, []outbox.Message{m}); err != nil {
		t.Fatal(err)
	}
	waits(t, b, time.Minute, 0, 30*time.Second)
	if r, err = b.StepReplay(t.Context(), r, []outbox.Message{m}); err != nil || r.Written != 1 {
		t.Fatal(r, err)
	}
	waits(t, b, 300*time.Millisecond, 300*time.Millisecond, 30*time.Second)
	exec(t, url, `DELETE FROM outbox_replays`)
	exec(t, url, b.names.sql())
	again, err := b.BeginReplay(t.Context(), outbox.Replay{State: outbox.Preparing})
	if err != nil || again.Number <= r.Number {
		t.Errorf("replay %d comes after replay %d, %v", again.Number, r.Number, err)
	}
}
