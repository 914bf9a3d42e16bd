package audit

import (
	"fmt"
	"testing"
)

// fifo are the queues of the histories below: orders.fifo keeps what it cannot deliver, and
// jobs.fifo gives it to dead.fifo after two receives.
var fifo = map[string]Queue{
	"orders": {FIFO: true},
	"jobs":   {FIFO: true, DeadLetter: "dead", MaxReceives: 2},
	"dead":   {FIFO: true},
}

// put is an answered send to group g, under the deduplication ID dedup-a for body a.
func put(call, ret int, queue, body string, sequence int) Send {
	s := sent(call, ret, body)
	s.Queue, s.Group, s.Dedup, s.Sequence = queue, "g", "dedup-"+body, fmt.Sprint(sequence)
	return s
}

// give is a delivery; its handle is orders/a1 when its count is 1.
func give(call, ret int, queue, body string, count, sequence int) Delivery {
	d := got(call, ret, body, count)
	d.Handle = queue + "/" + d.Handle
	d.Queue, d.Group, d.Dedup, d.Sequence = queue, "g", "dedup-"+body, fmt.Sprint(sequence)
	return d
}

// unanswered makes a send one without an answer.
func unanswered(s Send) Send {
	s.Outcome, s.MessageID, s.Sequence = Unknown, "", ""
	return s
}

// grouped, renamed and in change what put and give have made.

func (s Send) grouped(group string) Send { s.Group = group; return s }
func (s Send) in(batch int) Send         { s.Batch = batch; return s }
func (s Send) renamed(id string) Send    { s.MessageID = id; return s }

func (d Delivery) grouped(group string) Delivery { d.Group = group; return d }
func (d Delivery) in(receive int) Delivery       { d.Receive = receive; return d }

// renamed makes it a delivery of another message, with a handle of its own.
func (d Delivery) renamed(id string) Delivery {
	d.Handle += "-of-" + id
	d.MessageID = id
	return d
}

// dedup is as after a move to a dead-letter queue or by a task.
func (d Delivery) dedup(id string) Delivery { d.Dedup = id; return d }

func TestOrder(t *testing.T) {
	a, b := put(0, 10, "orders", "a", 1), put(20, 30, "orders", "b", 2)
	judge(t, fifo, []trial{
		{"one after the other", History{
			Sends:      []Send{a, b},
			Deliveries: []Delivery{give(40, 50, "orders", "a", 1, 1), give(80, 90, "orders", "b", 1, 2)},
			Deletes:    []Delete{deleted(60, 70, "orders/a1", Done)},
		}, nil},
		{"both in one answer", History{
			Sends:      []Send{a, b},
			Deliveries: []Delivery{give(40, 50, "orders", "a", 1, 1).in(1), give(40, 50, "orders", "b", 1, 2).in(1)},
		}, nil},
		{"both in one answer, the wrong way round", History{
			Sends:      []Send{a, b},
			Deliveries: []Delivery{give(40, 50, "orders", "b", 1, 2).in(1), give(40, 50, "orders", "a", 1, 1).in(1)},
		}, []Rule{Order}},
		{"the second before the first", History{
			Sends:      []Send{a, b},
			Deliveries: []Delivery{give(40, 50, "orders", "b", 1, 2), give(60, 70, "orders", "a", 1, 1)},
		}, []Rule{Order}},
		{"the second before the first, which is never delivered", History{
			Sends:      []Send{a, b},
			Deliveries: []Delivery{give(40, 50, "orders", "b", 1, 2)},
		}, []Rule{Order}},
		{"the second in another group", History{
			Sends:      []Send{a, b.grouped("h")},
			Deliveries: []Delivery{give(40, 50, "orders", "b", 1, 2).grouped("h")},
		}, nil},
		{"the second while the first is in flight", History{
			Sends:      []Send{a, b},
			Deliveries: []Delivery{give(40, 50, "orders", "a", 1, 1), give(80, 90, "orders", "b", 1, 2)},
		}, []Rule{Order}},
		{"the second when the first could be received again", History{
			Sends:      []Send{a, b},
			Deliveries: []Delivery{give(40, 50, "orders", "a", 1, 1), give(1100, 1110, "orders", "b", 1, 2)},
		}, []Rule{Order}},
		{"the second after a delete without an answer", History{
			Sends:      []Send{a, b},
			Deliveries: []Delivery{give(40, 50, "orders", "a", 1, 1), give(80, 90, "orders", "b", 1, 2)},
			Deletes:    []Delete{deleted(60, 70, "orders/a1", Unknown)},
		}, nil},
		{"the second while the first is being deleted", History{
			Sends:      []Send{a, b},
			Deliveries: []Delivery{give(40, 50, "orders", "a", 1, 1), give(60, 90, "orders", "b", 1, 2)},
			Deletes:    []Delete{deleted(80, 100, "orders/a1", Done)},
		}, nil},
		{"the second after a refused delete", History{
			Sends:      []Send{a, b},
			Deliveries: []Delivery{give(40, 50, "orders", "a", 1, 1), give(80, 90, "orders", "b", 1, 2)},
			Deletes:    []Delete{deleted(60, 70, "orders/a1", Refused)},
		}, []Rule{Order}},
		{"the second before the delete of the first", History{
			Sends:      []Send{a, b},
			Deliveries: []Delivery{give(40, 50, "orders", "a", 1, 1), give(60, 70, "orders", "b", 1, 2)},
			Deletes:    []Delete{deleted(150, 160, "orders/a1", Done)},
		}, []Rule{Order}},
		{"the second between two deliveries of the first, one of which was deleted without an answer", History{
			Sends: []Send{a, b},
			Deliveries: []Delivery{
				give(40, 50, "orders", "a", 1, 1), give(80, 90, "orders", "b", 1, 2), give(1100, 1110, "orders", "a", 2, 1),
			},
			Deletes: []Delete{deleted(60, 70, "orders/a1", Unknown)},
		}, []Rule{Order}},
		{"the first again while the second is in flight", History{
			Sends: []Send{a, b},
			Deliveries: []Delivery{
				give(40, 50, "orders", "a", 1, 1).in(1), give(40, 50, "orders", "b", 1, 2).in(1), give(80, 90, "orders", "a", 2, 1),
			},
			Changes: []Change{changed(60, 70, "orders/a1", Done, 0)},
		}, nil},
		{"the second again while the first is in flight", History{
			Sends: []Send{a, b},
			Deliveries: []Delivery{
				give(40, 50, "orders", "a", 1, 1).in(1), give(40, 50, "orders", "b", 1, 2).in(1), give(80, 90, "orders", "b", 2, 2),
			},
			Changes: []Change{changed(60, 70, "orders/b1", Done, 0)},
		}, []Rule{Order}},
		{"the second after a send without an answer of which nothing is known", History{
			Sends:      []Send{unanswered(a), b},
			Deliveries: []Delivery{give(40, 50, "orders", "b", 1, 2)},
		}, nil},
		{"the second before a first whose send was not answered", History{
			Sends:      []Send{unanswered(a), b},
			Deliveries: []Delivery{give(40, 50, "orders", "b", 1, 2), give(60, 70, "orders", "a", 1, 1)},
		}, []Rule{Order}},

		// With a dead-letter queue the first may have left in that way, though not while it is
		// hidden.
		{"the second when the first may be dead", History{
			Sends:      []Send{put(0, 10, "jobs", "a", 1), put(20, 30, "jobs", "b", 2)},
			Deliveries: []Delivery{give(40, 50, "jobs", "a", 1, 1), give(1100, 1110, "jobs", "b", 1, 2)},
		}, nil},
		{"the second while the first is in flight and not dead", History{
			Sends:      []Send{put(0, 10, "jobs", "a", 1), put(20, 30, "jobs", "b", 2)},
			Deliveries: []Delivery{give(40, 50, "jobs", "a", 1, 1), give(900, 910, "jobs", "b", 1, 2)},
		}, []Rule{Order}},
		{"the second when the first is not dead, as the end shows", History{
			Sends: []Send{put(0, 10, "jobs", "a", 1), put(20, 30, "jobs", "b", 2)},
			Deliveries: []Delivery{
				give(40, 50, "jobs", "a", 1, 1), give(1100, 1110, "jobs", "b", 1, 2),
			},
			Deletes: []Delete{deleted(1150, 1160, "jobs/b1", Done), deleted(1200, 1210, "jobs/a1", Done)},
			Drained: true,
		}, []Rule{Order}},
		{"the second when the first is dead, as the end shows", History{
			Sends: []Send{put(0, 10, "jobs", "a", 1), put(20, 30, "jobs", "b", 2)},
			Deliveries: []Delivery{
				give(40, 50, "jobs", "a", 1, 1), give(1100, 1110, "jobs", "b", 1, 2), give(1200, 1210, "dead", "a", 3, 1).dedup("id-a"),
			},
			Deletes: []Delete{
				deleted(60, 70, "jobs/a1", Unknown), deleted(1120, 1130, "jobs/b1", Done), deleted(1220, 1230, "dead/a3", Done),
			},
			Drained: true,
		}, nil},
		{"the dead in their order", History{
			Sends: []Send{put(0, 10, "jobs", "a", 1), put(20, 30, "jobs", "b", 2)},
			Deliveries: []Delivery{
				give(2000, 2010, "dead", "b", 3, 7).dedup("id-b"), give(2100, 2110, "dead", "a", 3, 8).dedup("id-a"),
			},
			Deletes: []Delete{deleted(2050, 2060, "dead/b3", Done)},
		}, nil},
		{"the dead out of their order", History{
			Sends: []Send{put(0, 10, "jobs", "a", 1), put(20, 30, "jobs", "b", 2)},
			Deliveries: []Delivery{
				give(2000, 2010, "dead", "b", 3, 8).dedup("id-b"), give(2100, 2110, "dead", "a", 3, 7).dedup("id-a"),
			},
		}, []Rule{Order}},
		{"a dead one when a task may have moved the one before it", History{
			Sends: []Send{put(0, 10, "dead", "a", 1), put(20, 30, "dead", "b", 2)},
			Deliveries: []Delivery{
				give(40, 50, "dead", "a", 1, 1), give(1100, 1110, "dead", "b", 1, 2),
			},
			Moves: []Move{{Span: at(500, 510), Source: "dead"}},
		}, nil},
		{"a dead one before a task can have moved the one before it", History{
			Sends: []Send{put(0, 10, "dead", "a", 1), put(20, 30, "dead", "b", 2)},
			Deliveries: []Delivery{
				give(40, 50, "dead", "a", 1, 1), give(1100, 1110, "dead", "b", 1, 2),
			},
			Moves: []Move{{Span: at(1200, 1210), Source: "dead"}},
		}, []Rule{Order}},
	})
}

func TestSequence(t *testing.T) {
	a := put(0, 10, "orders", "a", 1)
	judge(t, fifo, []trial{
		{"growing", History{Sends: []Send{a, put(20, 30, "orders", "b", 20)}}, nil},
		{"by number, not by letter", History{Sends: []Send{put(0, 10, "orders", "a", 9), put(20, 30, "orders", "b", 10)}}, nil},
		{"falling", History{Sends: []Send{put(0, 10, "orders", "a", 2), put(20, 30, "orders", "b", 1)}}, []Rule{Sequence}},
		{"falling, of sends at the same time", History{Sends: []Send{put(0, 10, "orders", "a", 2), put(5, 30, "orders", "b", 1)}}, nil},
		{"falling, of different groups", History{Sends: []Send{put(0, 10, "orders", "a", 2), put(20, 30, "orders", "b", 1).grouped("h")}}, nil},
		{"falling, of a send that was repeated", History{
			Sends: []Send{unanswered(put(0, 5, "orders", "b", 0)), put(0, 10, "orders", "a", 2), put(20, 30, "orders", "b", 1)},
		}, nil},
		{"falling, of a send without an answer", History{
			Sends:      []Send{put(0, 10, "orders", "a", 2), unanswered(put(20, 30, "orders", "b", 1))},
			Deliveries: []Delivery{give(40, 50, "orders", "b", 1, 1)},
		}, []Rule{Sequence}},
		{"the same", History{Sends: []Send{a, put(20, 30, "orders", "b", 1)}}, []Rule{Sequence}},
		{"another in the delivery", History{
			Sends: []Send{a}, Deliveries: []Delivery{give(20, 30, "orders", "a", 1, 2)},
		}, []Rule{Sequence}},
		{"another in the second delivery", History{
			Sends:      []Send{unanswered(a)},
			Deliveries: []Delivery{give(20, 30, "orders", "a", 1, 1), give(1100, 1110, "orders", "a", 2, 2)},
		}, []Rule{Sequence}},
		{"another in the dead-letter queue", History{
			Sends: []Send{put(0, 10, "jobs", "a", 5)}, Deliveries: []Delivery{give(20, 30, "dead", "a", 3, 1).dedup("id-a")},
		}, nil},
		{"another in the answer to a repeated send", History{
			Sends: []Send{a, put(20, 30, "orders", "a", 2)},
		}, []Rule{Sequence}},
		{"growing within a batch", History{Sends: []Send{a.in(1), put(0, 10, "orders", "b", 2).in(1)}}, nil},
		{"falling within a batch", History{Sends: []Send{put(0, 10, "orders", "b", 2).in(1), a.in(1)}}, []Rule{Sequence}},
		{"falling within a batch, of different groups", History{Sends: []Send{put(0, 10, "orders", "b", 2).in(1), a.in(1).grouped("h")}}, nil},
		{"falling within a batch that was partly sent before", History{
			Sends: []Send{unanswered(put(0, 5, "orders", "a", 1)), put(10, 20, "orders", "b", 2).in(1), put(10, 20, "orders", "a", 1).in(1)},
		}, nil},
		{"falling in the dead-letter queue, where one surely came later", History{
			Sends: []Send{put(0, 10, "jobs", "a", 1), put(20, 30, "jobs", "b", 2)},
			Deliveries: []Delivery{
				give(1000, 1010, "jobs", "b", 2, 2), give(1500, 1510, "dead", "a", 3, 8).dedup("id-a"), give(2700, 2710, "dead", "b", 3, 7).dedup("id-b"),
			},
			Deletes: []Delete{deleted(1520, 1530, "dead/a3", Done)},
		}, []Rule{Sequence, Order}},
	})
}

func TestDeduplicated(t *testing.T) {
	const minute = 60_000
	a := put(0, 10, "orders", "a", 1)
	judge(t, fifo, []trial{
		{"repeated", History{Sends: []Send{a, put(20, 30, "orders", "a", 1)}}, nil},
		{"repeated after no answer", History{Sends: []Send{unanswered(a), put(20, 30, "orders", "a", 1)}}, nil},
		{"two messages", History{Sends: []Send{a, put(20, 30, "orders", "a", 2).renamed("other")}}, []Rule{Deduplicated}},
		{"two messages just inside the window", History{
			Sends: []Send{a, put(290_000, 298_990, "orders", "a", 2).renamed("other")},
		}, []Rule{Deduplicated}},
		{"two messages, when the window may have ended", History{
			Sends: []Send{a, put(290_000, 5*minute, "orders", "a", 2).renamed("other")},
		}, nil},
		{"a second message of a send without an answer", History{
			Sends: []Send{unanswered(a), put(20, 30, "orders", "a", 2).renamed("other")},
			Deliveries: []Delivery{
				give(40, 50, "orders", "a", 1, 1).in(1), give(40, 50, "orders", "a", 1, 2).renamed("other").in(1),
			},
		}, []Rule{Deduplicated}},
		{"a second message long after a send without an answer", History{
			Sends: []Send{unanswered(a), put(20, 30, "orders", "a", 1)},
			Deliveries: []Delivery{
				give(40, 50, "orders", "a", 1, 1), give(5*minute, 5*minute+10, "orders", "a", 1, 2).renamed("other"),
			},
			Deletes: []Delete{deleted(60, 70, "orders/a1", Done)},
		}, nil},
		{"delivered under another deduplication ID", History{
			Sends: []Send{a}, Deliveries: []Delivery{give(40, 50, "orders", "a", 1, 1).dedup("dedup-b")},
		}, []Rule{Invented}},
		{"delivered in another group", History{
			Sends: []Send{a}, Deliveries: []Delivery{give(40, 50, "orders", "a", 1, 1).grouped("h")},
		}, []Rule{Invented}},
		{"moved back by a task", History{
			Sends: []Send{put(0, 10, "jobs", "a", 1)},
			Deliveries: []Delivery{
				give(20, 30, "dead", "a", 3, 1).dedup("id-a"), give(2000, 2010, "jobs", "a", 1, 2).renamed("other").dedup("id-a"),
			},
			Moves: []Move{{Span: at(1500, 1510), Source: "dead"}},
		}, nil},
		{"moved back by a task, but as if it were sent again", History{
			Sends: []Send{put(0, 10, "jobs", "a", 1)},
			Deliveries: []Delivery{
				give(20, 30, "dead", "a", 3, 1).dedup("id-a"), give(2000, 2010, "jobs", "a", 1, 2).renamed("other"),
			},
			Moves: []Move{{Span: at(1500, 1510), Source: "dead"}},
		}, []Rule{Deduplicated}},
	})
}
