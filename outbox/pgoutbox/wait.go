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
	// waitMax is the longest that Wait waits: for as long, and a little longer, programs notify.
	waitMax = time.Minute

	// freshMax is the longest that Wait waits when it has just begun to listen. Transactions that
	// wrote before and commit after that notify nobody.
	freshMax = 50 * time.Millisecond

	// setupMax is how long Wait may take to begin to listen, however short it is to wait: a
	// connection that is given up half way is of no use to the next one.
	setupMax = 2 * time.Second

	// brokenMax is how long Wait sleeps when it cannot listen.
	brokenMax = time.Second
)

// Wait implements outbox.Box. While somebody waits, and for a few seconds after that, transactions
// that write rows notify when they commit. Where that cannot be heard, because the server is gone
// or a pooler is in between, Wait sleeps.
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

// broken sleeps for a while after what kept Wait from listening, so that who calls it again and
// again does not do so all the time. That the server is not there is no error: others say so.
func (b *Box) broken(ctx, until context.Context, err error) error {
	select {
	case <-until.Done():
	case <-time.After(brokenMax):
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var refused *pgconn.PgError
	if errors.Is(err, errClosed) || errors.As(err, &refused) && !gone(refused) {
		return fmt.Errorf("listen for rows of the outbox: %w", err)
	}
	return nil
}

// gone reports whether the server says that it goes, or is not there yet: classes 08 and 57.
func gone(e *pgconn.PgError) bool { return e.Code[:2] == "08" || e.Code[:2] == "57" }

// A listener is a connection that listens. What is notified while nobody waits it keeps for the
// next one.
type listener struct {
	conn  *pgx.Conn
	heard bool // somebody has waited on it
}

// listen takes the listener that was kept, or makes one out of a connection of the pool.
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

// say tells programs to notify, and reports whether they did not do so all the time since somebody
// last waited on this connection.
func (l *listener) say(
	ctx context.Context, function string, most time.Duration,
) (fresh bool, err error) {
	var before bool
	err = pgx.BeginTxFunc(ctx, l.conn, pgdb.ReadCommitted, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT `+function+`($1)`, pgx.QueryExecModeExec, micros(most)).Scan(&before)
	})
	fresh = !before || !l.heard
	l.heard = true
	return fresh, err
}

// keep puts a listener by for the next one who waits.
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
