package redrive

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"tenaq/internal/work/backoff"
	"tenaq/redrive/breaker"
)

// A Policy says how much a redriver dares. The zero value is the one to start with.
type Policy struct {
	// Failures in a row open the breaker: 3 when zero. Successes close it when it is half open: 2
	// when zero. CoolDown is how long it is open first, 60 s when zero; each further time twice as
	// long, up to CoolDownMax, 1 h when zero.
	Failures, Successes   int
	CoolDown, CoolDownMax time.Duration

	// RateFirst is how many messages may be on their way at first, redriven and not judged yet: 5
	// when zero. RateMax bounds what it grows to: 200 when zero, and at most.
	RateFirst, RateMax int

	// Redrives is how often a message may fail again before it is parked: 5 when zero. Only what
	// fails while others succeed counts. Strikes is the same for a message that is nearly alone
	// with its kind of failure, poison that is: 3 when zero.
	Redrives, Strikes int

	// Near is how close to a failure successes before and after it have to be, so that the consumer
	// was well when it happened: 5 min when zero. What is known from two steps in a row is near,
	// however far apart they are.
	Near time.Duration

	// DelayBase is how long a message is delayed at its first redrive, doubled with each further
	// one, up to half as much again by chance, at most DelayMax: 60 s and 900 s when zero. SQS
	// allows no more.
	DelayBase, DelayMax time.Duration

	// HoldMax is how long messages that all fail in one way, while others succeed, are held, as if
	// something that only they need were down: 24 h when zero. Then they are poison.
	HoldMax time.Duration

	// Settle is how long after it became visible a redriven message is waited for in all, when
	// nothing at all is heard of it: 1 h when zero. Then it is no evidence of anything. Without a
	// ledger it is waited for until it would have come back, if that is longer, up to a day.
	Settle time.Duration

	// Receives is how often a message that fails is received before it is a dead letter again,
	// which tells a redriver without a ledger how long to wait: maxReceiveCount of the queue's
	// redrive policy when zero.
	Receives int

	// Steps are at most so far apart. What one hears of happened since the one before, so without
	// this nothing would ever count against a message when the steps are farther apart than Near.
	apart time.Duration
}

// DefaultPolicy is the zero Policy with all defaults filled in.
func DefaultPolicy() (p Policy) {
	_ = p.setDefaults() // the defaults are consistent
	return p
}

// near is how close to each other successes are that are taken for one time in which all was well.
func (p *Policy) near() time.Duration { return max(p.Near, p.apart) }

// delayLimit is what SQS allows a message to be delayed.
const delayLimit = 15 * time.Minute

func (p *Policy) setDefaults() error {
	p.Failures = cmp.Or(p.Failures, 3)
	p.Successes = cmp.Or(p.Successes, 2)
	p.CoolDown = cmp.Or(p.CoolDown, time.Minute)
	p.CoolDownMax = cmp.Or(p.CoolDownMax, time.Hour)
	p.RateFirst = cmp.Or(p.RateFirst, 5)
	p.RateMax = cmp.Or(p.RateMax, rateLimit)
	p.Redrives = cmp.Or(p.Redrives, 5)
	p.DelayBase = cmp.Or(p.DelayBase, time.Minute)
	p.DelayMax = cmp.Or(p.DelayMax, delayLimit)
	p.Strikes = cmp.Or(p.Strikes, min(3, p.Redrives))
	p.Near = cmp.Or(p.Near, 5*time.Minute)
	p.HoldMax = cmp.Or(p.HoldMax, 24*time.Hour)
	p.Settle = cmp.Or(p.Settle, time.Hour)

	var bad []error
	refuse := func(is bool, format string, args ...any) {
		if is {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	refuse(p.Failures < 1 || p.Successes < 1,
		"Failures and Successes are %d and %d: they are at least 1", p.Failures, p.Successes)
	refuse(p.CoolDown < 0 || p.CoolDownMax < p.CoolDown,
		"CoolDown and CoolDownMax are %v and %v: the second is the larger one", p.CoolDown,
		p.CoolDownMax)
	refuse(p.RateFirst < 1 || p.RateMax < p.RateFirst || p.RateMax > rateLimit,
		"RateFirst and RateMax are %d and %d: they are 1 to %d, the second is the larger one",
		p.RateFirst, p.RateMax, rateLimit)
	refuse(p.Strikes < 1 || p.Redrives < p.Strikes,
		"Redrives and Strikes are %d and %d: they are at least 1, the first is the larger one",
		p.Redrives, p.Strikes)
	refuse(p.Near < 0 || p.HoldMax < 0, "Near and HoldMax are %v and %v: they are not negative",
		p.Near, p.HoldMax)
	refuse(p.DelayBase < 0 || p.DelayMax < p.DelayBase || p.DelayMax > delayLimit,
		"DelayBase and DelayMax are %v and %v: they are at most %v, the second is the larger one",
		p.DelayBase, p.DelayMax, delayLimit)
	refuse(p.Receives < 0 || p.Receives > 1000,
		"Receives is %d: it is 1 to 1000, or 0 for that of the queue", p.Receives)
	refuse(p.Settle < 0, "Settle is %v: it is not negative", p.Settle)
	return errors.Join(bad...)
}

// rateLimit keeps the state of a redriver, which lists what is on its way, within one record.
const rateLimit = 200

func (p *Policy) breaker() breaker.Policy {
	return breaker.Policy{Failures: p.Failures, Successes: p.Successes, CoolDown: p.CoolDown,
		CoolDownMax: p.CoolDownMax}
}

// kind is the policy of the breaker of one kind of failure. Whether it fails is decided by who
// fails.
func (p *Policy) kind() breaker.Policy {
	return breaker.Policy{Failures: 1, Successes: p.Successes, CoolDown: p.CoolDown,
		CoolDownMax: p.CoolDownMax}
}

// delay is how long a message is held back at a redrive, the first being 1. Chance is in
// [0, 1). It is never less than d, DelayBase doubled with each redrive before, except where SQS
// allows no more.
func (p *Policy) delay(redrive int, chance float64) time.Duration {
	d := backoff.Ceiling(redrive, p.DelayBase, p.DelayMax)
	return min(d+time.Duration(chance*float64(d/2)), p.DelayMax).Round(time.Second)
}
