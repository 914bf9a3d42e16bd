package claims_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tenaq/claims"
	"tenaq/internal/testing/proof"
	"tenaq/records"
	"tenaq/records/recordstest"
)

// A judge is a store that holds every write to the rules of the ledger, in the order in which they
// take effect, and knows what is there.
type judge struct {
	*testing.T
	records.Store

	mu   sync.Mutex
	keys map[string]*history
}

type history struct {
	state    claims.State
	fence    uint64
	written  time.Time
	lease    time.Duration
	result   string
	protects uint64 // the largest fence that the protected thing has seen
	done     int    // how often it was completed
}

func (j *judge) history(key string) *history {
	if j.keys[key] == nil {
		j.keys[key] = &history{}
	}
	return j.keys[key]
}

// Put writes and judges.
func (j *judge) Put(ctx context.Context, w records.Write) (records.Record, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r, err := j.Store.Put(ctx, w)
	if err != nil {
		return r, err
	}
	var e struct {
		State   claims.State
		Fence   uint64
		LeaseMS int64 `json:"lease_ms"`
		Result  []byte
	}
	if err := json.Unmarshal(w.Value, &e); err != nil {
		j.Errorf("wrote %q: %v", w.Value, err)
	}
	if e.Fence == 0 {
		e.Fence = uint64(r.Version)
	}
	h := j.history(w.Key)
	age := time.Since(h.written)
	switch {
	case e.Fence < h.fence:
		j.Errorf("%s: fence %d wrote over %d", w.Key, e.Fence, h.fence)
	case e.Fence == h.fence && h.state != claims.Held:
		j.Errorf("%s: %s followed %s under one fence", w.Key, e.State, h.state)
	case e.Fence > h.fence && e.State != claims.Held:
		j.Errorf("%s: a fence began as %s", w.Key, e.State)
	case e.Fence > h.fence && h.state == claims.Held && age < h.lease:
		j.Errorf("%s: taken over after %v of a lease of %v", w.Key, age, h.lease)
	case h.state == claims.Completed || h.state == claims.Parked:
		j.Errorf("%s: %s followed %s", w.Key, e.State, h.state)
	}
	if e.State == claims.Completed {
		h.done++
	}
	h.state, h.fence, h.written, h.result = e.State, e.Fence, time.Now(), string(e.Result)
	h.lease = time.Duration(e.LeaseMS) * time.Millisecond
	return r, nil
}

// effect is what a holder does to something that checks fences.
func (j *judge) effect(key string, fence uint64) (accepted bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h := j.history("claim/" + key)
	if fence < h.protects {
		return false
	}
	h.protects = fence
	return true
}

// completed is how many keys are.
func (j *judge) completed() (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, h := range j.keys {
		if h.state == claims.Completed {
			n++
		}
	}
	return n
}

// all are the keys that there are.
func (j *judge) all() (keys []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for key := range j.keys {
		keys = append(keys, strings.TrimPrefix(key, "claim/"))
	}
	slices.Sort(keys)
	return keys
}

// current says what is there.
func (j *judge) current(key string) history {
	j.mu.Lock()
	defer j.mu.Unlock()
	return *j.history("claim/" + key)
}

// A contender works on random keys through its own way to the store, badly.
type contender struct {
	*judge
	name string
	l    *claims.Ledger
	rng  *rand.Rand
	n    struct{ claimed, takenOver, lost, completed, busy, done, unknown, uncertain int }
}

func (c *contender) chance(p float64) bool { return c.rng.Float64() < p }

func (c *contender) sleep(most time.Duration) { time.Sleep(time.Duration(c.rng.Int64N(int64(most)))) }

// turn works on one key.
func (c *contender) turn(key string) {
	claim, err := c.l.Acquire(context.Background(), key)
	refused, _ := errors.AsType[*claims.Refused](err)
	switch {
	case errors.Is(err, claims.Busy):
		c.n.busy++
		if refused.RetryIn <= 0 || refused.RetryIn > lease {
			c.Errorf("retry in %v", refused.RetryIn)
		}
		return
	case errors.Is(err, claims.Done):
		c.n.done++
		if h := c.current(key); h.state != claims.Completed || h.result != string(refused.Result) {
			c.Errorf("%s: told that it is done with %q, but it is %s with %q", key, refused.Result, h.state, h.result)
		}
		return
	case err != nil:
		c.n.unknown++
		if !errors.Is(err, recordstest.ErrInjected) && !errors.Is(err, claims.ErrLost) {
			c.Errorf("%s: acquire: %v", key, err)
		}
		return
	}
	c.n.claimed++
	if claim.TakenOver() != nil {
		c.n.takenOver++
	}
	held, stop := claim.Hold(context.Background())
	c.work(key, claim, held)
	if c.chance(0.2) { // a zombie: it does not look at its context, and writes when it wakes up
		stop()
		time.Sleep(lease/2 + time.Duration(c.rng.Int64N(int64(2*lease))))
	} else if c.chance(0.5) {
		stop()
	}
	if c.chance(0.9) { // otherwise it dies here
		c.end(key, claim)
	}
	stop()
}

// work continues for some time. While the context lasts no other holder has the key.
func (c *contender) work(key string, claim *claims.Claim, held context.Context) {
	for range c.rng.IntN(6) {
		c.sleep(lease)
		// The context first: it may end between the two looks, but not come back.
		h := c.current(key)
		current := h.fence == claim.Fence() && h.state == claims.Held
		if held.Err() == nil && !current {
			c.Errorf("%s: %s works under fence %d, and there is %s under %d", key, c.name, claim.Fence(), h.state, h.fence)
		}
		if accepted := c.effect(key, claim.Fence()); held.Err() == nil && !accepted {
			c.Errorf("%s: an effect under the current fence %d was refused", key, claim.Fence())
		}
		if held.Err() != nil && c.chance(0.5) {
			return
		}
	}
}

// end ends a claim, and tries again after an error.
func (c *contender) end(key string, claim *claims.Claim) {
	what := c.rng.IntN(3)
	result := fmt.Sprintf("%s under %d", c.name, claim.Fence())
	for try := 0; ; try++ {
		var err error
		var want claims.State
		switch what {
		case 0:
			want, err = claims.Failed, claim.Fail(context.Background(), "no luck")
		case 1:
			want, err = claims.Released, claim.Release(context.Background())
		default:
			want, err = claims.Completed, claim.Complete(context.Background(), []byte(result))
		}
		h := c.current(key)
		switch {
		case err == nil:
			if want == claims.Completed {
				c.n.completed++
				if h.state != claims.Completed || h.result != result {
					c.Errorf("%s: completed as %q, and there is %s with %q", key, result, h.state, h.result)
				}
			}
			return
		case errors.Is(err, claims.ErrLost):
			c.n.lost++
			if h.fence <= claim.Fence() {
				c.Errorf("%s: fence %d is told that it is lost, and %d is current", key, claim.Fence(), h.fence)
			}
			return
		case !errors.Is(err, recordstest.ErrInjected):
			c.Errorf("%s: end: %v", key, err)
			return
		}
		c.n.uncertain++
		if try == 3 {
			return
		}
		c.sleep(lease / 3)
	}
}

// Contenders fight for a few keys over a store that fails, is slow and answers late, and some of
// them die or resume after a long pause. There is at most one current fence; earlier ones write
// nothing; completed keys stay completed; no holder is told that it lost a claim that it has; and
// in the end everything is done.
func TestRandom(t *testing.T) {
	for _, noClock := range []bool{false, true} {
		t.Run(fmt.Sprintf("noClock=%t", noClock), func(t *testing.T) {
			rounds := 40
			if testing.Short() {
				rounds = 8
			}
			seed := proof.Seed(t)
			for round := range rounds {
				bubble(t, func(t *testing.T) { fight(t, seed+uint64(round), noClock) })
				if t.Failed() {
					t.Fatalf("%s", proof.Command(t, seed+uint64(round)))
				}
			}
		})
	}
}

func fight(t *testing.T, seed uint64, noClock bool) {
	const contenders, width, turns = 6, 3, 40
	j := &judge{T: t, Store: recordstest.NewMemory(), keys: make(map[string]*history)}
	rng := rand.New(rand.NewPCG(seed, 0))
	chances := []recordstest.Chances{
		{},
		{Before: 0.2, After: 0.2, Late: 0.2, Slow: 0.3, DelayMax: 2 * time.Second},
		{Before: 0.1, After: 0.4, Late: 0.3, Slow: 0.5, DelayMax: lease},
	}[rng.IntN(3)]
	var running sync.WaitGroup
	all := make([]*contender, contenders)
	for i := range all {
		rng := rand.New(rand.NewPCG(seed, uint64(i+1)))
		store := &recordstest.Faulty{Store: j, Fault: sometimes(rand.New(rand.NewPCG(seed, uint64(i+100))), chances), NoClock: noClock}
		defer store.Close()
		c := &contender{judge: j, name: fmt.Sprint("contender ", i), rng: rng}
		c.l = newLedger(t, store, claims.Config{Owner: c.name, Lost: c.policy})
		all[i] = c
		running.Go(func() {
			for range turns {
				c.turn(fmt.Sprint("key ", j.completed()+c.rng.IntN(width)))
				c.sleep(lease)
			}
		})
	}
	running.Wait()
	// No claim stays held forever: over a store that works, a lease and the watch are enough.
	var sum contender
	l := newLedger(t, &recordstest.Faulty{Store: j, NoClock: noClock}, claims.Config{})
	time.Sleep(2 * lease) // what is late lands
	for _, key := range j.all() {
		if _, err := l.Acquire(t.Context(), key); err != nil && noClock {
			time.Sleep(lease)
			_, err = l.Acquire(t.Context(), key)
			if errors.Is(err, claims.Busy) {
				t.Errorf("%s is busy for ever: %v", key, err)
			}
		} else if errors.Is(err, claims.Busy) {
			t.Errorf("%s is busy for ever: %v", key, err)
		}
		if h := j.current(key); h.done > 1 {
			t.Errorf("%s was completed %d times", key, h.done)
		}
	}
	for _, c := range all {
		sum.n.claimed += c.n.claimed
		sum.n.takenOver += c.n.takenOver
		sum.n.lost += c.n.lost
		sum.n.completed += c.n.completed
		sum.n.busy += c.n.busy
		sum.n.done += c.n.done
		sum.n.unknown += c.n.unknown
		sum.n.uncertain += c.n.uncertain
	}
	if testing.Verbose() {
		t.Logf("seed %d: %+v", seed, sum.n)
	}
}

// policy takes its time, and decides to try again, mostly.
func (c *contender) policy(ctx context.Context, _ claims.Entry) (claims.Decision, error) {
	if c.chance(0.3) {
		c.sleep(2 * lease)
	}
	if c.chance(0.1) {
		return claims.Decision{}, recordstest.ErrInjected
	}
	return claims.Retry(), nil
}

// sometimes is recordstest.Sometimes with its own source.
func sometimes(rng *rand.Rand, chances recordstest.Chances) func(recordstest.Call) recordstest.Fault {
	return func(recordstest.Call) (f recordstest.Fault) {
		switch p := rng.Float64(); {
		case p < chances.Before:
			f.How = recordstest.Before
		case p < chances.Before+chances.After:
			f.How = recordstest.After
		case p < chances.Before+chances.After+chances.Late:
			f.How = recordstest.Late
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
