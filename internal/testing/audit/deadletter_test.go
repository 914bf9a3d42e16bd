package audit

import "testing"

// dead are the queues of the histories below. In a chain, jobs gives to dead what it has delivered
// twice, and dead to buried what was received five times in all.
var dead = map[string]Queue{
	"jobs":   {DeadLetter: "dead", MaxReceives: 2},
	"dead":   {DeadLetter: "buried", MaxReceives: 5},
	"loop":   {DeadLetter: "loop", MaxReceives: 2},
	"buried": {},
	"other":  {},
}

// job is an answered send to a standard queue, and take a delivery by one.

func job(call, ret int, queue, body string) Send {
	s := sent(call, ret, body)
	s.Queue = queue
	return s
}

func take(call, ret int, queue, body string, count int) Delivery {
	d := got(call, ret, body, count)
	d.Handle = queue + "/" + d.Handle
	d.Queue = queue
	return d
}

func TestDeadLetter(t *testing.T) {
	a := job(0, 10, "jobs", "a")
	judge(t, dead, []trial{
		{"dead after two receives", History{
			Sends: []Send{a},
			Deliveries: []Delivery{
				take(20, 30, "jobs", "a", 1), take(1100, 1110, "jobs", "a", 2), take(2200, 2210, "dead", "a", 3),
			},
			Deletes: []Delete{deleted(2220, 2230, "dead/a3", Done)},
			Drained: true,
		}, nil},
		{"dead after receives without an answer", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(20, 30, "dead", "a", 4)},
		}, nil},
		{"dead too early", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(20, 30, "jobs", "a", 1), take(1100, 1110, "dead", "a", 2)},
		}, []Rule{DeadLetter}},
		{"not dead in time", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(20, 30, "jobs", "a", 2), take(1100, 1110, "jobs", "a", 3)},
		}, []Rule{DeadLetter}},
		{"counted anew", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(1100, 1110, "jobs", "a", 2), take(2200, 2210, "dead", "a", 1)},
		}, []Rule{InFlight, Counts, DeadLetter, DeadLetter}}, // by the counts, the later one came first
		{"risen from the dead", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(20, 30, "dead", "a", 3), take(1100, 1110, "jobs", "a", 4)},
		}, []Rule{DeadLetter, DeadLetter}}, // it was delivered too often as well
		{"still delivered after death", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(20, 30, "dead", "a", 3), take(1100, 1110, "jobs", "a", 2)},
		}, []Rule{InFlight, Counts, DeadLetter}},
		{"delivered by both at about the same time", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(20, 2000, "jobs", "a", 2), take(1100, 1110, "dead", "a", 3)},
		}, nil},
		{"dead while in flight", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(20, 30, "jobs", "a", 2), take(500, 510, "dead", "a", 3)},
		}, []Rule{InFlight}},
		{"dead after its delete", History{
			Sends:      []Send{a},
			Deliveries: []Delivery{take(20, 30, "jobs", "a", 2), take(1100, 1110, "dead", "a", 3)},
			Deletes:    []Delete{deleted(40, 50, "jobs/a2", Done)},
		}, []Rule{Deleted}},
		{"dead after a delete that came too late", History{
			Sends:      []Send{a},
			Deliveries: []Delivery{take(20, 30, "jobs", "a", 2), take(1100, 1110, "dead", "a", 3)},
			Deletes:    []Delete{deleted(1040, 1050, "jobs/a2", Done)},
		}, nil},
		{"lost when it died", History{
			Sends:      []Send{a},
			Deliveries: []Delivery{take(20, 30, "jobs", "a", 2)},
			Drained:    true,
		}, []Rule{Lost}},
		{"lost after it died, and its send was not answered", History{
			Sends:      []Send{unanswered(a)},
			Deliveries: []Delivery{take(20, 30, "dead", "a", 3)},
			Drained:    true,
		}, []Rule{Lost}},
		{"delivered by a queue that has nothing to do with it", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(20, 30, "other", "a", 3)},
		}, []Rule{Invented}},
		{"delivered by the queue for which its own is the dead-letter queue", History{
			Sends: []Send{job(0, 10, "dead", "a")}, Deliveries: []Delivery{take(20, 30, "jobs", "a", 1)},
		}, []Rule{Invented}},
		{"down a chain", History{
			Sends:      []Send{a},
			Deliveries: []Delivery{take(20, 30, "dead", "a", 3), take(1100, 1110, "buried", "a", 6)},
		}, nil},
		{"down a chain too early", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(20, 30, "buried", "a", 5)},
		}, []Rule{DeadLetter}},
		{"sent to the middle of a chain", History{
			Sends: []Send{job(0, 10, "dead", "a")}, Deliveries: []Delivery{take(20, 30, "dead", "a", 1), take(1100, 1110, "buried", "a", 6)},
		}, nil},
		{"its own dead-letter queue", History{
			Sends: []Send{job(0, 10, "loop", "a")}, Deliveries: []Delivery{take(20, 30, "loop", "a", 3), take(1100, 1110, "loop", "a", 4)},
		}, nil},
	})
}

func TestMove(t *testing.T) {
	a := job(0, 10, "jobs", "a")
	back := Move{Span: at(1000, 1010), Outcome: Done, Source: "dead"}
	again := take(2000, 2010, "jobs", "a", 1).renamed("again")
	ended := deleted(2020, 2030, again.Handle, Done)
	judge(t, dead, []trial{
		{"moved back", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(20, 30, "dead", "a", 3), again},
			Moves: []Move{back}, Deletes: []Delete{ended}, Drained: true,
		}, nil},
		{"moved back by a task whose start was not answered", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(20, 30, "dead", "a", 3), again},
			Moves: []Move{{Span: back.Span, Source: "dead"}}, Deletes: []Delete{ended}, Drained: true,
		}, nil},
		{"moved back by a task that was refused", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(20, 30, "dead", "a", 3), again},
			Moves: []Move{{Span: back.Span, Outcome: Refused, Source: "dead"}}, Deletes: []Delete{ended}, Drained: true,
		}, []Rule{Multiplied, Lost}},
		{"moved back, unseen before", History{
			Sends: []Send{a}, Deliveries: []Delivery{again},
			Moves: []Move{back}, Deletes: []Delete{ended}, Drained: true,
		}, nil},
		{"moved back, dead again and moved again", History{
			Sends: []Send{a},
			Deliveries: []Delivery{
				take(20, 30, "dead", "a", 3), again, take(4000, 4010, "dead", "a", 3).renamed("again"), take(6000, 6010, "jobs", "a", 2).renamed("third"),
			},
			Moves:   []Move{back, {Span: at(5000, 5010), Outcome: Done, Source: "dead"}},
			Deletes: []Delete{deleted(6020, 6030, "jobs/a2-of-third", Done)},
			Drained: true,
		}, nil},
		{"lost by a task", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(20, 30, "dead", "a", 3)}, Moves: []Move{back}, Drained: true,
		}, []Rule{Lost}},
		{"lost after a task", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(20, 30, "dead", "a", 3), again}, Moves: []Move{back}, Drained: true,
		}, []Rule{Lost}},
		{"lost, or never stored", History{
			Sends: []Send{unanswered(a)}, Moves: []Move{back}, Drained: true,
		}, nil},
		{"lost after a send without an answer", History{
			Sends: []Send{unanswered(a)}, Deliveries: []Delivery{again}, Moves: []Move{back}, Drained: true,
		}, []Rule{Lost}},
		{"one of two copies lost", History{
			Sends: []Send{a, job(20, 30, "jobs", "a").renamed("copy")}, Deliveries: []Delivery{again},
			Moves: []Move{back}, Deletes: []Delete{ended}, Drained: true,
		}, []Rule{Lost}},
		{"moved twice", History{
			Sends:      []Send{a},
			Deliveries: []Delivery{again, take(2000, 2010, "jobs", "a", 1).renamed("twin")},
			Moves:      []Move{back},
			Deletes:    []Delete{ended, deleted(2020, 2030, "jobs/a1-of-twin", Done)},
		}, []Rule{Multiplied}},
		{"moved twice perhaps, or the first was received by others, moved back and came again", History{
			Sends:      []Send{a},
			Deliveries: []Delivery{again, take(2000, 2010, "jobs", "a", 1).renamed("twin")},
			Moves:      []Move{back},
			Deletes:    []Delete{ended, deleted(2020, 2030, "jobs/a1-of-twin", Unknown)},
		}, nil},
		{"two copies moved", History{
			Sends:      []Send{unanswered(a), a},
			Deliveries: []Delivery{again, take(2000, 2010, "jobs", "a", 1).renamed("twin")},
			Moves:      []Move{back},
			Deletes:    []Delete{ended, deleted(2020, 2030, "jobs/a1-of-twin", Done)},
		}, nil},
		{"moved and left where it was", History{
			Sends:      []Send{a},
			Deliveries: []Delivery{again, take(2000, 2010, "dead", "a", 3)},
			Moves:      []Move{back},
			Deletes:    []Delete{ended, deleted(2020, 2030, "dead/a3", Done)},
		}, []Rule{Multiplied}},
		{"moved elsewhere", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(2000, 2010, "other", "a", 1).renamed("again")},
			Moves: []Move{{Span: back.Span, Outcome: Done, Source: "dead", Destination: "other"}},
		}, nil},
		{"moved to where no task moves", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(2000, 2010, "other", "a", 1).renamed("again")},
			Moves: []Move{back},
		}, []Rule{Invented}},
		{"moved elsewhere under its old ID", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(2000, 2010, "other", "a", 1)},
			Moves: []Move{{Span: back.Span, Outcome: Done, Source: "dead", Destination: "other"}},
		}, []Rule{Invented}},
	})
}

func TestReportCountsMoves(t *testing.T) {
	a := job(0, 10, "jobs", "a")
	h := &History{
		Queues: dead,
		Sends:  []Send{a},
		Deliveries: []Delivery{
			take(20, 30, "dead", "a", 3), take(2000, 2010, "jobs", "a", 1).renamed("again"),
		},
		Moves: []Move{{Span: at(1000, 1010), Outcome: Done, Source: "dead"}},
	}
	got := Check(h, Options{})
	if got.DeadLettered != 1 || got.Moved != 1 || got.Copies != 0 || len(got.Violations) != 0 {
		t.Errorf("got %+v, want 1 dead-lettered and 1 moved", *got)
	}
	h = &History{
		Queues:     fifo,
		Sends:      []Send{put(0, 10, "orders", "a", 1), put(20, 30, "orders", "a", 1), put(40, 50, "orders", "b", 2)},
		Deliveries: []Delivery{give(60, 70, "orders", "a", 1, 1).in(1), give(60, 70, "orders", "b", 1, 2).in(1)},
	}
	got = Check(h, Options{})
	if got.Duplicates != 1 || got.Ordered != 1 || got.Copies != 0 || len(got.Violations) != 0 {
		t.Errorf("got %+v, want 1 duplicate and 1 ordered", *got)
	}
}
