package audit

import (
	"testing"
	"time"
)

// at returns a span in milliseconds.
func at(call, ret int) Span {
	return Span{time.Duration(call) * time.Millisecond, time.Duration(ret) * time.Millisecond}
}

// sent, got, changed and deleted write histories in few words. The message ID of body a is A, and
// its delivery with count 2 has the handle a2; the timeout is a second.

func sent(call, ret int, body string) Send {
	return Send{Span: at(call, ret), Outcome: Done, Attempts: 1, Body: body, MessageID: "id-" + body}
}

func got(call, ret int, body string, count int) Delivery {
	return Delivery{
		Span: at(call, ret), Body: body, MessageID: "id-" + body, Handle: body + string(rune('0'+count)),
		Count: count, Sent: 5, FirstReceive: 7, Visibility: time.Second,
	}
}

func changed(call, ret int, handle string, o Outcome, to time.Duration) Change {
	return Change{Span: at(call, ret), Outcome: o, Handle: handle, Visibility: to}
}

func deleted(call, ret int, handle string, o Outcome) Delete {
	return Delete{Span: at(call, ret), Outcome: o, Handle: handle}
}

// A trial is a history and the rules that it violates, in the order of the report.
type trial struct {
	name string
	h    History
	want []Rule
}

// judge checks histories of some queues.
func judge(t *testing.T, queues map[string]Queue, trials []trial) {
	for _, tt := range trials {
		t.Run(tt.name, func(t *testing.T) {
			tt.h.Queues = queues
			got := Check(&tt.h, Options{})
			for i := range max(len(got.Violations), len(tt.want)) {
				switch {
				case i >= len(tt.want):
					t.Errorf("got %v, want no more", got.Violations[i])
				case i >= len(got.Violations):
					t.Errorf("got no more, want %q", tt.want[i])
				case got.Violations[i].Rule != tt.want[i]:
					t.Errorf("got %v, want %q", got.Violations[i], tt.want[i])
				}
			}
		})
	}
}

func TestCheck(t *testing.T) {
	judge(t, nil, []trial{
		{"nothing", History{Drained: true}, nil},
		{"one life", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 30, "a", 1)},
			Deletes:    []Delete{deleted(40, 50, "a1", Done)},
			Drained:    true,
		}, nil},

		// Lost.
		{"never delivered", History{Sends: []Send{sent(0, 10, "a")}, Drained: true}, []Rule{Lost}},
		{"never delivered and not drained", History{Sends: []Send{sent(0, 10, "a")}}, nil},
		{"gone after a delivery that nobody deleted", History{
			Sends: []Send{sent(0, 10, "a")}, Deliveries: []Delivery{got(20, 30, "a", 1)}, Drained: true,
		}, []Rule{Lost}},
		{"gone after a refused delete", History{
			Sends: []Send{sent(0, 10, "a")}, Deliveries: []Delivery{got(20, 30, "a", 1)},
			Deletes: []Delete{deleted(40, 50, "a1", Refused)}, Drained: true,
		}, []Rule{Lost}},
		{"gone after a delete without an answer", History{
			Sends: []Send{sent(0, 10, "a")}, Deliveries: []Delivery{got(20, 30, "a", 1)},
			Deletes: []Delete{deleted(40, 50, "a1", Unknown)}, Drained: true,
		}, nil},
		{"send without an answer, not stored", History{
			Sends: []Send{{Span: at(0, 10), Attempts: 3, Body: "a"}}, Drained: true,
		}, nil},
		{"the copy that was acknowledged is lost, the other is there", History{
			Sends:      []Send{{Span: at(0, 10), Attempts: 1, Body: "a"}, {Span: at(20, 30), Outcome: Done, Attempts: 1, Body: "a", MessageID: "id-b"}},
			Deliveries: []Delivery{got(40, 50, "a", 1)},
			Deletes:    []Delete{deleted(60, 70, "a1", Done)},
			Drained:    true,
		}, []Rule{Lost}},

		// Invented.
		{"a body that nobody sent", History{Deliveries: []Delivery{got(0, 10, "a", 1)}}, []Rule{Invented}},
		{"a body that was refused", History{
			Sends:      []Send{{Span: at(0, 10), Outcome: Refused, Attempts: 1, Body: "a"}},
			Deliveries: []Delivery{got(20, 30, "a", 1)},
		}, []Rule{Invented}},
		{"a body under another message ID", History{
			Sends:      []Send{sent(0, 10, "a"), sent(0, 10, "b")},
			Deliveries: []Delivery{{Span: at(20, 30), Body: "b", MessageID: "id-a", Handle: "x", Count: 1}},
		}, []Rule{Invented}},

		// Multiplied.
		{"two copies of two attempts", History{
			Sends: []Send{{Span: at(0, 10), Outcome: Done, Attempts: 2, Body: "a", MessageID: "id-b"}},
			Deliveries: []Delivery{
				got(20, 30, "a", 1), {Span: at(20, 30), Body: "a", MessageID: "id-b", Handle: "x", Count: 1},
			},
		}, nil},
		{"two copies of one attempt", History{
			Sends: []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{
				got(20, 30, "a", 1), {Span: at(20, 30), Body: "a", MessageID: "id-b", Handle: "x", Count: 1},
			},
		}, []Rule{Multiplied}},
		{"one message ID for two sends", History{
			Sends: []Send{sent(0, 10, "a"), sent(20, 30, "a")},
		}, []Rule{Multiplied}},

		// InFlight.
		{"again after the timeout", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 30, "a", 1), got(1000, 1030, "a", 2)},
		}, nil},
		{"again too early", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 30, "a", 1), got(800, 900, "a", 2)},
		}, []Rule{InFlight}},
		{"a little early, within the tolerance", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 30, "a", 1), got(800, 1001, "a", 2)},
		}, nil},
		{"given to two at once", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 60, "a", 1), got(30, 50, "a", 2)},
		}, []Rule{InFlight}},
		{"given to two polls that had waited since before the send", History{
			Sends:      []Send{sent(5000, 5010, "a")},
			Deliveries: []Delivery{got(0, 5030, "a", 1), got(0, 5900, "a", 2)},
		}, []Rule{InFlight}},
		{"two polls that waited, the third delivery early by what the second proves", History{
			Sends:      []Send{sent(5000, 5010, "a")},
			Deliveries: []Delivery{got(0, 5030, "a", 1), got(0, 6030, "a", 2), got(0, 6900, "a", 3)},
		}, []Rule{InFlight}},
		{"lengthened, and again after the first timeout", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 30, "a", 1), got(1500, 1510, "a", 2)},
			Changes:    []Change{changed(700, 710, "a1", Done, time.Second)},
		}, []Rule{InFlight}},
		{"lengthened perhaps", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 30, "a", 1), got(1500, 1510, "a", 2)},
			Changes:    []Change{changed(700, 710, "a1", Unknown, time.Second)},
		}, nil},
		{"lengthened after the end, when another receive may have come between", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 30, "a", 1), got(1500, 1510, "a", 3)},
			Changes:    []Change{changed(1100, 1110, "a1", Done, time.Second)},
		}, nil},
		{"given back", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 30, "a", 1), got(60, 70, "a", 2)},
			Changes:    []Change{changed(40, 50, "a1", Done, 0)},
		}, nil},
		{"given back perhaps, long ago", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 30, "a", 1), got(600, 700, "a", 2)},
			Changes:    []Change{changed(40, 50, "a1", Unknown, 0)},
		}, nil},
		{"giving back was refused", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 30, "a", 1), got(600, 700, "a", 2)},
			Changes:    []Change{changed(40, 50, "a1", Refused, 0)},
		}, []Rule{InFlight}},
		{"given back with an older handle", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 30, "a", 1), got(1020, 1030, "a", 2), got(1100, 1110, "a", 3)},
			Changes:    []Change{changed(1050, 1060, "a1", Done, 0)},
		}, nil},

		// Delayed.
		{"after its delay", History{
			Sends:      []Send{sent(0, 10, "a").delayed(time.Second)},
			Deliveries: []Delivery{got(20, 1030, "a", 1)},
		}, nil},
		{"before the end of its delay", History{
			Sends:      []Send{sent(0, 10, "a").delayed(time.Second)},
			Deliveries: []Delivery{got(20, 900, "a", 1)},
		}, []Rule{Delayed}},
		{"within the delay of the second of two sends, which may not have been the first", History{
			Sends: []Send{
				{Span: at(0, 10), Attempts: 1, Body: "a", Delay: time.Second}, sent(500, 510, "a").delayed(time.Second),
			},
			Deliveries: []Delivery{got(20, 1100, "a", 1)},
		}, nil},
		{"again within the timeout, which the delay proves to have begun late", History{
			Sends:      []Send{sent(0, 10, "a").delayed(4 * time.Second)},
			Deliveries: []Delivery{got(20, 4100, "a", 1), got(30, 4900, "a", 2)},
		}, []Rule{InFlight}},

		// Deleted.
		{"delivered after its delete", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 30, "a", 1), got(1500, 1510, "a", 2)},
			Deletes:    []Delete{deleted(40, 50, "a1", Done)},
		}, []Rule{Deleted}},
		{"delivered after its delete to a poll that had waited since before", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 30, "a", 1), got(35, 1510, "a", 2)},
			Deletes:    []Delete{deleted(40, 50, "a1", Done)},
		}, []Rule{Deleted}},
		{"delivered after a delete that came too late", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 30, "a", 1), got(1100, 1110, "a", 2)},
			Deletes:    []Delete{deleted(1050, 1060, "a1", Done)},
		}, nil},
		{"delivered after a late delete of what had been lengthened", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 30, "a", 1), got(2500, 2510, "a", 2)},
			Changes:    []Change{changed(700, 710, "a1", Done, time.Second)},
			Deletes:    []Delete{deleted(1050, 1060, "a1", Done)},
		}, []Rule{Deleted}},
		{"delivered after a delete without an answer", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 30, "a", 1), got(1500, 1510, "a", 2)},
			Deletes:    []Delete{deleted(40, 50, "a1", Unknown)},
		}, nil},

		// Counts.
		{"a count that begins at 2 after a receive without an answer", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 30, "a", 2), got(1500, 1510, "a", 5)},
		}, nil},
		{"a count of 0", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 30, "a", 0)},
		}, []Rule{Counts}},
		{"a count that went back", History{
			Sends:      []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{got(20, 30, "a", 2), got(1500, 1510, "a", 1)},
		}, []Rule{InFlight, Counts}}, // by the counts, the later one came first
		{"the same count twice", History{
			Sends: []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{
				got(20, 30, "a", 1),
				{Span: at(1500, 1510), Body: "a", MessageID: "id-a", Handle: "x", Count: 1, Sent: 5, FirstReceive: 7},
			},
		}, []Rule{Counts}},

		// Fixed.
		{"another time of the first receive", History{
			Sends: []Send{sent(0, 10, "a")},
			Deliveries: []Delivery{
				got(20, 30, "a", 1),
				{Span: at(1500, 1510), Body: "a", MessageID: "id-a", Handle: "x", Count: 2, Sent: 5, FirstReceive: 8},
			},
		}, []Rule{Fixed}},
		{"the same handle twice", History{
			Sends: []Send{sent(0, 10, "a"), sent(0, 10, "b")},
			Deliveries: []Delivery{
				got(20, 30, "a", 1), {Span: at(20, 30), Body: "b", MessageID: "id-b", Handle: "a1", Count: 1},
			},
		}, []Rule{Fixed}},
	})
}

func TestExpired(t *testing.T) {
	const minute = 60_000
	short := map[string]Queue{
		"jobs": {Retention: time.Minute, DeadLetter: "dead", MaxReceives: 2},
		"dead": {Retention: 2 * time.Minute},
		"line": {FIFO: true, Retention: time.Minute, DeadLetter: "end", MaxReceives: 2},
		"end":  {FIFO: true, Retention: time.Minute},
	}
	a, b := job(0, 10, "jobs", "a"), job(minute, minute+10, "jobs", "b")
	judge(t, short, []trial{
		{"delivered while it was kept", History{Sends: []Send{a}, Deliveries: []Delivery{take(minute-100, minute, "jobs", "a", 1)}}, nil},
		{"delivered late, as it may be", History{Sends: []Send{a}, Deliveries: []Delivery{take(minute+5000, minute+5010, "jobs", "a", 1)}}, nil},
		{"delivered too late", History{Sends: []Send{a}, Deliveries: []Delivery{take(minute+5100, minute+5110, "jobs", "a", 1)}}, []Rule{Expired}},
		{"delivered to a poll that had waited", History{Sends: []Send{a}, Deliveries: []Delivery{take(minute-100, minute+20_000, "jobs", "a", 1)}}, nil},
		{"dead letters keep the time of their send", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(40_000, 40_010, "jobs", "a", 2), take(2*minute+6000, 2*minute+6010, "dead", "a", 3)},
		}, []Rule{Expired}},
		{"dead letters of FIFO queues begin anew", History{
			Sends: []Send{put(0, 10, "line", "a", 1)},
			Deliveries: []Delivery{
				give(40_000, 40_010, "line", "a", 2, 1), give(50_000, 50_010, "end", "a", 3, 1).dedup("id-a"),
				give(minute+40_000, minute+40_010, "end", "a", 4, 1).dedup("id-a"),
			},
		}, nil},
		{"gone before the end of its period", History{
			Sends: []Send{a}, Deliveries: []Delivery{take(50_000, 50_010, "jobs", "a", 1)}, Drained: true,
		}, []Rule{Lost}},
		{"gone, perhaps by its age", History{
			Sends: []Send{a, b}, Deliveries: []Delivery{take(minute+100, minute+110, "jobs", "b", 1)},
			Deletes: []Delete{deleted(minute+120, minute+130, "jobs/b1", Done)}, Drained: true,
		}, nil},
	})
}

func TestReportCounts(t *testing.T) {
	h := &History{
		Sends: []Send{
			sent(0, 10, "a"),
			{Span: at(0, 10), Attempts: 2, Body: "b"},
			{Span: at(20, 30), Outcome: Done, Attempts: 1, Body: "b", MessageID: "id-b"},
			{Span: at(20, 30), Outcome: Refused, Attempts: 1, Body: "c"},
		},
		Deliveries: []Delivery{
			got(40, 50, "a", 1), got(40, 50, "b", 1), got(1100, 1110, "a", 2),
			{Span: at(40, 50), Body: "b", MessageID: "id-b'", Handle: "x", Count: 1},
		},
	}
	got := Check(h, Options{})
	if got.Acknowledged != 2 || got.Unanswered != 1 || got.Copies != 1 || got.Deliveries != 4 || got.Repeated != 1 || len(got.Violations) != 0 {
		t.Errorf("got %+v, want 2 acknowledged, 1 unanswered, 1 copy, 4 deliveries, 1 repeated", *got)
	}
}
