package pgclaims_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"tenaq/claims"
	"tenaq/claims/pgclaims"
	"tenaq/internal/testing/proof"
	"tenaq/records/recordstest"
)

// A contender works on random keys, badly: it lets leases run out, ignores errors, and loses
// answers.
type contender struct {
	*rig
	l   *claims.Ledger
	rng *rand.Rand
	sql *sql.DB
	at  *atomic.Int64 // all keys before this one are completed
	n   struct{ claimed, done, committed, lost, unknown, failed, refused, again int }
}

func (c *contender) chance(p float64) bool { return c.rng.Float64() < p }

// turn works on one of the keys that are next.
func (c *contender) turn() {
	ctx := context.Background()
	at := c.at.Load()
	number := at + c.rng.Int64N(3)
	key := keyOf(number)
	claim, err := c.l.Acquire(ctx, key)
	if err != nil {
		if errors.Is(err, claims.Done) {
			c.n.done++
			if number == at {
				c.at.CompareAndSwap(at, at+1)
			}
		} else if !errors.Is(err, claims.Busy) {
			c.Errorf("acquire %s: %v", key, err)
		} else if c.chance(0.3) {
			c.advance(lease) // the holder has lost it
		}
		return
	}
	c.n.claimed++
	var renewing sync.WaitGroup
	defer renewing.Wait()
	if c.chance(0.5) {
		renewing.Go(func() {
			for range 5 {
				_ = claim.Renew(ctx)
			}
		})
	}
	for range 2 {
		if c.chance(0.3) {
			time.Sleep(time.Duration(c.rng.IntN(20)) * time.Millisecond)
		}
		switch c.rng.IntN(4) {
		case 0, 1:
			err = c.inTx(ctx, claim)
		case 2:
			err = c.byHand(ctx, claim)
		default:
			err = c.byHandSQL(ctx, claim)
		}
		switch {
		case err == nil:
			c.n.committed++
			if entry, err := c.l.Entry(ctx, key); err != nil || entry.State != claims.Completed || entry.Fence != claim.Fence() {
				c.Errorf("%s: committed under fence %d, and the ledger says %s under %d (error %v)", key, claim.Fence(), entry.State, entry.Fence, err)
			}
		case errors.Is(err, claims.ErrLost):
			c.n.lost++
		case errors.Is(err, pgclaims.ErrUnknown):
			c.n.unknown++
		default:
			c.n.failed++
		}
		if c.chance(0.5) {
			break
		}
		c.n.again++ // nothing is to come of it if the first was committed
	}
	switch c.rng.IntN(4) {
	case 0:
		err = claim.Fail(ctx, "no luck")
	case 1:
		err = claim.Release(ctx)
	case 2:
		err = claim.Renew(ctx)
	default:
		return // it dies
	}
	if errors.Is(err, claims.ErrEnded) {
		c.n.refused++
		if state := claim.Entry().State; state != claims.Completed {
			c.Errorf("%s was ended already, and the claim says %s", key, state)
		}
	} else if err != nil && !errors.Is(err, claims.ErrLost) {
		c.Errorf("end the claim on %s: %v", key, err)
	}
}

func keyOf(number int64) string { return fmt.Sprint("key ", number) }

// inTx uses InTx over a database that loses answers.
func (c *contender) inTx(ctx context.Context, claim *claims.Claim) error {
	db := &lossy{Beginner: c.pool, fault: func() (f recordstest.Fault) {
		if c.chance(0.5) {
			f.How = []recordstest.How{recordstest.Before, recordstest.After, recordstest.Late, lateRollback}[c.rng.IntN(4)]
			f.LateBy = time.Duration(c.rng.IntN(100)) * time.Millisecond
		}
		return f
	}}
	defer db.wait()
	return inTx(ctx, db, claim)
}

// byHand commits whatever Complete says, or rolls back.
func (c *contender) byHand(ctx context.Context, claim *claims.Claim) error {
	tx, err := c.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: levels[c.rng.IntN(len(levels))]})
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	result, err := order(ctx, tx, claim)
	if err != nil {
		return err
	}
	if c.chance(0.3) {
		time.Sleep(time.Duration(c.rng.IntN(20)) * time.Millisecond)
	}
	err = pgclaims.Complete(ctx, tx, claim, result)
	if c.chance(0.2) {
		return errors.Join(errors.New("changed its mind"), tx.Rollback(ctx))
	}
	if committed := tx.Commit(ctx); committed == nil && err != nil {
		c.Errorf("%s: committed after %v", claim.Key(), err)
	} else if err == nil {
		err = committed
	}
	return err
}

// byHandSQL is byHand with package database/sql.
func (c *contender) byHandSQL(ctx context.Context, claim *claims.Claim) error {
	tx, err := c.sql.BeginTx(ctx, &sql.TxOptions{Isolation: []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}[c.rng.IntN(3)]})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id, fence) VALUES ($1, $2)", claim.Key(), int64(claim.Fence())); err != nil {
		return err
	}
	err = pgclaims.CompleteSQL(ctx, tx, claim, resultOf(claim))
	if committed := tx.Commit(); committed == nil && err != nil {
		c.Errorf("%s: committed after %v", claim.Key(), err)
	} else if err == nil {
		err = committed
	}
	return err
}

// Contenders fight for a few keys, by transactions of all kinds, while leases run out, answers are
// lost and errors ignored. For every key there is one order in the end, of the claim that the
// ledger says completed it.
func TestRandom(t *testing.T) {
	const contenders = 6
	turns := 150
	if testing.Short() {
		turns = 30
	}
	seed := proof.Seed(t)
	r := newRig(t)
	db, err := sql.Open("pgx", r.url)
	must(t, err)
	defer db.Close()
	var all [contenders]contender
	var at atomic.Int64
	var running sync.WaitGroup
	for i := range all {
		all[i] = contender{rig: r, l: r.ledger(claims.Config{}), sql: db, rng: rand.New(rand.NewPCG(seed, uint64(i))), at: &at}
		running.Go(func() {
			for range turns {
				all[i].turn()
			}
		})
	}
	running.Wait()
	l := r.ledger(claims.Config{})
	r.advance(lease)
	for number := range at.Load() + 3 {
		key := keyOf(number)
		c, err := l.Acquire(t.Context(), key)
		if !errors.Is(err, claims.Done) {
			must(t, err)
			if got := r.fences(key); len(got) != 0 {
				t.Errorf("orders of %s under fences %d, and it is not completed", key, got)
			}
			must(t, inTx(t.Context(), r.pool, c))
		}
		e, err := l.Entry(t.Context(), key)
		must(t, err)
		r.wantDone(key, e.Fence)
	}
	if testing.Verbose() {
		for i := range all {
			t.Logf("contender %d: %+v", i, all[i].n)
		}
		t.Logf("%d keys were completed in the fight", at.Load())
	}
}
