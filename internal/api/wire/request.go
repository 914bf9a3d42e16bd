package wire

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
)

// HeaderMax is how large a request line and the headers may be together, in bytes. [WIRE-26]
const HeaderMax = 64 << 10

// ErrHeaders refuses a request for which HeadersTooLarge reports true.
var ErrHeaders = errors.New("the request line and the headers are larger than 64 KiB")

// HeadersTooLarge reports whether the request line and the headers are larger than HeaderMax.
func HeadersTooLarge(r *http.Request) bool {
	n := len(r.Method) + len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, value := range values {
			n += len(name) + len(value) + 4
		}
	}
	return n > HeaderMax
}

// RequestID returns a random UUID. Request ids help to find an exchange again; they protect
// nothing. [WIRE-18]
func RequestID() string {
	var id [16]byte
	for i := range 2 {
		v := rand.Uint64()
		for j := range 8 {
			id[8*i+j] = byte(v >> (8 * j))
		}
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	var text [36]byte
	hex.Encode(text[:], id[:4])
	hex.Encode(text[9:], id[4:6])
	hex.Encode(text[14:], id[6:8])
	hex.Encode(text[19:], id[8:10])
	hex.Encode(text[24:], id[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}

// SignedService returns the service that a request is signed for, such as sqs or monitoring; it is
// empty when there is no credential scope. The signature is not verified.
func SignedService(r *http.Request) string {
	_, scope, signed := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	if signed {
		scope, _, _ = strings.Cut(scope, ",")
	} else if strings.Contains(r.URL.RawQuery, "X-Amz-Credential=") {
		scope = r.URL.Query().Get("X-Amz-Credential")
	}
	// A scope is key/date/region/service/aws4_request. With another algorithm it has no region.
	parts := strings.Split(strings.TrimSpace(scope), "/")
	if len(parts) < 4 {
		return ""
	}
	return parts[len(parts)-2]
}

// HasAction reports whether a query string has the parameter Action.
func HasAction(query string) bool {
	for parameter := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(parameter, "="); name == "Action" {
			return true
		}
	}
	return false
}

// BaseURL returns the beginning of the URLs of a server, without a slash at the end: public when
// that is set, else what the client used. [QUEUE-36]
func BaseURL(public string, r *http.Request) string {
	if public != "" {
		return strings.TrimSuffix(public, "/")
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return (&url.URL{Scheme: scheme, Host: r.Host}).String()
}

// Cut shortens a text that an error repeats to about 100 bytes.
func Cut(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
