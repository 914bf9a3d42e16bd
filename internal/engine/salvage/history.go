package salvage

import (
	"bytes"
	"slices"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/extension"
)

// takesHistory reports whether a row of a history is copied. Buckets and the index are computed
// from the outcomes.
func takesHistory(k []byte) bool {
	kind, _, ok := row.HistoryKindOf(k)
	return ok && kind != row.HistoryIndex
}

// surveyHistories notes when messages ended.
func (s *salvage) surveyHistories() {
	all := row.Family(row.FamilyHistory)
	for k, v := range s.store.Scan(all.Lo, all.Hi) {
		if kind, number, ok := row.HistoryKindOf(k); ok && kind == row.HistoryOutcome {
			if o, _, ok := row.DecodeOutcome(number, v); ok {
				s.past(o.Ended)
			}
		}
	}
}

// histories keeps the outcomes that are whole, and computes their buckets and the index.
func (s *salvage) histories() {
	keeps := make(map[[16]byte]bool)
	for _, q := range s.found {
		keeps[q.row.Incarnation] = slices.ContainsFunc(q.row.Tags, func(t row.Tag) bool {
			return t.Key == extension.History
		})
	}
	s.apply()
	w, all := &historySalvage{salvage: s}, row.Family(row.FamilyHistory)
	for k, v := range s.store.Scan(all.Lo, all.Hi) {
		kind, number, _ := row.HistoryKindOf(k)
		incarnation, _ := row.HistoryOf(k)
		first, _ := row.BucketOf(k)
		if incarnation != w.incarnation || first != w.bucket.First {
			w.save()
			if incarnation != w.incarnation {
				w.ended, w.end = 0, 0
			}
			w.incarnation, w.bucket = incarnation, row.Bucket{First: first}
		}
		switch {
		case kind == row.HistoryOutcome && keeps[incarnation]:
			w.keep(number, bytes.Clone(k), v)
		case kind == row.HistoryOutcome:
			s.out.Outcomes++
			fallthrough
		default: // content is moved by its outcome
			if !w.kept(kind, number) {
				s.delete(bytes.Clone(k))
			}
		}
	}
	w.save()
	s.apply()
}

// A historySalvage computes the rows of a bucket. Outcomes are numbered without gaps, so those
// after one that is lost move up.
type historySalvage struct {
	*salvage
	incarnation [16]byte
	bucket      row.Bucket
	contents    []uint64 // numbers of the contents that stay where they are
	ended       int64    // when the last outcome ended
	end         uint64   // the number after the last outcome
}

func (w *historySalvage) key(kind row.HistoryKind, number uint64) []byte {
	return row.AppendHistoryKey(nil, w.incarnation, w.bucket.First, kind, number)
}

// kept reports whether a row is a content that stays.
func (w *historySalvage) kept(kind row.HistoryKind, number uint64) bool {
	_, found := slices.BinarySearch(w.contents, number)
	return kind == row.HistoryContent && found
}

// keep keeps an outcome if it is whole.
func (w *historySalvage) keep(number uint64, k, v []byte) {
	b := &w.bucket
	o, content, ok := row.DecodeOutcome(number, v)
	apart := ok && o.Flags&row.FlagInline == 0
	if apart {
		content, _ = w.get(w.key(row.HistoryContent, number))
	}
	if !ok || !holds(&o.Meta, content) || o.Ended < w.ended || b.First < w.end {
		w.out.Outcomes++
		w.delete(k)
		return
	}
	to := b.End()
	if to != number {
		w.set(w.key(row.HistoryOutcome, to), bytes.Clone(v))
		w.delete(k)
	}
	b.Bytes += int64(len(k) + len(v))
	if apart {
		if to != number {
			w.set(w.key(row.HistoryContent, to), bytes.Clone(content))
		}
		w.contents = append(w.contents, to)
		b.Bytes += int64(len(k) + len(content))
	}
	for _, m := range o.Marks() {
		mark := row.AppendMarkKey(nil, w.incarnation, b.First, m, to)
		w.set(mark, []byte{row.Version})
		b.Bytes += int64(len(mark) + 1)
	}
	if b.Count == 0 {
		b.From = o.Ended
	}
	b.Until, w.ended = o.Ended, o.Ended
	b.Count++
	if o.Replayed {
		b.Replayed++
	}
}

// save writes the row of the bucket.
func (w *historySalvage) save() {
	if b := &w.bucket; b.Count > 0 {
		w.set(row.BucketKey(w.incarnation, b.First), b.Encode(nil))
		w.end = b.End()
	}
	w.contents = nil
}
