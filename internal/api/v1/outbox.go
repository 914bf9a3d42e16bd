package v1

import (
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/observe/monitor"
)

// An outbox is in the database of a program, and its relay elsewhere. The server knows what relays
// report to it each minute.

type outboxList struct {
	Outboxes []outbox `json:"outboxes" doc:"at most 500"`
	More     bool     `json:"more,omitempty" doc:"others reported too, and are not shown"`
}

// An outbox is what its relays reported last. What an earlier relay does not report is null.
type outbox struct {
	Name        string  `json:"name"`
	Reported    *string `json:"reported" doc:"when, to the minute"`
	OldestDueMS int64   `json:"oldestDueMs" doc:"for how long the oldest due row has been due; 0 if none is"`
	Parked      *int64  `json:"parked" doc:"rows that were set aside"`
	Pending     *int64  `json:"pending" doc:"rows that are not sent"`
	Due         *int64  `json:"due" doc:"rows that could be sent now"`
}

// lately is when a relay that works has reported last. Earlier minutes are read for others only.
const lately = 5 * time.Minute

// outboxes answers GET /v1/outbox. [V1-18]
func (c *call) outboxes(none) (list outboxList, err error) {
	m := c.cfg.Monitor
	list.Outboxes = []outbox{}
	names, more := m.Outboxes()
	list.More = more
	for _, name := range names {
		within := lately
		told := m.Told(monitor.Relays, monitor.DueAge, name, within)
		if len(told) == 0 {
			within = monitor.Day
			told = m.Told(monitor.Relays, monitor.DueAge, name, within)
		}
		if len(told) == 0 {
			continue // the day has just ended
		}
		last := told[len(told)-1]
		rows := func(metric string) *int64 {
			for _, t := range m.Told(monitor.Relays, metric, name, within) {
				if t.At == last.At {
					return countOf(t.Most)
				}
			}
			return nil
		}
		box := outbox{
			Name: name, Reported: timeText(last.At), OldestDueMS: countMax,
			Parked: rows(monitor.ParkedRows), Pending: rows(monitor.PendingRows),
			Due: rows(monitor.DueRows),
		}
		if age := countOf(1000 * last.Most); age != nil {
			box.OldestDueMS = *age
		}
		list.Outboxes = append(list.Outboxes, box)
	}
	return list, nil
}

// countMax is the largest number that all clients read exactly.
const countMax = 1<<53 - 1

// countOf returns a number that was reported, or nil if it is no count: any client can put metrics.
func countOf(n float64) *int64 {
	if n < 0 || n > countMax {
		return nil
	}
	count := int64(n)
	return &count
}

// Bounds of what relays report about rows that were set aside. It is kept in memory only, because
// they report it each minute.
const (
	asideRowsMax  = 100
	asideBoxesMax = 100
	asideTextMax  = 1024
	asideKeep     = 24 * time.Hour
)

// An AsideRow is a row that relays no longer try to send.
type AsideRow struct {
	ID       string    `json:"id"`
	Queue    string    `json:"queue" doc:"as the row names it"`
	Key      string    `json:"key,omitempty"`
	Type     string    `json:"type,omitempty"`
	Attempts int       `json:"attempts"`
	Reason   string    `json:"reason"`
	ParkedAt time.Time `json:"parkedAt"`
}

func (r *AsideRow) check() error {
	for name, text := range map[string]string{"id": r.ID, "queue": r.Queue, "key": r.Key,
		"type": r.Type, "reason": r.Reason} {
		if len(text) > asideTextMax {
			return sqswire.Errorf(sqswire.InvalidParameterValue,
				"The %s of a row has %d bytes, and %d are allowed. Report its beginning.",
				name, len(text), asideTextMax)
		}
	}
	if r.ID == "" {
		return sqswire.Errorf(sqswire.InvalidParameterValue, "A row has no id.")
	}
	return nil
}

type asideIn struct {
	Outbox string     `path:"outbox"`
	Rows   []AsideRow `json:"rows" doc:"the earliest first, at most 100"`
	More   bool       `json:"more,omitempty" doc:"there are others"`
	Orders []string   `json:"orders,omitempty" doc:"what the relay takes orders to do: release, discard"`
}

// An asideList is what a relay reported last about the rows that were set aside.
type asideList struct {
	Outbox   string     `json:"outbox"`
	Reported *time.Time `json:"reported" doc:"null if no relay has reported rows in the last day"`
	Rows     []AsideRow `json:"rows" doc:"the earliest first"`
	More     bool       `json:"more" doc:"there are others"`

	Takes  []string     `json:"takes" doc:"what a relay takes orders to do: release, discard"`
	Orders []AsideOrder `json:"orders" doc:"what is ordered about these rows, and not carried out"`
}

// asides are the rows that relays have reported, by outbox.
type asides struct {
	mu    sync.Mutex
	boxes map[string]*asideBox
}

func newAsides() *asides { return &asides{boxes: make(map[string]*asideBox)} }

// An asideBox is what is known of an outbox.
type asideBox struct {
	list   asideList
	orders []AsideOrder         // at most one about each row of the list
	taken  map[string]time.Time // when a relay said last that it takes such orders
}

// put replaces what is known of an outbox, if there is room for it.
func (a *asides) put(list asideList, takes []string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.boxes, func(_ string, b *asideBox) bool {
		return time.Since(*b.list.Reported) > asideKeep
	})
	b := a.boxes[list.Outbox]
	if b == nil {
		if len(a.boxes) >= asideBoxesMax {
			return false
		}
		b = &asideBox{taken: make(map[string]time.Time)}
		a.boxes[list.Outbox] = b
	}
	b.report(list, takes, *list.Reported)
	return true
}

func (a *asides) get(outbox string) asideList {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if b, ok := a.boxes[outbox]; ok && now.Sub(*b.list.Reported) <= asideKeep {
		b.expire(now)
		list := b.list
		list.Takes, list.Orders = b.takes(now), append([]AsideOrder{}, b.orders...)
		return list
	}
	return asideList{Outbox: outbox, Rows: []AsideRow{}, Takes: []string{}, Orders: []AsideOrder{}}
}

type outboxIn struct {
	Outbox string `path:"outbox"`
}

// parkedRows answers GET /v1/outbox/{outbox}/parked. [V1-21]
func (c *call) parkedRows(in outboxIn) (asideList, error) {
	return c.asides.get(in.Outbox), nil
}

// reportParkedRows answers POST /v1/outbox/{outbox}/parked. [V1-21, V1-27]
func (c *call) reportParkedRows(in asideIn) (AsideOrders, error) {
	if !monitor.IsOutbox(in.Outbox) {
		return AsideOrders{}, sqswire.Errorf(sqswire.InvalidParameterValue,
			"The name of an outbox has 1 to 100 letters, digits and characters of ._@:()-.")
	}
	if len(in.Rows) > asideRowsMax {
		return AsideOrders{}, sqswire.Errorf(sqswire.InvalidParameterValue,
			"%d rows were reported, and %d are allowed. Report the earliest, and that there are more.",
			len(in.Rows), asideRowsMax)
	}
	for i := range in.Rows {
		if err := in.Rows[i].check(); err != nil {
			return AsideOrders{}, err
		}
	}
	if err := checkOrders(in.Orders); err != nil {
		return AsideOrders{}, err
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	list := asideList{Outbox: in.Outbox, Reported: &now, Rows: append([]AsideRow{}, in.Rows...),
		More: in.More}
	if !c.asides.put(list, in.Orders) {
		return AsideOrders{}, &Error{http.StatusConflict, "TooManyOutboxes", fmt.Sprintf(
			"The server knows the rows of %d outboxes already, which is the maximum. Use tenaq outbox parked list for this one.",
			asideBoxesMax)}
	}
	return AsideOrders{c.asides.ordersFor(in.Outbox)}, nil
}
