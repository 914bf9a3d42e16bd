package pgclaims

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"tenaq/claims"
)

// A pulse keeps the transaction of InTx from being idle for a lease while its work does something
// else. It beats only while the claim is held, so PostgreSQL still ends the transaction of a holder
// that was stopped or cut off.
type pulse struct {
	ping func(context.Context) error

	mu     sync.Mutex // locked during a beat
	calls  int        // calls of the work in progress, which use the connection
	handed bool       // the work has the connection itself, and may use it at any time
}

// beatsPerLease is how often a pulse beats. PostgreSQL ends the transaction when all beats of a
// lease are missing.
const beatsPerLease = 4

// keepAlive returns the transaction for the work. Stop ends the beats and waits for one in
// progress.
func keepAlive(
	ctx context.Context, tx pgx.Tx, claim *claims.Claim, lease time.Duration,
) (_ pgx.Tx, stop func()) {
	p := &pulse{ping: func(ctx context.Context) error {
		if time.Now().After(claim.Deadline()) {
			return claims.ErrLost
		}
		return tx.Conn().Ping(ctx)
	}}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { p.run(ctx, lease) })
	return aliveTx{tx, p}, func() {
		cancel()
		running.Wait()
	}
}

// run beats until ctx ends or a beat fails.
func (p *pulse) run(ctx context.Context, lease time.Duration) {
	ticker := time.NewTicker(lease / beatsPerLease)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if ctx.Err() != nil || !p.beat(ctx, lease) {
			return
		}
	}
}

// beat pings PostgreSQL, unless the work uses the connection. It reports whether to continue.
func (p *pulse) beat(ctx context.Context, lease time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.handed {
		return false
	}
	if p.calls > 0 {
		return true
	}
	// The end of the work must not cancel the ping, or pgx would close the connection.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease)
	defer cancel()
	return p.ping(ctx) == nil
}

// use gives the connection to a call of the work until done is called.
func (p *pulse) use() (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.calls--
	})
}

// hand gives the connection to the work for good.
func (p *pulse) hand() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handed = true
}

// An aliveTx is a transaction, or a savepoint in it, that tells the pulse when it is used.
type aliveTx struct {
	pgx.Tx
	pulse *pulse
}

func (t aliveTx) Begin(ctx context.Context) (pgx.Tx, error) {
	defer t.pulse.use()()
	tx, err := t.Tx.Begin(ctx)
	if err != nil {
		return tx, err
	}
	return aliveTx{tx, t.pulse}, nil
}

func (t aliveTx) Commit(ctx context.Context) error {
	defer t.pulse.use()()
	return t.Tx.Commit(ctx)
}

func (t aliveTx) Rollback(ctx context.Context) error {
	defer t.pulse.use()()
	return t.Tx.Rollback(ctx)
}

func (t aliveTx) CopyFrom(
	ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource,
) (int64, error) {
	defer t.pulse.use()()
	return t.Tx.CopyFrom(ctx, table, columns, rows)
}

func (t aliveTx) Prepare(
	ctx context.Context, name, sql string,
) (*pgconn.StatementDescription, error) {
	defer t.pulse.use()()
	return t.Tx.Prepare(ctx, name, sql)
}

func (t aliveTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	defer t.pulse.use()()
	return t.Tx.Exec(ctx, sql, args...)
}

func (t aliveTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	done := t.pulse.use()
	rows, err := t.Tx.Query(ctx, sql, args...)
	if err != nil {
		done()
		return rows, err
	}
	return aliveRows{rows, done}, nil
}

func (t aliveTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	done := t.pulse.use()
	return aliveRow{t.Tx.QueryRow(ctx, sql, args...), done}
}

func (t aliveTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	done := t.pulse.use()
	return aliveBatch{t.Tx.SendBatch(ctx, b), done}
}

func (t aliveTx) LargeObjects() pgx.LargeObjects {
	t.pulse.hand()
	return t.Tx.LargeObjects()
}

func (t aliveTx) Conn() *pgx.Conn {
	t.pulse.hand()
	return t.Tx.Conn()
}

// aliveRows use the connection until they have been read or closed.
type aliveRows struct {
	pgx.Rows
	done func()
}

func (r aliveRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.done()
	return false
}

func (r aliveRows) Close() {
	r.Rows.Close()
	r.done()
}

// An aliveRow uses the connection until it has been read.
type aliveRow struct {
	pgx.Row
	done func()
}

func (r aliveRow) Scan(to ...any) error {
	defer r.done()
	return r.Row.Scan(to...)
}

// An aliveBatch uses the connection until it has been closed.
type aliveBatch struct {
	pgx.BatchResults
	done func()
}

func (b aliveBatch) Close() error {
	defer b.done()
	return b.BatchResults.Close()
}
