package pgoutbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"tenaq/internal/work/pgdb"
)

const (
	// waitMax is the longest wait. Programs notify for a little longer than that.
	waitMax = time.Minute

	// freshMax is the longest wait when Wait has just begun to listen. Transactions that wrote
	// before that and commit later do not notify.
	freshMax = 50 * time.Millisecond

	// setupMax is how long Wait may take to begin to listen, even for a short wait: a connection
	// that is given up half-way does not help the next call.
	setupMax = 2 * time.Second

	// brokenMax is how long Wait sleeps if it cannot listen.
	brokenMax = time.Second
)

// Wait implements outbox.Box. During a Wait, and for a few seconds after it, transactions that
// write rows notify when they commit. If notifications do not arrive, because the server is gone or
// a pooler is in between, Wait sleeps.
func (b *Box) Wait(ctx context.Context, most time.Duration) error {
	most = min(most, waitMax)
	if most <= 0 {
		return ctx.Err()
	}
	until, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	setup, cancel := context.WithTimeout(ctx, max(most, setupMax))
	defer cancel()
	if err := b.schema.Check(setup); err != nil {
		return b.broken(ctx, until, err)
	}
	ear, err := b.listen(setup)
	if err != nil {
		return b.broken(ctx, until, err)
	}
	limit := until
	fresh, err := ear.say(setup, b.names.of("wait"), most)
	if err == nil {
		if fresh {
			var cancel context.CancelFunc
			limit, cancel = context.WithTimeout(until, freshMax)
			defer cancel()
		}
		_, err = ear.conn.WaitForNotification(limit)
	}
	if ear.conn.IsClosed() {
		return b.broken(ctx, until, err)
	}
	b.keep(ear)
	if err != nil && limit.Err() == nil {
		return b.broken(ctx, until, err)
	}
	return ctx.Err()
}

// broken sleeps after an error of Wait, so that a caller in a loop does not spin. An absent server
// is not an error here, because Claim reports it.
func (b *Box) broken(ctx, until context.Context, err error) error {
	select {
	case <-until.Done():
	case <-time.After(brokenMax):
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if errors.Is(err, errClosed) || ok && !gone(refused) {
		return fmt.Errorf("listen for rows of the outbox: %w", err)
	}
	return nil
}

// gone reports whether the server is stopping or starting: classes 08 and 57.
func gone(e *pgconn.PgError) bool { return e.Code[:2] == "08" || e.Code[:2] == "57" }

// A listener is a connection that listens. It keeps notifications for the next Wait.
type listener struct {
	conn  *pgx.Conn
	heard bool // a Wait has used it
}

// listen takes the kept listener, or makes one of a connection of the pool.
func (b *Box) listen(ctx context.Context) (*listener, error) {
	b.mu.Lock()
	ear, closed := b.ear, b.closed
	b.ear = nil
	b.mu.Unlock()
	switch {
	case closed:
		return nil, errClosed
	case ear != nil && !ear.conn.IsClosed():
		return ear, nil
	}
	pooled, err := b.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	var oid string
	err = pooled.QueryRow(ctx, `SELECT to_regclass($1)::oid::text`, pgx.QueryExecModeExec, b.names.in(b.names.table)).Scan(&oid)
	if err != nil {
		pooled.Release()
		return nil, err
	}
	ear = &listener{conn: pooled.Hijack()}
	if _, err := ear.conn.Exec(ctx, `LISTEN tenaq_outbox_`+oid, pgx.QueryExecModeSimpleProtocol); err != nil {
		ear.close()
		return nil, err
	}
	return ear, nil
}

// say tells programs to notify. Fresh reports whether they did not do so all the time since the
// last Wait on this connection.
func (l *listener) say(
	ctx context.Context, function string, most time.Duration,
) (fresh bool, err error) {
	var before bool
	sql := `SELECT ` + function + `($1)`
	err = l.conn.QueryRow(ctx, sql, pgx.QueryExecModeExec, micros(most)).Scan(&before)
	if pgdb.HasCode(err, pgdb.ReadOnlyTransaction) { // by the default of the database
		err = pgx.BeginTxFunc(ctx, l.conn, pgdb.ReadCommitted, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, sql, pgx.QueryExecModeExec, micros(most)).Scan(&before)
		})
	}
	fresh = !before || !l.heard
	l.heard = true
	return fresh, err
}

// keep keeps a listener for the next Wait.
func (b *Box) keep(ear *listener) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ear == nil && !b.closed {
		b.ear = ear
		return
	}
	ear.close()
}

func (l *listener) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.conn.Close(ctx)
}
