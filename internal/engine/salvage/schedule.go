package salvage

import (
	"bytes"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/extension"
)

// schedules keeps the times at which schedules are due. A schedule that has lost its time goes on
// with its first tick after the last time that the store knows. [SCHED-12]
func (s *salvage) schedules() {
	plans := make(map[string]extension.Schedule) // by key
	for _, q := range s.found {
		for _, t := range q.row.Tags {
			name, ok := extension.ScheduleName(t.Key)
			plan, known := extension.ReadSchedule(t.Value)
			if !ok || !known {
				continue
			}
			due := row.Schedule{Queue: q.name, Name: name}
			k := due.Key()
			plans[string(k)] = plan
			if value, ok := s.get(k); !ok || !isDue(k, value, &plan) {
				due.Next, _ = plan.Next(s.sys.Stamp)
				s.set(k, due.Encode(nil))
			}
		}
	}
	family := row.Family(row.FamilySchedule)
	for k := range s.store.Scan(family.Lo, family.Hi) {
		if _, ok := plans[string(k)]; !ok {
			s.delete(bytes.Clone(k))
		}
	}
}

// isDue reports whether a row says when a schedule is due, and the schedule has such a tick.
func isDue(k, v []byte, plan *extension.Schedule) bool {
	due, ok := row.ScheduleOf(k, v)
	last, some := plan.Last(due.Next)
	return ok && some && last == due.Next
}
