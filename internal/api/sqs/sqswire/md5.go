package sqswire

import (
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
)

// MD5OfAttributes returns the checksum of message attributes, of the user or of the system, or ""
// when there are none and the response has no such member.
//
// It is the MD5 over all attributes, sorted by the bytes of their names, of
//
//	len(name) name  len(DataType) DataType  kind  len(value) value
//
// where a length is four bytes, big-endian, and kind is one byte: 1 for a string value, 2 for a
// binary one. Lists would have other kinds, but no message has them. The DataType is hashed whole,
// with its label.
func MD5OfAttributes(attrs MessageAttributes) string {
	if len(attrs) == 0 {
		return ""
	}
	attrs = sorted(attrs, compareAttributes)
	size := 0
	for i := range attrs {
		a := &attrs[i]
		size += 13 + len(a.Name) + len(a.DataType.Value) + len(a.StringValue.Value) +
			len(a.BinaryValue)
	}
	buf := make([]byte, 0, size)
	for i := range attrs {
		a := &attrs[i]
		buf = appendSized(buf, a.Name)
		buf = appendSized(buf, a.DataType.Value)
		if a.BinaryValue != nil {
			buf = append(buf, 2)
			buf = appendSized(buf, a.BinaryValue)
		} else {
			buf = append(buf, 1)
			buf = appendSized(buf, a.StringValue.Value)
		}
	}
	sum := md5.Sum(buf)
	return hex.EncodeToString(sum[:])
}

func appendSized[T string | []byte](dst []byte, s T) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s)))
	return append(dst, s...)
}
