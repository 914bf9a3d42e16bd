package engine

import (
	"strings"
	"testing"

	"tenaq/internal/engine/row"
	"tenaq/internal/invariant"
)

// A command that would break a promise stops the program before its turn is committed. Each case
// damages what the engine believes, as a bug would, and then asks for something harmless. [DUR-34]
func TestChecks(t *testing.T) {
	const account = "000000000000"
	receive := func(r *rig, q *queue) { r.do(&ReceiveMessage{Queue: q.name, Max: Int{Value: 10, Set: true}}) }
	for _, tt := range []struct {
		name string
		fifo bool
		bug  func(r *rig, q *queue)
		want string
	}{
		{"a hidden message", false, func(r *rig, q *queue) {
			r.receive(q.name, 30)
			q.due.entries[q.due.head].At = r.now
			receive(r, q)
		}, "cannot be received until"},
		{"a delayed message of a group", true, func(r *rig, q *queue) {
			r.receive(q.name, 0)
			q.msgs.of[1].At = r.now + 1
			r.checkPicked(q, []*message{q.msgs.of[1]})
		}, "cannot be received until"},
		{"an expired message", false, func(r *rig, q *queue) {
			m := q.fresh.at(0)
			m.Base = 0
			r.checkPicked(q, []*message{m})
		}, "has expired"},
		{"a message that is gone", false, func(r *rig, q *queue) {
			q.fresh.at(0).gone = true
			receive(r, q)
		}, "which is not there"},
		{"a message that was never sent", false, func(r *rig, q *queue) {
			q.st.NextSeq, q.st.LastFresh = 1, 0
			r.checkPicked(q, []*message{q.fresh.at(0)})
		}, "which is not there"},
		{"a group out of its order", true, func(r *rig, q *queue) {
			r.checkPicked(q, []*message{r.freshOf(q, 2), r.freshOf(q, 1)})
		}, "as number 0 of its group"},
		{"a group with a gap", true, func(r *rig, q *queue) {
			r.loadLines(q, r.group(q, "g"), 3)
			r.checkPicked(q, []*message{r.freshOf(q, 1), r.freshOf(q, 3)})
		}, "as number 1 of its group"},
		{"a number that was used", false, func(r *rig, q *queue) {
			q.st.NextSeq = 2
			r.enter(q, &message{Meta: row.NewMeta(3, MessageID{}, r.now, 1), hasMeta: true}, content{body: "x"})
		}, "has the number 3"},
		{"hidden for more than twelve hours", false, func(r *rig, q *queue) {
			r.deliver(q, q.fresh.at(0), r.now+visibilityMax*1000+1)
		}, "is hidden until"},
		{"a dead letter too soon", false, func(r *rig, q *queue) {
			q.row.Attributes.Redrive = row.Redrive{Target: q.name, MaxReceives: 1}
			r.deadLetter(q, q, q.fresh.at(0))
		}, "after 0 receives"},
		{"a move that loses a message", false, func(r *rig, q *queue) {
			b := balanceOf(q, q)
			q.st.Live--
			b.check()
		}, "before a move"},
		{"counters below zero", false, func(r *rig, q *queue) {
			q.st.InFlight = -1
			r.send(q.name, "x")
		}, "-1 in flight"},
		{"a segment with fewer messages than it has", false, func(r *rig, q *queue) {
			r.segmentOf(q, 1).Live = 0
			r.remove(q, q.fresh.at(0), endDeleted)
		}, "leaves a segment"},
		{"two entries in one place", false, func(r *rig, q *queue) {
			r.receive(q.name, 30)
			r.receive(q.name, 31)
			q.due.insert(q.due.at(0).Pos, row.DueInFlight)
		}, "a second entry"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{})
			name := QueueName{Account: account, Name: "orders"}
			create := &CreateQueue{Queue: name, NameSet: true}
			if tt.fifo {
				name.Name = "orders.fifo"
				create = &CreateQueue{Queue: name, NameSet: true, Attributes: map[string]string{"FifoQueue": "true"}}
			}
			r.do(create)
			for _, body := range []string{"a", "b", "c"} {
				e := Entry{Body: Text{Value: body, Set: true}}
				if tt.fifo {
					e.Group, e.Dedup = Text{Value: "g", Set: true}, e.Body
				}
				r.do(&SendMessage{Queue: name, Draft: NewDraft(e)})
			}
			q, err := r.lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			v, _ := panicked(func() { tt.bug(r, q) }).(*invariant.Violation)
			if v == nil || !strings.Contains(v.What, tt.want) {
				t.Errorf("got %v, want a report that says %q", v, tt.want)
			}
		})
	}
}

// The rows of an index are read in its order. [DUR-34]
func TestIndexOutOfOrder(t *testing.T) {
	r := newRig(t, Config{})
	name := QueueName{Account: "000000000000", Name: "orders"}
	r.do(&CreateQueue{Queue: name, NameSet: true})
	for range 3 {
		r.send(name, "x")
		r.receive(name, 30)
	}
	q, _ := r.lookup(name)
	w := windowOf(&row.DueRows, q, &q.st.DueLow)
	w.entries = []entry[row.DueKind]{{row.Pos{At: r.now + 1e6, Seq: 9}, row.DueInFlight}}
	v, _ := panicked(func() { w.load(r.Engine, 3) }).(*invariant.Violation)
	if v == nil || !strings.Contains(v.What, "the index due of queue orders goes from") {
		t.Errorf("got %v, want a report", v)
	}
}
