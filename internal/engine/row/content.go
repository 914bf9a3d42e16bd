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

func (c *Content) Encode() []byte {
	size := 64 + len(c.Body) + len(c.Trace) + len(c.Sender)
	for _, a := range c.Attributes {
		size += 16 + len(a.Name) + len(a.Type) + len(a.String) + len(a.Binary)
	}
	b := make(Enc, 0, size)
	b.byte(Version)
	b.raw(c.BodyMD5[:])
	b.string(c.Sender)
	b.string(c.Trace)
	b.uint(uint64(len(c.Attributes)))
	for _, a := range c.Attributes {
		b.string(a.Name)
		b.string(a.Type)
		if IsBinary(a.Type) {
			b.uint(uint64(len(a.Binary)))
			b.raw(a.Binary)
		} else {
			b.string(a.String)
		}
	}
	b.string(c.Body)
	return b
}

// An Attribute is a user attribute of a message. Type is the whole data type, label included; a
// type that begins with Binary puts the value into Binary, every other one into String.
type Attribute struct {
	Name, Type string
	String     string
	Binary     []byte
}

func IsBinary(dataType string) bool { return strings.HasPrefix(dataType, "Binary") }

func DecodeContent(value []byte) (c Content, ok bool) {
	d := Dec{B: value}
	d.Version(Version)
	copy(c.BodyMD5[:], d.take(16))
	c.Sender, c.Trace = d.string(), d.string()
	for n := d.Uint(); n > 0 && !d.Bad; n-- {
		a := Attribute{Name: d.string(), Type: d.string()}
		if v := d.take(d.Uint()); IsBinary(a.Type) {
			a.Binary = append([]byte(nil), v...)
		} else {
			a.String = string(v)
		}
		c.Attributes = append(c.Attributes, a)
	}
	c.Body = d.string()
	return c, d.Done()
}
