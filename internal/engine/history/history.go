// Package history reads what queues keep of messages that have ended. [HIST-1]
//
// A search works on a View, which the writer has made of the history of a queue, and reads the rows
// of the store itself, so it may run on any goroutine. What it guarantees:
//
//   - It finds only outcomes that were there when the View was made. If that turn is durable, so is
//     everything it finds.
//   - A page costs a bounded number of reads, however large the history is. It says where the next
//     one begins, also when it has found nothing. [HIST-9]
//   - Outcomes whose bucket is removed during a search are left out.
//
// It leaves writing to engine, and places as clients see them.
package history

import (
	"bytes"
	"fmt"
	"strings"

	"tenaq/internal/engine/row"
)

// A View is the history of a queue at a moment.
type View struct {
	Incarnation [16]byte
	Since       int64        // what ended before is over and not found
	Buckets     []row.Bucket // ascending; the last one is still growing
}

// Totals returns how many outcomes there are, and how many bytes they take.
func (v *View) Totals() (outcomes, bytes int64) {
	for i := range v.Buckets {
		outcomes, bytes = outcomes+v.Buckets[i].Count, bytes+v.Buckets[i].Bytes
	}
	return outcomes, bytes
}

// Oldest returns when the first of them ended; zero if there is none.
func (v *View) Oldest() int64 {
	for i := range v.Buckets {
		if v.Buckets[i].Count > 0 {
			return v.Buckets[i].From
		}
	}
	return 0
}

// A Query says what to look for. What is zero does not matter.
type Query struct {
	ID, Lineage row.MessageID
	Either      row.MessageID // id or lineage
	Key, Group  string
	From, To    int64 // From <= ended < To
	Kind        row.OutcomeKind

	// Attribute is the name of a message attribute, or name=value; Text is a part of the body.
	Attribute, Text string

	Oldest bool // the oldest first, without use of an index

	After uint64 // number of the last outcome of the page before
	Max   int    // of outcomes on a page
}

// Limits of one page. A page that is longer than PageBytes has one outcome. [HIST-9]
const (
	MaxPage   = 1000
	PageBytes = 4 << 20

	looksMax  = 2000    // outcomes that are looked at
	bytesMax  = 8 << 20 // of outcomes and contents that are read
	chunkSize = 64      // outcomes of one scan
)

// A Found is an outcome with the content that the message had.
type Found struct {
	row.Outcome
	Content row.Content
}

// Read returns a page, and after which number the next one begins; zero after the last. It reports
// rows that do not decode to fault, which must not return.
func Read(r row.Reader, v *View, q *Query, fault func(string)) (page []Found, after uint64) {
	s := &search{Query: q, view: v, r: r, fault: fault, from: max(q.From, v.Since)}
	if s.To == 0 {
		s.To = row.MaxTime
	}
	mark, indexed := q.mark()
	more := false
	switch {
	case q.Oldest:
		more = s.ascend()
	case indexed:
		more = s.lookup(mark)
	default:
		more = s.descend()
	}
	if more {
		after = s.last
	}
	return s.page, after
}

// mark returns the mark under which the index has what is looked for.
func (q *Query) mark() (row.HistoryMark, bool) {
	switch {
	case q.ID != row.MessageID{}:
		return row.MarkOf(row.MarkID, string(q.ID[:])), true
	case q.Lineage != row.MessageID{}:
		return row.MarkOf(row.MarkID, string(q.Lineage[:])), true
	case q.Either != row.MessageID{}:
		return row.MarkOf(row.MarkID, string(q.Either[:])), true
	case q.Key != "":
		return row.MarkOf(row.MarkKey, q.Key), true
	case q.Group != "":
		return row.MarkOf(row.MarkGroup, q.Group), true
	}
	return row.HistoryMark{}, false
}

// A search is a Read in progress.
type search struct {
	*Query
	view  *View
	r     row.Reader
	fault func(string)

	from  int64 // of Query, and of View
	page  []Found
	shown int    // bytes of the contents on the page
	looks int    // outcomes looked at
	read  int    // bytes
	last  uint64 // number of the last outcome looked at
}

// full reports whether the page ends before another outcome is looked at.
func (s *search) full() bool {
	return len(s.page) >= s.Max || s.shown >= PageBytes || s.looks >= looksMax || s.read >= bytesMax
}

// lookup walks the rows of the index with a mark, the newest first.
func (s *search) lookup(mark row.HistoryMark) (more bool) {
	for i := len(s.view.Buckets) - 1; i >= 0; i-- {
		b := &s.view.Buckets[i]
		before := s.below(b)
		if before <= b.First || b.From >= s.To {
			continue
		}
		if b.Until < s.from {
			return false
		}
		span := row.MarkSpan(s.view.Incarnation, b.First, mark, before)
		for k, v := range s.r.Scan(span.Lo, span.Hi) {
			_, number, ok := row.HistoryKindOf(k)
			if !ok || !row.ReadMark(v) {
				s.damaged("history index", k)
			}
			if s.full() {
				return true
			}
			at := row.AppendHistoryKey(nil, s.view.Incarnation, b.First, row.HistoryOutcome, number)
			if value, ok := s.r.Get(nil, at); ok {
				s.look(b, at, value)
			}
			s.last = number
		}
	}
	return false
}

// below is the number before which the outcomes of a bucket are still to be looked at.
func (s *search) below(b *row.Bucket) uint64 {
	if s.After != 0 {
		return min(b.End(), s.After)
	}
	return b.End()
}

// descend walks all outcomes, the newest first.
func (s *search) descend() (more bool) {
	for i := len(s.view.Buckets) - 1; i >= 0; i-- {
		b := &s.view.Buckets[i]
		hi := s.below(b)
		if hi <= b.First || b.From >= s.To {
			continue
		}
		if b.Until < s.from {
			return false
		}
		if b.Until >= s.To {
			hi = min(hi, s.firstAt(b, s.To))
		}
		for hi > b.First {
			lo := max(b.First, hi-min(hi, chunkSize))
			rows := s.chunk(b, lo, hi)
			for j := len(rows) - 1; j >= 0; j-- {
				if s.full() {
					return true
				}
				if ended := s.look(b, rows[j].key, rows[j].value); ended < s.from {
					return false
				}
				s.last = rows[j].number
			}
			hi, s.last = lo, lo
		}
	}
	return false
}

// ascend walks all outcomes, the oldest first.
func (s *search) ascend() (more bool) {
	for i := range s.view.Buckets {
		b := &s.view.Buckets[i]
		lo := max(b.First, s.After+1)
		if lo >= b.End() || b.Until < s.from {
			continue
		}
		if b.From < s.from {
			lo = max(lo, s.firstAt(b, s.from))
		}
		for lo < b.End() {
			hi := min(b.End(), lo+chunkSize)
			for _, r := range s.chunk(b, lo, hi) {
				if s.full() {
					return true
				}
				if ended := s.look(b, r.key, r.value); ended >= s.To {
					return false
				}
				s.last = r.number
			}
			lo, s.last = hi, hi-1
		}
	}
	return false
}

// firstAt returns the number of the first outcome of a bucket that ended at or after a time. They
// ended in the order of their numbers.
func (s *search) firstAt(b *row.Bucket, at int64) uint64 {
	lo, hi := b.First, b.End()
	for lo < hi {
		mid := lo + (hi-lo)/2
		k := row.AppendHistoryKey(nil, s.view.Incarnation, b.First, row.HistoryOutcome, mid)
		value, ok := s.r.Get(nil, k)
		if !ok {
			return hi // the bucket has fallen
		}
		if o, _ := s.decode(k, value); o.Ended < at {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// An outcomeRow is the row of an outcome.
type outcomeRow struct {
	number     uint64
	key, value []byte
}

// chunk reads the outcomes of a bucket with lo <= number < hi.
func (s *search) chunk(b *row.Bucket, lo, hi uint64) (rows []outcomeRow) {
	span := row.HistorySpan(s.view.Incarnation, b.First, row.HistoryOutcome, lo, hi)
	for k, v := range s.r.Scan(span.Lo, span.Hi) {
		_, number, ok := row.HistoryKindOf(k)
		if !ok {
			s.damaged("history", k)
		}
		rows = append(rows, outcomeRow{number, bytes.Clone(k), bytes.Clone(v)})
	}
	return rows
}

// look puts an outcome on the page if it is looked for, and returns when it ended.
func (s *search) look(b *row.Bucket, k, value []byte) (ended int64) {
	s.looks++
	s.read += len(value)
	o, content := s.decode(k, value)
	if !s.matches(&o) {
		return o.Ended
	}
	if content == nil {
		ck := row.AppendHistoryKey(nil, s.view.Incarnation, b.First, row.HistoryContent, o.Number)
		if content, _ = s.r.Get(nil, ck); content == nil {
			return o.Ended // the bucket has fallen
		}
		s.read += len(content)
	}
	found := Found{Outcome: o}
	var ok bool
	if found.Content, ok = row.DecodeContent(content); !ok {
		s.damaged("history content", k)
	}
	if s.contains(&found.Content) {
		s.page = append(s.page, found)
		s.shown += len(content)
	}
	return o.Ended
}

// matches compares everything but the content.
func (s *search) matches(o *row.Outcome) bool {
	return o.Ended >= s.from && o.Ended < s.To && (s.Kind == 0 || o.Kind == s.Kind) &&
		(s.ID == row.MessageID{} || o.ID == s.ID) &&
		(s.Lineage == row.MessageID{} || o.Lineage == s.Lineage) &&
		(s.Either == row.MessageID{} || o.ID == s.Either || o.Lineage == s.Either) &&
		(s.Key == "" || o.Key == s.Key) && (s.Group == "" || o.Group == s.Group)
}

// contains compares the content.
func (s *search) contains(c *row.Content) bool {
	if s.Text != "" && !strings.Contains(c.Body, s.Text) {
		return false
	}
	if s.Attribute == "" {
		return true
	}
	name, value, valued := strings.Cut(s.Attribute, "=")
	for i := range c.Attributes {
		a := &c.Attributes[i]
		if a.Name == name && (!valued || a.String == value && !row.IsBinary(a.Type)) {
			return true
		}
	}
	return false
}

func (s *search) decode(k, value []byte) (o row.Outcome, content []byte) {
	_, number, known := row.HistoryKindOf(k)
	o, content, ok := row.DecodeOutcome(number, value)
	if !ok || !known {
		s.damaged("history", k)
	}
	return o, content
}

// damaged reports a row that does not decode, as engine does.
func (s *search) damaged(kind string, k []byte) {
	s.fault(fmt.Sprintf("the store holds a %s row that cannot be read (key %x): if a newer version of this program "+
		"has used the data directory, start that one; else keep the directory, restore a backup or copy what is intact with tenaq salvage, and report this", kind, k))
	panic("unreachable: the fault function returned")
}
