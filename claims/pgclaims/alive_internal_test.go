package pgclaims

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A fakeTx answers everything with nothing.
type fakeTx struct{ pgx.Tx }

func (fakeTx) Begin(context.Context) (pgx.Tx, error)                               { return fakeTx{}, nil }
func (fakeTx) Rollback(context.Context) error                                      { return nil }
func (fakeTx) Exec(context.Context, string, ...any) (c pgconn.CommandTag, _ error) { return c, nil }
func (fakeTx) Query(_ context.Context, sql string, _ ...any) (pgx.Rows, error) {
	if sql == "bad" {
		return fakeRows{}, errors.New("bad")
	}
	return fakeRows{}, nil
}
func (fakeTx) QueryRow(context.Context, string, ...any) pgx.Row       { return fakeRows{} }
func (fakeTx) SendBatch(context.Context, *pgx.Batch) pgx.BatchResults { return fakeBatch{} }
func (fakeTx) LargeObjects() (l pgx.LargeObjects)                     { return l }
func (fakeTx) Conn() *pgx.Conn                                        { return nil }

type fakeRows struct{ pgx.Rows }

func (fakeRows) Next() bool        { return false }
func (fakeRows) Close()            {}
func (fakeRows) Scan(...any) error { return nil }

type fakeBatch struct{ pgx.BatchResults }

func (fakeBatch) Close() error { return nil }

// The pulse beats while the work does something else, and never while the work has the connection,
// which cannot do two things at once.
func TestPulse(t *testing.T) {
	const lease = 4 * time.Second // a beat every second
	ctx := context.Background()
	for name, row := range map[string]struct {
		begin func(tx pgx.Tx) (end func()) // what the work does from second 2 to second 5
		want  int                          // beats in eight seconds
	}{
		"nothing":   {func(pgx.Tx) func() { return func() {} }, 8},
		"exec":      {func(tx pgx.Tx) func() { _, _ = tx.Exec(ctx, "x"); return func() {} }, 8},
		"rows":      {func(tx pgx.Tx) func() { rows, _ := tx.Query(ctx, "x"); return rows.Close }, 5},
		"read rows": {func(tx pgx.Tx) func() { rows, _ := tx.Query(ctx, "x"); return func() { rows.Next() } }, 5},
		"bad query": {func(tx pgx.Tx) func() { _, _ = tx.Query(ctx, "bad"); return func() {} }, 8},
		"row":       {func(tx pgx.Tx) func() { row := tx.QueryRow(ctx, "x"); return func() { _ = row.Scan() } }, 5},
		"batch":     {func(tx pgx.Tx) func() { b := tx.SendBatch(ctx, nil); return func() { _ = b.Close() } }, 5},
		"savepoint": {func(tx pgx.Tx) func() {
			inner, _ := tx.Begin(ctx)
			rows, _ := inner.Query(ctx, "x")
			return func() { rows.Close(); rows.Close(); _ = inner.Rollback(ctx) }
		}, 5},
		"connection":    {func(tx pgx.Tx) func() { tx.Conn(); return func() {} }, 2},
		"large objects": {func(tx pgx.Tx) func() { tx.LargeObjects(); return func() {} }, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			beats := 0
			p := &pulse{ping: func(context.Context) error { beats++; return nil }}
			running, stop := context.WithCancel(ctx)
			defer stop()
			go p.run(running, lease)
			time.Sleep(2*time.Second + time.Millisecond)
			end := row.begin(aliveTx{fakeTx{}, p})
			time.Sleep(3 * time.Second)
			end()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if beats != row.want {
				t.Errorf("%s: %d beats, want %d", name, beats, row.want)
			}
		})
	}
}

// A beat that fails is the last.
func TestPulseFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		beats := 0
		p := &pulse{ping: func(context.Context) error { beats++; return errors.New("the connection is gone") }}
		p.run(t.Context(), 4*time.Second)
		if beats != 1 {
			t.Errorf("%d beats", beats)
		}
	})
}

// A call of the work waits for a beat that is in progress.
func TestPulseWaits(t *testing.T) {
	pinging, answer := make(chan bool), make(chan bool)
	var using atomic.Bool
	p := &pulse{ping: func(context.Context) error {
		pinging <- true
		<-answer
		if using.Load() {
			t.Error("the work uses the connection during a beat")
		}
		return nil
	}}
	var both sync.WaitGroup
	both.Go(func() { p.beat(t.Context(), time.Minute) })
	<-pinging
	both.Go(func() {
		done := p.use()
		using.Store(true)
		done()
	})
	for range 100 {
		runtime.Gosched() // it would have the connection by now
	}
	close(answer)
	both.Wait()
}
