package cloudwatch

import (
	"encoding/xml"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	xmlType      = "text/xml"
	xmlNamespace = "http://monitoring.amazonaws.com/doc/2010-08-01/"
)

// resultXML writes an answer of the query protocol. An operation without output has no Result.
func resultXML(action string, t tree, id string) []byte {
	var b strings.Builder
	b.WriteString(`<` + action + `Response xmlns="` + xmlNamespace + `">`)
	if t != nil {
		writeXML(&b, action+"Result", t)
	}
	b.WriteString(`<ResponseMetadata><RequestId>` + id + `</RequestId></ResponseMetadata></` + action + `Response>`)
	return []byte(b.String())
}

// failureXML writes an error of the query protocol.
func failureXML(e *Error, fault, id string) []byte {
	var b strings.Builder
	b.WriteString(`<ErrorResponse xmlns="` + xmlNamespace + `">`)
	writeXML(&b, "Error", object{{"Type", fault}, {"Code", string(e.Code)}, {"Message", e.Message}})
	b.WriteString(`<RequestId>` + id + `</RequestId></ErrorResponse>`)
	return []byte(b.String())
}

func writeXML(b *strings.Builder, name string, t tree) {
	b.WriteString("<" + name + ">")
	switch t := t.(type) {
	case object:
		for _, m := range t {
			writeXML(b, m.name, m.tree)
		}
	case list:
		for _, e := range t {
			writeXML(b, "member", e)
		}
	case string:
		xml.EscapeText(b, []byte(t))
	case int64:
		b.WriteString(strconv.FormatInt(t, 10))
	case float64:
		b.WriteString(formatNumber(t))
	case bool:
		b.WriteString(strconv.FormatBool(t))
	case time.Time:
		b.WriteString(t.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	b.WriteString("</" + name + ">")
}

// formatNumber writes a number in letters, as parseNumber reads it.
func formatNumber(v float64) string {
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
