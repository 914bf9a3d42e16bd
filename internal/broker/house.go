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
// [CLOCK-10] and removes expired messages from queues that nobody uses. [RET-1]
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
}

// sleep returns when keepHouse is needed next.
func (h *housekeeping) sleep() time.Duration {
	now := time.Now()
	return max(0, min(stampEvery-now.Sub(h.stamped), h.rest-now.Sub(h.swept)))
}
