package broker

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"tenaq/internal/engine"
)

// A history is what clients did and what they were told, across any number of power cuts. It knows
// what every answer allows a client to conclude, and nothing about the server.
type history struct {
	mu       sync.Mutex
	moment   int64 // counts what happened, for "surely before"
	cut      bool  // the power is off: no answer counts any more
	messages map[string]*sentMessage
	byID     map[engine.MessageID]*sentMessage
	batches  []*sentBatch
	purges   []*attempt
	deletes  []*deleteBatch
	tag      register
	created  map[string]*attempt
	counts   []*counted
	answers  int
	eras     []*era
	looked   time.Time // the broker has looked at the clock in this era, then or later
}

func newHistory() *history {
	return &history{
		messages: make(map[string]*sentMessage),
		byID:     make(map[engine.MessageID]*sentMessage),
		created:  make(map[string]*attempt),
	}
}

// An attempt is one operation as its client saw it: it took effect between called and returned, or
// not at all, or, if it was never answered, perhaps at some moment since called.
type attempt struct {
	called, returned int64 // moments; never is the last
	from, until      time.Time
	era              int // in which it was made; it has no effect in another one
	answered         bool
}

const never = math.MaxInt64

// before says that a surely took effect before b, if both did.
func (a *attempt) before(b *attempt) bool { return a.returned < b.called }

// A register is a value that one client raises: what was answered must be there, and nothing can be
// there that was not attempted.
type register struct{ answered, attempted int }

type sentMessage struct {
	body, queue string
	send        *attempt
	again       []*attempt // to send it, when no earlier one had been answered
	delay       time.Duration
	id          engine.MessageID // known once answered or delivered
	hasID       bool
	deliveries  []*delivered
	deletes     []*changed
	changes     []*changed
	drained     bool
}

type sentBatch struct {
	attempt  *attempt
	messages []*sentMessage
}

type deleteBatch struct {
	attempt *attempt
	entries []*changed
	of      []*sentMessage
}

// A delivered is one answered delivery of a message.
type delivered struct {
	*attempt
	message    *sentMessage
	handle     engine.Handle
	visibility time.Duration
	receives   int

	sent, first int64 // of the message, as the server says
}

// A changed is a delete or a change of visibility.
type changed struct {
	*attempt
	receives int // of the delivery whose handle it used
	timeout  time.Duration
}

// call notes the beginning of an operation.
func (h *history) call() *attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moment++
	return &attempt{called: h.moment, returned: never, from: time.Now(), era: len(h.eras) - 1}
}

// answer notes that a client got an answer, unless the power was cut before. It reports whether it
// was in time; the caller may then use the history, which it has locked until it calls done.
func (h *history) answer(a *attempt) (ok bool, done func()) {
	h.mu.Lock()
	if h.cut {
		return false, h.mu.Unlock
	}
	h.moment++
	h.answers++
	a.returned, a.until, a.answered = h.moment, time.Now(), true
	if a.from.After(h.looked) {
		h.looked = a.from
	}
	return true, h.mu.Unlock
}

// powerOff makes every later answer void and reports whether the power was on.
func (h *history) powerOff() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := !h.cut
	h.cut = true
	if n := len(h.eras); n > 0 && h.eras[n-1].ended.IsZero() {
		h.eras[n-1].ended = time.Now()
	}
	return was
}

func (h *history) powerOn() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut = false
}

func (h *history) off() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cut
}

// locked runs f with the history locked.
func (h *history) locked(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// retention is that of the queue brief.
const retention = time.Minute

// check returns what is wrong with the history, once every message that was left has been drained.
func (h *history) check() (problems []string) {
	for _, body := range slices.Sorted(maps.Keys(h.messages)) {
		m := h.messages[body]
		complain := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("message %s of %s: ", body, m.queue)+fmt.Sprintf(format, args...))
		}
		slices.SortFunc(m.deliveries, func(a, b *delivered) int { return a.receives - b.receives })
		h.checkLoss(m, complain)
		h.checkCounts(m, complain)
		h.checkDeletes(m, complain)
		h.checkInvisibility(m, complain)
		h.checkTime(m, complain)
		h.checkClock(m, complain)
	}
	for _, c := range h.counts {
		problems = append(problems, h.checkCount(c)...)
	}
	for i, b := range h.batches {
		if !b.attempt.answered {
			problems = append(problems, b.check(h, i)...)
		}
	}
	for i, b := range h.deletes {
		if !b.attempt.answered {
			problems = append(problems, b.check(h, i)...)
		}
	}
	return problems
}

// mayBeGone says that something else than a loss may have ended the message.
func (h *history) mayBeGone(m *sentMessage) bool {
	return len(m.deletes) > 0 || h.expired(m) || h.purged(m, func(p *attempt) bool { return p.returned > m.send.called })
}

// expired says that the message may have outlived its retention when all was over.
func (h *history) expired(m *sentMessage) bool {
	last := len(h.eras) - 1
	return h.mayHaveExpired(m, last, h.eras[last].ended)
}

func (h *history) purged(m *sentMessage, by func(*attempt) bool) bool {
	return m.queue == "purged" && slices.ContainsFunc(h.purges, by)
}

// A message whose send was answered is there until something ends it, and then it is there no more.
// [DUR-1, DUR-2]
func (h *history) checkLoss(m *sentMessage, complain func(string, ...any)) {
	answered := m.send.answered || slices.ContainsFunc(m.again, func(a *attempt) bool { return a.answered })
	if answered && !m.drained && !h.mayBeGone(m) {
		complain("was answered and is lost")
	}
	for _, d := range m.deliveries {
		if h.purged(m, func(p *attempt) bool { return p.answered && m.send.before(p) && p.before(d.attempt) }) {
			complain("was delivered after a purge that was answered")
		}
	}
}

// Receive counts grow: by one with each receive, whatever happened in between. [DUR-9]
func (h *history) checkCounts(m *sentMessage, complain func(string, ...any)) {
	for i, d := range m.deliveries {
		if d.receives < 1 {
			complain("was delivered with receive count %d", d.receives)
		}
		if i == 0 {
			continue
		}
		last := m.deliveries[i-1]
		if d.receives == last.receives {
			complain("was delivered twice with receive count %d", d.receives)
		}
		if d.first != last.first {
			complain("was first received at %d and then at %d", last.first, d.first)
		}
		if d.before(last.attempt) {
			complain("had receive count %d and later %d", last.receives, d.receives)
		}
	}
}

// A message whose delete was answered, with the handle of what was the last delivery then, is not
// delivered again. [DUR-10]
func (h *history) checkDeletes(m *sentMessage, complain func(string, ...any)) {
	for _, c := range m.deletes {
		if !c.answered {
			continue
		}
		// The handle was not the last one if a later receive came first. Each has its own count, so
		// either it is known, or its count is missing.
		known := 0
		for _, d := range m.deliveries {
			if d.receives <= c.receives {
				continue
			}
			if !c.before(d.attempt) {
				break
			}
			if d.receives == c.receives+known+1 {
				complain("was deleted with the handle of receive %d and delivered again, as receive %d", c.receives, d.receives)
			}
			known++
		}
	}
}

// A message is not delivered while an earlier delivery is surely in flight, by broker time. [DUR-8]
func (h *history) checkInvisibility(m *sentMessage, complain func(string, ...any)) {
	for i, d := range m.deliveries {
		if i == 0 || m.deliveries[i-1].receives != d.receives-1 {
			continue // a receive in between was not answered, and its timeout is unknown
		}
		if d.before(m.deliveries[i-1].attempt) {
			continue // checkCounts complains of that
		}
		if early := h.hiddenUntil(m, m.deliveries[i-1], d) - h.latest(d.attempt); early > 0 {
			complain("was delivered %v too early, as receive %d", early, d.receives)
		}
	}
}

// hiddenUntil is the earliest time at which a message can have become available after a delivery
// and before the next.
func (h *history) hiddenUntil(m *sentMessage, last, next *delivered) time.Duration {
	until := h.hiddenBy(last.attempt, last.visibility, next.attempt)
	var possible []*changed
	for _, c := range m.changes {
		if !c.before(last.attempt) && !next.before(c.attempt) {
			possible = append(possible, c)
		}
	}
	sure := func(c *changed) bool { return c.answered && last.before(c.attempt) && c.before(next.attempt) }
	if slices.ContainsFunc(possible, sure) {
		until = math.MaxInt64
	}
	for _, c := range possible {
		later := func(l *changed) bool { return sure(l) && c.before(l.attempt) }
		if !slices.ContainsFunc(possible, later) {
			until = min(until, h.hiddenBy(c.attempt, c.timeout, next.attempt))
		}
	}
	return until
}

// A message is not delivered before its delay has ended, nor after its retention, by broker time.
// [DUR-11, CLOCK-7]
func (h *history) checkTime(m *sentMessage, complain func(string, ...any)) {
	for _, d := range m.deliveries {
		if early := h.sentFrom(m) + m.delay - 2*time.Millisecond - h.latest(d.attempt); early > 0 {
			complain("was delivered %v before its delay had ended", early)
		}
		if m.send.answered && h.earliest(d.attempt)-h.latest(m.send) > retentionOf(m.queue)+2*time.Millisecond {
			complain("was delivered after its retention")
		}
	}
}

// A batch of sends that was not answered happened wholly or not at all. [DUR-6, DUR-7]
func (b *sentBatch) check(h *history, i int) (problems []string) {
	there := 0
	for _, m := range b.messages {
		if h.expired(m) {
			return nil
		}
		if m.drained || len(m.deliveries) > 0 {
			there++
		}
	}
	// If messages can leave unseen, some that are missing may have been there.
	if b.messages[0].queue == "orders" && there != 0 && there != len(b.messages) {
		problems = append(problems, fmt.Sprintf("batch %d of sends: %d of %d happened", i, there, len(b.messages)))
	}
	return problems
}

// So did a batch of deletes, as far as its handles were surely the last ones. [DUR-6, DUR-7]
func (b *deleteBatch) check(h *history, i int) (problems []string) {
	var kept, gone []string
	for j, m := range b.of {
		c := b.entries[j]
		alone := len(m.deletes) == 1 && m.queue == "orders" && !h.expired(m)
		last := m.deliveries[len(m.deliveries)-1]
		switch {
		case alone && !m.drained:
			gone = append(gone, m.body)
		case m.drained && last.receives == c.receives+1: // which was the drain's
			kept = append(kept, m.body)
		}
	}
	if len(kept) > 0 && len(gone) > 0 {
		problems = append(problems, fmt.Sprintf("batch %d of deletes: %v are gone and %v are not", i, gone, kept))
	}
	return problems
}
