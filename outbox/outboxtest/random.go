package outboxtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tenaq/internal/testing/proof"
	"tenaq/outbox"
)

// A span is when something happens, which a test knows only as well as it knows the clock of the
// database.
type span struct{ from, to time.Duration }

func (s span) plus(d time.Duration) span { return span{s.from + d - slack, s.to + d + slack} }

// A modelRow is a row as the naive model has it.
type modelRow struct {
	outbox.Message
	stream string
	place  int // in the order of its stream
	due    span

	relay    string // who has it, until another one takes it
	until    span   // the lease
	attempts int
	state    string // pending, sent, parked or gone
}

// A model is what testRandom expects. It keeps all rows in a list and looks at each of them for
// everything.
type model struct {
	*env
	boxes  []outbox.Box
	relays []string // the living ones
	born   int      // how many there ever were
	rows   map[string]*modelRow
	places int
	swept  int // rows that were sent and removed
}

// Random calls of a few relays, of which some die, have the outcomes that a naive model has.
func testRandom(e *env) {
	m := &model{env: e, boxes: []outbox.Box{e.Open(e), e.Open(e)}, rows: make(map[string]*modelRow)}
	for range 3 {
		m.birth()
	}
	steps := []struct {
		weight int
		do     func()
	}{
		{30, m.enqueue}, {40, m.claim}, {50, m.settle}, {8, m.renew}, {5, m.die}, {1, m.pass},
		{4, m.release}, {3, m.discard}, {5, m.stats}, {3, m.sweep},
	}
	total := 0
	for _, s := range steps {
		total += s.weight
	}
	for range proof.Few(300) {
		n := e.rng.IntN(total)
		for _, s := range steps {
			if n -= s.weight; n < 0 {
				s.do()
				break
			}
		}
	}
	m.drain()
}

func (m *model) birth() {
	m.relays = append(m.relays, fmt.Sprint("relay ", m.born))
	m.born++
}

func (m *model) box() outbox.Box { return m.boxes[m.rng.IntN(len(m.boxes))] }

// during carries out a call, and returns when.
func (m *model) during(call func()) span {
	from := m.now()
	call()
	return span{from, m.now()}
}

// sorted are the rows in the order of their places, which is also that of each stream.
func (m *model) sorted(states ...string) []*modelRow {
	rows := slices.SortedFunc(maps.Values(m.rows), func(a, b *modelRow) int {
		return cmp.Compare(a.place, b.place)
	})
	return slices.DeleteFunc(rows, func(r *modelRow) bool {
		return !slices.Contains(states, r.state)
	})
}

func (m *model) enqueue() {
	var messages []outbox.Message
	for range 1 + m.rng.IntN(5) {
		msg := outbox.Message{ID: outbox.NewID(),
			Body: fmt.Sprintf("%d %s", len(m.rows)+len(messages),
				strings.Repeat("b", m.rng.IntN(300)))}
		switch m.rng.IntN(6) {
		case 0:
			msg.Queue = "plain"
		case 1:
			msg.Queue, msg.Key = "other", "k"
		case 2:
			msg.Queue, msg.Group = "plain", "g"
		default:
			msg.Queue, msg.Key = "q.fifo", string(rune('a'+m.rng.IntN(3)))
		}
		if m.rng.IntN(8) == 0 {
			msg.After = time.Now().Add(m.jumped + upTo(m.rng, short)).Round(time.Millisecond)
		}
		messages = append(messages, msg)
	}
	commit := m.rng.IntN(6) > 0
	at := m.during(func() { m.env.enqueue(commit, messages...) })
	if !commit {
		return
	}
	for _, msg := range messages {
		r := &modelRow{Message: msg, place: m.places, due: at.plus(0), state: "pending"}
		m.places++
		switch {
		case msg.Group != "":
			r.stream = msg.Queue + "|" + msg.Group
		case strings.HasSuffix(msg.Queue, ".fifo"):
			r.stream = msg.Queue + "|" + msg.Key
		}
		if !msg.After.IsZero() {
			after := msg.After.Sub(m.start)
			r.due = span{after, after}.plus(0)
		}
		m.rows[msg.ID] = r
	}
}

// free says whether a row can be handed out by its lease and its time: whether it may at all by the
// end of a call, and whether it must from its beginning on.
func (r *modelRow) free(at span) (may, must bool) {
	may = r.due.from <= at.to && (r.relay == "" || r.until.from <= at.to)
	must = r.due.to <= at.from && (r.relay == "" || r.until.to <= at.from)
	return may, must
}

func (m *model) claim() {
	c := outbox.Claim{Relay: m.relays[m.rng.IntN(len(m.relays))], Lease: short, Rows: 1000,
		Bytes: 1 << 30, Stream: 1 + m.rng.IntN(4)}
	switch m.rng.IntN(4) {
	case 0:
		c.Rows = 1 + m.rng.IntN(5)
	case 1:
		c.Bytes = 100 + m.rng.IntN(1000)
	}
	if m.rng.IntN(3) == 0 {
		c.Except = []string{[]string{"plain", "other", "q.fifo"}[m.rng.IntN(3)]}
	}
	if m.rng.IntN(3) == 0 {
		c.Lease = long
	}
	var rows []outbox.Row
	var next time.Duration
	at := m.during(func() { rows, next = m.ask(m.box(), c) })
	m.judge(c, rows, at)
	for _, r := range rows {
		row := m.rows[r.ID]
		row.relay, row.until = c.Relay, at.plus(c.Lease)
	}
	m.judgeNext(c, len(rows) > 0, next, at)
}

// judge checks what was claimed: nothing that may not be, and, if the claim had room, all that must
// be.
func (m *model) judge(c outbox.Claim, rows []outbox.Row, at span) {
	got := make(map[string]bool)
	bytes, perStream := 0, make(map[string]int)
	for _, r := range rows {
		row := m.rows[r.ID]
		switch {
		case row == nil || row.state != "pending":
			m.Fatalf("%s claimed %s, which is not pending: %+v", c.Relay, r.ID, row)
		case got[r.ID]:
			m.Fatalf("%s claimed %.10q twice at once", c.Relay, r.Body)
		case slices.Contains(c.Except, row.Queue):
			m.Fatalf("%s claimed a row of %s, which it did not want", c.Relay, row.Queue)
		}
		if may, _ := row.free(at); !may {
			m.Fatalf("%s claimed %.10q at %v, which is due at %v and leased to %q until %v",
				c.Relay, r.Body, at, row.due, row.relay, row.until)
		}
		if r.Attempts != row.attempts {
			m.Fatalf("%.10q has %d attempts, want %d", r.Body, r.Attempts, row.attempts)
		}
		for _, before := range m.sorted("pending") {
			if before.stream != "" && before.stream == row.stream && before.place < row.place &&
				!got[before.ID] {
				m.Fatalf("%s claimed %.10q without %.10q, which is before it in %s", c.Relay,
					r.Body, before.Body, row.stream)
			}
		}
		m.same(r, row.Message)
		got[r.ID] = true
		bytes += len(r.Body)
		if perStream[row.stream]++; row.stream != "" && perStream[row.stream] > c.Stream {
			m.Fatalf("%s claimed more than %d rows of %s", c.Relay, c.Stream, row.stream)
		}
	}
	if len(rows) > c.Rows || bytes > c.Bytes && len(rows) > 1 {
		m.Fatalf("%s claimed %d rows of %d bytes, want %d of %d at most", c.Relay, len(rows), bytes,
			c.Rows, c.Bytes)
	}
	if c.Bytes < 1<<30 && len(rows) > 0 || len(rows) == c.Rows {
		return
	}
	closed, taken := make(map[string]bool), make(map[string]int)
	for _, row := range m.sorted("pending") {
		if row.stream != "" && closed[row.stream] || slices.Contains(c.Except, row.Queue) {
			continue
		}
		if _, must := row.free(at); must && !got[row.ID] {
			m.Fatalf("%s did not get %.10q of stream %q at %v, which is due at %v and leased to %q until %v",
				c.Relay, row.Body, row.stream, at, row.due, row.relay, row.until)
		}
		taken[row.stream]++
		closed[row.stream] = !got[row.ID] || taken[row.stream] == c.Stream
	}
}

// judgeNext checks when a claim says that there is more. It may count what is behind rows that it
// has just handed out.
func (m *model) judgeNext(c outbox.Claim, claimed bool, next time.Duration, at span) {
	soonest := span{outbox.NextMax + at.from, outbox.NextMax + at.to}
	closed := make(map[string]bool)
	for _, row := range m.sorted("pending") {
		if slices.Contains(c.Except, row.Queue) {
			continue
		}
		counts := row.stream == "" || !closed[row.stream]
		closed[row.stream] = true
		switch {
		case row.relay != "" && row.until.from > at.to: // leased for sure
		case !counts && claimed:
			soonest.from = min(soonest.from, row.due.from)
		case !counts:
		case row.relay == "":
			soonest = span{min(soonest.from, row.due.from), min(soonest.to, row.due.to)}
		case row.until.to <= at.from: // to no relay, for sure
			soonest = span{min(soonest.from, at.from), min(soonest.to, at.from)}
		default:
			soonest.from = min(soonest.from, at.from)
		}
	}
	least, most := soonest.from-at.to-slack, soonest.to-at.from+slack
	if next > max(most, 0) || least > 0 && next < least {
		m.Fatalf("next is %v after a claim at %v, want %v to %v", next, at, least, most)
	}
}
