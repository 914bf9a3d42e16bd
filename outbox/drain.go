package outbox

import (
	"context"
	"slices"
)

// claimFailuresMax is how many claims in a row may fail before Drain gives up.
const claimFailuresMax = 5

// A drain decides when a relay has nothing left to send.
type drain struct {
	all  bool // also wait for rows that are not due
	over bool
	sick []string // queues that accepted no messages at the end
	err  error
}

// Drain sends rows and returns when nothing is left to send. Without all, that is when no row is
// due, except for queues that accept no messages now: it returns their names. With all, that is
// when no row is pending: Drain waits for such queues, for rows that are not due, and for the rows
// of other relays.
//
// Drain returns the error of ctx if ctx ends first. Without all, it also gives up when the database
// fails five times in a row.
func (r *Relay) Drain(ctx context.Context, all bool) (sick []string, err error) {
	d := &drain{all: all}
	err = r.run(ctx, d)
	switch {
	case err != nil:
	case d.err != nil:
		err = d.err
	case !d.over:
		err = ctx.Err()
	}
	return d.sick, err
}

// isOver asks whether there are rows left that a claim does not return.
func (d *drain) isOver(ctx context.Context, box Box) (bool, error) {
	if !d.all {
		return true, nil
	}
	s, err := box.Stats(ctx)
	return err == nil && s.Pending == 0, err
}

// ends reports whether the relay should stop after a claim. A claim that began with rows in hand
// may have missed the rows that follow them, so only one that began with none counts.
func (d *drain) ends(c *claimed, failures int) bool {
	switch {
	case c.err != nil && failures >= claimFailuresMax && !d.all:
		d.err = c.err
	case c.drained:
		d.over, d.sick = true, slices.Clone(c.except)
	}
	return d.err != nil || d.over
}
