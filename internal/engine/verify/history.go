package verify

import (
	"bytes"
	"slices"

	"tenaq/internal/engine/row"
)

// histories verifies what queues keep of messages that have ended, and finds what is kept for no
// queue.
func (a *run) histories() {
	for at := row.Family(row.FamilyHistory); at.Lo != nil; {
		var incarnation [16]byte
		some, ok := false, false
		var first []byte
		a.part(row.QueueName{}, func() {
			for k := range a.Store.Scan(at.Lo, at.Hi) {
				first, some = bytes.Clone(k), true
				incarnation, ok = row.HistoryOf(k)
				return
			}
		})
		if !some {
			return
		}
		queue, known := a.pasts[incarnation]
		switch {
		case !ok:
			a.report(row.QueueName{}, first, "this row is of no kind that there is")
			at.Lo = append(first, 0)
			continue
		case known:
			a.part(queue, func() {
				h := &historyRun{run: a, queue: queue, incarnation: incarnation}
				h.verify()
			})
		default:
			a.report(row.QueueName{}, first,
				"this row and those behind it are the history of a queue that keeps none")
		}
		at.Lo = row.WholeHistory(incarnation).Hi
	}
}

// A historyRun verifies the history of one queue.
type historyRun struct {
	*run
	queue       row.QueueName
	incarnation [16]byte
}

func (h *historyRun) say(k []byte, format string, args ...any) {
	h.report(h.queue, k, format, args...)
}

func (h *historyRun) verify() {
	all, buckets := row.WholeHistory(h.incarnation), row.BucketsOf(h.incarnation)
	h.nothing(row.Span{Lo: all.Lo, Hi: buckets.Lo})
	behind := buckets.Hi
	var last row.Bucket
	for k, v := range h.rows(buckets) {
		first, isRow := row.BucketOf(k)
		b, ok := row.DecodeBucket(first, v)
		if !isRow || !ok {
			h.damagedRow(h.queue, k, "history bucket", v)
			continue
		}
		h.canonical(h.queue, k, v, b.Encode(nil))
		h.past(h.queue, k, "the last outcome", b.Until)
		if b.First < last.End() || b.From < last.Until && b.Count > 0 || b.From > b.Until ||
			(b.Count == 0) != (b.Bytes == 0) {
			h.say(k, "it has %d outcomes from number %d on, from %d until %d, and the one before ends at number %d, at %d", b.Count, b.First, b.From, b.Until, last.End(), last.Until)
		}
		last = b
		rows := row.InBucket(h.incarnation, b.First)
		h.nothing(row.Span{Lo: behind, Hi: rows.Lo})
		behind = rows.Hi
		h.bucket(bytes.Clone(k), &b)
	}
	h.nothing(row.Span{Lo: behind, Hi: all.Hi})
}

// nothing finds rows where there are to be none.
func (h *historyRun) nothing(s row.Span) {
	for k := range h.rows(s) {
		h.say(k, "this row is in no bucket of the history")
	}
}

// bucket compares the rows in a bucket with each other, and with what the bucket says.
func (h *historyRun) bucket(key []byte, b *row.Bucket) {
	content := &spaceRun{run: h.run, queue: h.queue}
	var marks, found rowSum
	var bytesOf, count, replayed int64
	began, ended, apart, contents := int64(0), b.From, 0, 0
	for k, v := range h.rows(row.InBucket(h.incarnation, b.First)) {
		kind, number, ok := row.HistoryKindOf(k)
		bytesOf += int64(len(k) + len(v))
		switch {
		case !ok:
			h.say(k, "this row is of no kind that there is")
		case kind == row.HistoryContent:
			contents++
		case kind == row.HistoryIndex:
			if found.add(k, v); !row.ReadMark(v) {
				h.damagedRow(h.queue, k, "history index", v)
			}
		default:
			count++
			o, inline, ok := row.DecodeOutcome(number, v)
			if !ok {
				h.damagedRow(h.queue, k, "outcome", v)
				continue
			}
			if number != b.First+uint64(count)-1 || o.Ended < ended || o.Ended > b.Until ||
				o.Sent > o.Ended || o.LastReceive > o.Ended {
				h.say(k, "it is outcome %d of a message sent at %d and ended at %d, and should be number %d, from %d until %d",
					number, o.Sent, o.Ended, b.First+uint64(count)-1, ended, b.Until)
			}
			if ended = max(ended, o.Ended); count == 1 {
				began = o.Ended
			}
			if o.Replayed {
				replayed++
			}
			h.canonical(h.queue, k, v, o.Meta.Encode(o.EncodeHead(nil), inline))
			var value []byte
			ck := row.AppendHistoryKey(nil, h.incarnation, b.First, row.HistoryContent, number)
			if o.Flags&row.FlagInline == 0 {
				apart++
				value, _ = h.get(ck)
			}
			content.content(bytes.Clone(k), &o.Meta, inline, ck, value)
			for _, m := range o.Marks() {
				marks.add(row.AppendMarkKey(nil, h.incarnation, b.First, m, number),
					[]byte{row.Version})
			}
		}
	}
	switch {
	case count != b.Count || bytesOf != b.Bytes:
		h.say(key, "the bucket counts %d outcomes and %d bytes, and has %d and %d", b.Count,
			b.Bytes, count, bytesOf)
	case count > 0 && (began != b.From || ended != b.Until):
		h.say(key, "the bucket is from %d until %d, and its outcomes are from %d until %d", b.From,
			b.Until, began, ended)
	case replayed != b.Replayed:
		h.say(key, "the bucket counts %d outcomes of replayed messages, and has %d", b.Replayed,
			replayed)
	case contents != apart:
		h.say(key, "%d of its outcomes have a content of their own, and there are %d", apart,
			contents)
	case marks != found:
		h.index(key, b, marks.rows, found.rows)
	}
}

// index names the rows that make the difference between the index of a bucket and its outcomes.
func (h *historyRun) index(key []byte, b *row.Bucket, want, have int64) {
	before := h.found
	all := row.InBucket(h.incarnation, b.First)
	for k, v := range h.Store.Scan(all.Lo, all.Hi) {
		switch kind, number, _ := row.HistoryKindOf(k); kind {
		case row.HistoryOutcome:
			for _, mk := range h.marksOf(b, number, v) {
				if _, ok := h.get(mk); !ok {
					h.say(k, "it has no row in the index, which would have the key %x", mk)
				}
			}
		case row.HistoryIndex:
			ok := row.AppendHistoryKey(nil, h.incarnation, b.First, row.HistoryOutcome, number)
			value, _ := h.get(ok)
			if !slices.ContainsFunc(h.marksOf(b, number, value), func(mk []byte) bool {
				return bytes.Equal(mk, k)
			}) {
				h.say(k, "this row of the index stands for nothing that is there")
			}
		}
	}
	if h.found == before {
		h.say(key, "there are %d rows in the index where %d should be", have, want)
	}
}

// marksOf returns the keys of the rows of the index that an outcome must have.
func (h *historyRun) marksOf(b *row.Bucket, number uint64, value []byte) (keys [][]byte) {
	o, _, ok := row.DecodeOutcome(number, value)
	if !ok {
		return nil
	}
	for _, m := range o.Marks() {
		keys = append(keys, row.AppendMarkKey(nil, h.incarnation, b.First, m, number))
	}
	return keys
}
