package engine

import (
	"tenaq/internal/engine/kept"
	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
)

// ReadContent reads the content of a delivered message. It may be called on any goroutine after the
// turn of the delivery is committed. It reports false if a delete, a purge or the end of the
// retention has removed the message since; the answer then leaves it out. It reports rows that do
// not decode to fault, which must not return.
func ReadContent(store kv.Store, space, seq uint64, fault func(string)) (Content, bool) {
	r := rows{store: store, fault: fault}
	k := row.SeqKey(space, row.KindMessage, seq)
	value, ok := r.get(k)
	if !ok {
		return Content{}, false
	}
	m, inline, ok := row.DecodeMeta(seq, value)
	if !ok {
		r.damaged("message", k)
	}
	if m.Flags&row.FlagInline == 0 {
		k = row.SeqKey(space, row.KindContent, seq)
		if inline, ok = r.get(k); !ok {
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

// ReadDelivered reads the content of a message that a receive has handed out; contents is Kept of
// its answer. It is ReadContent, but finds the content also when the message has moved to
// another queue since.
func ReadDelivered(
	store kv.Store, d Delivery, contents *kept.Contents, fault func(string),
) (Content, bool) {
	if c, ok := ReadContent(store, d.Space, d.Seq, fault); ok {
		return c, true
	}
	value, ok := contents.Find(kept.Place{Space: d.Space, Seq: d.Seq})
	if !ok {
		return Content{}, false
	}
	return row.DecodeContent(value)
}
