package v1

import (
	"math"
	"time"

	"tenaq/internal/engine"
)

// A Handling says how long consumers took, from a receive to its delete. [V1-22]
type Handling struct {
	P50 *Took `json:"p50,omitempty" doc:"of this share of the messages; absent without messages"`
	P95 *Took `json:"p95,omitempty"`
	P99 *Took `json:"p99,omitempty"`

	Messages int64     `json:"messages" doc:"deletes that these times are of"`
	Since    time.Time `json:"since" doc:"when these were counted from"`
	Watched  bool      `json:"watched" doc:"whether times are measured; false while as many other queues are watched as may be"`
	Late     int64     `json:"late,omitempty" doc:"deletes when the message could be received again already"`
	TimeoutS int64     `json:"timeoutS,omitempty" doc:"the visibility timeout that would suit, if at least one of 100 deletes was late"`
}

// A Took is how long a share of the messages took at most.
type Took struct {
	MS     *int64 `json:"ms,omitempty" doc:"measured, to 7 percent; else only the bounds are known"`
	FromMS int64  `json:"fromMs,omitempty" doc:"more than this"`
	ToMS   int64  `json:"toMs,omitempty" doc:"at most this; absent for more than four days"`
}

// lateShare is which share of late deletes is too much: that of p99.
const lateShare = 100

const timeoutMax = 12 * 60 * 60 // seconds [VIS-2]

// handling watches a queue, and says what is known of it.
func (c *call) handling(name engine.QueueName) Handling {
	all := c.cfg.Broker.Tally()
	h := Handling{Since: c.live.began, Watched: c.live.watch(name, false)}
	known := all.Handling(name.Account, name.Name, 0.5, 0.95, 0.99)
	at := [...]**Took{&h.P50, &h.P95, &h.P99}
	if known.Messages > 0 {
		h.Messages, h.Late, h.Since = known.Messages, known.Late, known.Since
		for i, ms := range known.MS {
			*at[i] = &Took{MS: &ms}
		}
		if h.Late*lateShare >= h.Messages {
			h.TimeoutS = min(1+2*known.MS[2]/1000, timeoutMax) // twice, for days that are slower
		}
	} else {
		h.Messages = known.CoarseMessages
		for i, bounds := range known.Coarse {
			*at[i] = &Took{FromMS: int64(1000 * bounds[0])}
			if !math.IsInf(bounds[1], 1) {
				(*at[i]).ToMS = int64(1000 * bounds[1])
			}
		}
	}
	h.Since = h.Since.UTC().Truncate(time.Millisecond)
	return h
}
