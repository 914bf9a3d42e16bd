package enginetest

import (
	"cmp"
	"math"
	"slices"

	"tenaq/internal/engine"
)

// fairTag switches a fair queue on.
const fairTag = "tenaq:fair"

// beforeFair is the group of all messages that were there before their queue was fair. [EXT-42]
const beforeFair = "\x00"

// A modelPlace is a time, and a message or a delivery of that time.
type modelPlace struct {
	at  int64
	seq uint64
}

func (p modelPlace) compare(other modelPlace) int {
	return cmp.Or(cmp.Compare(p.at, other.at), cmp.Compare(p.seq, other.seq))
}

// tenant is the group that a message of a fair queue counts for; empty if it is one of its own.
func (q *modelQueue) tenant(msg *modelMessage) string {
	if msg.seq < q.fairFrom {
		return beforeFair
	}
	return msg.entry.Group.Value
}

// beginFair makes a queue fair.
func (q *modelQueue) beginFair() {
	q.fairFrom = q.seq + 1
	q.serves = 1
	q.served = map[string]modelPlace{beforeFair: {0, 1}}
}

// found notes that a message enters a group that has none. [EXT-37]
func (q *modelQueue) found(msg *modelMessage, now int64) {
	if q.is(fairTag) && !slices.ContainsFunc(q.messages, func(other *modelMessage) bool {
		return q.tenant(other) == q.tenant(msg)
	}) {
		q.serves++
		q.served[q.tenant(msg)] = modelPlace{now, q.serves}
	}
}

// A modelTurn is where a message stands in the order of a fair queue.
type modelTurn struct {
	inFlight int
	served   modelPlace // when its group was, or for a message without one, since when it waits
	grouped  int        // 0 for a message without a group
	own      modelPlace
}

func (t modelTurn) compare(other modelTurn) int {
	return cmp.Or(cmp.Compare(t.inFlight, other.inFlight), t.served.compare(other.served),
		cmp.Compare(t.grouped, other.grouped), t.own.compare(other.own))
}

// turn returns the place of a message in the order. counts holds how many messages of each group
// are in flight or already picked, and last the place of each group's latest pick by this receive.
func (q *modelQueue) turn(
	msg *modelMessage, counts map[string]int, last map[string]modelPlace,
) modelTurn {
	own := modelPlace{q.due(msg), msg.seq}
	name := q.tenant(msg)
	if name == "" {
		return modelTurn{0, own, 0, own}
	}
	t := modelTurn{counts[name], q.served[name], 1, own}
	if at, ok := last[name]; ok {
		t.served = at
	}
	return t
}

// flights counts the messages in flight of each group.
func (q *modelQueue) flights(now int64) map[string]int {
	counts := make(map[string]int)
	for _, msg := range q.messages {
		if q.state(msg, now) == inFlight {
			counts[q.tenant(msg)]++
		}
	}
	return counts
}

// pickFair is pick for a fair queue: it takes one message after the other, each of the group that
// then has the fewest in flight. While expiry is paused, it passes over some that have expired.
// [EXT-37, EXT-39, EXT-44, CLOCK-7]
func (m *Model) pickFair(q *modelQueue, want int) (picked []*modelMessage) {
	counts, last := q.flights(m.now), make(map[string]modelPlace)
	most := int(q.most(perGroupTag, math.MaxInt32))
	seen := make(map[*modelMessage]bool)
	newest := q.seq
	for moved, past := 0, 0; len(picked) < want; {
		var next *modelMessage
		var first modelTurn
		for _, msg := range q.inOrder(m.now, 0) {
			if seen[msg] || msg.seq > newest {
				continue
			}
			if t := q.turn(msg, counts, last); next == nil || t.compare(first) < 0 {
				next, first = msg, t
			}
		}
		if next == nil {
			return picked
		}
		seen[next] = true
		switch name := q.tenant(next); {
		case q.expired(next, m.now):
			if past++; past > modelLooksMax {
				return picked
			}
		case name != "" && first.inFlight >= most:
			return picked
		case m.exhausted(q, next):
			if m.broken = m.movesMax > 0 && moved == m.movesMax; m.broken {
				return nil
			}
			m.deadLetter(q, next)
			moved++
		default:
			picked = append(picked, next)
			counts[name]++
			last[name] = modelPlace{m.now, q.serves + uint64(len(picked))}
		}
	}
	return picked
}

// serve notes deliveries. [EXT-37]
func (q *modelQueue) serve(picked []*modelMessage, now int64) {
	if q.is(fairTag) {
		for _, msg := range picked {
			q.serves++
			q.served[q.tenant(msg)] = modelPlace{now, q.serves}
		}
	}
}

// inTurn returns what a task finds in a fair queue, in order: all of one group, then of the next.
func (q *modelQueue) inTurn(now int64) (ready []*modelMessage) {
	turns, counts := make(map[*modelMessage]modelTurn), q.flights(now)
	all := q.inOrder(now, 0)
	for _, msg := range all {
		turns[msg] = q.turn(msg, counts, nil)
	}
	slices.SortFunc(all, func(a, b *modelMessage) int { return turns[a].compare(turns[b]) })
	past := 0
	for _, msg := range all {
		if !q.expired(msg, now) {
			ready = append(ready, msg)
		} else if past++; past > modelLooksMax {
			break
		}
	}
	return ready
}

// clash refuses a limit for groups on a standard queue that is not fair, and priorities on one that
// is. [EXT-11, EXT-53]
func (q *modelQueue) clash() *engine.Error {
	if q.is(fairTag) && q.is(priorityTag) {
		return modelRefusal(engine.CodeInvalidParameter,
			"The tags tenaq:fair and tenaq:priority exclude each other; leave one out.")
	}
	if q.fifo() || !q.is(perGroupTag) || q.is(fairTag) {
		return nil
	}
	return modelRefusal(engine.CodeInvalidParameter, "On a standard queue, the tag tenaq:max-in-flight-per-group needs the tag tenaq:fair; set both, or remove both.")
}

// fair makes a standard queue fair, with messages of a few groups, or ends that.
func (g *Generator) fair(q string) {
	switch {
	case !g.fairs[q]:
		g.fairs[q] = true
		if !g.chance(4) {
			g.emit("untag q=%s %s", q, priorityTag)
		}
		g.emit("tag q=%s %s=true", q, fairTag)
	case g.chance(4):
		g.fairs[q] = false
		g.emit("untag q=%s %s %s", q, fairTag, perGroupTag)
		return
	case g.chance(2):
		g.emit("tag q=%s %s=%s", q, perGroupTag, g.one("1", "2", "3", "12"))
	case g.chance(2):
		g.emit("untag q=%s %s", q, perGroupTag)
	}
	for range 3 + g.r.IntN(6) {
		g.emit("send q=%s%s", q, g.message(q))
		if g.chance(3) {
			g.emit("receive q=%s max=%s%s", q, g.one("1", "2", "10"), g.maybe("vt", "0", "2", "30"))
		}
	}
}

// quiet counts the noisy groups of a queue, and the messages of all others. [METRIC-16]
func (q *modelQueue) quiet(now int64, g *engine.Gauge) {
	g.Fair = true
	counts := make(map[string]*[3]int64)
	for _, msg := range q.messages {
		name := q.tenant(msg)
		if counts[name] == nil {
			counts[name] = new([3]int64)
		}
		counts[name][q.state(msg, now)]++
	}
	for name, n := range counts { // order does not matter: sums
		if name != "" && n[available] > 0 && n[inFlight] >= 30 && n[inFlight]*10 > g.InFlight {
			g.Noisy++
			continue
		}
		g.Quiet.Visible += n[available]
		g.Quiet.InFlight += n[inFlight]
		g.Quiet.Delayed += n[delayed]
	}
}
