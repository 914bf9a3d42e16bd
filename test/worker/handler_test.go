package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"tenaq/worker"
)

// A kind is what is special about the work of a message.
type kind string

const (
	good     kind = "good"     // it mostly succeeds, and fails or panics now and then
	sick     kind = "sick"     // it always fails
	poison   kind = "poison"   // it is poison
	stubborn kind = "stubborn" // its handler does not look at its context for some time
	hanging  kind = "hanging"  // its handler ignores its context for longer than any caller waits
	endless  kind = "endless"  // it takes longer than the test
)

// someKind is the kind of a message.
func someKind(rng *rand.Rand) kind {
	switch p := rng.Float64(); {
	case p < .05:
		return sick
	case p < .08:
		return poison
	case p < .18:
		return stubborn
	case p < .20:
		return hanging
	}
	return good
}

// A script is what a handler does.
type script struct {
	length time.Duration // how long it takes
	blind  time.Duration // how long it does not look at its context
	charge bool          // although it will not succeed
	result error
	panics bool
}

var (
	errSick   = errors.New("the printer is out of paper")
	errPoison = errors.New("the file is not a picture")
)

// reason is what the last handler of a dead letter says; empty when it is not always the same.
func (s order) reason() string {
	switch s.Kind {
	case sick:
		return errSick.Error()
	case poison:
		return errPoison.Error()
	}
	return ""
}

// play decides what a handler does, by the seed, the message and the time. Attempt and receives may
// stay what they were, when the message was given back untried.
func (s order) play(seed uint64, m *worker.Message, long bool) (p script) {
	h := fnv.New64a()
	fmt.Fprint(h, s.N, " ", m.Attempt(), " ", time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	up := func(to time.Duration) time.Duration { return time.Duration(rng.Float64() * float64(to)) }
	switch q := rng.Float64(); {
	case long:
		p.length = up(2 * lease)
	case q < .6:
		p.length = up(lease / 20)
	case q < .9:
		p.length = up(lease)
	default:
		p.length = lease + up(lease)
	}
	p.charge = rng.IntN(4) == 0
	switch s.Kind {
	case good:
		switch q := rng.Float64(); {
		case q < .08:
			p.result = errSick
		case q < .11:
			p.panics = true
		case q < .16:
			p.result = worker.Later(up(2*time.Second), "the printer is warming up")
		}
	case sick:
		p.result = errSick
	case poison:
		p.result = worker.Poison(errPoison)
	case stubborn:
		p.blind = up(lease)
	case hanging:
		p.blind = lease + up(lease)
	case endless:
		p.length = time.Hour
	}
	return p
}

// bodyOf reads a message.
func bodyOf(m *worker.Message) (s order, err error) {
	err = json.Unmarshal([]byte(m.Body), &s)
	return s, err
}

func (s order) String() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Effects are what handlers do to the world.
type effects interface {
	write(*run)  // now and then, under the fence
	charge(*run) // once, under the effect key
}

// act carries a script out: it writes now and then, and has its effect at the end.
func act(o effects, r *run, p script) error {
	began := time.Now()
	for step := 0; ; step++ {
		o.write(r)
		left := p.length - time.Since(began)
		if left <= 0 {
			break
		}
		timer := time.NewTimer(min(left, 100*time.Millisecond))
		select {
		case <-timer.C:
			continue
		case <-r.ctx.Done():
		}
		if time.Since(began) >= p.blind {
			timer.Stop()
			return context.Cause(r.ctx)
		}
		<-timer.C
	}
	if p.panics {
		panic("the printer is on fire")
	}
	if p.result == nil || p.charge {
		o.charge(r)
	}
	return p.result
}

// outcomeOf tells from what a handler returned how it ended.
func outcomeOf(ctx context.Context, s order, err error) outcome {
	switch {
	case err == nil:
		return succeeded
	case context.Cause(ctx) == worker.ErrLost:
		return failed // as an attempt it counts
	case context.Cause(ctx) == worker.ErrDraining:
		return drained
	case s.Kind == poison:
		return gaveUp
	case errors.Is(err, errSick):
		return failed
	case errors.Is(err, context.Cause(ctx)):
		return failed
	}
	return later
}
