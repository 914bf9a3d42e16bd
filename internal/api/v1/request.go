package v1

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"tenaq/internal/api/intake"
	"tenaq/internal/api/sqs/sqswire"
)

// A query reads the parameters of a request and keeps the first error.
type query struct {
	values map[string][]string
	err    error
}

// query reads the parameters, and refuses one that is not known.
func (c *call) query(known ...string) *query {
	q := &query{values: c.request.URL.Query()}
	for name, values := range q.values { // order does not matter: any of them refuses the request
		if strings.HasPrefix(name, "X-Amz-") && c.principal.Signed() {
			continue // of the signature, which has been verified
		}
		if !slices.Contains(known, name) || len(values) > 1 {
			q.err = sqswire.Errorf(sqswire.InvalidParameterValue,
				"The parameter %s is unknown, or given more than once.", name)
		}
	}
	return q
}

func (q *query) text(name string) string {
	if v := q.values[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// number reads a number from low to high; it returns otherwise when the number is absent.
func (q *query) number(name string, low, high, otherwise int) int {
	text := q.text(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		if q.err == nil {
			q.err = errValue(name, text, "a number from "+strconv.Itoa(low)+" to "+
				strconv.Itoa(high))
		}
		return otherwise
	}
	return n
}

// read decodes the body of a request that changes something. A browser does not let a web page of
// another origin send this content type without asking the server first.
func (c *call) read(in any) error {
	kind, _, _ := mime.ParseMediaType(c.request.Header.Get("Content-Type"))
	if kind != "application/json" {
		return sqswire.Errorf(sqswire.InvalidParameterValue,
			"The body must be JSON, with Content-Type: application/json.")
	}
	if len(c.body) > intake.Small {
		return &Error{http.StatusRequestEntityTooLarge, "MalformedInput",
			"The body is larger than 64 KiB."}
	}
	if err := json.Unmarshal(c.body, in); err != nil {
		return sqswire.Errorf(sqswire.InvalidParameterValue,
			"The body does not have the expected JSON: %s.", faultOf(err))
	}
	return nil
}

// faultOf returns the text of an error of json.Unmarshal, without names of Go types.
func faultOf(err error) string {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return err.Error()
	case wrong.Field == "":
		return "it must be an object, not " + wrong.Value
	}
	return wrong.Field + " must be a " + wrong.Type.Kind().String() + ", not " + wrong.Value
}

// timeText is a time in Unix milliseconds as /v1 shows it; nil for never.
func timeText(ms int64) *string {
	if ms == 0 {
		return nil
	}
	text := time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
	return &text
}
