package timeline

import (
	"cmp"
	"slices"
	"strings"
)

// A Stay is the time of a message in one queue. Times are Unix milliseconds.
type Stay struct {
	Queue, Message, Lineage string
	Source                  string // the queue that it came from, as the server knows it
	Generation, Redrives    uint64

	Sent, FirstSent int64
	Arrived         int64 // in the queue
	Based           int64 // its retention counts from here

	Receives                  uint32 // counted, in all queues since it was sent
	Deliveries                uint32 // in this queue
	Fence                     uint64 // of its latest delivery
	FirstReceive, LastReceive int64
	Attempts                  []Attempt // that consumers ended with a verdict

	How   string // how the stay ended: an outcome of the history; empty if it goes on
	Ended int64
	To    string

	Trail Trail
}

// An Attempt is what a consumer said when it gave a message back.
type Attempt struct {
	Verdict         string
	Receive         uint32
	Received, Ended int64
	Class, Text     string
}

// A Trail is what clients wrote into the attribute tenaq of a message.
type Trail struct {
	Key, Lineage, Source, Reason string
	Generation                   uint64
	Attempts, Redrives           int
	FirstSent                    int64
}

// generation is raised by the server, or by a producer.
func (s *Stay) generation() uint64 { return max(s.Generation, s.Trail.Generation) }

// fenceBefore counts the deliveries of the lineage before the stay.
func (s *Stay) fenceBefore() uint64 { return s.Fence - min(uint64(s.Deliveries), s.Fence) }

func (s *Stay) event(what string, ms int64) Event {
	return Event{At: at(ms), What: what, Queue: s.Queue, Message: s.Message, Lineage: s.Lineage,
		Generation: s.generation()}
}

// A life is a set of stays on the way to events.
type life struct {
	stays  []Stay
	events []Event

	received   map[moment]bool
	deliveries map[string]uint64 // of each lineage: how many the events have so far
	sent       map[string]bool   // messages
}

// A moment is the time of a receive of a lineage.
type moment struct {
	lineage string
	at      int64
}

// OfStays returns the events of messages. [TRACE-4]
func OfStays(stays []Stay) []Event {
	l := &life{received: make(map[moment]bool), deliveries: make(map[string]uint64),
		sent: make(map[string]bool)}
	l.stays = slices.Clone(stays)
	slices.SortFunc(l.stays, func(x, y Stay) int {
		return cmp.Or(cmp.Compare(x.Arrived, y.Arrived),
			cmp.Compare(x.fenceBefore(), y.fenceBefore()),
			strings.Compare(x.Queue, y.Queue), strings.Compare(x.Message, y.Message),
			cmp.Compare(y.Ended, x.Ended))
	})
	l.stays = slices.CompactFunc(l.stays, func(x, y Stay) bool { // found twice, the ended one first
		return x.Queue == y.Queue && x.Message == y.Message && x.Arrived == y.Arrived
	})
	for i := range l.stays {
		l.begin(&l.stays[i])
		l.receives(&l.stays[i])
		l.end(&l.stays[i], i)
	}
	for i := range l.stays {
		l.firstSend(&l.stays[i])
	}
	return l.events
}

// end adds the end of a stay, with the message that it became.
func (l *life) end(s *Stay, i int) {
	if s.How == "" {
		return
	}
	e := s.event(s.How, s.Ended)
	e.To, e.Fence = s.To, s.Fence
	for j := range l.stays {
		if next := &l.stays[j]; j != i && follows(s, next) && next.Message != s.Message {
			e.New = next.Message
		}
	}
	l.events = append(l.events, e)
}

// follows reports whether a stay begins with the end of another one.
func follows(s, next *Stay) bool {
	return s.To != "" && s.To == next.Queue && s.Ended == next.Arrived &&
		s.Lineage == next.Lineage && s.generation() == next.generation() &&
		s.Fence == next.fenceBefore()
}

// begin adds how a message came into its queue, unless the end of the stay before says so.
func (l *life) begin(s *Stay) {
	if slices.ContainsFunc(l.stays, func(before Stay) bool { return follows(&before, s) }) {
		return
	}
	switch {
	case s.Source == "" && s.Message == s.Lineage && s.Redrives == 0:
		l.send(s)
	case s.Source == "" && s.Redrives > 0: // by a task, or edited
		e := s.event(Moved, s.Sent)
		e.Queue, e.To = "", s.Queue
		l.events = append(l.events, e)
	case s.Source == "":
		e := s.event(Replayed, s.Sent)
		l.events = append(l.events, e)
	default:
		e := s.event(s.arrival(), s.Arrived)
		e.Queue, e.To = s.Source, s.Queue
		if e.What != Dead { // a task parks messages from any queue
			e.Queue, e.From = "", s.Source
		}
		if s.Arrived < s.FirstReceive && s.Deliveries == 0 { // an old row does not say when
			e.At, e.After = nil, at(s.LastReceive)
		}
		l.events = append(l.events, e)
	}
}

// arrival says how a message came that has a source. The retention of a parked one starts again,
// and on FIFO queues that of a dead letter does so too. [DLQ-26, TASK-4]
func (s *Stay) arrival() string {
	switch {
	case s.Arrived != s.Based:
		return Dead
	case strings.HasSuffix(s.Queue, ".fifo"):
		return Arrived
	}
	return Parked
}

// send adds that a client sent a message, and what it wrote about that.
func (l *life) send(s *Stay) {
	e := s.event(Sent, s.Sent)
	if t := &s.Trail; t.Lineage != "" && t.Lineage != s.Message {
		e.Of, e.From, e.Text = t.Lineage, t.Source, t.Reason
		e.Attempts, e.Redrives = t.Attempts, t.Redrives
	}
	l.sent[s.Message] = true
	l.events = append(l.events, e)
}

// receives adds the receives in a queue that are known, and the number of the others.
func (l *life) receives(s *Stay) {
	l.missing(s)
	if s.Deliveries == 0 {
		return
	}
	number := map[int64]uint32{s.LastReceive: s.Receives}
	if s.FirstReceive >= s.Arrived {
		number[s.FirstReceive] = max(number[s.FirstReceive], 1)
	}
	for _, a := range s.Attempts {
		if a.Received >= s.Arrived {
			number[a.Received] = a.Receive
		}
	}
	first := int64(0)
	for _, ms := range sortedTimes(number) {
		e := s.event(Received, ms)
		e.Receive = number[ms]
		switch {
		case ms == s.LastReceive:
			e.Fence = s.Fence
		case ms == s.FirstReceive:
			e.Fence = s.fenceBefore() + 1
		}
		first = cmp.Or(first, ms)
		l.received[moment{s.Lineage, ms}] = true
		l.events = append(l.events, e)
		l.attemptAt(s, ms)
	}
	if others := uint64(s.Deliveries) - min(uint64(len(number)), uint64(s.Deliveries)); others > 0 {
		l.count(s, others, max(s.Arrived, first), s.LastReceive)
	}
	l.deliveries[s.Lineage] = max(l.deliveries[s.Lineage], s.fenceBefore()) + uint64(s.Deliveries)
}

// missing adds the deliveries before a stay that no other stay has: those that its attempts tell
// of, and the number of the others. In which queue they were is not known.
func (l *life) missing(s *Stay) {
	before := s.fenceBefore()
	if before <= l.deliveries[s.Lineage] {
		return
	}
	lacks := before - l.deliveries[s.Lineage]
	// A replay begins at the time as its fence, and no message has as many deliveries. [REPLAY-7]
	raised := before >= uint64(max(cmp.Or(s.FirstSent, s.Sent), 1))
	after := s.FirstSent
	found := make(map[int64]uint32)
	if s.FirstReceive != 0 && s.FirstReceive < s.Arrived {
		found[s.FirstReceive] = 1
		after = s.FirstReceive
	}
	if s.Deliveries == 0 && s.LastReceive != 0 {
		found[s.LastReceive] = s.Receives
	}
	for _, a := range s.Attempts {
		if a.Received < s.Arrived {
			found[a.Received] = a.Receive
		}
	}
	for _, ms := range sortedTimes(found) {
		if l.received[moment{s.Lineage, ms}] || lacks == 0 {
			continue
		}
		e := s.earlier(Received, ms, ms)
		e.Receive = found[ms]
		l.received[moment{s.Lineage, ms}] = true
		l.events = append(l.events, e)
		l.attemptAt(s, ms)
		lacks--
	}
	if lacks > 0 && !raised {
		l.count(s, lacks, after, s.Arrived)
	}
	l.deliveries[s.Lineage] = before
}

// earlier is an event that began at a time, which may be before the stay. Then it is not known in
// which queue it was, nor which message that was, if a task has sent it anew since.
func (s *Stay) earlier(what string, ms, begun int64) Event {
	e := s.event(what, ms)
	if begun < s.Arrived {
		e.Queue = ""
	}
	if begun < s.Sent {
		e.Message = ""
	}
	return e
}

// count adds a number of receives whose times are not known.
func (l *life) count(s *Stay, n uint64, after, before int64) {
	e := s.earlier(Received, 0, after)
	e.Count, e.After, e.Before = n, at(after), at(before)
	l.events = append(l.events, e)
}

// attemptAt adds the end of the attempt that began with a receive, if there is one.
func (l *life) attemptAt(s *Stay, received int64) {
	for _, a := range s.Attempts {
		if a.Received != received {
			continue
		}
		e := s.earlier(Returned, a.Ended, received)
		e.Receive, e.Verdict, e.Class, e.Text = a.Receive, a.Verdict, a.Class, a.Text
		l.events = append(l.events, e)
	}
}

// firstSend adds the first send of a lineage, or of the work, if no stay has it.
func (l *life) firstSend(s *Stay) {
	first := Event{What: Sent, At: at(s.FirstSent), Message: s.Lineage, Lineage: s.Lineage}
	switch t := &s.Trail; {
	case s.FirstSent == 0:
		return
	case s.Message != s.Lineage || s.Source != "":
		if s.Message == s.Lineage {
			first.At = at(s.Sent)
		}
	case t.Lineage != "" && t.Lineage != s.Message && t.FirstSent != 0:
		first.Message, first.Lineage, first.At, first.Clock = t.Lineage, t.Lineage,
			at(t.FirstSent), "client"
	default:
		return
	}
	if !l.sent[first.Message] {
		l.sent[first.Message] = true
		l.events = append(l.events, first)
	}
}

func sortedTimes(of map[int64]uint32) (times []int64) {
	for ms := range of {
		if ms != 0 {
			times = append(times, ms)
		}
	}
	slices.Sort(times)
	return times
}
