package enginetest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tenaq/internal/engine"
)

func (m *Model) checkReplay(q *modelQueue, name string) *engine.Error {
	if _, on := q.historyAge(); !on {
		return modelRefusal(engine.CodeUnsupported,
			"Queue %s keeps no history. Set its tag tenaq:history, for example to 7d.", q.name.Name)
	}
	if name == "" {
		return nil
	}
	switch to := m.target(q, name); {
	case to == nil:
		return modelBadValue(name, "to", "There is no such queue.")
	case to.fifo() != q.fifo():
		return modelBadValue(name, "to",
			"Source and destination must be queues of the same type.")
	}
	return nil
}

// target is the queue that a replay sends to; nil if there is none.
func (m *Model) target(q *modelQueue, name string) *modelQueue {
	if name == "" {
		return q
	}
	return m.queues[engine.QueueName{Account: q.name.Account, Name: name}]
}

// endReplay forgets a history that was removed, and ends the replay of it.
func (m *Model) endReplay(q *modelQueue) {
	q.outcomes = nil
	for _, t := range m.tasksOf(q.name) {
		if t.active() && t.selects != nil && t.selects.Work == engine.TaskReplay {
			t.end("FAILED", "HistoryRemoved")
			t.stepped = m.now
		}
	}
}

// A modelReplay is a look at a history.
type modelReplay struct {
	*Model
	q, to   *modelQueue
	filter  *engine.TaskFilter
	missing bool
	place   uint64 // the last outcome that it has looked at
	last    uint64 // the last one that it looks at

	looks int
	skips engine.ReplaySkips
}

// run calls visit for each message that is to be sent again.
func (r *modelReplay) run(visit func(*modelOutcome) bool) (whole bool) {
	r.looks = 512
	reads := int64(4 << 20)
	for r.place < r.last {
		n := r.place + 1
		o := &r.q.outcomes[n-1]
		switch inTime, over := r.inTime(o); {
		case over:
			return true
		case !inTime:
			r.place = n
			continue
		}
		if r.looks <= 0 {
			return false
		}
		r.looks--
		if r.selects(o) {
			size := sizeOf(&o.entry)
			if reads < size && reads < 4<<20 {
				return false
			}
			if reads -= size; r.contains(o) && !r.consider(n, o, visit) {
				return false
			}
		}
		r.place = n
	}
	return true
}

// consider sends an outcome again if it is the end of its work.
func (r *modelReplay) consider(n uint64, o *modelOutcome, visit func(*modelOutcome) bool) bool {
	again := *o
	was := max(o.lineageGeneration, writtenGeneration(o))
	again.lineageGeneration = was
	switch {
	case r.live(o.lineage):
		r.skips.Live++
		return true
	case !r.isEnd(n, &again):
		r.skips.Later++
		return true
	}
	if !r.missing {
		again.lineageGeneration++
		if r.q.fifo() {
			again.dedup = dedupAgain(o.dedup, was, again.lineageGeneration)
		}
	}
	r.write(o, &again)
	if sizeOf(&again.entry) > r.to.number("MaximumMessageSize") {
		r.skips.Refused++
		return true
	}
	return visit(&again)
}

func (r *modelReplay) inTime(o *modelOutcome) (yes, over bool) {
	age, _ := r.q.historyAge()
	now := r.now
	if r.hold {
		now = r.heldFrom
	}
	if r.filter.To != 0 && o.ended >= r.filter.To {
		return false, true
	}
	return o.ended > now-age && o.ended >= r.filter.From, false
}

func (r *modelReplay) selects(o *modelOutcome) bool {
	f := r.filter
	kind := f.Outcome.String()
	id := engine.MessageID(f.ID)
	return (kind == o.outcome || kind == "" && o.outcome != "removed") &&
		!(r.missing && o.outcome == "deleted") &&
		(id == engine.MessageID{} || id == o.id || id == o.lineage) &&
		(f.Key == "" || f.Key == workKey(&o.entry)) &&
		(f.Group == "" || f.Group == o.entry.Group.Value)
}

func (r *modelReplay) contains(o *modelOutcome) bool {
	return matchesContent(r.filter, &o.modelMessage) &&
		(!r.filter.OfReason() || matchesReason(r.filter, &o.modelMessage))
}

// live reports whether a queue has a message of a lineage.
func (r *modelReplay) live(lineage engine.MessageID) bool {
	for _, q := range r.queues { // order does not matter: one message is of the lineage
		for _, msg := range q.messages {
			if msg.lineage == lineage {
				if q.expired(msg, r.now) {
					r.settle(q)
				}
				return slices.Contains(q.messages, msg)
			}
		}
	}
	return false
}

// isEnd reports whether no later outcome of the lineage counts instead of number n, and learns from
// the later ones.
func (r *modelReplay) isEnd(n uint64, o *modelOutcome) bool {
	moved := slices.Contains([]string{"dead_lettered", "moved", "parked", "replaced"}, o.outcome)
	seen, bucket := 0, -1
	for i := len(r.q.outcomes) - 1; i >= int(n); i-- {
		later := &r.q.outcomes[i]
		if later.bucket != bucket {
			bucket = later.bucket
			if moved || slices.ContainsFunc(r.q.outcomes, func(other modelOutcome) bool {
				return other.bucket == bucket && other.replayed
			}) {
				r.looks--
			}
		}
		if later.lineage != o.lineage {
			continue
		}
		o.lineageGeneration = max(o.lineageGeneration, later.lineageGeneration)
		o.fence = max(o.fence, later.fence)
		seen++
		inTime, _ := r.inTime(later)
		if moved || r.missing || seen == 64 ||
			uint64(i+1) <= r.last && inTime && r.selects(later) && r.contains(later) {
			return false
		}
	}
	return true
}

func writtenGeneration(o *modelOutcome) uint64 {
	n, err := strconv.ParseUint(written(&o.modelMessage, "generation"), 10, 31)
	if err != nil {
		return 0
	}
	return n
}

// dedupAgain is the deduplication id of a later generation.
func dedupAgain(dedup string, was, generation uint64) string {
	if was > 0 {
		dedup = strings.TrimSuffix(dedup, fmt.Sprintf("#%d", was))
	}
	if dedup = fmt.Sprintf("%s#%d", dedup, generation); len(dedup) > 128 ||
		strings.HasPrefix(dedup, "sha256-") {
		return "sha256-" + sha256Of(dedup)
	}
	return dedup
}

func sha256Of(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// write gives a message that is sent again its attribute tenaq. [REPLAY-9]
func (r *modelReplay) write(was, again *modelOutcome) {
	attributes := slices.Clone(was.entry.Attributes)
	again.entry.Attributes = attributes
	i := slices.IndexFunc(attributes, func(a engine.EntryAttribute) bool {
		return a.Name == "tenaq"
	})
	if i < 0 {
		if len(attributes) == 10 {
			return
		}
		text := func(s string) engine.Text { return engine.Text{Value: s, Set: true} }
		attributes = append(attributes, engine.EntryAttribute{Name: "tenaq", Type: text("String"),
			String: text("v=1")})
		i = len(attributes) - 1
	}
	fields, err := url.ParseQuery(attributes[i].String.Value)
	if err != nil || fields.Get("v") != "1" || attributes[i].Type.Value != "String" {
		return
	}
	if fields.Get("key") == "" && fields.Get("lineage") == "" && was.dedup != "" &&
		was.dedup != sha256Of(was.entry.Body.Value) {
		fields.Set("key", was.dedup)
	}
	fields.Set("lineage", cmp.Or(fields.Get("lineage"), was.lineage.String()))
	if !r.missing {
		for _, over := range strings.Fields("redrives strikes first-sent died reason attempts " +
			"source poison") {
			fields.Del(over)
		}
		fields.Set("generation", fmt.Sprint(again.lineageGeneration))
	}
	fields.Del("v")
	attributes[i].String.Value = "v=1&" + fields.Encode()
	again.entry.Attributes = attributes
}

// stepReplay looks at up to 512 outcomes, and sends up to 100 of them again.
func (m *Model) stepReplay(t *modelTask, q *modelQueue, most int64) {
	op := t.selects
	to := m.target(q, op.To)
	if to == nil {
		t.end("FAILED", string(engine.CodeNoQueue))
		return
	}
	allowed, size := t.allowance(m.now, most), int64(0)
	var sent []modelOutcome
	r := &modelReplay{Model: m, q: q, to: to, filter: &op.Filter, missing: op.Missing,
		place: t.place, last: t.last}
	whole := r.run(func(o *modelOutcome) bool {
		n := int64(len(sent))
		if op.Most > 0 && t.Moved+n == op.Most {
			return false
		}
		size += sizeOf(&o.entry)
		if n == allowed || n > 0 && size > 4<<20 {
			return false
		}
		sent = append(sent, *o)
		return true
	})
	for i := range sent {
		m.sendAgain(to, &sent[i], op.Missing)
	}
	t.place = r.place
	t.skipped += r.skips.Total()
	t.spend(int64(len(sent)), m.now)
	if whole || op.Most > 0 && t.Moved == op.Most {
		t.end("COMPLETED", "")
	}
}

func (m *Model) sendAgain(to *modelQueue, o *modelOutcome, missing bool) {
	msg := &modelMessage{id: m.identity(), lineage: o.lineage, sent: m.now, firstSent: m.now,
		fence: max(o.fence, uint64(m.now)), base: m.now, dedup: o.dedup, entry: o.entry,
		replayed: true, lineageGeneration: o.lineageGeneration}
	if missing {
		msg.firstSent, msg.attempts = o.firstSent, slices.Clone(o.attempts)
	}
	m.of(to).Arrived.Add(1)
	m.enter(to, msg, to.number("DelaySeconds"))
}

func (m *Model) countReplay(q *modelQueue, op *engine.CountTask, place uint64) *engine.Error {
	if no := m.checkReplay(q, op.To); no != nil {
		return no
	}
	m.settle(q)
	op.Count, op.Bytes, op.Outcomes, op.Next = 0, 0, nil, ""
	r := &modelReplay{Model: m, q: q, to: m.target(q, op.To), filter: &op.Filter,
		missing: op.Missing, place: place, last: uint64(len(q.outcomes))}
	whole := r.run(func(o *modelOutcome) bool {
		if op.Most > 0 && op.Count == op.Most {
			return false
		}
		op.Count++
		op.Bytes += sizeOf(&o.entry)
		if len(op.Outcomes) < engine.CountSamples {
			var shown engine.Outcome
			shown.ID, shown.Lineage, shown.Content = o.id, o.lineage, contentOf(&o.entry)
			op.Outcomes = append(op.Outcomes, shown)
		}
		return true
	})
	if op.Skips, op.Skipped = r.skips, r.skips.Total(); !whole {
		op.Next = q.place(r.place)
	}
	return nil
}
