package broker

import (
	"time"

	"tenaq/internal/engine"
)

// How often the writer looks after things that nobody asked for. These are real times; broker time may
// be scaled.
const (
	stampEvery = 5 * time.Second
	sweepEvery = time.Second
	sweepRest  = time.Minute // after the end of the catalogue
	sweepMax   = 100         // queues a step
)

// housekeeping is what the writer does between requests: it stamps the time while anything is in flight
// [CLOCK-10], removes expired messages from queues that nobody uses [RET-1], and lets move tasks go on, one
// bounded step a turn, so that requests are held up by no more than that [MOVE-13].
type housekeeping struct {
	stamped, swept time.Time
	rest           time.Duration
	after          engine.QueueName // where the sweep goes on
}

// keepHouse does what is due.
func (b *Broker) keepHouse() {
	h, mono := &b.house, time.Now()
	if mono.Sub(h.stamped) >= stampEvery {
		h.stamped = mono
		if b.engine.HiddenUntil() > b.now-stampEvery.Milliseconds() {
			b.inform(engine.Stamp{})
		}
	}
	if mono.Sub(h.swept) >= h.rest {
		h.swept, h.rest = mono, sweepEvery
		res := b.inform(engine.Sweep{After: h.after, Max: sweepMax})
		h.after = engine.QueueName{}
		if len(res.Queues) > 0 {
			h.after = res.Queues[0]
		} else {
			h.rest = sweepRest
		}
	}
	if at, ok := b.engine.NextMove(); ok && at <= b.now && !b.draining {
		b.inform(engine.MoveStep{})
	}
}

// houseRest returns how long keepHouse is not needed.
func (b *Broker) houseRest() time.Duration {
	h, now := &b.house, time.Now()
	rest := min(stampEvery-now.Sub(h.stamped), h.rest-now.Sub(h.swept))
	if at, ok := b.engine.NextMove(); ok {
		rest = min(rest, b.clock.until(at))
	}
	return max(0, rest)
}
