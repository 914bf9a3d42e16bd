package order

import (
	"context"
	"errors"
	"time"

	"tenaq/claims"
)

// An Outcome is what the demo has found.
type Outcome struct {
	// Of the usual workers: charges in all, and orders whose card was charged twice or more.
	Usual struct{ Charges, Doubled int }

	Sent       int // orders that were sent by the first batch
	Recognised int // of a second batch, those that were known to be done

	Charges    int // in all
	Doubled    int // orders whose card was charged twice or more
	Rows       int
	WrongRows  int // those that are not of the last holder of the order's claim
	Mails      int // in all
	MailsTwice int // orders with two mails or more
	Completed  int // orders that the ledger knows to be done
	Left       int // messages in the queues
	Beside     int // handlers that went on beside another one of the same order

	Killed     int // workers
	Bereaved   int // of these, between the charge and the record
	Frozen     int // workers that were stopped past their lease, and continued
	Stale      int // writes that a fence refused
	TurnedAway int // copies of messages that found their order busy or done

	DeadLetters     int // in all
	Redriven        int // orders that were dead letters and are done
	RedrivenDoubled int // of these, those whose card was charged twice or more
	DoomedDead      bool
	DoomedCharges   int // of the order whose workers were killed until it was a dead letter

	UncleanEnds int             // workers that did not end as they should when they were told to
	TakeOvers   []time.Duration // from the death of a worker to the next one that began with its order
	Times       []time.Duration // of handlers that were the only one of their order
	Long        int             // of these, longer than two leases
}

// Lease is that of messages and ClaimLease that of claims, in the demo.
const (
	Orders     = orders
	Lease      = lease
	ClaimLease = claimLease
	Disturbed  = 3 // kills and more that there are in each run, whatever chance says: see Bereaved
)

// collect counts.
func (d *demo) collect(ctx context.Context, out *Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	rows, errRows := d.table.rows(ctx)
	out.Rows = len(rows)
	done, errDone := d.holders(ctx)
	out.Completed = len(done)
	for _, r := range rows {
		if done[r.key] != r.fence {
			out.WrongRows++
		}
	}
	for _, n := range d.mails.sent {
		out.Mails += n
		if n > 1 {
			out.MailsTwice++
		}
	}
	waiting, dead, errLeft := d.left(ctx)
	out.Left = waiting + dead

	s := d.stage
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range d.work {
		told, charges := s.stories[o.Order], d.bank.count(o.Order)
		_, complete := done[o.Order]
		out.Charges += charges
		if charges > 1 {
			out.Doubled++
		}
		out.TurnedAway += told.turnedAway
		out.DeadLetters += told.dead
		if told.dead > 0 && complete {
			out.Redriven++
			if charges > 1 {
				out.RedrivenDoubled++
			}
		}
		if told.fate == doomed {
			out.DoomedDead, out.DoomedCharges = told.dead > 0, charges
		}
	}
	out.Killed, out.Bereaved, out.Frozen, out.Stale, out.Beside = s.killed, s.bereaved, s.frozen, s.stale, s.beside
	out.TakeOvers, out.Times = s.takeOvers, s.times
	out.Long = s.long
	return errors.Join(errRows, errDone, errLeft)
}

// holders returns the fences under which orders were completed.
func (d *demo) holders(ctx context.Context) (map[string]uint64, error) {
	entries, err := d.ledger.List(ctx, "order-", "", 0)
	done := make(map[string]uint64)
	for _, e := range entries {
		if e.State == claims.Completed {
			done[e.Key] = e.Fence
		}
	}
	return done, err
}
