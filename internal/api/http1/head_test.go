package http1

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// The loop takes a head only if it is unambiguous, and never before it has arrived as a whole.
// [WIRE-32]
func TestHead(t *testing.T) {
	const sdk = "POST /000000000000/a-queue.fifo HTTP/1.1\r\nHost: localhost:9324\r\nUser-Agent: aws-sdk-go-v2/1.47.6 ua/2.1 os/linux lang/go#1.26.8 md/GOOS#linux md/GOARCH#amd64 api/sqs#1.52.9 m/E,g\r\n" +
		"Content-Length: 95\r\nAmz-Sdk-Invocation-Id: 0e0ac0f6-7c4e-4a87-a8c8-6f5b1b1a4a42\r\nAmz-Sdk-Request: attempt=1; max=3\r\n" +
		"Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261123/us-east-1/sqs/aws4_request, SignedHeaders=amz-sdk-invocation-id;content-length;host, Signature=0123456789abcdef\r\n" +
		"Content-Type: application/x-amz-json-1.0\r\nX-Amz-Date: 20261123T000000Z\r\nX-Amz-Target: AmazonSQS.SendMessage\r\nAccept-Encoding: gzip\r\n\r\n"
	const line, fields = "POST / HTTP/1.1\r\n", "Host: a\r\nContent-Length: 2\r\n"
	for _, c := range []struct {
		head string
		want verdict
	}{
		{sdk, common},
		{line + fields + "\r\n", common},
		{line + fields + "connection: Keep-Alive\r\n\r\n", common},
		{line + fields + "X-Empty:\r\n\r\n", common},
		{line + "Host: a\r\n\r\n", other},
		{line + "Content-Length: 2\r\n\r\n", other},
		{line + fields + "Host: a\r\n\r\n", other},
		{line + fields + "Content-Length: 2\r\n\r\n", other},
		{line + fields + "Transfer-Encoding: chunked\r\n\r\n", other},
		{line + fields + "Expect: 100-continue\r\n\r\n", other},
		{line + fields + "Connection: close\r\n\r\n", other},
		{line + fields + "Upgrade: h2c\r\n\r\n", other},
		{line + fields + " X: folded\r\n\r\n", other},
		{line + fields + "X : y\r\n\r\n", other},
		{line + fields + "X: y \r\n\r\n", other},
		{line + fields + "X: y\n\r\n", other},
		{line + fields + "X: \r\r\n\r\n", other},
		{line + fields + "X: \xff\r\n\r\n", other},
		{line + fields + "\n", other},
		{line + strings.Replace(fields, "2", "+2", 1) + "\r\n", other},
		{line + strings.Replace(fields, "2", "02", 1) + "\r\n", other},
		{line + strings.Replace(fields, "2", "1000000000", 1) + "\r\n", other},
		{strings.Replace(line, "POST", "GET", 1) + fields + "\r\n", other},
		{strings.Replace(line, "1.1", "1.0", 1) + fields + "\r\n", other},
		{strings.Replace(line, "/ ", "/%2f ", 1) + fields + "\r\n", other},
		{strings.Replace(line, "/ ", "//a ", 1) + fields + "\r\n", other},
		{line + fields + strings.Repeat("X: y\r\n", fieldsMax-2) + "\r\n", common},
		{line + fields + strings.Repeat("X: y\r\n", fieldsMax-1) + "\r\n", other},
	} {
		h := &head{header: make(http.Header)}
		for i := range len(c.head) {
			if _, v := h.parse([]byte(c.head[:i])); v == common || v == other && c.want == common {
				t.Fatalf("%q is taken for a head of kind %d", c.head[:i], v)
			}
		}
		n, v := h.parse([]byte(c.head + "rest"))
		if v != c.want || v == common && n != len(c.head) {
			t.Errorf("%q: got %d and %d bytes, want %d", c.head, v, n, c.want)
		}
	}
}

// Nothing of a head is left in the next one, although the lines that are the same are kept.
func TestHeadAfterHead(t *testing.T) {
	h := &head{header: make(http.Header)}
	for _, c := range []struct {
		lines string
		want  http.Header
	}{
		{"Authorization: a\r\nX-A: b\r\n", http.Header{"Authorization": {"a"}, "X-A": {"b"}}},
		{"Authorization: a\r\nX-A: b\r\n", http.Header{"Authorization": {"a"}, "X-A": {"b"}}},
		{"X-A: b\r\n", http.Header{"X-A": {"b"}}},
		{"x-a: b\r\nX-A: c\r\n", http.Header{"X-A": {"b", "c"}}},
		{"x-a: b\r\n", http.Header{"X-A": {"b"}}},
		{"", http.Header{}},
	} {
		_, v := h.parse([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n" + c.lines + "\r\n"))
		c.want["Content-Length"] = []string{"0"}
		if v != common || !reflect.DeepEqual(h.header, c.want) {
			t.Errorf("%q: got %v", c.lines, h.header)
		}
		for name, values := range h.header { // as a handler might
			values[0] = "changed"
			h.header.Add(name, "more")
		}
		h.header.Set("Authorization", "of a handler")
	}
}
