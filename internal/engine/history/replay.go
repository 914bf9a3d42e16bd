package history

import "tenaq/internal/engine/row"

// This file reads a history for replays: from a place on, the oldest outcome first, and what became
// of one lineage.

// A Walk looks at the outcomes of a view one by one, the oldest first. It writes nothing.
type Walk struct {
	View   *View
	Reader row.Reader
	Fault  func(string)

	From, To int64  // From <= ended < To; zero for no bound
	Place    uint64 // the number of the last outcome that was looked at
	Before   uint64 // outcomes from this number on are not looked at
}

// A Past is an outcome, and where its content is.
type Past struct {
	row.Outcome

	inline []byte
	bucket uint64
	from   *search
}

// Run calls visit for each outcome after the place, until it returns false: then the place stays
// in front of that outcome. It reports whether there are no more.
func (w *Walk) Run(visit func(*Past) bool) (whole bool) {
	s := w.search()
	for i := range w.View.Buckets {
		b := &w.View.Buckets[i]
		lo, end := max(b.First, w.Place+1), min(b.End(), w.Before)
		switch {
		case lo >= end:
			continue
		case b.Until < s.from:
			w.Place = end - 1
			continue
		case b.From < s.from:
			lo = max(lo, s.firstAt(b, s.from))
		}
		for lo < end {
			hi := min(end, lo+chunkSize)
			for _, r := range s.chunk(b, lo, hi) {
				o, inline := s.decode(r.key, r.value)
				if o.Ended >= s.To {
					return true
				}
				if !visit(&Past{o, inline, b.First, s}) {
					return false
				}
				w.Place = r.number
			}
			lo, w.Place = hi, hi-1
		}
	}
	return true
}

func (w *Walk) search() *search {
	s := &search{Query: &Query{From: w.From, To: w.To}, view: w.View, r: w.Reader, fault: w.Fault,
		from: max(w.From, w.View.Since)}
	if s.To == 0 {
		s.To = row.MaxTime
	}
	return s
}

// Matches reports whether the outcome ended within the bounds of the walk.
func (w *Walk) Matches(o *row.Outcome) bool {
	return o.Ended >= max(w.From, w.View.Since) && (w.To == 0 || o.Ended < w.To)
}

// Content reads the content that the message had.
func (p *Past) Content() (c row.Content) {
	s, value := p.from, p.inline
	k := row.AppendHistoryKey(nil, s.view.Incarnation, p.bucket, row.HistoryContent, p.Number)
	if value == nil {
		value, _ = s.r.Get(nil, k)
	}
	c, ok := row.DecodeContent(value)
	if !ok {
		s.damaged("history content", k)
	}
	return c
}

// Later calls visit for the outcomes of a lineage after a number, the newest first, until it
// returns false. It leaves out the buckets that in leaves out, and returns in how many it has
// looked.
func (w *Walk) Later(
	lineage row.MessageID, behind uint64, in func(*row.Bucket) bool, visit func(*Past) bool,
) (looks int) {
	s, mark := w.search(), row.MarkOf(row.MarkID, string(lineage[:]))
	for i := len(w.View.Buckets) - 1; i >= 0; i-- {
		b := &w.View.Buckets[i]
		if b.End() <= behind+1 {
			break
		}
		if !in(b) {
			continue
		}
		looks++
		span := row.MarkSpan(w.View.Incarnation, b.First, mark, b.End())
		for k, v := range s.r.Scan(span.Lo, span.Hi) {
			_, number, ok := row.HistoryKindOf(k)
			if !ok || !row.ReadMark(v) {
				s.damaged("history index", k)
			}
			if number <= behind {
				return looks
			}
			at := row.AppendHistoryKey(nil, w.View.Incarnation, b.First, row.HistoryOutcome, number)
			value, ok := s.r.Get(nil, at)
			if !ok {
				continue // the bucket has fallen
			}
			o, inline := s.decode(at, value)
			if row.MessageID(o.Meta.Lineage) == lineage &&
				!visit(&Past{o, inline, b.First, s}) {
				return looks
			}
		}
	}
	return looks
}
