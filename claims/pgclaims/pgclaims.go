// Package pgclaims completes claims inside transactions of the caller's on PostgreSQL, so that what
// the work changes in the database and the word that it is done are one commit:
//
//	claim, err := ledger.Acquire(ctx, "order-17")
//	...
//	held, stop := claim.Hold(ctx)
//	defer stop()
//	receipt, err := charge(held, claims.EffectKey(claim.Key(), 0)) // no transaction is open meanwhile
//	...
//	err = pgclaims.InTx(held, pool, claim, func(ctx context.Context, tx pgx.Tx) (result []byte, err error) {
//		_, err = tx.Exec(ctx, "INSERT INTO orders (id, receipt) VALUES ($1, $2)", claim.Key(), receipt)
//		return []byte(receipt), err
//	})
//
// What it guarantees, when the ledger keeps its records with pgrecords in the same database:
//
//   - What the transaction changes happens exactly once for each completed claim: it is committed
//     if and only if the claim is completed, by its current holder, at that moment. A holder whose
//     claim was taken over gets claims.ErrLost and a transaction that PostgreSQL does not commit
//     any more, even if it tries.
//   - A transaction that is rolled back leaves the claim as it was, to be renewed and ended in any
//     way. After a commit whose answer was lost Claim.Ended finds out, and to do everything again
//     is refused with claims.ErrEnded.
//   - A transaction that was stopped half-way blocks the key for a lease at most: PostgreSQL ends
//     it when its client has been silent for that long (idle_in_transaction_session_timeout). InTx
//     keeps the transaction of a holder alive that is only slow.
//
// From the completion until the end of the transaction whoever else asks the ledger for the key
// waits, and so do renewals. So complete the claim last, then commit at once. Effects elsewhere
// belong before the transaction, under EffectKey or the fence, or behind it: as a row of an outbox
// in the same transaction.
//
// All isolation levels will do. Under repeatable read and serializable PostgreSQL may answer
// serialization_failure (40001), for instance because the claim was renewed since the transaction
// had begun: the transaction has to be run again from the beginning, which InTx does by itself.
package pgclaims

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"tenaq/claims"
	"tenaq/records"
)

// Complete records within tx that the work of the claim is done, as Claim.Complete does outside of
// one. The claim is completed when tx is committed, and is held as before when it is rolled back;
// it finds out which of them with its next write, or by Claim.Ended.
//
// After an error tx cannot be committed any more, or no more than the savepoint if it is one. The
// error is claims.ErrLost when the claim is no longer current, and claims.ErrEnded when it has been
// ended already: by an earlier transaction whose commit was not answered, or in tx itself.
func Complete(ctx context.Context, tx pgx.Tx, claim *claims.Claim, result []byte) error {
	_, err := complete(ctx, pgxTx{tx}, claim, result, false)
	return err
}

// CompleteSQL is Complete for a transaction of package database/sql, through any driver of
// PostgreSQL.
func CompleteSQL(ctx context.Context, tx *sql.Tx, claim *claims.Claim, result []byte) error {
	_, err := complete(ctx, sqlTx{tx}, claim, result, false)
	return err
}

// A transaction is one of either package.
type transaction interface {
	exec(ctx context.Context, sql string) error

	// put makes a write of a store, which says by ok whether it can do so in transactions of the
	// kind.
	put(ctx context.Context, store records.Store, w records.Write) (r records.Record, ok bool,
		err error)
}

// complete is Complete for both. Limited says that the transaction may not be idle for long
// already. Committed tells the claim that it was committed.
func complete(
	ctx context.Context, tx transaction, claim *claims.Claim, result []byte, limited bool,
) (committed func(), err error) {
	limit := claim.Entry().Lease
	committed, err = claim.CompleteIn(ctx, result,
		func(ctx context.Context, store records.Store, w records.Write) (records.Record, error) {
			// Before the record is locked: otherwise a process that stops in between would keep it
			// locked.
			if !limited {
				if err := tx.exec(ctx, limitIdle(limit)); err != nil {
					return records.Record{}, fmt.Errorf("limit the time that the transaction may be idle: %w", err)
				}
			}
			r, ok, err := tx.put(ctx, store, w)
			if !ok {
				return records.Record{}, fmt.Errorf("the ledger keeps its records in a %T: let it be a store of pgrecords, in the database of the transaction", store)
			}
			return r, err
		})
	if err == nil {
		return committed, nil
	}
	// Whoever does not look at the error must not commit the work either. When even this fails
	// there is no connection to commit over.
	ctx, cancel := afterwards(ctx, limit)
	defer cancel()
	_ = tx.exec(ctx, refuse)
	return nil, err
}

// refuse is SQL that makes it impossible to commit a transaction.
const refuse = `DO $$ BEGIN
	RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'the claim was not completed, so this transaction cannot be committed';
END $$`

// limitIdle is SQL by which PostgreSQL ends the transaction when its client is silent for longer,
// unless it would do so earlier already.
func limitIdle(limit time.Duration) string {
	return fmt.Sprintf(`SELECT set_config('idle_in_transaction_session_timeout', '%[1]d', true)
		WHERE current_setting('idle_in_transaction_session_timeout')::interval NOT BETWEEN '1 ms' AND '%[1]d ms'`,
		max(limit.Milliseconds(), 1))
}

type pgxTx struct{ pgx.Tx }

func (tx pgxTx) exec(ctx context.Context, sql string) error {
	_, err := tx.Exec(ctx, sql)
	return err
}

func (tx pgxTx) put(
	ctx context.Context, store records.Store, w records.Write,
) (r records.Record, ok bool, err error) {
	s, ok := store.(interface {
		PutIn(context.Context, pgx.Tx, records.Write) (records.Record, error)
	})
	if ok {
		r, err = s.PutIn(ctx, tx.Tx, w)
	}
	return r, ok, err
}

type sqlTx struct{ *sql.Tx }

func (tx sqlTx) exec(ctx context.Context, sql string) error {
	_, err := tx.ExecContext(ctx, sql)
	return err
}

func (tx sqlTx) put(
	ctx context.Context, store records.Store, w records.Write,
) (r records.Record, ok bool, err error) {
	s, ok := store.(interface {
		PutInSQL(context.Context, *sql.Tx, records.Write) (records.Record, error)
	})
	if ok {
		r, err = s.PutInSQL(ctx, tx.Tx, w)
	}
	return r, ok, err
}
