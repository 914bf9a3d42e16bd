package audit

import (
	"testing"
	"time"
)

// tasked is an answered start of a task from source to target.
func tasked(call int, do Work, selects string) Task {
	t := Task{Span: at(call, call+10), Outcome: Done, ID: "task", Do: do, Source: "source",
		Destination: "target", Selects: selects}
	if do == DeleteWork {
		t.Destination = ""
	}
	return t
}

func (t Task) confirmed(n int) Task       { t.Confirm = n; return t }
func (t Task) ended(done int) Task        { t.Ended, t.Done = true, done; return t }
func (t Task) answered(o Outcome) Task    { t.Outcome = o; return t }
func (t Task) from(source string) Task    { t.Source = source; return t }
func (t Task) to(destination string) Task { t.Destination = destination; return t }

func TestTasks(t *testing.T) {
	a, b := job(0, 10, "source", "a red"), job(0, 10, "source", "b blue")
	a.MessageID, b.MessageID = "id-a", "id-b"
	// of message "id", as it is delivered and deleted
	given := func(call int, queue, body, id string) Delivery {
		d := take(call, call+10, queue, body, 1)
		d.MessageID, d.Handle = id, id+" by "+queue
		return d
	}
	gone := func(call int, d Delivery) Delete { return deleted(call, call+10, d.Handle, Done) }
	stays, moves := given(500, "source", "b blue", "id-b"), given(500, "target", "a red", "id-new")
	parked := given(500, "target", "a red", "id-a")
	red := tasked(100, MoveWork, "red")
	judge(t, map[string]Queue{"source": {}, "target": {}, "other": {}}, []trial{
		{"moved what it finds", History{
			Sends: []Send{a, b}, Tasks: []Task{red.ended(1)}, Deliveries: []Delivery{stays, moves},
			Deletes: []Delete{gone(600, stays), gone(600, moves)}, Drained: true,
		}, nil},
		{"moved by a task whose start was not answered", History{
			Sends: []Send{a}, Tasks: []Task{red.answered(Unknown)}, Deliveries: []Delivery{moves},
			Deletes: []Delete{gone(600, moves)}, Drained: true,
		}, nil},
		{"moved by a task that was refused", History{
			Sends: []Send{a}, Tasks: []Task{red.answered(Refused)}, Deliveries: []Delivery{moves},
		}, []Rule{Invented, Multiplied}},
		{"moved to another queue", History{
			Sends: []Send{a}, Tasks: []Task{red},
			Deliveries: []Delivery{given(500, "other", "a red", "id-new")},
		}, []Rule{Invented}},
		{"moved against its filter", History{
			Sends: []Send{b}, Tasks: []Task{red},
			Deliveries: []Delivery{given(500, "target", "b blue", "id-new")},
		}, []Rule{Selected}},
		{"moved before the task was started", History{
			Sends: []Send{a}, Tasks: []Task{tasked(600, MoveWork, "red")}, Deliveries: []Delivery{moves},
		}, []Rule{Selected}},
		{"moved on by a second task", History{
			Sends: []Send{a}, Tasks: []Task{red.ended(1), tasked(200, MoveWork, "").from("target").to("other").ended(1)},
			Deliveries: []Delivery{given(500, "other", "a red", "id-new")},
			Deletes:    []Delete{gone(600, given(500, "other", "a red", "id-new"))}, Drained: true,
		}, nil},
		{"moved on before it can have come", History{
			Sends:      []Send{a},
			Tasks:      []Task{tasked(600, MoveWork, "red"), tasked(200, MoveWork, "").from("target").to("other")},
			Deliveries: []Delivery{given(500, "other", "a red", "id-new")},
		}, []Rule{Selected}},
		{"in both queues", History{
			Sends: []Send{a}, Tasks: []Task{red.ended(1)},
			Deliveries: []Delivery{given(500, "source", "a red", "id-a"), moves},
			Deletes:    []Delete{gone(600, given(500, "source", "a red", "id-a")), gone(600, moves)}, Drained: true,
		}, []Rule{Multiplied, Counted}},
		{"in neither", History{
			Sends: []Send{a}, Tasks: []Task{red.ended(1)}, Drained: true,
		}, []Rule{Lost, Counted}},
		{"moved twice, as the task counts", History{
			Sends: []Send{a}, Tasks: []Task{red.ended(2)}, Deliveries: []Delivery{moves},
			Deletes: []Delete{gone(600, moves)}, Drained: true,
		}, []Rule{Counted}},
		{"not moved, as the task counts", History{
			Sends: []Send{a}, Tasks: []Task{red.ended(0)}, Deliveries: []Delivery{moves},
			Deletes: []Delete{gone(600, moves)}, Drained: true,
		}, []Rule{Counted}},
		{"perhaps deleted before it was moved", History{
			Sends: []Send{a}, Tasks: []Task{red.ended(0)},
			Deliveries: []Delivery{given(50, "source", "a red", "id-a")},
			Deletes:    []Delete{deleted(60, 70, "id-a by source", Unknown)}, Drained: true,
		}, nil},

		{"parked", History{
			Sends: []Send{a}, Tasks: []Task{tasked(100, ParkWork, "red").ended(1)}, Deliveries: []Delivery{parked},
			Deletes: []Delete{gone(600, parked)}, Drained: true,
		}, nil},
		{"parked against its filter", History{
			Sends: []Send{b}, Tasks: []Task{tasked(100, ParkWork, "red")},
			Deliveries: []Delivery{given(500, "target", "b blue", "id-b")},
		}, []Rule{Selected}},
		{"parked after the delete", History{
			Sends: []Send{a}, Tasks: []Task{tasked(100, ParkWork, "red")},
			Deliveries: []Delivery{given(20, "source", "a red", "id-a"), func() Delivery {
				d := parked
				d.Count, d.Span = 2, at(1500, 1510)
				return d
			}()},
			Deletes: []Delete{gone(40, given(20, "source", "a red", "id-a"))},
		}, []Rule{Deleted}},

		{"deleted as confirmed", History{
			Sends: []Send{a, b}, Tasks: []Task{tasked(100, DeleteWork, "red").confirmed(1).ended(1)},
			Deliveries: []Delivery{stays}, Deletes: []Delete{gone(600, stays)}, Drained: true,
		}, nil},
		{"deleted against its filter", History{
			Sends: []Send{b}, Tasks: []Task{tasked(100, DeleteWork, "red").confirmed(1)}, Drained: true,
		}, []Rule{Lost}},
		{"deleted by two tasks with room for one each", History{
			Sends: []Send{a, b}, Tasks: []Task{
				tasked(100, DeleteWork, "red").confirmed(1), tasked(200, DeleteWork, "").confirmed(1),
			}, Drained: true,
		}, nil},
		{"deleted by the wrong one of two tasks", History{
			Sends: []Send{a, b}, Tasks: []Task{
				tasked(100, DeleteWork, "red").confirmed(5), tasked(200, DeleteWork, "blue").confirmed(0),
			}, Drained: true,
		}, []Rule{Confirmed}},
		{"says more than was confirmed", History{
			Tasks: []Task{tasked(100, DeleteWork, "red").confirmed(1).ended(2)},
		}, []Rule{Confirmed}},
	})
}

func TestReplacements(t *testing.T) {
	a := job(0, 10, "source", "a")
	now := take(500, 510, "target", "b", 1)
	swap := Replacement{Span: at(100, 110), Outcome: Done, Queue: "source", Destination: "target",
		MessageID: "id-a", Body: "a", Gives: "b", NewID: "id-b"}
	unknown, refused, back := swap, swap, swap
	unknown.Outcome, unknown.NewID, refused.Outcome = Unknown, "", Refused
	back.Destination = "source"
	old := take(500, 510, "source", "a", 1)
	judge(t, map[string]Queue{"source": {}, "target": {}}, []trial{
		{"replaced", History{
			Sends: []Send{a}, Replacements: []Replacement{swap}, Deliveries: []Delivery{now},
			Deletes: []Delete{deleted(520, 530, now.Handle, Done)}, Drained: true,
		}, nil},
		{"replaced without an answer", History{
			Sends: []Send{a}, Replacements: []Replacement{unknown}, Deliveries: []Delivery{now},
			Deletes: []Delete{deleted(520, 530, now.Handle, Done)}, Drained: true,
		}, nil},
		{"not replaced, without an answer", History{
			Sends: []Send{a}, Replacements: []Replacement{unknown}, Deliveries: []Delivery{old},
			Deletes: []Delete{deleted(520, 530, old.Handle, Done)}, Drained: true,
		}, nil},
		{"both, without an answer", History{
			Sends: []Send{a}, Replacements: []Replacement{unknown}, Deliveries: []Delivery{old, now},
			Deletes: []Delete{deleted(520, 530, old.Handle, Done), deleted(520, 530, now.Handle, Done)}, Drained: true,
		}, []Rule{Multiplied}},
		{"neither", History{
			Sends: []Send{a}, Replacements: []Replacement{swap}, Drained: true,
		}, []Rule{Lost}},
		{"replaced although that was refused", History{
			Sends: []Send{a}, Replacements: []Replacement{refused}, Deliveries: []Delivery{now},
		}, []Rule{Invented}},
		{"delivered as it was before", History{
			Sends: []Send{a}, Replacements: []Replacement{swap}, Deliveries: []Delivery{old},
		}, []Rule{Replaced}},
		{"delivered under its old ID", History{
			Sends: []Send{a}, Replacements: []Replacement{back},
			Deliveries: []Delivery{take(20, 30, "source", "a", 1), func() Delivery {
				d := take(1500, 1510, "source", "b", 2)
				d.MessageID = "id-a"
				return d
			}()},
		}, []Rule{Invented, Replaced}},
		{"delivered before it was there", History{
			Sends: []Send{a}, Replacements: []Replacement{swap}, Deliveries: []Delivery{take(50, 60, "target", "b", 1)},
		}, []Rule{Selected}},
		{"with the body of the old one", History{
			Sends: []Send{a}, Replacements: []Replacement{swap},
			Deliveries: []Delivery{func() Delivery {
				d := take(500, 510, "target", "a", 1)
				d.MessageID = "id-b"
				return d
			}()},
		}, []Rule{Selected, Replaced}},
	})
}

func TestNacks(t *testing.T) {
	a := job(0, 10, "jobs", "a")
	nack := func(call int, handle string, v Verdict) Nack {
		return Nack{Span: at(call, call+10), Outcome: Done, Handle: handle, Verdict: v, Text: "because"}
	}
	first := take(20, 30, "jobs", "a", 1)
	again := func(call, count int) Delivery {
		d := take(call, call+10, "jobs", "a", count)
		d.Handle += "-again"
		return d
	}
	poison := nack(40, first.Handle, Poison)
	refused, late := poison, nack(40, first.Handle, Retry)
	refused.Outcome, late.Delay = Refused, 3*time.Second
	judge(t, dead, []trial{
		{"given back", History{
			Sends: []Send{a}, Nacks: []Nack{nack(40, first.Handle, Retry)},
			Deliveries: []Delivery{first, again(60, 2)},
		}, nil},
		{"given back for later, and delivered at once", History{
			Sends: []Send{a}, Nacks: []Nack{late}, Deliveries: []Delivery{first, again(1500, 2)},
		}, []Rule{InFlight}},
		{"released", History{
			Sends: []Send{a}, Nacks: []Nack{nack(40, first.Handle, Release)},
			Deliveries: []Delivery{first, again(60, 1)},
		}, nil},
		{"given back, and not counted", History{
			Sends: []Send{a}, Nacks: []Nack{nack(40, first.Handle, Retry)},
			Deliveries: []Delivery{first, again(60, 1)},
		}, []Rule{Counts}},
		{"poison", History{
			Sends: []Send{a}, Nacks: []Nack{poison},
			Deliveries: []Delivery{first, take(60, 70, "dead", "a", 2)},
		}, nil},
		{"poison that was refused", History{
			Sends: []Send{a}, Nacks: []Nack{refused},
			Deliveries: []Delivery{first, take(1100, 1110, "dead", "a", 2)},
		}, []Rule{DeadLetter}},
		{"poison, and delivered again", History{
			Sends: []Send{a}, Nacks: []Nack{poison}, Deliveries: []Delivery{first, again(1100, 2)},
		}, []Rule{DeadLetter}},
		{"poison, and lost", History{
			Sends: []Send{a}, Nacks: []Nack{poison}, Deliveries: []Delivery{first}, Drained: true,
		}, []Rule{Lost}},
	})
}

func TestEndings(t *testing.T) {
	told := map[string]Queue{"told": {History: true}, "dead": {History: true}}
	a, got := job(0, 10, "told", "a"), take(20, 30, "told", "a", 1)
	end := Ending{Queue: "told", MessageID: "id-a", How: "deleted"}
	said := end
	said.Said = []string{"because"}
	history := func(endings ...Ending) History {
		return History{Sends: []Send{a}, Deliveries: []Delivery{got},
			Deletes: []Delete{deleted(40, 50, got.Handle, Done)}, Endings: endings, Drained: true}
	}
	changed := func(h History, change func(h *History)) History {
		change(&h)
		return h
	}
	nacked := func(h *History) {
		h.Nacks = []Nack{{Span: at(32, 36), Outcome: Done, Handle: got.Handle, Verdict: Retry, Text: "because"}}
		h.Deliveries = append(h.Deliveries, take(60, 70, "told", "a", 2))
		h.Deletes = []Delete{deleted(80, 90, "told/a2", Done)}
	}
	judge(t, told, []trial{
		{"deleted", history(end), nil},
		{"deleted, and forgotten", history(), []Rule{Recorded}},
		{"deleted, and recorded twice", history(end, end), []Rule{Recorded}},
		{"recorded in another way", history(Ending{Queue: "told", MessageID: "id-a", How: "expired"}), []Rule{Recorded}},
		{"recorded by another queue as well", history(end, Ending{Queue: "dead", MessageID: "id-a", How: "removed"}), []Rule{Recorded}},
		{"perhaps deleted", changed(history(Ending{Queue: "told", MessageID: "id-a", How: "moved"}), func(h *History) {
			h.Deletes[0].Outcome = Unknown
		}), nil},
		{"recorded as deleted, and never received", History{
			Sends: []Send{unanswered(a)}, Endings: []Ending{end}, Drained: true,
		}, []Rule{Recorded}},
		{"recorded, and not drained yet", changed(history(end, end), func(h *History) { h.Drained = false }), nil},
		{"with its reason", changed(history(said), nacked), nil},
		{"without its reason", changed(history(end), nacked), []Rule{Recorded}},
		{"with a reason that was refused", changed(history(said), func(h *History) {
			nacked(h)
			h.Nacks[0].Outcome = Refused
			h.Deliveries[1].Span, h.Deletes[0].Span = at(1500, 1510), at(1520, 1530)
		}), []Rule{Recorded}},
	})
}
