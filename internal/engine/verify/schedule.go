package verify

import (
	"tenaq/internal/engine/row"
	"tenaq/internal/work/extension"
)

// schedules looks at when schedules are due, and at the tags of their queues.
func (a *run) schedules() {
	for k, v := range a.rows(row.Family(row.FamilySchedule)) {
		s, ok := row.ScheduleOf(k, v)
		if !ok {
			a.damagedRow(s.Queue, k, "schedule", v)
			continue
		}
		a.canonical(s.Queue, k, v, s.Encode(nil))
		value, _ := a.get(row.QueueKey(s.Queue))
		stored, _ := row.DecodeQueue(value)
		plan, ok := planOf(stored.Tags, s.Name)
		if !ok {
			a.report(s.Queue, k, "the queue has no schedule %s", s.Name)
			continue
		}
		if last, ok := plan.Last(s.Next); !ok || last != s.Next {
			a.report(s.Queue, k, "the schedule %s is due at %d, which is not one of its ticks",
				s.Name, s.Next)
		}
	}
}

func planOf(tags []row.Tag, name string) (plan extension.Schedule, ok bool) {
	for _, t := range tags {
		if n, is := extension.ScheduleName(t.Key); is && n == name {
			return extension.ReadSchedule(t.Value)
		}
	}
	return plan, false
}
