package sigv4

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// appendCanonical appends the canonical request: what client and server must have in common, in the
// one form that both can find by themselves.
func (q *Request) appendCanonical(dst []byte, host, bodyHash string) []byte {
	dst = append(dst, q.http.Method...)
	dst = append(dst, '\n')
	dst = appendPath(dst, q.http.URL.EscapedPath())
	dst = append(dst, '\n')
	dst = append(dst, q.query...)
	dst = append(dst, '\n')
	for _, name := range q.signed {
		dst = append(dst, name...)
		dst = append(dst, ':')
		dst = q.appendHeader(dst, name, host)
		dst = append(dst, '\n')
	}
	dst = append(dst, '\n')
	dst = append(dst, q.signedNames...)
	dst = append(dst, '\n')
	return append(dst, bodyHash...)
}

// appendPath appends the path of the request, which is encoded already, encoded again. It is not
// normalised: ".." and "//" mean to a handler what they say.
func appendPath(dst []byte, path string) []byte {
	if path == "" {
		return append(dst, '/')
	}
	for _, c := range []byte(path) {
		if c == '/' {
			dst = append(dst, c)
		} else {
			dst = appendEncoded(dst, c)
		}
	}
	return dst
}

// appendHeader appends the values of a header, with runs of spaces made one. net/http has taken
// Host out of the headers, and a request that came over no connection, as in tests, has its length
// in a field only.
func (q *Request) appendHeader(dst []byte, name, host string) []byte {
	if name == "host" {
		return appendTrimmed(dst, host)
	}
	values := q.http.Header.Values(name)
	if name == "content-length" && len(values) == 0 {
		return strconv.AppendInt(dst, q.http.ContentLength, 10)
	}
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendTrimmed(dst, v)
	}
	return dst
}

func appendTrimmed(dst []byte, v string) []byte {
	v = strings.TrimSpace(v)
	for i := range len(v) {
		if v[i] != ' ' || v[i-1] != ' ' { // the first is no space
			dst = append(dst, v[i])
		}
	}
	return dst
}

// canonicalQuery encodes all parameters but the signature in one way, and sorts them afterwards, as
// encoded.
func canonicalQuery(pairs []pair, presigned bool) string {
	if len(pairs) == 0 {
		return ""
	}
	encoded := make([]pair, 0, len(pairs))
	size := 0
	for _, p := range pairs {
		if presigned && p.name == "X-Amz-Signature" {
			continue
		}
		p = pair{encode(p.name), encode(p.value)}
		size += len(p.name) + len(p.value) + 2
		encoded = append(encoded, p)
	}
	slices.SortFunc(encoded, func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.value, b.value))
	})
	b := make([]byte, 0, size)
	for i, p := range encoded {
		if i > 0 {
			b = append(b, '&')
		}
		b = append(b, p.name...)
		b = append(b, '=')
		b = append(b, p.value...)
	}
	return string(b)
}

func encode(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 || !unreserved(byte(r)) }) {
		return s
	}
	b := make([]byte, 0, 3*len(s))
	for _, c := range []byte(s) {
		b = appendEncoded(b, c)
	}
	return string(b)
}

func appendEncoded(dst []byte, c byte) []byte {
	const digits = "0123456789ABCDEF"
	if unreserved(c) {
		return append(dst, c)
	}
	return append(dst, '%', digits[c>>4], digits[c&15])
}

// unreserved says which bytes of a URI mean the same encoded or not, by RFC 3986.
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' ||
		c == '.' || c == '_' || c == '~'
}
