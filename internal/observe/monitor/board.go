package monitor

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"tenaq/internal/observe/alarm"
)

// A Board is a list of all queues of the account as they were seen at one moment. It does not
// change, so that a reader who goes through its pages meets each queue once. It costs the writer
// nothing: it is made of what the monitor has seen last, at most some seconds ago.
type Board struct {
	ID       int        // larger than those of all boards before, since the start
	At       time.Time  // when the queues were seen
	Complete bool       // false while the monitor has not yet seen all queues since the start
	Rows     []BoardRow // by name
	Totals   BoardRow   // their sums, and the greatest age

	made   time.Time
	mu     sync.Mutex
	orders map[order][]int32 // of Rows
	found  map[order][]int32 // rows that match, in order; for the pages of a search
}

// A BoardRow is a queue on a board.
type BoardRow struct {
	Name                       string
	Target                     string // the dead-letter queue; empty for none
	FIFO, Dead                 bool   // Dead: dead letters of another queue come here
	Paused                     bool   // no message of it is delivered
	Active                     bool   // it has messages, or had an event in the last whole minute
	Alarms                     int    // that are raised and not silenced
	Visible, InFlight, Delayed int64
	AgeMS                      int64 // of the oldest message
	Sent, Received, Deleted    int64 // in the last whole minute
}

// boardsKept is how many boards can be read on, the newest included.
const boardsKept = 3

// boardWanted is how long after a board was asked for the monitor makes new ones by itself, so that
// the reader of a page does not wait for one.
const boardWanted = time.Minute

// boards are the boards that were made last, the newest last.
type boards struct {
	mu    sync.Mutex
	made  []*Board
	asked time.Time // when a board was asked for last
}

// Board returns a board: the one with an id if it is still kept, and else the newest. It makes one
// only if there is none of the last two looks.
func (m *Monitor) Board(id int) *Board {
	m.boards.mu.Lock()
	defer m.boards.mu.Unlock()
	m.boards.asked = time.Now()
	for _, b := range m.boards.made {
		if id != 0 && b.ID == id {
			return b
		}
	}
	if newest := m.boards.newest(); newest != nil && time.Since(newest.made) < 2*sampleEvery {
		return newest
	}
	return m.makeBoard()
}

// renewBoard makes a board after a look if boards are being read, in the orders in which the last
// one was read.
func (m *Monitor) renewBoard() {
	m.boards.mu.Lock()
	last := m.boards.newest()
	if last == nil || time.Since(m.boards.asked) > boardWanted {
		m.boards.mu.Unlock()
		return
	}
	m.boards.mu.Unlock()
	b := m.newBoard()
	last.mu.Lock()
	orders := slices.Collect(maps.Keys(last.orders)) // their order does not matter
	searches := slices.Collect(maps.Keys(last.found))
	last.mu.Unlock()
	for _, o := range slices.Concat(orders, searches) {
		b.matching(o)
	}
	m.boards.mu.Lock()
	defer m.boards.mu.Unlock()
	m.boards.keep(b)
}

// makeBoard makes the newest board.
func (m *Monitor) makeBoard() *Board {
	b := m.newBoard()
	m.boards.keep(b)
	return b
}

func (m *Monitor) newBoard() *Board {
	m.seen.Lock()
	b := m.sights.board()
	m.seen.Unlock()
	b.finish(m.raised())
	return b
}

func (s *boards) newest() *Board {
	if len(s.made) == 0 {
		return nil
	}
	return s.made[len(s.made)-1]
}

// keep takes up a board unless there is one of the same look.
func (s *boards) keep(b *Board) {
	if newest := s.newest(); newest != nil && newest.ID >= b.ID {
		s.made[len(s.made)-1] = b
		return
	}
	s.made = append(s.made, b)
	s.made = s.made[max(len(s.made)-boardsKept, 0):]
}

// board copies what was seen of the queues.
func (s *sights) board() *Board {
	if s.sorted == nil {
		s.sorted = make([]*sight, 0, len(s.queues))
		for _, q := range s.queues { // order does not matter: sorted below
			s.sorted = append(s.sorted, q)
		}
		slices.SortFunc(s.sorted, func(x, y *sight) int { return strings.Compare(x.name, y.name) })
		for i, q := range s.sorted {
			q.row = i
		}
	}
	b := &Board{made: time.Now(), ID: s.round, At: s.at, Complete: s.complete,
		Rows:   make([]BoardRow, len(s.sorted)),
		orders: make(map[order][]int32), found: make(map[order][]int32)}
	for i, q := range s.sorted {
		if dead := s.queues[q.target]; q.target != "" && dead != nil {
			b.Rows[dead.row].Dead = true
		}
		r := &b.Rows[i]
		r.Name, r.Target, r.FIFO, r.Paused = q.name, q.target, q.fifo, q.paused
		if d := q.data; d != nil {
			g := &d.gauge
			r.Visible, r.InFlight, r.Delayed, r.AgeMS = g.Visible, g.InFlight, g.Delayed, g.Age
			r.Sent, r.Received, r.Deleted = d.minute[0], d.minute[1], d.minute[2]
			r.Active = r.Visible+r.InFlight+r.Delayed > 0 || d.minute != counts{}
		}
	}
	return b
}

// raised counts the alarms of each queue that are raised and not silenced.
func (m *Monitor) raised() map[string]int {
	raised := make(map[string]int)
	for _, s := range m.Status() {
		if s.State == alarm.Alarm && s.SilencedUntil.IsZero() && s.Queue != "" {
			raised[s.Queue]++
		}
	}
	return raised
}

// finish fills in what concerns more than one queue.
func (b *Board) finish(raised map[string]int) {
	b.Totals.Name = "all"
	for i := range b.Rows {
		r, t := &b.Rows[i], &b.Totals
		r.Alarms = raised[r.Name]
		t.Visible, t.InFlight, t.Delayed = t.Visible+r.Visible, t.InFlight+r.InFlight,
			t.Delayed+r.Delayed
		t.AgeMS, t.Alarms = max(t.AgeMS, r.AgeMS), t.Alarms+r.Alarms
		t.Sent, t.Received, t.Deleted = t.Sent+r.Sent, t.Received+r.Received, t.Deleted+r.Deleted
	}
}

// Row returns the row of a queue, nil when it has none.
func (b *Board) Row(name string) *BoardRow {
	i, ok := slices.BinarySearchFunc(b.Rows, name, func(r BoardRow, name string) int {
		return cmp.Compare(r.Name, name)
	})
	if !ok {
		return nil
	}
	return &b.Rows[i]
}

// An order is what rows are sorted by, and for a search which rows match. Rows that are equal in it
// come by name.
type order struct {
	by         string
	desc       bool
	text, only string
}

// searchesMax is how many searches of a board are kept.
const searchesMax = 16

// boardKeys are what rows can be sorted by, besides their names.
var boardKeys = map[string]func(r *BoardRow) int64{
	"visible":  func(r *BoardRow) int64 { return r.Visible },
	"inFlight": func(r *BoardRow) int64 { return r.InFlight },
	"delayed":  func(r *BoardRow) int64 { return r.Delayed },
	"age":      func(r *BoardRow) int64 { return r.AgeMS },
	"sent":     func(r *BoardRow) int64 { return r.Sent },
	"received": func(r *BoardRow) int64 { return r.Received },
	"deleted":  func(r *BoardRow) int64 { return r.Deleted },
	// Raised alarms weigh most, and then the age of the oldest message: at most 14 days.
	"trouble": func(r *BoardRow) int64 { return int64(r.Alarms)<<40 + r.AgeMS },
}

// sorted returns the numbers of the rows in an order. It keeps them: each order of a board is
// computed once. The caller holds b.mu.
func (b *Board) sorted(o order) []int32 {
	if found, ok := b.orders[o]; ok {
		return found
	}
	type placed struct {
		key int64
		row int32
	}
	list := make([]placed, len(b.Rows))
	key := boardKeys[o.by]
	for i := range list {
		list[i].row = int32(i)
		switch {
		case key == nil && o.desc: // by name, from the end
			list[i].key = -int64(i)
		case key == nil:
		case o.desc:
			list[i].key = -key(&b.Rows[i])
		default:
			list[i].key = key(&b.Rows[i])
		}
	}
	slices.SortFunc(list, func(x, y placed) int {
		if x.key != y.key {
			return cmp.Compare(x.key, y.key)
		}
		return int(x.row - y.row)
	})
	rows := make([]int32, len(list))
	for i := range list {
		rows[i] = list[i].row
	}
	b.orders[o] = rows
	return rows
}

// A BoardQuery chooses rows of a board.
type BoardQuery struct {
	Text string // in the name, whatever its case
	Only string // dead, alarm, active, fifo or paused; empty for all
	Sort string // name, or one of boardKeys
	Desc bool
	From int // how many rows that match to leave out
	Max  int
}

// Find returns rows, and how many match altogether.
func (b *Board) Find(q BoardQuery) (rows []*BoardRow, matched int) {
	all := b.matching(order{q.Sort, q.Desc, strings.ToLower(q.Text), q.Only})
	for _, i := range all[min(q.From, len(all)):min(q.From+q.Max, len(all))] {
		rows = append(rows, &b.Rows[i])
	}
	return rows, len(all)
}

// matching returns the numbers of the rows that match a search, in its order.
func (b *Board) matching(o order) []int32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.sorted(order{by: o.by, desc: o.desc})
	if o.text == "" && o.only == "" {
		return all
	}
	if found, ok := b.found[o]; ok {
		return found
	}
	var found []int32
	for _, i := range all {
		r := &b.Rows[i]
		if r.is(o.only) && strings.Contains(strings.ToLower(r.Name), o.text) {
			found = append(found, i)
		}
	}
	if len(b.found) >= searchesMax {
		clear(b.found)
	}
	b.found[o] = found
	return found
}

func (r *BoardRow) is(only string) bool {
	switch only {
	case "dead":
		return r.Dead
	case "alarm":
		return r.Alarms > 0
	case "active":
		return r.Active
	case "fifo":
		return r.FIFO
	case "paused":
		return r.Paused
	}
	return true
}
