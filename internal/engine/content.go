package engine

import (
	"iter"

	"tenaq/internal/engine/kept"
	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
)

// A content is that of a message on its way into a row, in two parts. A new message has the body of
// its request as body. A message that moves has everything in head.
type content struct {
	head  []byte
	body  string
	level byte // that its attributes name; read for a queue with priorities [EXT-50]
}

func (c content) len() int { return len(c.head) + len(c.body) }

// ReadContent reads the content of a delivered message. It may be called on any goroutine after the
// turn of the delivery is committed. It reports false if a delete, a purge or the end of the
// retention has removed the message since; the answer then leaves it out. It reports rows that do
// not decode to fault, which must not return.
func ReadContent(store kv.Store, space, seq uint64, fault func(string)) (Content, bool) {
	return readContent(store, space, seq, new([]byte), fault)
}

// readContent is ReadContent. It reads rows into buf, to which the content does not refer.
func readContent(
	store kv.Store, space, seq uint64, buf *[]byte, fault func(string),
) (Content, bool) {
	r := rows{store: store, fault: fault}
	k := row.SeqKey(space, row.KindMessage, seq)
	value, ok := store.Get((*buf)[:0], k)
	if *buf = value; !ok {
		return Content{}, false
	}
	m, inline, ok := row.DecodeMeta(seq, value)
	if !ok {
		r.damaged("message", k)
	}
	if m.Flags&row.FlagInline == 0 {
		k = row.SeqKey(space, row.KindContent, seq)
		inline, ok = store.Get(value[:0], k)
		if *buf = inline; !ok {
			return Content{}, false // removed between the two reads
		}
	}
	c, ok := row.DecodeContent(inline)
	if !ok {
		r.damaged("content", k)
	}
	return c, true
}

// keep keeps the content of a message that moves, for receives that have handed it out. [RCV-23]
func (e *Engine) keep(from *queue, m *message, content []byte) {
	if m.hasDelivery {
		e.kept.Put(kept.Place{Space: from.row.Space, Seq: m.Seq}, content)
	}
}

// ReadDelivered yields the messages of a receive with their contents. It reads like ReadContent,
// and also finds the content of a message that has moved to another queue since.
func ReadDelivered(
	store kv.Store, from *Received, fault func(string),
) iter.Seq2[*Delivery, Content] {
	return func(yield func(*Delivery, Content) bool) {
		var buf []byte
		for i := range from.Messages {
			d := &from.Messages[i]
			c, ok := readContent(store, d.Space, d.Seq, &buf, fault)
			if !ok {
				if value, found := from.Kept.Find(kept.Place{Space: d.Space, Seq: d.Seq}); found {
					c, ok = row.DecodeContent(value)
				}
			}
			if ok && !yield(d, c) {
				return
			}
		}
	}
}
