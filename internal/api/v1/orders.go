package v1

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"tenaq/internal/api/sqs/sqswire"
)

// What operators order about rows that were set aside. The rows are in the database of a program,
// so a relay carries an order out: it asks for orders while it reports rows. Orders are in memory
// only, because a row whose order is lost is still reported as set aside. [V1-27]

// What an order does.
const (
	OrderRelease = "release"
	OrderDiscard = "discard"
)

const (
	// orderKeep is how long an order waits for a relay.
	orderKeep = 10 * time.Minute

	// orderTaken is for how long a relay counts as one that takes orders: it reports each minute.
	orderTaken = 3 * time.Minute
)

// An AsideSeen is a row that was set aside at a time. If it is released and set aside again, it is
// another one.
type AsideSeen struct {
	ID       string    `json:"id"`
	ParkedAt time.Time `json:"parkedAt" doc:"as the relay reported it"`
}

func (s AsideSeen) same(other AsideSeen) bool {
	return s.ID == other.ID && s.ParkedAt.Equal(other.ParkedAt)
}

func (r *AsideRow) seen() AsideSeen { return AsideSeen{r.ID, r.ParkedAt} }

// An AsideOrder is what an operator has ordered about a row.
type AsideOrder struct {
	ID       string    `json:"id"`
	ParkedAt time.Time `json:"parkedAt"`
	Do       string    `json:"do" enum:"release,discard"`
	By       string    `json:"by" doc:"user or key"`
	Ordered  time.Time `json:"ordered" doc:"when; no relay gets it ten minutes later"`
}

func (o *AsideOrder) seen() AsideSeen { return AsideSeen{o.ID, o.ParkedAt} }

// AsideOrders are what a relay gets. They come again until a report has no such row.
type AsideOrders struct {
	Orders []AsideOrder `json:"orders"`
}

type orderIn struct {
	Outbox string      `path:"outbox"`
	Rows   []AsideSeen `json:"rows" doc:"1 to 100, each as it was reported"`
}

// A placed is what became of an order.
type placed struct {
	Outbox string    `json:"outbox"`
	Rows   int       `json:"rows"`
	Until  time.Time `json:"until" doc:"when the order ends if no relay has carried it out"`
}

// checkOrders refuses orders that are unknown in this version: a relay must not believe that it
// gets them.
func checkOrders(orders []string) error {
	for _, do := range orders {
		if do != OrderRelease && do != OrderDiscard {
			return errValue("orders", do, "a list of release and discard")
		}
	}
	return nil
}

// expire removes what has become too old. The caller holds the lock.
func (b *asideBox) expire(now time.Time) {
	b.orders = slices.DeleteFunc(b.orders, func(o AsideOrder) bool {
		return now.Sub(o.Ordered) > orderKeep
	})
}

// takes returns what a relay has said lately that it takes orders to do.
func (b *asideBox) takes(now time.Time) []string {
	all := []string{}
	for _, do := range []string{OrderRelease, OrderDiscard} {
		if at, ok := b.taken[do]; ok && now.Sub(at) <= orderTaken {
			all = append(all, do)
		}
	}
	return all
}

// report replaces what is known of the rows. An order ends when its row is not reported any longer
// as it was: it was carried out, or the row is another case now. If there are more rows than were
// reported, those that were set aside later than all of these may be there still.
func (b *asideBox) report(list asideList, takes []string, now time.Time) {
	b.list = list
	for _, do := range takes {
		b.taken[do] = now
	}
	beyond := func(o *AsideOrder) bool {
		n := len(list.Rows)
		return list.More && (n == 0 || o.ParkedAt.After(list.Rows[n-1].ParkedAt))
	}
	b.orders = slices.DeleteFunc(b.orders, func(o AsideOrder) bool {
		return !b.has(o.seen()) && !beyond(&o)
	})
}

func (b *asideBox) has(seen AsideSeen) bool {
	return slices.ContainsFunc(b.list.Rows, func(r AsideRow) bool { return r.seen().same(seen) })
}

// ordersFor are the orders of an outbox.
func (a *asides) ordersFor(outbox string) []AsideOrder {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, ok := a.boxes[outbox]
	if !ok {
		return []AsideOrder{}
	}
	b.expire(time.Now())
	return append([]AsideOrder{}, b.orders...)
}

// order places an order about all rows or none. To repeat it changes nothing.
func (a *asides) order(outbox, do, by string, rows []AsideSeen, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.boxes[outbox]
	switch {
	case b == nil || now.Sub(*b.list.Reported) > asideKeep:
		return &Error{http.StatusNotFound, "UnknownOutbox",
			"No relay has reported rows of this outbox. Use tenaq outbox parked where its database is."}
	case !slices.Contains(b.takes(now), do):
		flag := map[string]string{OrderRelease: "release", OrderDiscard: "all"}[do]
		return &Error{http.StatusConflict, "NoRelayTakesOrder", fmt.Sprintf(
			"No relay of this outbox has said in the last %d minutes that it takes orders to %s rows. Use tenaq outbox parked %[2]s where its database is, or run a relay with --orders %s.",
			int(orderTaken.Minutes()), do, flag)}
	}
	b.expire(now)
	fresh := slices.Clone(b.orders)
	for _, row := range rows {
		i := slices.IndexFunc(fresh, func(o AsideOrder) bool { return o.seen().same(row) })
		switch {
		case !b.has(row):
			return &Error{http.StatusConflict, "RowChanged", fmt.Sprintf(
				"The row %.40q is not reported as set aside at that time: read the list again.",
				row.ID)}
		case i < 0:
			fresh = append(fresh, AsideOrder{row.ID, row.ParkedAt, do, by, now})
		case fresh[i].Do != do:
			return &Error{http.StatusConflict, "OtherOrder", fmt.Sprintf(
				"%s has ordered to %s the row %.40q: wait until a relay has done that, and read the list again.",
				fresh[i].By, fresh[i].Do, row.ID)}
		}
	}
	b.orders = fresh
	return nil
}

// releaseParkedRows answers POST /v1/outbox/{outbox}/parked/release. [V1-27]
func (c *call) releaseParkedRows(in orderIn) (placed, error) { return c.order(OrderRelease, in) }

// discardParkedRows answers POST /v1/outbox/{outbox}/parked/discard. [V1-27]
func (c *call) discardParkedRows(in orderIn) (placed, error) { return c.order(OrderDiscard, in) }

func (c *call) order(do string, in orderIn) (placed, error) {
	if len(in.Rows) < 1 || len(in.Rows) > asideRowsMax {
		return placed{}, sqswire.Errorf(sqswire.InvalidParameterValue,
			"The order is about %d rows. Name 1 to %d.", len(in.Rows), asideRowsMax)
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	if err := c.asides.order(in.Outbox, do, c.by(), in.Rows, now); err != nil {
		return placed{}, err
	}
	c.logOrder(do, in)
	return placed{in.Outbox, len(in.Rows), now.Add(orderKeep)}, nil
}

// logOrder notes all ids, a few in each entry: texts of the action log are short.
func (c *call) logOrder(do string, in orderIn) {
	const few = 7
	for rows := range slices.Chunk(in.Rows, few) {
		text := do
		for _, row := range rows {
			text += " " + row.ID
		}
		c.log(in.Outbox, text)
	}
}

// rowOrders answers GET /v1/outbox/{outbox}/orders. [V1-27]
func (c *call) rowOrders(in outboxIn) (AsideOrders, error) {
	return AsideOrders{c.asides.ordersFor(in.Outbox)}, nil
}
