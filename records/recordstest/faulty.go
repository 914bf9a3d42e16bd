package recordstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"tenaq/internal/testing/proof"
	"tenaq/records"
)

// ErrInjected is what a Faulty store answers when a Fault names no error of its own.
var ErrInjected = errors.New("injected fault")

// An Op is one of the methods of a Store that can fail.
type Op string

// The methods of a Store, but Close.
const (
	Get    Op = "get"
	Put    Op = "put"
	Delete Op = "delete"
	List   Op = "list"
	Sweep  Op = "sweep"
)

// A Call is a call of a Faulty store.
type Call struct {
	N   int // from 1, in the order in which the calls began
	Op  Op
	Key string // of List the prefix, of Sweep empty
}

// A Fault is what goes wrong with one call. The zero Fault is nothing.
type Fault struct {
	// Delay is how long the call takes before anything happens. When its context ends meanwhile,
	// nothing happens and that is the error.
	Delay time.Duration

	// How the call fails, if it does.
	How How

	// LateBy is how long after its error a call that fails Late takes effect.
	LateBy time.Duration

	// Err is the error; nil is ErrInjected.
	Err error
}

// How is the way in which a call fails.
type How int

const (
	// Works is no failure.
	Works How = iota

	// Before is an error, and nothing happened.
	Before

	// After is an error, although the call took effect and was answered, perhaps with a conflict.
	After

	// Late is an error from a call that cannot be cancelled: it takes effect later.
	Late
)

// A Faulty is a Store whose calls fail as Fault says. Other calls go to the Store below, so that
// several Faulty stores over one Memory are processes that each have their own trouble. Set its
// fields before it is used.
type Faulty struct {
	records.Store

	// Fault says what goes wrong with a call; nil is nothing. It is called by one goroutine at a
	// time. Script and Sometimes make such functions.
	Fault func(c Call) Fault

	// Skew is added to every Age, which does not fall below zero, like the answers of a backend
	// whose clock jumps.
	Skew time.Duration

	// NoClock makes every Age unknown, as in a backend without a clock.
	NoClock bool

	mu    sync.Mutex
	calls int
	late  sync.WaitGroup
}

// Script returns a function for Faulty.Fault: faults by the number of the call.
func Script(faults map[int]Fault) func(Call) Fault {
	return func(c Call) Fault { return faults[c.N] }
}

// Chances are how probable each trouble is, from 0 to 1.
type Chances struct {
	Before, After, Late float64 // of which at most one happens

	Slow     float64       // how many calls are delayed
	DelayMax time.Duration // by how much at most, and how late a call that fails Late is
}

// Sometimes returns a function for Faulty.Fault that decides at random, by the seed that it logs.
func Sometimes(t testing.TB, chances Chances) func(Call) Fault {
	rng := rand.New(rand.NewPCG(proof.Seed(t), 1))
	return func(Call) (f Fault) {
		switch p := rng.Float64(); {
		case p < chances.Before:
			f.How = Before
		case p < chances.Before+chances.After:
			f.How = After
		case p < chances.Before+chances.After+chances.Late:
			f.How = Late
		}
		if chances.DelayMax > 0 {
			f.LateBy = time.Duration(rng.Int64N(int64(chances.DelayMax)))
			if rng.Float64() < chances.Slow {
				f.Delay = time.Duration(rng.Int64N(int64(chances.DelayMax)))
			}
		}
		return f
	}
}

// next counts a call and says what goes wrong with it.
func (s *Faulty) next(op Op, key string) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.Fault == nil {
		return Fault{}
	}
	return s.Fault(Call{s.calls, op, key})
}

// Calls returns how many calls have begun.
func (s *Faulty) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// do carries out a call with what goes wrong with it.
func do[T any](
	ctx context.Context, s *Faulty, op Op, key string, call func(context.Context) (T, error),
) (T, error) {
	var none T
	f := s.next(op, key)
	if err := pause(ctx, f.Delay); err != nil {
		return none, err
	}
	err := f.Err
	if err == nil {
		err = fmt.Errorf("%s: %w", op, ErrInjected)
	}
	switch f.How {
	case Before:
		return none, err
	case After:
		_, _ = call(context.WithoutCancel(ctx))
		return none, err
	case Late:
		s.late.Go(func() {
			time.Sleep(f.LateBy)
			_, _ = call(context.WithoutCancel(ctx))
		})
		return none, err
	default:
		return call(ctx)
	}
}

// pause waits, and returns the error of a context that has ended or ends meanwhile.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// seen is a record with the clock as it is here.
func (s *Faulty) seen(r records.Record) records.Record {
	switch {
	case r.Version == 0 || r.Age == records.AgeUnknown:
	case s.NoClock:
		r.Age = records.AgeUnknown
	default:
		r.Age = max(0, r.Age+s.Skew)
	}
	return r
}

func (s *Faulty) seenError(err error) error {
	var c *records.Conflict
	if errors.As(err, &c) {
		return &records.Conflict{Current: s.seen(c.Current)}
	}
	return err
}

// Get is the Store's, unless it is to fail.
func (s *Faulty) Get(ctx context.Context, key string) (records.Record, error) {
	r, err := do(ctx, s, Get, key, func(ctx context.Context) (records.Record, error) {
		return s.Store.Get(ctx, key)
	})
	return s.seen(r), err
}

// Put is the Store's, unless it is to fail.
func (s *Faulty) Put(ctx context.Context, w records.Write) (records.Record, error) {
	w.Value, w.Labels = bytes.Clone(w.Value), maps.Clone(w.Labels) // for a call that comes late
	r, err := do(ctx, s, Put, w.Key, func(ctx context.Context) (records.Record, error) {
		return s.Store.Put(ctx, w)
	})
	return s.seen(r), s.seenError(err)
}

// Delete is the Store's, unless it is to fail.
func (s *Faulty) Delete(ctx context.Context, key string, version records.Version) error {
	_, err := do(ctx, s, Delete, key, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.Store.Delete(ctx, key, version)
	})
	return s.seenError(err)
}

// List is the Store's, unless it is to fail.
func (s *Faulty) List(
	ctx context.Context, prefix, after string, limit int,
) ([]records.Record, error) {
	rs, err := do(ctx, s, List, prefix, func(ctx context.Context) ([]records.Record, error) {
		return s.Store.List(ctx, prefix, after, limit)
	})
	for i := range rs {
		rs[i] = s.seen(rs[i])
	}
	return rs, err
}

// Sweep is the Store's, unless it is to fail.
func (s *Faulty) Sweep(ctx context.Context, limit int) (int, error) {
	return do(ctx, s, Sweep, "", func(ctx context.Context) (int, error) {
		return s.Store.Sweep(ctx, limit)
	})
}

// Close waits for late calls and closes the Store.
func (s *Faulty) Close() error {
	s.late.Wait()
	return s.Store.Close()
}
