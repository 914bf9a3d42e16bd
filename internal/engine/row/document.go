package row

import "tenaq/internal/engine/key"

// DocumentKey is the key of the document with a name. What a document says is known to those who
// wrote it.
func DocumentKey(name string) []byte { return key.AppendString([]byte{FamilyDocument}, name) }

// DocumentOf reads the name of a document from its key.
func DocumentOf(k []byte) (name string, ok bool) {
	if len(k) == 0 || k[0] != FamilyDocument {
		return "", false
	}
	name, rest, ok := key.String(k[1:])
	return name, ok && len(rest) == 0
}

// EncodeDocument appends the value of a document row to b.
func EncodeDocument(b, document []byte) []byte {
	c := Codec{B: b}
	c.Version(Version)
	c.bytes(&document)
	return c.B
}

// DecodeDocument returns a copy of a document.
func DecodeDocument(value []byte) (document []byte, ok bool) {
	c := Codec{B: value, Reading: true}
	c.Version(Version)
	c.bytes(&document)
	return document, c.Done()
}
