package wire

import (
	"encoding/xml"
	"math"
	"strconv"
	"strings"
	"time"
)

// ResultXML returns an answer of the Query protocol in a namespace. An operation without output,
// whose tree is nil, has no Result.
func ResultXML(namespace, action string, t Tree, id string) []byte {
	var b strings.Builder
	b.WriteString(`<` + action + `Response xmlns="` + namespace + `">`)
	if t != nil {
		writeXML(&b, action+"Result", t)
	}
	b.WriteString(`<ResponseMetadata><RequestId>` + id + `</RequestId></ResponseMetadata></` + action + `Response>`)
	return []byte(b.String())
}

// FailureXML returns an error of the Query protocol in a namespace. Fault is Sender or Receiver.
func FailureXML(namespace, code, message, fault, id string) []byte {
	var b strings.Builder
	b.WriteString(`<ErrorResponse xmlns="` + namespace + `">`)
	writeXML(&b, "Error", Object{{"Type", fault}, {"Code", code}, {"Message", message}})
	b.WriteString(`<RequestId>` + id + `</RequestId></ErrorResponse>`)
	return []byte(b.String())
}

func writeXML(b *strings.Builder, name string, t Tree) {
	b.WriteString("<" + name + ">")
	switch t := t.(type) {
	case Object:
		for _, m := range t {
			writeXML(b, m.Name, m.Tree)
		}
	case List:
		for _, e := range t {
			writeXML(b, "member", e)
		}
	case string:
		xml.EscapeText(b, []byte(t))
	case int64:
		b.WriteString(strconv.FormatInt(t, 10))
	case float64:
		b.WriteString(FormatNumber(t))
	case bool:
		b.WriteString(strconv.FormatBool(t))
	case time.Time:
		b.WriteString(t.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	b.WriteString("</" + name + ">")
}

// FormatNumber writes a number as text, as ParseNumber reads it.
func FormatNumber(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.FormatFloat(v, 'f', 1, 64) // 3.0, as CloudWatch does
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
