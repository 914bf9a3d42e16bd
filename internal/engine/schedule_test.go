package engine

import (
	"testing"

	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
)

// A program that knows no schedules leaves their rows when it removes the tag or the queue. Such a
// row sends nothing, goes when it is due, and holds no other schedule up. [SCHED-8]
func TestScheduleWithoutTag(t *testing.T) {
	store := kv.NewMemory()
	cfg := Config{Region: "r", InFlightMax: 100, Window: 4, Fault: func(s string) { t.Fatal(s) }}
	now := testTime
	jobs, gone := QueueName{Account: "1", Name: "jobs"}, QueueName{Account: "1", Name: "gone"}
	apply := func(e *Engine, op Op) {
		t.Helper()
		if err := e.Apply(Command{Now: now, Op: op}); err != nil {
			t.Fatal(err)
		}
	}
	e := Open(store, cfg)
	apply(e, &CreateQueue{Queue: jobs, NameSet: true, Tags: []Tag{{Key: "tenaq:schedule", Value: "@every 1s"}}})
	for _, s := range []row.Schedule{{Queue: jobs, Name: "untagged"}, {Queue: gone, Name: "default"}} {
		s.Next = now + 1
		e.putSchedule(s)
	}
	e.Commit()()

	e, now = Open(store, cfg), now+1000
	var sent []QueueName
	for range 4 {
		op := &Tick{}
		if apply(e, op); op.Due {
			sent = append(sent, op.Queue)
		}
	}
	e.Commit()()
	if len(sent) != 1 || sent[0] != jobs {
		t.Errorf("messages were sent to %v, want one to %v", sent, jobs)
	}
	family := row.Family(row.FamilySchedule)
	for k, v := range store.Scan(family.Lo, family.Hi) {
		if s, ok := row.ScheduleOf(k, v); !ok || s.Queue != jobs || s.Name != "default" || s.Next <= now {
			t.Errorf("got the row %+v, %v, want the one of the tag", s, ok)
		}
	}
}
