package broker

import (
	"time"

	"tenaq/internal/engine"
)

// How often the writer does what no request asks for. These are real times; broker time may be
// scaled.
const (
	stampEvery = 5 * time.Second
	sweepEvery = time.Second
	sweepRest  = time.Minute // after the end of the catalogue
	sweepMax   = 100         // queues a step

	ticksMax = 100 // messages of schedules a step

	recordsMax = 256 // expired records a step
)

// housekeeping is what the writer does between requests: it stamps the time while anything is in
// flight [CLOCK-10], removes expired messages from unused queues [RET-1] and expired records
// [REC-5], sends the messages of schedules [SCHED-6], and advances move tasks by at most one
// bounded step a turn. [MOVE-13] Where another node may become the writer it stamps the time
// always, because that node's clock begins at the last stamp.
type housekeeping struct {
	stamped, swept time.Time
	rest           time.Duration
	after          engine.QueueName // where the sweep continues
	asked          time.Time        // when the last requests came in
	moveAfter      time.Time        // no step of a move task before this

	records time.Time // no sweep of records before this
}

// movesBeside is how many messages a step of a task takes at most while there are requests: they
// wait for its end, and steps of 100 tripled the p99 of receives beside a replay.
const movesBeside = 20

// moveShare bounds the part of the writer's time that move tasks may take from requests: one in
// six. Without requests they may take all of it. Sweeps of records have as much.
//
// There are requests if the last one came in less than liveFor ago. What counts is not whether one
// waits at the moment: the writer is often idle between two turns, and steps that fill its every
// pause take the processor and the disk from the requests that come next.
const (
	moveShare = 6
	liveFor   = 100 * time.Millisecond
)

// stepLate is how long a step of a task that is due waits for a turn on its way to the disk.
// Requests wait for such a turn anyway; those of a turn that begins with a step wait for the step
// too. Under a load at which turns overlap, steps are taken in turns, or tasks would starve.
const stepLate = 2 * time.Millisecond

// keepHouse does what is due. Asked says that there are requests for the turn.
func (b *Broker) keepHouse(asked bool) {
	h, mono := &b.house, time.Now()
	if asked {
		h.asked = mono
	}
	if mono.Sub(h.stamped) >= stampEvery {
		h.stamped = mono
		if b.cfg.Confirm != nil || b.engine.HiddenUntil() > b.now-stampEvery.Milliseconds() {
			b.inform(&engine.Stamp{})
		}
	}
	if mono.Sub(h.swept) >= h.rest {
		h.swept, h.rest = mono, sweepEvery
		sweep := &engine.Sweep{After: h.after, Max: sweepMax}
		b.inform(sweep)
		if h.after = sweep.Last; !sweep.More {
			h.after, h.rest = engine.QueueName{}, sweepRest
			if sweep.Moved {
				h.rest = sweepEvery
			}
		}
	}
	b.sweepRecords(mono.Sub(h.asked) < liveFor, mono)
	b.sendTicks()
	if !asked || mono.Sub(h.moveAfter) >= stepLate {
		b.stepTask()
	}
}

// stepTask advances the tasks by a step if one is due.
func (b *Broker) stepTask() {
	h, began := &b.house, time.Now()
	at, ok := b.engine.NextMove()
	if !ok || at > b.now || b.draining || began.Before(h.moveAfter) {
		return
	}
	busy, step := began.Sub(h.asked) < liveFor, &engine.MoveStep{}
	if busy {
		step.Most = movesBeside
	}
	b.inform(step)
	if now := time.Now(); busy {
		h.moveAfter = now.Add((moveShare - 1) * now.Sub(began))
	}
}

// stepMeanwhile advances the tasks by a step while a turn is on its way to the disk. What it writes
// goes to the disk with the next turn, which begins when that one is there.
func (b *Broker) stepMeanwhile() {
	b.tick()
	b.stepTask()
}

// sweepRecords removes expired records. They are already invisible, so it can wait for a second
// until several have expired: each turn that writes forces the disk.
func (b *Broker) sweepRecords(busy bool, mono time.Time) {
	h := &b.house
	at, ok := b.engine.NextExpiry()
	if !ok || at > b.now || b.draining || mono.Before(h.records) {
		return
	}
	began, sweep := time.Now(), &engine.SweepRecords{Max: recordsMax}
	b.inform(sweep)
	now := time.Now()
	switch {
	case !sweep.More:
		h.records = now.Add(sweepEvery)
	case busy:
		h.records = now.Add((moveShare - 1) * now.Sub(began))
	}
}

// sendTicks sends the messages of schedules that are due. While the disk is nearly full they wait,
// like all sends. [SCHED-10]
func (b *Broker) sendTicks() {
	for range ticksMax {
		at, ok := b.nextTick()
		if !ok || at > b.now {
			return
		}
		b.inform(&engine.Tick{})
	}
}

// nextTick returns when sendTicks has something to do; false if it may do nothing.
func (b *Broker) nextTick() (at int64, ok bool) {
	if b.draining || b.noSpace.Load() {
		return 0, false
	}
	return b.engine.NextTick()
}

// houseRest returns how long keepHouse is not needed.
func (b *Broker) houseRest() time.Duration {
	h, now := &b.house, time.Now()
	rest := min(stampEvery-now.Sub(h.stamped), h.rest-now.Sub(h.swept))
	if at, ok := b.engine.NextMove(); ok && !b.draining {
		rest = min(rest, max(b.clock.until(at), h.moveAfter.Sub(now)))
	}
	if at, ok := b.engine.NextExpiry(); ok && !b.draining {
		rest = min(rest, max(b.clock.until(at), h.records.Sub(now)))
	}
	if at, ok := b.nextTick(); ok {
		rest = min(rest, b.clock.until(at))
	}
	return max(0, rest)
}
