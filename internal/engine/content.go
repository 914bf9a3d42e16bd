package engine

import (
	"tenaq/internal/engine/kept"
	"tenaq/internal/kv"
)

// Content is what a message carries and the engine never looks at while it decides.
type Content struct {
	Body       string
	BodyMD5    [16]byte
	Attributes []Attribute // in the order of the request
	Trace      string      // AWSTraceHeader
	Sender     string      // who sent it, as SenderId shows
}

// An Attribute is a user attribute of a message. Type is the whole data type, label included; a type
// that begins with Binary puts the value into Binary, every other one into String.
type Attribute struct {
	Name, Type string
	String     string
	Binary     []byte
}

func (c *Content) encode() []byte {
	size := 64 + len(c.Body) + len(c.Trace) + len(c.Sender)
	for _, a := range c.Attributes {
		size += 16 + len(a.Name) + len(a.Type) + len(a.String) + len(a.Binary)
	}
	b := make(enc, 0, size)
	b.byte(rowVersion)
	b.raw(c.BodyMD5[:])
	b.string(c.Sender)
	b.string(c.Trace)
	b.uint(uint64(len(c.Attributes)))
	for _, a := range c.Attributes {
		b.string(a.Name)
		b.string(a.Type)
		if isBinary(a.Type) {
			b.uint(uint64(len(a.Binary)))
			b.raw(a.Binary)
		} else {
			b.string(a.String)
		}
	}
	b.string(c.Body)
	return b
}

func decodeContent(value []byte) (c Content, ok bool) {
	d := dec{b: value}
	d.version(rowVersion)
	copy(c.BodyMD5[:], d.take(16))
	c.Sender, c.Trace = d.string(), d.string()
	for n := d.uint(); n > 0 && !d.bad; n-- {
		a := Attribute{Name: d.string(), Type: d.string()}
		if v := d.take(d.uint()); isBinary(a.Type) {
			a.Binary = append([]byte(nil), v...)
		} else {
			a.String = string(v)
		}
		c.Attributes = append(c.Attributes, a)
	}
	c.Body = d.string()
	return c, d.done()
}

// ReadContent reads the content of a delivered message. It may be called on any goroutine after the
// turn that delivered it has been committed. It reports false when the message has been removed since,
// by a delete, a purge or the end of its retention: the answer then leaves it out. Undecodable rows are
// told to fault, which must not return.
func ReadContent(store kv.Store, space, seq uint64, fault func(string)) (Content, bool) {
	r := rows{store: store, fault: fault}
	k := seqKey(space, kindMessage, seq)
	value, ok := r.get(k)
	if !ok {
		return Content{}, false
	}
	m, inline, ok := decodeMeta(seq, value)
	if !ok {
		r.damaged("message", k)
	}
	if m.flags&flagInline == 0 {
		k = seqKey(space, kindContent, seq)
		if inline, ok = r.get(k); !ok {
			return Content{}, false // removed between the two reads
		}
	}
	c, ok := decodeContent(inline)
	if !ok {
		r.damaged("content", k)
	}
	return c, true
}

// keep has the receives that handed a message out before it moves find its content. [RCV-23]
func (e *Engine) keep(from *queue, m *message, content []byte) {
	if m.hasDelivery {
		e.kept.Put(kept.Place{Space: from.row.space, Seq: m.seq}, content)
	}
}

// ReadDelivered reads the content of a message that a receive has handed out; contents are those of its Result.
// It is ReadContent, but finds the content also when the message has moved to another queue since.
func ReadDelivered(store kv.Store, d Delivery, contents *kept.Contents, fault func(string)) (Content, bool) {
	if c, ok := ReadContent(store, d.Space, d.Seq, fault); ok {
		return c, true
	}
	value, ok := contents.Find(kept.Place{Space: d.Space, Seq: d.Seq})
	if !ok {
		return Content{}, false
	}
	return decodeContent(value)
}
