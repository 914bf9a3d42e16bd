// Package recordstest is the contract of records.Store as tests, a store in memory that passes
// them, and a wrapper that makes any store fail on demand.
//
// A backend is complete when Run passes. A mistake found in one becomes a case here for all of
// them, so programs see only the difference that package records names: whether there is a clock.
//
// Random cases log the seed that they ran with; the environment variable TENAQ_SEED repeats one.
package recordstest

import (
	"bytes"
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/testing/proof"
	"tenaq/records"
)

// A Backend is what one case of the suite gets: an empty backend, and what kind it is.
type Backend struct {
	// Open opens the backend. The suite closes what it opens. A store opened beside another is like
	// one in another process; one opened after all were closed still has what was answered.
	Open func(t testing.TB) records.Store

	// Skewed opens it in a process whose clock is ahead or behind by a time. Nil where that makes
	// no difference, or cannot be tested.
	Skewed func(t testing.TB, ahead time.Duration) records.Store

	// Sleep lets time pass for the backend and all processes that have it open; nil is time.Sleep.
	Sleep func(d time.Duration)

	// Labels, if set, returns the labels that the backend keeps of a record.
	Labels func(t testing.TB, key string) map[string]string

	// NoClock says that every Age is records.AgeUnknown.
	NoClock bool

	// SweepsItself says that the backend frees space by itself, and Sweep always returns zero.
	SweepsItself bool
}

// Run checks what every Store promises. Its cases run in parallel, because some have to wait for a
// record to expire; fresh is called for each and returns an empty backend.
func Run(t *testing.T, fresh func(t testing.TB) Backend) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(newEnv(t, c.name, fresh, false))
		})
	}
}

// RunVirtual is Run in bubbles of testing/synctest, for a backend that waits for nothing outside of
// one.
func RunVirtual(t *testing.T, fresh func(t testing.TB) Backend) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { c.test(newEnv(t, c.name, fresh, true)) })
		})
	}
}

var cases = []struct {
	name string
	test func(e *env)
}{
	{"Put", testPut},
	{"Conflicts", testConflicts},
	{"ConflictsOfNothing", testConflictsOfNothing},
	{"Values", testValues},
	{"Keys", testKeys},
	{"Limits", testLimits},
	{"Labels", testLabels},
	{"Due", testDue},
	{"VersionsRise", testVersionsRise},
	{"VersionsRiseOverSkew", testVersionsRiseOverSkew},
	{"Age", testAge},
	{"Reopen", testReopen},
	{"TwoStores", testTwoStores},
	{"Expiry", testExpiry},
	{"TTL", testTTL},
	{"Sweep", testSweep},
	{"List", testList},
	{"ListMax", testListMax},
	{"ListArguments", testListArguments},
	{"OneWinner", testOneWinner},
	{"Increments", testIncrements},
	{"History", testHistory},
	{"Linear", testLinear},
	{"Ended", testEnded},
	{"Ending", testEnding},
	{"Random", testRandom},
}

// An env is what a case works with.
type env struct {
	*testing.T
	Backend
	rng     *rand.Rand
	virtual bool
	ctx     context.Context

	start  time.Time
	jumped atomic.Int64 // how much Backend.Sleep let pass, which package time did not see
}

func newEnv(t *testing.T, name string, fresh func(t testing.TB) Backend, virtual bool) *env {
	h := fnv.New64a()
	h.Write([]byte(name))
	return &env{
		T:       t,
		Backend: fresh(t),
		rng:     rand.New(rand.NewPCG(proof.Seed(t), h.Sum64())),
		virtual: virtual,
		ctx:     t.Context(),
		start:   time.Now(),
	}
}

// open opens the backend until the case ends.
func (e *env) open() records.Store {
	e.Helper()
	s := e.Open(e.T)
	e.Cleanup(func() { e.close(s) })
	return s
}

func (e *env) close(s records.Store) {
	e.Helper()
	if err := s.Close(); err != nil {
		e.Errorf("close: %v", err)
	}
}

// now is the time since the case began, as the backend should see it.
func (e *env) now() time.Duration { return time.Since(e.start) + time.Duration(e.jumped.Load()) }

func (e *env) sleep(d time.Duration) {
	if e.Sleep == nil {
		time.Sleep(d)
		return
	}
	e.Sleep(d)
	e.jumped.Add(int64(d))
}

const (
	// granule is by how much a backend may round up a TTL.
	granule = time.Second

	// slack is what two clocks may differ by over the seconds that a case takes.
	slack = 50 * time.Millisecond
)

// A written is a record as it was put.
type written struct {
	key     string
	value   []byte
	version records.Version
	ttl     time.Duration

	from, to time.Duration // by env.now, between which it was written
}

// put writes a record that can be written.
func (e *env) put(s records.Store, w records.Write) *written {
	e.Helper()
	wr := &written{key: w.Key, value: bytes.Clone(w.Value), ttl: w.TTL, from: e.now()}
	got, err := s.Put(e.ctx, w)
	wr.to = e.now()
	if err != nil {
		e.Fatalf("put %+.40q if %d: %v", w.Key, w.If, err)
	}
	if got.Version <= w.If {
		e.Fatalf("put %+.40q if %d wrote version %d", w.Key, w.If, got.Version)
	}
	wr.version = got.Version
	e.is(got, wr, wr.from, wr.to)
	return wr
}

// is checks a record that a call between from and to answered with. Without times it checks no
// times.
func (e *env) is(got records.Record, want *written, from, to time.Duration) {
	e.Helper()
	if got.Key != want.key || got.Version != want.version || !bytes.Equal(got.Value, want.value) {
		e.Fatalf("record %+.40q, version %d, value %.40q\nwant   %+.40q, version %d, value %.40q",
			got.Key, got.Version, got.Value, want.key, want.version, want.value)
	}
	switch {
	case e.NoClock && got.Age != records.AgeUnknown:
		e.Errorf("record %+.40q has age %v without a clock, want %v", got.Key, got.Age,
			records.AgeUnknown)
	case !e.NoClock && got.Age < 0:
		e.Errorf("record %+.40q has age %v", got.Key, got.Age)
	case (got.TTL == 0) != (want.ttl == 0) || got.TTL < 0:
		e.Errorf("record %+.40q has TTL %v, was put with %v", got.Key, got.TTL, want.ttl)
	}
	if to == 0 {
		return
	}
	youngest, oldest := max(0, from-want.to-slack), to-want.from+slack
	if !e.NoClock && (got.Age < youngest || got.Age > oldest) {
		e.Errorf("record %+.40q has age %v, want %v to %v", got.Key, got.Age, youngest, oldest)
	}
	if least, most := want.ttl-oldest, want.ttl-youngest+granule+slack; want.ttl > 0 &&
		(got.TTL < least || got.TTL > most) {
		e.Errorf("record %+.40q has TTL %v, want %v to %v", got.Key, got.TTL, least, most)
	}
}

// has checks that the store has a record as it was written.
func (e *env) has(s records.Store, want *written) {
	e.Helper()
	from := e.now()
	got, err := s.Get(e.ctx, want.key)
	if err != nil {
		e.Fatalf("get %+.40q: %v", want.key, err)
	}
	e.is(got, want, from, e.now())
}

// hasNo checks that the store has no record under key.
func (e *env) hasNo(s records.Store, key string) {
	e.Helper()
	if got, err := s.Get(e.ctx, key); !errors.Is(err, records.ErrNotFound) {
		e.Fatalf("get %+.40q = version %d, %v, want %v", key, got.Version, err, records.ErrNotFound)
	}
}

func (e *env) delete(s records.Store, key string, version records.Version) {
	e.Helper()
	if err := s.Delete(e.ctx, key, version); err != nil {
		e.Fatalf("delete %+.40q version %d: %v", key, version, err)
	}
}

// putConflicts checks that a Put is refused because of what is there, nil being nothing.
func (e *env) putConflicts(s records.Store, w records.Write, there *written) {
	e.Helper()
	from := e.now()
	got, err := s.Put(e.ctx, w)
	if err == nil {
		e.Fatalf("put %+.40q if %d wrote version %d, want a conflict", w.Key, w.If, got.Version)
	}
	e.isConflict(err, there, from)
}

// deleteConflicts checks that a Delete is refused because of what is there, nil being nothing.
func (e *env) deleteConflicts(
	s records.Store, key string, version records.Version, there *written,
) {
	e.Helper()
	from := e.now()
	e.isConflict(s.Delete(e.ctx, key, version), there, from)
}

func (e *env) isConflict(err error, there *written, from time.Duration) {
	e.Helper()
	var c *records.Conflict
	if !errors.As(err, &c) {
		e.Fatalf("error %v, want a conflict", err)
	}
	if there != nil {
		e.is(c.Current, there, from, e.now())
	} else if !reflect.DeepEqual(c.Current, records.Record{}) {
		e.Fatalf("the conflict says that there is %.100v, want nothing", c.Current)
	}
}
