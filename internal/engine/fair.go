package engine

import (
	"iter"
	"slices"
	"strings"

	"tenaq/internal/engine/row"
)

// Fair queues. A receive of a standard queue with the tag serves the groups with the fewest
// messages in flight first, and of these the one that was served longest ago. [EXT-37]
//
// Fresh and due stay as they are on any standard queue and say where each message is. Beside them
// is an index of what is available. A tenant, which is a group, has a row with its counts; a
// waiting row for each available message, by the time at which it became available; and while it
// has any, one row among the turns, which are in the order in which receives serve tenants. So a
// receive reads the front of the turns, and of each tenant the front of its messages. It never
// meets the backlog of another tenant, however long that is.
//
// A message becomes available without a write when its time comes. So the index follows the due
// index like the counters, in settle, and a receive of a fair queue settles to the end before it
// looks.

// fairness is the index of a fair queue in memory.
type fairness struct {
	row.Fair
	stored row.Fair // as the store has it; zero when it has none
	began  uint64   // the turn after the one in which it began, zero when unknown

	turns     window[string]
	coming    window[row.DueKind] // what the counters have not followed yet
	comingLow row.Pos

	tenants  lately[string, *tenant]
	used     []*tenant // in this turn
	lineRoom int       // for how many waiting messages the tenants have memory
	changed  []*tenant // with rows to be written
}

// A tenant is a tenant in memory: its row, and a window on what waits.
type tenant struct {
	name   string
	row    row.Tenant
	stored row.Tenant // as the store has it; zero when it has none
	stands row.Pos    // where the window on the turns has it; zero for nowhere

	lines   []entry[bool] // its first waiting messages; true if they have a place in due
	writes  []lineWrite   // of waiting rows, since they were last saved
	written uint64        // rows.applies when they were
	changed bool          // in fairness.changed
	turn    uint64        // of the last use
	counted int           // in fairness.lineRoom
}

// A lineWrite adds a waiting row, or removes it.
type lineWrite struct {
	entry[bool]
	remove bool
}

// newFairness begins the index of a queue whose messages, if any, were there before. [EXT-42]
func (q *queue) newFairness(now int64) {
	stored, before, some := row.NewFair(&q.st, now)
	q.fair = &fairness{Fair: stored}
	q.forgetFair()
	if some {
		t := &tenant{name: row.TenantBefore, row: before}
		q.fair.tenants.put(t.name, t)
		q.fair.used = append(q.fair.used, t)
		q.fair.change(t)
	}
}

// forgetFair drops the windows of a fair queue.
func (q *queue) forgetFair() {
	f := q.fair
	f.turns = windowOf(&row.TurnRows, q, &f.TurnLow)
	f.comingLow = q.st.Settled.Next()
	f.coming = windowOf(&row.DueRows, q, &f.comingLow)
	f.tenants = lately[string, *tenant]{of: make(map[string]*tenant)}
}

// loadFair reads the index of a fair queue.
func (e *Engine) loadFair(q *queue) {
	if !q.ext.Fair {
		return
	}
	k := row.FairKey(q.row.Space)
	stored, ok := read(&e.rows, "fair", k, row.DecodeFair)
	if !ok {
		e.rows.damaged("fair", k)
	}
	q.fair = &fairness{Fair: stored, stored: stored}
	q.forgetFair()
}

// turnFair switches the index on or off, as the tags of the queue say. The queue is settled, and
// endFair is done.
func (e *Engine) turnFair(q *queue) {
	switch on := q.ext.Fair; {
	case on == (q.fair != nil):
	case on:
		q.newFairness(e.now)
		q.fair.began = e.turn + 1
		q.stDirty = true
	default:
		q.fair = nil
		e.rows.deleteRange(row.FairSpan(q.row.Space))
		q.fresh = freshWindow{end: q.st.Cursor}
	}
}

// endFairLooks is how many messages one step of endFair looks at.
const endFairLooks = 1000

// endFair moves the cursor of a queue that is fair to its first fresh message, by a bounded number
// of messages, and reports whether it is there. Receives of a fair queue hand out fresh messages in
// any order and leave the cursor behind. [EXT-43]
func (e *Engine) endFair(q *queue) (done bool) {
	looks := 0
	pass := func(seq uint64) {
		q.st.Cursor, q.stDirty = seq, true
	}
	for id, s := range e.segments(q, q.st.Cursor>>row.SegmentBits) {
		lo, hi := q.bounds(id, &s)
		for m := range e.metas(q, max(lo, q.st.Cursor), hi) {
			if !m.Scheduled() && e.find(q, m.Seq) == nil {
				pass(m.Seq)
				return true
			}
			if looks++; looks > endFairLooks {
				return false
			}
			pass(m.Seq + 1)
		}
	}
	pass(q.st.NextSeq)
	return true
}

// comingBy returns the entries of due that the counters have not followed yet, up to goal, at most
// limit of them. Those of a fair queue leave the window on them, which it has if no message of its
// space had a level before it was fair.
func (e *Engine) comingBy(q *queue, goal row.Pos, limit int) (found []entry[row.DueKind]) {
	if q.fair == nil || q.levels != nil {
		return e.dueBetween(q, q.st.Settled.Next(), goal, limit)
	}
	w := &q.fair.coming
	for n := 0; n < limit && w.load(e, n) && !goal.Less(w.at(n).Pos); n++ {
		found = append(found, w.at(n))
	}
	w.pop(len(found))
	if n := len(found); n > 0 {
		q.fair.comingLow = found[n-1].Next()
	}
	return found
}

// arrived counts a message whose time in due has come as waiting.
func (e *Engine) arrived(q *queue, due entry[row.DueKind]) {
	t := e.tenantOf(q, e.mustFind(q, due.Pos))
	if due.value == row.DueDelayed {
		add(&t.row.Delayed, -1, q, t)
	} else {
		add(&t.row.InFlight, -1, q, t)
	}
	e.addLine(q, t, entry[bool]{due.Pos, true})
	q.fair.change(t)
}

// isFull reports whether the group of a message has as many in flight as it may, with those that
// were picked. [EXT-44]
func (e *Engine) isFull(q *queue, m *message, picked []*message, most int64) bool {
	t := e.tenantOf(q, m)
	if t.name == row.TenantNone {
		return false
	}
	n := int64(t.row.InFlight)
	for _, other := range picked {
		if e.tenantOf(q, other) == t {
			n++
		}
	}
	return n >= most
}

// tenant returns the tenant of that name, which may be empty.
func (e *Engine) tenant(q *queue, name string) *tenant {
	f := q.fair
	t := f.tenants.of[name]
	if t == nil {
		t = &tenant{name: strings.Clone(name), turn: e.turn - 1}
		if f.began != e.turn+1 { // else the store may still have those of an earlier index
			k := row.TenantKey(q.row.Space, name)
			if stored, ok := read(&e.rows, "tenant", k, row.DecodeTenant); ok {
				t.row, t.stored = stored, stored
				t.stands = t.standing()
				if stored.Front != row.FrontUnknown {
					t.lines = append(t.lines, entry[bool]{stored.Low,
						stored.Front == row.FrontPlaced})
				}
			}
		}
		f.tenants.put(t.name, t)
	}
	if t.turn != e.turn {
		t.turn = e.turn
		f.used = append(f.used, t)
	}
	return t
}

// tenantOf returns the tenant of a message.
func (e *Engine) tenantOf(q *queue, m *message) *tenant {
	if m.Seq < q.fair.From {
		return e.tenant(q, row.TenantBefore)
	}
	e.needMeta(q, m)
	return e.tenant(q, m.Group)
}

// standing is where a tenant belongs among the turns; zero for nowhere.
func (t *tenant) standing() row.Pos { return turnOf(t.name, &t.row) }

func turnOf(name string, r *row.Tenant) row.Pos {
	if r.Waiting == 0 || name == row.TenantNone {
		return row.Pos{}
	}
	return r.Turn()
}

// lined is how many waiting rows a tenant has.
func (f *fairness) lined(t *tenant) uint64 {
	if t.name == row.TenantBefore {
		return t.row.Waiting - f.Before
	}
	return t.row.Waiting
}

// change marks a tenant whose row has to be written.
func (f *fairness) change(t *tenant) {
	if !t.changed {
		t.changed = true
		f.changed = append(f.changed, t)
	}
}

// arrange moves the tenants that have changed to where they belong among the turns.
func (f *fairness) arrange() {
	for _, t := range f.changed {
		if now := t.standing(); now != t.stands {
			if t.stands != (row.Pos{}) {
				f.turns.remove(t.stands)
			}
			if now != (row.Pos{}) {
				f.turns.insert(now, t.name)
			}
			t.stands = now
		}
	}
}

// saveFair writes the rows of the tenants that have changed.
func (e *Engine) saveFair(q *queue) {
	f, space := q.fair, q.row.Space
	f.arrange()
	for _, t := range f.changed {
		t.changed = false
		for _, w := range t.writes {
			k := row.WaitingKey(space, t.name, w.Pos)
			if w.remove {
				e.rows.delete(k)
			} else {
				e.rows.set(k, row.EncodeWaiting(e.rows.scratch(), w.value))
			}
			t.written = e.rows.applies
		}
		t.writes = t.writes[:0]
		t.row.Front = row.FrontUnknown
		if len(t.lines) > 0 {
			t.row.Low, t.row.Front = t.lines[0].Pos, row.FrontFresh
			if t.lines[0].value {
				t.row.Front = row.FrontPlaced
			}
		}
		if old, now := turnOf(t.name, &t.stored), t.standing(); old != now {
			if old != (row.Pos{}) {
				e.rows.delete(row.TurnRows.Key(space, old))
			}
			if now != (row.Pos{}) {
				e.rows.set(row.TurnRows.Key(space, now), row.EncodeHead(e.rows.scratch(), t.name))
			}
		}
		switch {
		case t.row == t.stored:
		case t.row.Empty():
			e.rows.delete(row.TenantKey(space, t.name))
		default:
			e.rows.set(row.TenantKey(space, t.name), t.row.Encode(e.rows.scratch()))
		}
		if t.stored = t.row; t.row.Empty() {
			t.stored = row.Tenant{}
		}
	}
	f.changed = f.changed[:0]
	if f.Fair != f.stored {
		e.rows.set(row.FairKey(space), f.Encode(e.rows.scratch()))
		f.stored = f.Fair
	}
}

// found starts a tenant again when a message enters and the tenant has none. It comes after all
// that were served before. [EXT-37]
func (e *Engine) found(q *queue, m *message) {
	if t := e.tenantOf(q, m); t.row.Empty() {
		t.row = row.Tenant{Served: e.serve(q)}
	}
}

// served notes a delivery to a consumer. [EXT-37]
func (e *Engine) served(q *queue, m *message) {
	t := e.tenantOf(q, m)
	t.row.Served = e.serve(q)
	q.fair.change(t)
}

// serve numbers a delivery, or the beginning of a tenant.
func (e *Engine) serve(q *queue) row.Pos {
	q.fair.Serves++
	return row.Pos{At: e.now, Seq: q.fair.Serves}
}

// countTenant adds n, which is 1 or -1, to what the tenant of a message has in due. Like count, it
// goes by what the counters see.
func (e *Engine) countTenant(q *queue, m *message, p row.Pos, kind row.DueKind, n int) {
	f, t := q.fair, e.tenantOf(q, m)
	switch {
	case !q.st.Settled.Less(p) && !f.Due.Less(p): // it was there before
		e.countBefore(q, t, n)
	case !q.st.Settled.Less(p) && n > 0:
		e.addLine(q, t, entry[bool]{p, true})
	case !q.st.Settled.Less(p):
		e.removeLine(q, t, entry[bool]{p, true})
	case kind == row.DueDelayed:
		add(&t.row.Delayed, n, q, t)
	default:
		add(&t.row.InFlight, n, q, t)
	}
	if q.st.Settled.Less(p) && q.levels == nil {
		if n > 0 {
			f.coming.insert(p, kind)
		} else {
			f.coming.remove(p)
		}
	}
	f.change(t)
}

// add adds n to a counter of a tenant.
func add(counter *uint64, n int, q *queue, t *tenant) {
	if n < 0 && *counter == 0 {
		broken("queue %s: a count of group %q falls below zero: %+v", q.name.Name, t.name, t.row)
	}
	*counter += uint64(n)
}

// countBefore counts an available message that has no waiting row.
func (e *Engine) countBefore(q *queue, t *tenant, n int) {
	add(&q.fair.Before, n, q, t)
	add(&t.row.Waiting, n, q, t)
	q.fair.change(t)
}

// freshEnters gives a message its waiting row that is available at once.
func (e *Engine) freshEnters(q *queue, m *message) {
	t := e.tenantOf(q, m)
	e.addLine(q, t, entry[bool]{m.FreshPos(), false})
	q.fair.change(t)
}

// freshLeaves takes a message that was never handed out from those that wait.
func (e *Engine) freshLeaves(q *queue, m *message) {
	t := e.tenantOf(q, m)
	if m.Seq < q.fair.From {
		e.countBefore(q, t, -1)
		return
	}
	e.removeLine(q, t, entry[bool]{m.FreshPos(), false})
	q.fair.change(t)
}

// addLine adds a waiting message to its tenant.
func (e *Engine) addLine(q *queue, t *tenant, l entry[bool]) {
	n := len(t.lines)
	whole := uint64(n) == q.fair.lined(t)
	i, found := t.search(l.Pos)
	if found {
		broken("queue %s: message %d waits twice in group %q", q.name.Name, l.Seq, t.name)
	}
	if i < n || whole && n < linesMax {
		t.lines = slices.Insert(t.lines, i, l)
	}
	if l.Pos.Less(t.row.Low) || t.row.Low == (row.Pos{}) {
		t.row.Low = l.Pos
	}
	t.row.Waiting++
	t.writes = append(t.writes, lineWrite{entry: l})
}

// removeLine removes a waiting message from its tenant.
func (e *Engine) removeLine(q *queue, t *tenant, l entry[bool]) {
	if q.fair.lined(t) == 0 {
		broken("queue %s: message %d leaves group %q, in which none waits", q.name.Name, l.Seq,
			t.name)
	}
	if i, found := t.search(l.Pos); found {
		if t.lines = slices.Delete(t.lines, i, i+1); i == 0 {
			t.row.Low = l.Pos.Next()
		}
	}
	t.row.Waiting--
	t.writes = append(t.writes, lineWrite{l, true})
}

// search returns where a place is, or belongs, among the lines in memory.
func (t *tenant) search(p row.Pos) (i int, found bool) {
	return slices.BinarySearchFunc(t.lines, p, func(l entry[bool], p row.Pos) int {
		return l.Compare(p)
	})
}

// waitingStep is how many waiting rows of one tenant are read at a time.
const waitingStep = 32

// loadWaiting makes sure that line i of a tenant is in memory, unless there are fewer.
func (e *Engine) loadWaiting(q *queue, t *tenant, i int) bool {
	for lined := q.fair.lined(t); len(t.lines) <= i; {
		if uint64(len(t.lines)) == lined {
			return false
		}
		limit, from := max(min(e.cfg.Window, waitingStep), 1), t.row.Low
		if n := len(t.lines); n > 0 {
			from = t.lines[n-1].Next()
		}
		rows := row.WaitingSpan(q.row.Space, t.name, from)
		scan := e.rows.store.Scan
		if len(t.writes) > 0 || t.written == e.rows.applies { // in the open batch
			scan = func(lo, hi []byte) iter.Seq2[[]byte, []byte] {
				return e.scan(row.Span{Lo: lo, Hi: hi})
			}
		}
		for k, v := range scan(rows.Lo, rows.Hi) {
			placed, ok := row.DecodeWaiting(v)
			p := row.WaitingPos(k)
			if !ok || p.Seq == 0 {
				e.rows.damaged("waiting", k)
			}
			t.lines = append(t.lines, entry[bool]{p, placed})
			if limit--; limit == 0 {
				break
			}
		}
		if limit > 0 && uint64(len(t.lines)) != lined {
			e.rows.damaged("tenant", row.TenantKey(q.row.Space, t.name))
		}
	}
	return true
}

// Which groups are noisy: those with messages waiting, at least noisyLeast in flight, and more than
// a tenth of those in flight of the queue. So there are at most nine. [METRIC-16]
const (
	noisyLeast = 30
	noisyPart  = 10
)

// quiet counts the noisy groups of a queue that is settled, and the messages of all others. The
// turns are in the order of what is in flight, so the noisy groups are the last of them.
func (e *Engine) quiet(q *queue, g *Gauge) {
	g.Quiet.Visible, g.Quiet.InFlight, g.Quiet.Delayed = g.Visible, g.InFlight, g.Delayed
	least := uint64(max(noisyLeast, g.InFlight/noisyPart+1))
	if uint64(g.InFlight) < least {
		return
	}
	q.fair.arrange()
	for _, turn := range q.fair.turns.between(e, row.TurnAt(least, row.Pos{}),
		row.LastAt(row.MaxTime), noisyPart) {
		t := e.tenant(q, turn.value)
		g.Noisy++
		g.Quiet.Visible -= int64(t.row.Waiting)
		g.Quiet.InFlight -= int64(t.row.InFlight)
		g.Quiet.Delayed -= int64(t.row.Delayed)
	}
}

// trimFair forgets tenants and lines beyond the window after a turn.
func (q *queue) trimFair(window int) {
	f := q.fair
	f.turns.trim(window)
	f.coming.trim(window)
	for _, t := range f.used {
		if most := max(min(window, linesMax), 1); len(t.lines) > most {
			t.lines = slices.Clone(t.lines[:most])
		}
		f.lineRoom += cap(t.lines) - t.counted
		t.counted = cap(t.lines)
	}
	f.used = f.used[:0]
	f.tenants.trim(window, func(t *tenant) { f.lineRoom -= t.counted })
}
