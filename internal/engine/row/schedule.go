package row

import "tenaq/internal/engine/key"

// A Schedule says when the next message of a schedule of a queue is due. What the schedule is
// stands in the tags of the queue.
type Schedule struct {
	Queue QueueName
	Name  string
	Next  int64
}

func (s *Schedule) Key() []byte {
	k := key.AppendString([]byte{FamilySchedule}, s.Queue.Account)
	k = key.AppendString(k, s.Queue.Name)
	return key.AppendString(k, s.Name)
}

// Encode appends the value of the row to b.
func (s *Schedule) Encode(b []byte) []byte {
	c := Codec{B: b}
	c.Version(Version)
	c.Int(&s.Next)
	return c.B
}

// ScheduleOf reads a schedule from its row.
func ScheduleOf(k, v []byte) (s Schedule, ok bool) {
	if len(k) == 0 || k[0] != FamilySchedule {
		return s, false
	}
	account, rest, ok1 := key.String(k[1:])
	queue, rest, ok2 := key.String(rest)
	name, rest, ok3 := key.String(rest)
	s = Schedule{Queue: QueueName{Account: account, Name: queue}, Name: name}
	c := Codec{B: v, Reading: true}
	c.Version(Version)
	c.Int(&s.Next)
	return s, ok1 && ok2 && ok3 && len(rest) == 0 && c.Done() &&
		s.Next > 0 && s.Next < MaxTime
}
