package monitor

import (
	"cmp"
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

	mu     sync.Mutex
	orders map[order][]int32 // of Rows
}

// A BoardRow is a queue on a board.
type BoardRow struct {
	Name                       string
	Target                     string // the dead-letter queue; empty for none
	FIFO, Dead                 bool   // Dead: dead letters of another queue come here
	Active                     bool   // it has messages, or had an event in the last whole minute
	Alarms                     int    // that are raised and not silenced
	Visible, InFlight, Delayed int64
	AgeMS                      int64 // of the oldest message
	Sent, Received, Deleted    int64 // in the last whole minute
}

// boardsKept is how many boards can be read on, the newest included.
const boardsKept = 3

// boards are the boards that were made last, the newest last.
type boards struct {
	mu   sync.Mutex
	made []*Board
}

// Board returns a board: the one with an id if it is still kept, and else the newest. A new one is
// made only when the queues have been seen again since the last one.
func (m *Monitor) Board(id int) *Board {
	m.boards.mu.Lock()
	defer m.boards.mu.Unlock()
	made := m.boards.made
	for _, b := range made {
		if id != 0 && b.ID == id {
			return b
		}
	}
	m.seen.Lock()
	round := m.sights.round
	if last := len(made) - 1; last >= 0 && made[last].ID == round {
		m.seen.Unlock()
		return made[last]
	}
	b := m.sights.board()
	m.seen.Unlock()
	b.finish(m.raised())
	made = append(made, b)
	m.boards.made = made[max(len(made)-boardsKept, 0):]
	return b
}

// board copies what was seen of the queues.
func (s *sights) board() *Board {
	if s.sorted == nil {
		s.sorted = make([]*sight, 0, len(s.queues))
		for _, q := range s.queues { // order does not matter: sorted below
			s.sorted = append(s.sorted, q)
		}
		slices.SortFunc(s.sorted, func(x, y *sight) int { return cmp.Compare(x.name, y.name) })
	}
	b := &Board{ID: s.round, At: s.at, Complete: s.complete, Rows: make([]BoardRow, len(s.sorted)),
		orders: make(map[order][]int32)}
	for i, q := range s.sorted {
		r := &b.Rows[i]
		r.Name, r.Target, r.FIFO = q.name, q.target, q.fifo
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
		if r.Target != "" {
			if target := b.Row(r.Target); target != nil {
				target.Dead = true
			}
		}
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

// An order is what rows are sorted by. Rows that are equal in it come by name.
type order struct {
	by   string
	desc bool
}

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
// computed once.
func (b *Board) sorted(o order) []int32 {
	b.mu.Lock()
	defer b.mu.Unlock()
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
		return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.row, y.row))
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
	Only string // dead, alarm, active or fifo; empty for all
	Sort string // name, or one of boardKeys
	Desc bool
	From int // how many rows that match to leave out
	Max  int
}

// Find returns rows, and how many match altogether.
func (b *Board) Find(q BoardQuery) (rows []*BoardRow, matched int) {
	text := strings.ToLower(q.Text)
	for _, i := range b.sorted(order{q.Sort, q.Desc}) {
		r := &b.Rows[i]
		if !r.is(q.Only) || text != "" && !strings.Contains(strings.ToLower(r.Name), text) {
			continue
		}
		if matched++; matched > q.From && len(rows) < q.Max {
			rows = append(rows, r)
		}
	}
	return rows, matched
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
	}
	return true
}
