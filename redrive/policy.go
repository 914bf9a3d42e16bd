package redrive

import (
	"cmp"
	"time"

	"tenaq/internal/work/backoff"
	"tenaq/internal/work/invalid"
	"tenaq/internal/work/sqslimits"
	"tenaq/redrive/breaker"
)

// A Policy says how cautious a redriver is. Start with the zero value.
type Policy struct {
	// Failures in a row open the breaker: 3 when zero. Successes close it when it is half open: 2
	// when zero. CoolDown is how long it is open at first: 60 s when zero. Each further time it is
	// open for twice as long, up to CoolDownMax: 1 h when zero.
	Failures, Successes   int
	CoolDown, CoolDownMax time.Duration

	// RateFirst is how many messages may be on their way at first, that is redriven but not judged:
	// 5 when zero. RateMax is the limit of its growth: 200 when zero, and at most 200.
	RateFirst, RateMax int

	// Redrives is how often a message may fail again before it is parked: 5 when zero. Only
	// failures while others succeed count. Strikes is the same for poison, a message with a kind of
	// failure that hardly any other message has: 3 when zero.
	Redrives, Strikes int

	// Near is the longest time between a failure and the successes before and after it that show
	// that the consumer worked at that time: 5 min when zero. Two consecutive steps count as near,
	// however far apart they are.
	Near time.Duration

	// DelayBase is the delay of the first redrive of a message: 60 s when zero. It doubles with
	// each further redrive. Up to half as much again is added at random. DelayMax is the limit: 15
	// min when zero, which is also the limit of SQS.
	DelayBase, DelayMax time.Duration

	// HoldMax is how long messages of one kind are held while others succeed, because something
	// that only they need may be down: 24 h when zero. After that they are poison.
	HoldMax time.Duration

	// Settle is how long a redriver waits for the outcome of a redriven message after that became
	// visible: 1 h when zero. Then the message is neither a success nor a failure. Without a
	// ledger, a redriver waits until the message could no longer come back, if that is longer, up
	// to a day.
	Settle time.Duration

	// Receives is how often a failing message is received before it is a dead letter again: the
	// maxReceiveCount of the queue when zero. A redriver without a ledger derives from it how long
	// to wait.
	Receives int

	// apart is the longest time between two steps. A step learns what happened since the previous
	// one, so if the steps are farther apart than Near, this takes its place.
	apart time.Duration
}

// DefaultPolicy is the zero Policy with all defaults filled in.
func DefaultPolicy() (p Policy) {
	_ = p.setDefaults() // the defaults are consistent
	return p
}

// near returns how close successes must be to count as one span of success.
func (p *Policy) near() time.Duration { return max(p.Near, p.apart) }

// setDefaults fills in the defaults and returns what is invalid.
func (p *Policy) setDefaults() (bad invalid.Fields) {
	p.Failures = cmp.Or(p.Failures, 3)
	p.Successes = cmp.Or(p.Successes, 2)
	p.CoolDown = cmp.Or(p.CoolDown, time.Minute)
	p.CoolDownMax = cmp.Or(p.CoolDownMax, time.Hour)
	p.RateFirst = cmp.Or(p.RateFirst, 5)
	p.RateMax = cmp.Or(p.RateMax, rateLimit)
	p.Redrives = cmp.Or(p.Redrives, 5)
	p.DelayBase = cmp.Or(p.DelayBase, time.Minute)
	p.DelayMax = cmp.Or(p.DelayMax, sqslimits.DelayMax)
	p.Strikes = cmp.Or(p.Strikes, min(3, p.Redrives))
	p.Near = cmp.Or(p.Near, 5*time.Minute)
	p.HoldMax = cmp.Or(p.HoldMax, 24*time.Hour)
	p.Settle = cmp.Or(p.Settle, time.Hour)

	bad.Add(p.Failures < 1 || p.Successes < 1,
		"Failures and Successes are %d and %d: they must be at least 1", p.Failures, p.Successes)
	bad.Add(p.CoolDown < 0 || p.CoolDownMax < p.CoolDown,
		"CoolDown and CoolDownMax are %v and %v: the second must not be below the first", p.CoolDown,
		p.CoolDownMax)
	bad.Add(p.RateFirst < 1 || p.RateMax < p.RateFirst || p.RateMax > rateLimit,
		"RateFirst and RateMax are %d and %d: they must be 1 to %d, the second not below the first",
		p.RateFirst, p.RateMax, rateLimit)
	bad.Add(p.Strikes < 1 || p.Redrives < p.Strikes,
		"Redrives and Strikes are %d and %d: they must be at least 1, the first not below the second",
		p.Redrives, p.Strikes)
	bad.Add(p.Near < 0 || p.HoldMax < 0, "Near and HoldMax are %v and %v: they must not be negative",
		p.Near, p.HoldMax)
	bad.Add(p.DelayBase < 0 || p.DelayMax < p.DelayBase || p.DelayMax > sqslimits.DelayMax,
		"DelayBase and DelayMax are %v and %v: they must be at most %v, the second not below the first",
		p.DelayBase, p.DelayMax, sqslimits.DelayMax)
	bad.Add(p.Receives < 0 || p.Receives > sqslimits.ReceivesMax,
		"Receives is %d: it must be 1 to %d, or 0 for that of the queue", p.Receives,
		sqslimits.ReceivesMax)
	bad.Add(p.Settle < 0, "Settle is %v: it must not be negative", p.Settle)
	return bad
}

// rateLimit keeps the state of a redriver, which lists the messages on their way, within one
// record.
const rateLimit = 200

func (p *Policy) breaker() breaker.Policy {
	return breaker.Policy{Failures: p.Failures, Successes: p.Successes, CoolDown: p.CoolDown,
		CoolDownMax: p.CoolDownMax}
}

// kind returns the policy of the breaker of one kind of failure.
func (p *Policy) kind() breaker.Policy {
	return breaker.Policy{Failures: 1, Successes: p.Successes, CoolDown: p.CoolDown,
		CoolDownMax: p.CoolDownMax}
}

// delay returns the delay of a redrive, the first being 1. Chance is in [0, 1).
func (p *Policy) delay(redrive int, chance float64) time.Duration {
	d := backoff.Ceiling(redrive, p.DelayBase, p.DelayMax)
	return min(d+time.Duration(chance*float64(d/2)), p.DelayMax).Round(time.Second)
}
