// Package outboxtest is the contract of outbox.Box as tests, and a box in memory that passes them.
//
// A box is complete when Run passes. A mistake found in one becomes a case here for all of them, so
// a relay sees no difference between databases.
//
// Random cases log the seed that they ran with; the environment variable TENAQ_SEED repeats one.
package outboxtest

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/testing/proof"
	"tenaq/outbox"
)

// A Harness is an empty outbox, as one case of the suite gets it.
type Harness struct {
	// Open opens it for a relay; another call is like a relay in another process. The boxes are
	// closed when the test ends.
	Open func(t testing.TB) outbox.Box

	// Enqueue writes messages in one transaction, as a program whose relays run elsewhere would,
	// and commits it or rolls it back.
	Enqueue func(ctx context.Context, commit bool, messages ...outbox.Message) error

	// Begin opens a transaction that stays open beside others until end is called. Nil where
	// transactions that write take turns anyway.
	Begin func(ctx context.Context) (
		enqueue func(messages ...outbox.Message) error, end func(commit bool) error, err error,
	)

	// Table is the name of the table in SQL, for RunHistory; empty for a box that knows no SQL.
	Table string

	// Sleep lets time pass for the database; nil is time.Sleep.
	Sleep func(d time.Duration)
}

// Run checks what every Box promises. Its cases run in parallel, because some have to wait for
// leases to end; fresh is called for each and returns an empty outbox.
func Run(t *testing.T, fresh func(t testing.TB) Harness) { run(t, cases, fresh) }

// RunHistory checks what every History promises beyond that. Boxes that are opened have to be one.
func RunHistory(t *testing.T, fresh func(t testing.TB) Harness) { run(t, historyCases, fresh) }

func run(t *testing.T, cases []testCase, fresh func(t testing.TB) Harness) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(newEnv(t, c.name, fresh))
		})
	}
}

// RunVirtual is Run in bubbles of testing/synctest, for a box that waits for nothing outside of
// one.
func RunVirtual(t *testing.T, fresh func(t testing.TB) Harness) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { c.test(newEnv(t, c.name, fresh)) })
		})
	}
}

type testCase struct {
	name string
	test func(e *env)
}

var cases = []testCase{
	{"Claim", testClaim},
	{"Content", testContent},
	{"RolledBack", testRolledBack},
	{"TwiceTheID", testTwiceTheID},
	{"LateCommit", testLateCommit},
	{"CommitOrder", testCommitOrder},
	{"After", testAfter},
	{"Next", testNext},
	{"Limits", testLimits},
	{"Bytes", testBytes},
	{"Except", testExcept},
	{"Streams", testStreams},
	{"StreamNames", testStreamNames},
	{"StreamHeldByLease", testStreamHeldByLease},
	{"StreamHeldByTime", testStreamHeldByTime},
	{"StreamHeldByRetry", testStreamHeldByRetry},
	{"StreamPassesParked", testStreamPassesParked},
	{"LeaseEnds", testLeaseEnds},
	{"Renew", testRenew},
	{"TakenOver", testTakenOver},
	{"LateOutcome", testLateOutcome},
	{"Settle", testSettle},
	{"SettleNothing", testSettleNothing},
	{"SettleTwice", testSettleTwice},
	{"SettleAllOrNone", testSettleAllOrNone},
	{"Attempts", testAttempts},
	{"Stats", testStats},
	{"Sweep", testSweep},
	{"Parked", testParked},
	{"Find", testFind},
	{"Release", testRelease},
	{"Discard", testDiscard},
	{"Seen", testSeen},
	{"Wait", testWait},
	{"WaitEnds", testWaitEnds},
	{"Random", testRandom},
	{"Relays", testRelays},
}

var historyCases = []testCase{
	{"Look", testLook},
	{"LookNowhere", testLookNowhere},
	{"Begin", testBegin},
	{"Stage", testStage},
	{"StageOrder", testStageOrder},
	{"StageAgain", testStageAgain},
	{"Step", testStep},
	{"StepMoved", testStepMoved},
	{"StepEnds", testStepEnds},
	{"Swept", testSwept},
	{"Where", testWhere},
	{"Query", testQuery},
	{"BadSQL", testBadSQL},
}

const (
	// long is a lease or a delay that does not end while a case runs.
	long = time.Hour

	// short is one that ends, and a case sleeps through it.
	short = 500 * time.Millisecond

	// slack is what a database may round times by, and the clocks of a test and its database may
	// differ by.
	slack = 20 * time.Millisecond
)

// An env is what a case works with.
type env struct {
	testing.TB
	Harness
	ctx context.Context
	rng *rand.Rand

	start  time.Time
	jumped time.Duration // how much Harness.Sleep let pass, which package time did not see

	ids   map[string]string // of rows, by their words; see put
	words map[string]string // the other way around
}

func newEnv(t testing.TB, name string, fresh func(t testing.TB) Harness) *env {
	h := fnv.New64a()
	h.Write([]byte(name))
	return &env{
		TB: t, Harness: fresh(t), ctx: t.Context(),
		rng:   rand.New(rand.NewPCG(proof.Seed(t), h.Sum64())),
		start: time.Now(),
		ids:   make(map[string]string), words: make(map[string]string),
	}
}

// now is the time since the case began, as the database should see it.
func (e *env) now() time.Duration { return time.Since(e.start) + e.jumped }

func (e *env) sleep(d time.Duration) {
	if e.Sleep == nil {
		time.Sleep(d)
		return
	}
	e.Sleep(d)
	e.jumped += d
}

// upTo is a time from zero to d.
func upTo(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d)))
}
