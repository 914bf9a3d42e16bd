package http1

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// AppendHead appends the head of an answer as net/http writes it. If last is true, the head says
// that the connection is closed after the answer.
func AppendHead(dst []byte, status int, header http.Header, last bool) []byte {
	dst = appendHead(dst, status, header, func(string, string) bool { return true })
	dst = appendDate(dst, time.Now())
	if last {
		dst = appendField(dst, "Connection", "close")
	}
	return append(dst, "\r\n"...)
}

// appendHead appends the first line of an answer and those headers for which write reports true, in
// the order of net/http. The Date and the empty line are left to the caller.
func appendHead(
	dst []byte, status int, header http.Header, write func(name, value string) bool,
) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	if text := http.StatusText(status); text != "" {
		dst = append(dst, text...)
	} else {
		dst = strconv.AppendInt(append(dst, "status code "...), int64(status), 10)
	}
	dst = append(dst, "\r\n"...)
	var room [16]string
	names := room[:0]
	for name := range header {
		if consists(name, inName) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range header[name] {
			if write(name, value) {
				dst = appendField(dst, name, value)
			}
		}
	}
	return dst
}

var noNewlines = strings.NewReplacer("\r", " ", "\n", " ")

func appendField(dst []byte, name, value string) []byte {
	if !consists(value, inValue) {
		value = noNewlines.Replace(value)
	}
	dst = append(append(dst, name...), ": "...)
	return append(append(dst, strings.Trim(value, " \t")...), "\r\n"...)
}

// date is what the last answer had as its Date.
var date atomic.Pointer[stamp]

type stamp struct {
	second int64
	text   string
}

func appendDate(dst []byte, now time.Time) []byte {
	d := date.Load()
	if d == nil || d.second != now.Unix() {
		d = &stamp{now.Unix(), "Date: " + now.UTC().Format(http.TimeFormat) + "\r\n"}
		date.Store(d)
	}
	return append(dst, d.text...)
}
