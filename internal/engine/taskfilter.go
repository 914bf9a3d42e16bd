package engine

import (
	"bytes"
	"slices"
	"strings"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/fingerprint"
	"tenaq/internal/work/sqslimits"
)

// filterTextMax bounds each text of a filter, in bytes.
const filterTextMax = 1024

// bind completes the filter of an operator: a source may be the name of a queue of the account.
func (e *Engine) bind(f TaskFilter, account string) TaskFilter {
	if f.Source != "" && !strings.Contains(f.Source, ":") {
		f.Source = e.arn(QueueName{Account: account, Name: f.Source})
	}
	return f
}

// checkFilter refuses a filter that is too long, or finds nothing ever.
func checkFilter(f *TaskFilter) *Error {
	switch {
	case len(f.Text) > filterTextMax:
		return errNumber(int64(len(f.Text)), "text", "Must have at most 1024 bytes.")
	case len(f.Kind) > filterTextMax:
		return errNumber(int64(len(f.Kind)), "kind", "Must have at most 1024 bytes.")
	case len(f.Reason) > filterTextMax:
		return errNumber(int64(len(f.Reason)), "reason", "Must have at most 1024 bytes.")
	case len(f.Group) > sqslimits.IDMax:
		return errNumber(int64(len(f.Group)), "group", "Must have at most 128 bytes.")
	case len(f.Source) > filterTextMax:
		return errNumber(int64(len(f.Source)), "source", "Must have at most 1024 bytes.")
	case len(f.Attributes) > sqslimits.AttributesMax:
		return errNumber(int64(len(f.Attributes)), "attributes", "Must be at most 10.")
	case f.To != 0 && f.To <= f.From:
		return errNumber(f.To, "before", "Must be later than from.")
	case f.ReceivesMax != 0 && f.ReceivesMax < f.ReceivesMin:
		return errNumber(int64(f.ReceivesMax), "receivesMax", "Must not be below receivesMin.")
	}
	for _, a := range f.Attributes {
		if a.Name == "" || len(a.Name)+len(a.Value) > 2*filterTextMax {
			return errValue(a.Name, "attributes",
				"Must have a name, and at most 2048 bytes with its value.")
		}
	}
	return nil
}

// takes reports whether a filter finds a message, as far as its metadata say. The source of one
// that no queue moved is in its content.
func takes(f *TaskFilter, m *row.Meta, v *row.Delivery) bool {
	receives := uint64(0)
	if v != nil {
		receives = uint64(v.Receives)
	}
	return (f.ID == [16]byte{} || f.ID == [16]byte(m.ID) || f.ID == m.Lineage) &&
		(f.Group == "" || f.Group == m.Group) &&
		(f.Source == "" || f.Source == m.Source || m.Source == "") &&
		m.Sent >= f.From && (f.To == 0 || m.Sent < f.To) &&
		receives >= f.ReceivesMin && (f.ReceivesMax == 0 || receives <= f.ReceivesMax)
}

// takesContent reports whether a filter finds the content of a message.
func takesContent(f *TaskFilter, c *row.Content) bool {
	for _, wanted := range f.Attributes {
		found := false
		for i := range c.Attributes {
			a := &c.Attributes[i]
			found = found || a.Name == wanted.Name && !row.IsBinary(a.Type) &&
				a.String == wanted.Value
		}
		if !found {
			return false
		}
	}
	return strings.Contains(c.Body, f.Text)
}

// Bounds on what one Apply looks at for a task.
const (
	taskLooks = 512     // messages
	taskReads = 4 << 20 // bytes of contents
	taskPage  = 100     // messages, read at a time
)

// A selection is a walk over the messages of a queue in the order of their numbers, for those that
// a filter finds. It is bounded, keeps nothing in memory, and writes nothing. [TASK-3, TASK-7]
type selection struct {
	peek
	filter  *TaskFilter
	horizon uint64 // messages from this number on are not looked at
	reads   int64  // bytes of contents that may still be read

	parts [][]byte // what the content of each message must contain that the filter finds

	// page has the messages that were read last, and inline the contents of small ones.
	page   []storedMessage
	inline []byte

	// newest walks from the latest message to the first. The place is then the number from which on
	// messages have been looked at. [TASK-20]
	newest bool

	// sources asks for the source of each message, and contents for what it carries. Source and
	// content are those of the one found last.
	sources, contents bool
	source            string
	content           Content
}

// selectFrom returns a walk over what lies after a place of a queue that is ready.
func (e *Engine) selectFrom(
	q *queue, f *TaskFilter, place, horizon uint64, sources bool,
) *selection {
	p := peek{Peek: &Peek{}, e: e, q: q, place: place, looks: taskLooks,
		gates: make(map[string]gate)}
	s := &selection{peek: p, filter: f, horizon: horizon, reads: taskReads, sources: sources}
	if f.Text != "" {
		s.parts = append(s.parts, []byte(f.Text))
	}
	for _, a := range f.Attributes {
		s.parts = append(s.parts, []byte(a.Name), []byte(a.Value))
	}
	return s
}

// A storedMessage is what a message row holds.
type storedMessage struct {
	row.Meta
	inline []byte // the content, if it is small and the walk may need it
}

// read reads messages with lo <= seq < hi into the page, and reports whether these are all.
func (s *selection) read(lo, hi uint64) (all bool) {
	s.page, s.inline = slices.Grow(s.page[:0], taskPage), s.inline[:0]
	keeps := s.contents || s.sources || s.filter.Source != "" || s.filter.OfContent() ||
		s.filter.OfReason()
	for m, inline := range s.e.metas(s.q, lo, hi) {
		if len(s.page) == taskPage {
			return false
		}
		from := len(s.inline)
		if keeps {
			s.inline = append(s.inline, inline...)
		}
		s.page = append(s.page, storedMessage{m, s.inline[from:]})
	}
	return true
}

// A selected message is one that a filter has found.
type selected struct {
	meta       *row.Meta
	source     string   // ARN of the queue that it came from, if that was asked for
	content    *Content // until the next one is found, if it was asked for
	shown      Peeked
	receivable bool
}

// run calls visit for each message that the filter finds, until it returns false: then the place
// stays in front of that message. It reports whether the walk has come to its horizon.
func (s *selection) run(visit func(*selected) bool) (whole bool) {
	if s.newest {
		return s.runBack(visit)
	}
	pieces, more := s.pieces()
	for _, r := range pieces {
		hi := min(r.Hi, s.horizon)
		for lo := max(r.Lo, s.place+1); lo < hi; lo = s.place + 1 {
			all := s.read(lo, hi)
			if !s.look(visit) {
				return false
			}
			if all {
				s.place = hi - 1
			}
		}
		if r.Hi >= s.horizon {
			return true
		}
	}
	return !more
}

// backSegments is how many segments a walk from the latest message reads at a time.
const backSegments = 16

// runBack is run from the latest message to the first. A store reads forwards, so it takes the
// numbers of a page at a time and turns around what it finds.
func (s *selection) runBack(visit func(*selected) bool) (whole bool) {
	first, last := s.q.st.Segment, (max(s.place, 1)-1)>>row.SegmentBits
	if last < first {
		s.place = 1
		return true
	}
	low := max(first, last-min(last, backSegments-1))
	var pieces []row.SeqRange
	for id, seg := range s.e.segments(s.q, low) {
		if id > last {
			break
		}
		lo, hi := s.q.bounds(id, &seg)
		pieces = append(pieces, row.SeqRange{Lo: lo, Hi: min(hi, s.place)})
	}
	all := low == first && len(pieces) <= peekSegments
	for _, r := range slices.Backward(pieces[max(len(pieces)-peekSegments, 0):]) {
		for r.Lo < r.Hi {
			lo := max(r.Lo, r.Hi-min(r.Hi, taskPage))
			s.read(lo, r.Hi)
			slices.Reverse(s.page)
			if !s.look(visit) {
				return false
			}
			if r.Hi, s.place = lo, lo; lo == r.Lo {
				// Segment.First is a bound that differs between runs. The beginning does not.
				s.place = max(lo>>row.SegmentBits<<row.SegmentBits, 1)
			}
		}
	}
	switch {
	case all:
		s.place = 1
	case len(pieces) <= peekSegments:
		s.place = min(s.place, max(low<<row.SegmentBits, 1))
	}
	return all
}

// look looks at the messages of the page, and reports false when the walk ends before the last.
func (s *selection) look(visit func(*selected) bool) bool {
	if len(s.page) == 0 {
		return true
	}
	from, to := s.page[0].Seq, s.page[len(s.page)-1].Seq
	deliveries := s.deliveries(min(from, to), max(from, to))
	if s.newest {
		slices.Reverse(deliveries)
	}
	for i := range s.page {
		m := &s.page[i]
		if s.looks == 0 {
			return false
		}
		var v *row.Delivery
		if len(deliveries) > 0 && deliveries[0].seq == m.Seq {
			v, deliveries = &deliveries[0].Delivery, deliveries[1:]
		}
		found, ok := s.finds(m, v)
		if !ok || found && !visit(s.describe(&m.Meta, v)) {
			return false
		}
		s.looks--
		s.place = m.Seq
	}
	return true
}

// finds reports whether the filter finds a message; false for ok when the walk has read enough.
func (s *selection) finds(m *storedMessage, v *row.Delivery) (found, ok bool) {
	if !takes(s.filter, &m.Meta, v) {
		return false, true
	}
	s.source = m.Source
	// No queue moved it, but a worker may have.
	unsaid := m.Source == "" && (s.sources || s.filter.Source != "")
	told := false
	if s.filter.OfReason() {
		if a := s.told(&m.Meta, v); a != nil {
			if told = true; !takesReason(s.filter, a) {
				return false, true
			}
		}
	}
	switch {
	case !s.filter.OfContent() && told == s.filter.OfReason() && !unsaid && !s.contents:
		return true, true
	case s.reads < m.Size && s.reads < taskReads:
		return false, false
	}
	s.reads -= m.Size
	value := m.inline
	if m.Flags&row.FlagInline == 0 {
		value = s.e.contentApart(s.q, m.Seq)
	}
	// Most messages of a search do not have what it looks for, and need not be decoded.
	for _, part := range s.parts {
		if !bytes.Contains(value, part) {
			return false, true
		}
	}
	c, ok := row.DecodeContent(value)
	if !ok {
		s.e.rows.damaged("content", row.SeqKey(s.q.row.Space, row.KindMessage, m.Seq))
	}
	if s.filter.OfReason() && !told {
		failed := &row.Attempt{Text: written(c.Attributes, "reason")}
		if !takesReason(s.filter, failed) {
			return false, true
		}
	}
	if unsaid {
		s.source = written(c.Attributes, "source")
		if s.filter.Source != "" && s.filter.Source != s.source {
			return false, true
		}
	}
	s.content = c
	return takesContent(s.filter, &c), true
}

// told returns why a message failed, as its consumers told the server; nil when they did not.
func (s *selection) told(m *row.Meta, v *row.Delivery) *row.Attempt {
	if v != nil && !v.Story || v == nil && m.Redrives == 0 {
		return nil
	}
	k := row.SeqKey(s.q.row.Space, row.KindStory, m.Seq)
	story, _ := read(&s.e.rows, "story", k, row.DecodeStory)
	return story.Reason()
}

// takesReason reports whether a filter finds a message that failed like this.
func takesReason(f *TaskFilter, a *row.Attempt) bool {
	reason := a.Reason()
	return (f.Kind == "" || f.Kind == fingerprint.Of(reason)) &&
		strings.Contains(reason, f.Reason)
}

func (s *selection) describe(m *row.Meta, v *row.Delivery) *selected {
	shown := s.show(m, v)
	return &selected{m, s.source, &s.content, shown, shown.State == StateVisible &&
		!m.Expired(s.e.now, s.q.row.Attributes.Retention())}
}
