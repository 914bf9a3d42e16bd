package row

import "strings"

// Content is what a message carries and the engine never looks at while it decides.
type Content struct {
	Body       string
	BodyMD5    [16]byte
	Attributes []Attribute // in the order of the request
	Trace      string      // AWSTraceHeader
	Sender     string      // the sender, as SenderId shows it
}

// Encode returns the content as a row holds it: the head followed by the body.
func (c *Content) Encode() []byte { return append(c.EncodeHead(), c.Body...) }

// EncodeHead returns all of Encode but the body, which may be large, and which a batch of the store
// can take as it stands.
func (c *Content) EncodeHead() []byte {
	size := 48 + len(c.Trace) + len(c.Sender)
	for _, a := range c.Attributes {
		size += 16 + len(a.Name) + len(a.Type) + len(a.String) + len(a.Binary)
	}
	w := Codec{B: make([]byte, 0, size)}
	c.head(&w)
	n := uint64(len(c.Body))
	w.Uint(&n)
	return w.B
}

func (c *Content) parts(w *Codec) {
	c.head(w)
	w.string(&c.Body)
}

// head visits all parts before the body.
func (c *Content) head(w *Codec) {
	w.Version(Version)
	w.ID(&c.BodyMD5)
	w.string(&c.Sender, &c.Trace)
	list(w, &c.Attributes, func(a *Attribute) { a.parts(w) })
}

// An Attribute is a user attribute of a message. Type is the whole data type, label included; a
// type that begins with Binary puts the value into Binary, every other one into String.
type Attribute struct {
	Name, Type string
	String     string
	Binary     []byte
}

func (a *Attribute) parts(w *Codec) {
	if w.string(&a.Name, &a.Type); IsBinary(a.Type) {
		w.bytes(&a.Binary)
	} else {
		w.string(&a.String)
	}
}

func IsBinary(dataType string) bool { return strings.HasPrefix(dataType, "Binary") }

// DecodeContentHead reads all of a content but the body.
func DecodeContentHead(value []byte) (c Content, ok bool) {
	r := Codec{B: value, Reading: true}
	c.head(&r)
	return c, !r.bad
}

func DecodeContent(value []byte) (c Content, ok bool) {
	r := Codec{B: value, Reading: true}
	c.parts(&r)
	return c, r.Done()
}
