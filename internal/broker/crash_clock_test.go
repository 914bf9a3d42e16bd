package broker

import (
	"fmt"
	"strconv"
	"time"

	"tenaq/internal/engine"
)

// The rules of broker time. The judge states them on its own, and does not ask the clock that it
// judges.
const (
	slewed      = 20               // broker time gains or loses at most one part in so many [CLOCK-4]
	pauseAfter  = time.Hour        // a start that long after the last stamp pauses expiry [CLOCK-6]
	pauseFor    = 10 * time.Minute // [CLOCK-8]
	dayOfReturn = 4 * day          // retention of queues that were given none
)

// An era is the time from a start of the broker to the next power cut, with all that is known about
// broker time in it. Times of the broker are since the Unix epoch.
//
// Real time is the bubble's. The wall clock is real time and an offset, which changes only when
// it is set. Broker time is real time and a distance, which the rules leave little choice:
//
//   - At the start broker time is the wall clock's, or the last stamp's where that is later.
//     [CLOCK-9]
//   - Then the distance moves towards the offset, by one part in slewed of the time that passes,
//     and not beyond it. [CLOCK-1, CLOCK-3, CLOCK-4, CLOCK-5]
//
// A step becomes known to the broker when it next looks at the clock. All the time since the look
// before it then counts as time after the step, which is what a step leaves in doubt; it is doubled
// because the broker may have moved in the one direction instead of in the other. So whatever
// happened between two moments of real time, the judge knows the broker time of it to within two
// bounds, and they are a millisecond apart until the clock is set.
//
// Everything that is certain is then expressed in broker time, at the earliest and at the latest:
// no timeout, delay, retention or deduplication window is shorter than it, and none ends because
// the wall clock was set while the server ran. A step while the machine was off is another matter:
// forward, it is time that has passed, and ends what it ends; back, it does nothing. That is what
// CLOCK-9 says, and why the judge has to know broker time at each start. Two rules soften it:
//
//   - After a stop that was not clean, what was hidden at the last stamp stays so until the start
//     and as long again as the stamp lies before the start, up to the grace. [CLOCK-10, CLOCK-11]
//   - After a start more than an hour behind the last stamp, nothing is lost to retention for ten
//     minutes, though nothing is delivered either of which the retention is over. Starts in between
//     do not end them, and one before which the wall clock was set back begins them anew.
//     [CLOCK-6, CLOCK-7, CLOCK-8]
type era struct {
	began, ended time.Time     // real; ended is zero before the power is cut
	offset       time.Duration // of the wall clock, at the start
	steps        []step
	stamp, start time.Duration // by the store before the start, zero if it was empty; and at the start

	real        bool          // the start is on disk; otherwise it may or may not be, and nothing else happened
	unclean     bool          // the stop before it was surely not clean
	clean       bool          // it surely was
	grace       time.Duration // as configured
	pausedUntil time.Duration // expiry is paused at least until then
}

// A step is one setting of the wall clock.
type step struct {
	at     time.Time // real
	offset time.Duration
	doubt  time.Duration
}

// bounds returns the earliest and the latest that broker time can be at some real time of the era.
func (e *era) bounds(at time.Time) (earliest, latest time.Duration) {
	from, offset := e.began, e.offset
	near := e.start - sinceEpoch(e.began)
	far := near + time.Millisecond // broker time is known in whole ones
	for _, s := range e.steps {
		if s.at.After(at) {
			break
		}
		passed := s.at.Sub(from)
		near, far = follow(near, offset, passed)-s.doubt, follow(far, offset, passed)+s.doubt
		from, offset = s.at, s.offset
	}
	passed := at.Sub(from)
	return sinceEpoch(at) + follow(near, offset, passed), sinceEpoch(at) + follow(far, offset, passed)
}

// follow moves a distance from real time towards the offset of the wall clock, while time passes.
func follow(distance, offset, passed time.Duration) time.Duration {
	most := passed / slewed
	return distance + min(max(offset-distance, -most), most)
}

func sinceEpoch(t time.Time) time.Duration { return time.Duration(t.UnixNano()) }

// earliest is broker time when the operation was carried out, or before.
func (h *history) earliest(a *attempt) time.Duration {
	t, _ := h.eras[a.era].bounds(a.from)
	return t
}

// sentFrom is broker time when a message was sent, or before.
func (h *history) sentFrom(m *sentMessage) time.Duration {
	from := h.earliest(m.send)
	for _, a := range m.again {
		from = min(from, h.earliest(a)) // after a power cut, the clock may have been set back
	}
	return from
}

// latest is broker time when an operation that was answered was carried out, or after.
func (h *history) latest(a *attempt) time.Duration {
	_, t := h.eras[a.era].bounds(a.until)
	return t
}

// hiddenBy is until when a message was surely hidden that an operation hid, if nothing but starts
// followed until the next, which found it available. Messages that were hidden at the last stamp
// have their grace.
func (h *history) hiddenBy(a *attempt, timeout time.Duration, next *attempt) time.Duration {
	until := h.earliest(a) + timeout - 2*time.Millisecond // broker time counts whole ones
	for _, e := range h.eras[a.era+1 : next.era+1] {
		if e.real && e.unclean && until > e.stamp {
			until = max(until, e.start+min(e.grace, e.start-e.stamp)-2*time.Millisecond)
		}
	}
	return until
}

// retentionOf returns the retention of a queue.
func retentionOf(queue string) time.Duration {
	if queue == "brief" {
		return retention
	}
	return dayOfReturn
}

// mayHaveExpired says that a message may have been removed by some time of an era because its
// retention was over: in that era or one before, broker time may have reached the end of it, and
// may have left the ten minutes of a pause behind. Within an era both can only become true.
func (h *history) mayHaveExpired(m *sentMessage, in int, by time.Time) bool {
	over := h.sentFrom(m) + retentionOf(m.queue) - 2*time.Millisecond
	for i := m.send.era; i <= in; i++ {
		e := h.eras[i]
		end := e.ended
		if i == in {
			end = by
		}
		if _, latest := e.bounds(end); e.real && latest >= over && latest >= e.pausedUntil {
			return true
		}
	}
	return false
}

// checkClock holds the times that the server gives for a message against what they can have been.
// [CLOCK-1, CLOCK-2, CLOCK-3, CLOCK-4, CLOCK-5]
func (h *history) checkClock(m *sentMessage, complain func(string, ...any)) {
	inTime := func(what string, ms int64, a *attempt, from time.Duration) {
		got := time.Duration(ms) * time.Millisecond
		if got < from-time.Millisecond {
			complain("was %s at %v by the server, %v too early", what, got, from-got)
		}
		if until := h.latest(a); a.answered && got > until {
			complain("was %s at %v by the server, %v too late", what, got, got-until)
		}
	}
	for _, d := range m.deliveries {
		inTime("sent", d.sent, m.send, h.sentFrom(m))
		if d.receives == 1 {
			inTime("first received", d.first, d.attempt, h.earliest(d.attempt))
		}
		h.checkStamp(d.attempt, complain)
	}
	if m.send.answered {
		h.checkStamp(m.send, complain)
	}
}

// No answered change is later than the stamp that the next start finds. [CLOCK-9]
func (h *history) checkStamp(a *attempt, complain func(string, ...any)) {
	if a.era+1 == len(h.eras) {
		return
	}
	if e, from := h.eras[a.era+1], h.earliest(a); e.stamp < from-time.Millisecond {
		complain("changed after %v, and the last stamp is of %v", from, e.stamp)
	}
}

// A counted is how many messages a queue said it has.
type counted struct {
	*attempt
	queue    string
	messages int
}

// A queue counts at least the messages that are surely there: they were sent, no call has tried to
// delete them, and they cannot have expired. So what is removed too early is missed at once, and
// not only if it would have been there at the end.
// [ATTR-42, ATTR-43, CLOCK-4, CLOCK-6, CLOCK-7]
func (h *history) checkCount(c *counted) (problems []string) {
	surely := 0
	for _, m := range h.messages {
		if m.queue != c.queue || !m.send.answered || !m.send.before(c.attempt) || h.mayHaveExpired(m, c.era, c.until) {
			continue
		}
		deleted := false
		for _, d := range m.deletes {
			deleted = deleted || d.called < c.returned
		}
		if !deleted && !h.purged(m, func(p *attempt) bool { return p.called < c.returned && p.returned > m.send.called }) {
			surely++
		}
	}
	if c.messages < surely {
		problems = append(problems, fmt.Sprintf("%s counted %d messages in era %d, want at least %d", c.queue, c.messages, c.era, surely))
	}
	return problems
}

// trusted is the latest that time can be now as far as it is beyond doubt: while expiry is paused,
// the time before.
func (h *history) trusted() time.Duration {
	e := h.eras[len(h.eras)-1]
	_, latest := e.bounds(time.Now())
	if latest < e.pausedUntil {
		return e.stamp
	}
	return latest
}

// soonest is the earliest that time can be now.
func (h *history) soonest() time.Duration {
	earliest, _ := h.eras[len(h.eras)-1].bounds(time.Now())
	return earliest
}

// A keyedSend is a send under a deduplication ID, which belongs to its body alone.
type keyedSend struct {
	body, id        string        // of the message, if it was answered
	called, trusted time.Duration // time that passes only while expiry is not held, at its end at the latest
}

// checkWindows finds second messages of one deduplication ID within the window that its first send
// opened. The audit finds those as well, but not the ones that come of a jump: no window ends while
// expiry is paused. [DEDUP-12, DEDUP-23]
func checkWindows(sends []keyedSend) (problems []string) {
	const window = 5*time.Minute - time.Second
	opened, first := make(map[string]time.Duration), make(map[string]string)
	for _, s := range sends {
		if at, ok := opened[s.body]; !ok || s.called < at {
			opened[s.body] = s.called
		}
	}
	for _, s := range sends {
		switch {
		case s.id == "" || s.trusted >= opened[s.body]+window:
		case first[s.body] == "":
			first[s.body] = s.id
		case first[s.body] != s.id:
			problems = append(problems, fmt.Sprintf("message %s of a deduplication ID that had stored %s, %v after its first send",
				s.id, first[s.body], s.trusted-opened[s.body]))
		}
	}
	return problems
}

// begin notes that the broker has started, unless the power was cut before: then it may have.
func (h *history) begin(e *era) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.eras); n > 0 {
		last := h.eras[n-1]
		last.real = last.real || e.stamp == last.start && last.start > last.stamp
		_, latest := last.bounds(last.ended)
		switch paused := last.real && latest < last.pausedUntil; {
		case paused && sinceEpoch(e.began)+e.offset < e.stamp-surprise-time.Millisecond:
			e.pausedUntil = e.start + pauseFor // the wall clock was set back
		case paused:
			e.pausedUntil = last.pausedUntil
		}
	}
	if e.stamp > 0 && e.start-e.stamp > pauseAfter {
		e.pausedUntil = e.start + pauseFor
	}
	if e.real = !h.cut; h.cut {
		e.ended = e.began
	}
	h.eras = append(h.eras, e)
	h.looked = e.began
}

// step sets the wall clock, and notes it if the broker runs. The broker has looked at the clock
// since each operation was begun that has been answered.
func (h *history) step(w *wall, by time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.step(by)
	if h.cut || len(h.eras) == 0 {
		return
	}
	e := h.eras[len(h.eras)-1]
	e.steps = append(e.steps, step{at: time.Now(), offset: w.ahead(), doubt: 2 * time.Since(h.looked) / slewed})
}

func (w *wall) ahead() time.Duration { return time.Duration(w.offset.Load()) }

// check judges broker time at a start, for which the wall clock showed a time between two.
// [CLOCK-9]
func (e *era) check(before, after time.Duration) error {
	before, after = before.Truncate(time.Millisecond), after.Truncate(time.Millisecond)
	if e.start < max(before, e.stamp) || e.start > max(after, e.stamp) {
		return fmt.Errorf("broker time began at %v, with the last stamp at %v and the wall clock at %v to %v", e.start, e.stamp, before, after)
	}
	return nil
}

// checkReturned judges right after a start whether what was hidden has come back, once every
// timeout and grace that there can be is over. [CLOCK-5, CLOCK-11, CLOCK-12, CLOCK-13]
func (s *simulation) checkReturned(r *rig, queues []string) {
	h := s.history
	var hidden time.Duration
	var e *era
	h.locked(func() {
		for i, past := range h.eras {
			if e = past; i+1 < len(h.eras) {
				_, latest := past.bounds(past.ended)
				hidden = max(hidden, latest+visibilityMax+s.tagged.pause())
			}
			if !past.clean {
				hidden = max(hidden, past.start+min(past.grace, past.start-past.stamp))
			}
		}
	})
	if e.start < hidden+2*time.Millisecond {
		return
	}
	for _, queue := range queues {
		const name = "ApproximateNumberOfMessagesNotVisible"
		op := &engine.GetQueueAttributes{Queue: named(queue), Names: []string{name}}
		n, _ := strconv.Atoi(do(r, op).Attributes[name])
		h.locked(func() {
			if !h.cut && n > 0 {
				s.complain("%d messages of %s were hidden at %v by broker time, want none after %v", n, queue, e.start, hidden)
			}
		})
	}
	s.returned++
}
