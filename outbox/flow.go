package outbox

import (
	"context"
	"time"

	"tenaq/internal/work/backoff"
)

// A flow is one run of a relay: it claims, sends and settles rows. One goroutine owns its fields.
// The goroutines that talk to the database and to queues report to it.
//
//	claim ──▶ hand: ready ──▶ in a request ──▶ unsettled ──▶ settle
//	               └ behind a row of their stream
//
// A row leaves the hand when its outcome is known. The relay forgets it when the outcome is stored.
type flow struct {
	*Relay
	name string

	hand    map[string]*item   // by id of the row
	bytes   int                // of the rows in hand
	queues  map[string]*queue  // by the name that rows use
	streams map[string][]*item // rows in hand by stream, in order; only the first may be sent

	requests int // in progress
	answers  chan answer

	claiming    bool // a claim is in progress
	freed       bool // since it began, an outcome was stored that makes a row claimable
	claims      chan claimed
	asked       int           // claims so far
	lookAfter   time.Time     // no claim before
	waiting     bool          // for rows
	waits       chan struct{} // ends of waits
	stopWaiting func()        // nil if an earlier end of the wait would not help
	poll        time.Duration // length of the next wait

	unsettled  []Outcome
	knownSince time.Time // when the first of them was added
	frees      bool      // one of them makes its row claimable, or the next of its stream
	writing    int       // outcomes that are being stored
	settles    chan settled
	settleAt   time.Time // no settling before

	renewing bool
	renewals chan renewal
	renewAt  time.Time

	failures map[string]int // in a row, by operation
	stopping bool
	drain    *drain // nil for a relay that runs until it is stopped
}

type claimed struct {
	rows    []Row
	began   time.Time
	next    time.Duration
	drained bool // nothing is left to send
	except  []string
	err     error
}

type settled struct {
	outcomes []Outcome
	frees    bool // as in flow
	err      error
}

type renewal struct {
	ids   []string
	began time.Time
	asked int // claims before it; negative if one was in progress
	err   error
}

func newFlow(r *Relay) *flow {
	return &flow{
		Relay: r, name: relayName(), poll: pollMin,
		hand: make(map[string]*item), queues: make(map[string]*queue),
		streams: make(map[string][]*item),
		answers: make(chan answer), claims: make(chan claimed), waits: make(chan struct{}),
		settles: make(chan settled), renewals: make(chan renewal),
		failures: make(map[string]int),
	}
}

// Times and limits of a flow.
const (
	pollMin    = 20 * time.Millisecond
	troubleMin = 100 * time.Millisecond // after a failure, doubled each time
	troubleMax = 20 * time.Second
	callMax    = 30 * time.Second // of the database
	// failures of a queue in a row after which its rows are given back
	hopeless = 5
	// rest of a lease that a request needs
	leastToSend = 500 * time.Millisecond
)

func (f *flow) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	ending := ctx.Done()
	for {
		f.startClaim(ctx)
		f.startRequests()
		f.startSettle()
		f.startRenewal()
		if f.stopping && f.requests == 0 && !f.claiming && !f.waiting && f.writing == 0 &&
			!f.renewing && (len(f.unsettled) == 0 || f.failures[settling] >= 3) {
			return
		}
		timer.Reset(f.untilNext(time.Now()))
		select {
		case c := <-f.claims:
			f.take(ctx, c)
		case <-f.waits:
			f.waiting, f.stopWaiting = false, nil
		case a := <-f.answers:
			f.heed(a)
		case s := <-f.settles:
			f.written(s)
		case n := <-f.renewals:
			f.renewed(n)
		case <-timer.C:
		case <-ending:
			ending = nil
			f.stop()
		}
	}
}

// stop gives back the rows that are not in a request, and ends the claims.
func (f *flow) stop() {
	f.stopping = true
	f.settleAt = time.Time{}
	delete(f.failures, settling)
	for _, it := range f.hand {
		if !it.away {
			f.over(it, Outcome{Fate: Back, Reason: stopReason})
		}
	}
}

// stopReason is the reason of rows that a stopping relay gives back.
const stopReason = "the relay stops"

// untilNext returns how long there is nothing to do unless a report arrives.
func (f *flow) untilNext(now time.Time) time.Duration {
	next := now.Add(time.Minute)
	sooner := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if !f.claiming && !f.waiting && !f.stopping {
		sooner(f.lookAfter)
	}
	if len(f.hand) > 0 && !f.renewing {
		sooner(f.renewAt)
	}
	if len(f.unsettled) > 0 && f.writing == 0 {
		sooner(f.settleDue())
	}
	for _, q := range f.queues {
		if len(q.ready) > 0 && f.requests < f.cfg.Parallel {
			sooner(q.pause)
		}
	}
	return max(next.Sub(now), time.Millisecond)
}

// Operations, for the log.
const (
	claimingRows = "claim rows"
	settling     = "settle rows"
)

// trouble notes the result of an operation, and returns the pause before the next try. It logs the
// 1st, 2nd, 4th, 8th failure in a row, and so on.
func (f *flow) trouble(what string, err error) time.Duration {
	if err == nil {
		delete(f.failures, what)
		return 0
	}
	f.failures[what]++
	n := f.failures[what]
	pause := backoff.Jitter(backoff.Ceiling(n, troubleMin, troubleMax))
	if n&(n-1) == 0 {
		f.cfg.Logger.Warn("cannot use the database, trying again",
			"operation", what, "attempt", n, "error", err)
	}
	return pause
}
