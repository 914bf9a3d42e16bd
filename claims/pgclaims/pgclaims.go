// Package pgclaims completes claims inside transactions of the caller on PostgreSQL. The changes of
// the work in the database, and the record that it is done, are one commit:
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
// What it guarantees, if the ledger keeps its records with pgrecords in the same database:
//
//   - The changes of the transaction happen exactly once for each completed claim. They are
//     committed if and only if the current holder completes the claim. A holder whose claim was
//     taken over gets claims.ErrLost, and PostgreSQL refuses to commit its transaction.
//   - A rollback leaves the claim as it was, to be renewed, or ended in any way. If the answer to a
//     commit was lost, Claim.Ended finds out; repeating the transaction is refused with
//     claims.ErrEnded.
//   - A transaction that was stopped half-way blocks the key for at most one lease. PostgreSQL ends
//     it when its client has been silent for that long (idle_in_transaction_session_timeout). InTx
//     keeps the transaction of a slow holder alive.
//
// From the completion until the end of the transaction, other contenders for the key wait, and so
// do renewals. So complete the claim last, then commit at once. Effects elsewhere belong before the
// transaction, under EffectKey or the fence, or after it, as an outbox row in the same transaction.
//
// All isolation levels work. Under repeatable read and serializable, PostgreSQL may answer
// serialization_failure (40001), for example because the claim was renewed after the transaction
// began. Run the transaction again from the beginning; InTx does so by itself.
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

// Complete is Claim.Complete within tx. A commit of tx completes the claim, and a rollback leaves
// it held. The claim finds out with its next write, or by Claim.Ended.
//
// After an error, PostgreSQL refuses to commit tx, or its savepoint if tx is one. The error is
// claims.ErrLost if the claim is no longer current. It is claims.ErrEnded if the claim has been
// ended already, by an earlier transaction whose commit was not answered, or in tx itself.
func Complete(ctx context.Context, tx pgx.Tx, claim *claims.Claim, result []byte) error {
	_, err := complete(ctx, pgxTx{tx}, claim, result, false)
	return err
}

// CompleteSQL is Complete for a transaction of package database/sql, with any driver of PostgreSQL.
func CompleteSQL(ctx context.Context, tx *sql.Tx, claim *claims.Claim, result []byte) error {
	_, err := complete(ctx, sqlTx{tx}, claim, result, false)
	return err
}

// A transaction is one of pgx or of database/sql.
type transaction interface {
	exec(ctx context.Context, sql string) error

	// put makes a write of a store. Ok is false if the store cannot write in such a transaction.
	put(ctx context.Context, store records.Store, w records.Write) (r records.Record, ok bool,
		err error)
}

// complete is Complete for both. Limited means that the idle time of the transaction is limited
// already. Committed tells the claim about the commit.
func complete(
	ctx context.Context, tx transaction, claim *claims.Claim, result []byte, limited bool,
) (committed func(), err error) {
	limit := claim.Entry().Lease
	committed, err = claim.CompleteIn(ctx, result,
		func(ctx context.Context, store records.Store, w records.Write) (records.Record, error) {
			// Do this before the record is locked, or a process that stops in between keeps it
			// locked.
			if !limited {
				if err := tx.exec(ctx, limitIdle(limit)); err != nil {
					return records.Record{}, fmt.Errorf("limit the time that the transaction may be idle: %w", err)
				}
			}
			r, ok, err := tx.put(ctx, store, w)
			if !ok {
				return records.Record{}, fmt.Errorf("the ledger keeps its records in a %T: use a store of pgrecords, in the database of the transaction", store)
			}
			return r, err
		})
	if err == nil {
		return committed, nil
	}
	// A caller that ignores the error must not commit the work. If this fails too, there is no
	// connection to commit over.
	ctx, cancel := afterwards(ctx, limit)
	defer cancel()
	_ = tx.exec(ctx, refuse)
	return nil, err
}

// refuse is SQL that makes PostgreSQL refuse to commit a transaction.
const refuse = `DO $$ BEGIN
	RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'the claim was not completed, so this transaction cannot be committed';
END $$`

// limitIdle returns SQL that makes PostgreSQL end the transaction when its client is silent for
// longer than limit, unless a shorter limit is set.
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
