package worker_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"tenaq/claims"
)

// A story is what an oracle sees of two messages of one group, in order.
type story struct {
	*oracle
	end
	one, two *run
}

// newStory begins with two messages that were sent.
func newStory() *story {
	s := &story{oracle: newOracle(attempts), end: end{entries: make(map[string]claims.Entry)}}
	for n, key := range []string{"one", "two"} {
		s.send(&sent{order: order{N: n, Key: key, Kind: good}, id: key, group: "g"})
	}
	s.one, s.two = handlerOf("one", 1), handlerOf("two", 1)
	return s
}

func handlerOf(key string, fence uint64) *run {
	return &run{worker: "w", id: key, key: key, attempt: 1, fence: fence, ctx: context.Background()}
}

// complete is what is right.
func (s *story) complete(r *run) {
	s.begin(r)
	s.write(r)
	s.charge(r)
	s.oracle.end(r, succeeded)
	s.done(r)
	s.entries[r.key] = claims.Entry{State: claims.Completed, Fence: r.fence}
}

// fail is right too.
func (s *story) fail(r *run) {
	s.begin(r)
	s.oracle.end(r, failed)
	s.tell(r, "failed")
}

// lapse is a handler whose message was lost before what it said could be recorded.
func (s *story) lapse(r *run, how outcome) {
	s.begin(r)
	s.oracle.end(r, how)
	s.tell(r, "lost")
}

// over is a context that has ended.
func over() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// The oracle has nothing to say about what is right, and finds each rule that is broken.
func TestOracle(t *testing.T) {
	both := func(s *story) { s.complete(s.one); s.complete(s.two) }
	exhaust := func(s *story, key string, times int) {
		for n := range times {
			s.fail(handlerOf(key, uint64(n+1)))
		}
	}
	for _, test := range []struct {
		name string
		tell func(s *story)
		want string
	}{
		{"all is right", both, ""},
		{"a dead letter", func(s *story) {
			exhaust(s, "one", attempts)
			s.complete(s.two)
			s.dead = []letter{{order: order{N: 0}, reason: "sick", attempts: attempts}}
		}, ""},
		{"poison", func(s *story) {
			s.begin(s.one)
			s.oracle.end(s.one, gaveUp)
			s.tell(s.one, "failed")
			s.complete(s.two)
			s.dead = []letter{{order: order{N: 0}, reason: "poison", attempts: 1}}
		}, ""},
		{"taken over", func(s *story) {
			s.one.ctx = over()
			s.begin(s.one)
			s.write(s.one)
			s.lose(s.one, "h", "lost", nil)
			s.complete(handlerOf("one", 2))
			s.write(s.one) // refused
			s.oracle.end(s.one, failed)
			s.touch("delete", "h2")
			s.complete(s.two)
		}, ""},
		{"given back for later", func(s *story) {
			for n := range 2 * attempts {
				r := handlerOf("one", uint64(n+1))
				s.begin(r)
				s.oracle.end(r, later)
				s.tell(r, "deferred")
			}
			s.complete(handlerOf("one", 100))
			s.complete(s.two)
		}, ""},
		{"late, in another process that stood still", func(s *story) {
			both(s)
			r := handlerOf("three", 1)
			r.ctx = nil
			s.begin(r)
			s.begin(handlerOf("three", 2))
			s.believed(r, time.Now(), lateMax/2)
		}, ""},

		{"lost", func(s *story) { s.complete(s.one) }, ruleLost},
		{"left", func(s *story) { both(s); s.left = 1 }, ruleLost},
		{"nobody's dead letter", func(s *story) {
			both(s)
			s.dead = []letter{{order: order{N: 7}, reason: "sick", attempts: attempts}}
		}, ruleLost},
		{"no reason", func(s *story) {
			exhaust(s, "one", attempts)
			s.complete(s.two)
			s.dead = []letter{{order: order{N: 0}, attempts: attempts}}
		}, ruleReason},
		{"moved by the queue", func(s *story) {
			s.complete(s.two)
			s.dead = []letter{{order: order{N: 0}, moved: true}}
		}, ruleReason},
		{"another's reason", func(s *story) {
			s.exact = true
			s.sent[0].Kind = sick
			exhaust(s, "one", attempts)
			s.complete(s.two)
			s.dead = []letter{{order: order{N: 0}, reason: "lost", attempts: attempts}}
		}, ruleReason},
		{"done twice", func(s *story) { both(s); s.complete(handlerOf("one", 2)) }, ruleOnce},
		{"done without an effect", func(s *story) {
			both(s)
			s.entries["three"] = claims.Entry{State: claims.Completed}
			s.fail(handlerOf("three", 1))
		}, ruleOnce},
		{"done by a handler that failed", func(s *story) { both(s); s.fail(s.one); s.done(handlerOf("one", 2)) }, ruleOnce},
		{"done and dead", func(s *story) {
			both(s)
			s.dead = []letter{{order: order{N: 0}, reason: "sick", attempts: attempts}}
		}, ruleOnce},
		{"a fence that falls", func(s *story) {
			s.fail(handlerOf("one", 5))
			s.complete(s.one)
			s.complete(s.two)
		}, ruleFence},
		{"the same fence again", func(s *story) {
			s.fail(handlerOf("one", 1))
			s.complete(s.one)
			s.complete(s.two)
		}, ruleFence},
		{"a believer that is refused", func(s *story) {
			s.begin(s.one)
			s.begin(s.two)
			s.write(s.two)
			s.one.key = "two"
			s.two.fence = 2
			s.write(s.two)
			s.write(s.one)
		}, ruleFence},
		{"a write behind the completion", func(s *story) {
			both(s)
			s.write(handlerOf("one", 9))
		}, ruleFence},
		{"two at work", func(s *story) { s.begin(s.one); s.begin(handlerOf("one", 2)) }, ruleOverlap},
		{"two at work, in other processes", func(s *story) {
			s.one.ctx = nil
			s.begin(s.one)
			s.begin(handlerOf("one", 2))
			s.believed(s.one, time.Now(), 0)
		}, ruleOverlap},
		{"at work long after the end", func(s *story) {
			s.one.ctx = nil
			s.begin(s.one)
			s.begin(handlerOf("one", 2))
			s.believed(s.one, time.Now(), 2*lateMax)
		}, ruleOverlap},
		{"overtaken", func(s *story) { s.complete(s.two); s.complete(s.one) }, ruleOrder},
		{"begun too early", func(s *story) { s.begin(s.one); s.complete(s.two); s.complete(s.one) }, ruleOrder},
		{"too many attempts", func(s *story) {
			exhaust(s, "one", attempts+1)
			s.complete(handlerOf("one", 100))
			s.complete(s.two)
		}, ruleAttempts},
		{"too few attempts", func(s *story) {
			exhaust(s, "one", attempts-1)
			s.complete(s.two)
			s.dead = []letter{{order: order{N: 0}, reason: "sick", attempts: attempts - 1}}
		}, ruleAttempts},
		{"attempts that were not counted", func(s *story) {
			exhaust(s, "one", attempts)
			s.complete(s.two)
			s.dead = []letter{{order: order{N: 0}, reason: "sick", attempts: attempts - 1}}
		}, ruleAttempts},
		{"given back, and the answer was lost", func(s *story) {
			s.lapse(handlerOf("one", 1), later)
			for n := range attempts - 1 {
				s.fail(handlerOf("one", uint64(n+2)))
			}
			s.complete(handlerOf("one", 100))
			s.complete(s.two)
		}, ""},
		{"lost, and not counted", func(s *story) {
			s.lapse(handlerOf("one", 1), failed)
			for n := range attempts - 1 {
				s.fail(handlerOf("one", uint64(n+2)))
			}
			s.complete(handlerOf("one", 100))
			s.complete(s.two)
		}, ruleAttempts},
		{"attempts beyond those allowed", func(s *story) {
			s.complete(s.two)
			s.dead = []letter{{order: order{N: 0}, reason: "sick", attempts: attempts + 1}}
		}, ruleAttempts},
		{"touched", func(s *story) {
			both(s)
			s.lose(nil, "h", "lost", errors.New("lost"))
			s.touch("delete", "h")
		}, ruleTouched},
		{"not heard of", func(s *story) {
			both(s)
			s.begin(handlerOf("one", 2))
			s.oracle.end(s.runs[2], succeeded)
		}, ruleSilent},
	} {
		s := newStory()
		test.tell(s)
		found := s.judge(s.end)
		switch {
		case test.want == "" && len(found) > 0:
			t.Errorf("%s: found %q", test.name, found)
		case test.want != "" && !slices.Contains(broken(found), test.want):
			t.Errorf("%s: found %q, want the rule %q broken", test.name, found, test.want)
		}
	}
}
