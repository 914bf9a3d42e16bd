package sqs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/door/auth"
	"tenaq/internal/engine"
)

// What SQS has no words for stands beside it under /v1, in plain HTTP and JSON, for whoever the Door
// lets in. What is under /v1/queues only reads. [PEEK-7]

// v1Path begins the paths of what is no part of the SQS API.
const v1Path = "/v1"

// isV1 reports whether a request is for /v1. One that names an action of SQS before its body is not, wherever it goes: in its
// headers or in its address. A form that names one in its body is, and is refused there, since no queue has such a path.
func isV1(r *http.Request) bool {
	return (r.URL.Path == v1Path || strings.HasPrefix(r.URL.Path, v1Path+"/")) &&
		len(r.Header["X-Amz-Target"]) == 0 && !hasAction(r.URL.RawQuery)
}

// v1Header tells clients that an answer comes from here and not from another server that happens to have
// the path.
const v1Header = "Tenaq-Api"

// A v1Route is what answers a path.
type v1Route struct {
	name    string // under which it is counted
	queue   string // that the path names
	changes bool   // something: it is a POST
	serve   func(c *call, queue string) (v1Answer, error)
}

// A v1Answer is what to encode.
type v1Answer struct {
	body   any
	stream Backup // instead of a body
}

// findV1 finds the route of a path below /v1.
func (h *Handler) findV1(path string) (v1Route, bool) {
	path = strings.TrimPrefix(path, v1Path+"/")
	if parts := strings.Split(path, "/"); len(parts) == 3 && parts[0] == "queues" {
		route, ok := v1QueueRoutes[parts[2]]
		route.queue = parts[1]
		return route, ok
	}
	route, ok := v1Routes[path]
	return route, ok && (h.cfg.Monitor != nil || !strings.HasPrefix(path, "alarms")) && (h.cfg.Backup != nil || path != "backup")
}

// v1QueueRoutes are what stands behind /v1/queues/NAME/.
var v1QueueRoutes = map[string]v1Route{
	"messages": {name: "v1.PeekMessages", serve: (*call).v1Messages},
	"fate":     {name: "v1.FollowMessage", serve: (*call).v1Fate},
}

// v1Routes are the paths that name no queue.
var v1Routes = map[string]v1Route{
	"backup":             {name: "v1.Backup", changes: true, serve: (*call).v1Backup},
	"queues":             {name: "v1.ListQueues", serve: (*call).v1Queues},
	"alarms":             {name: "v1.ListAlarms", serve: (*call).v1Alarms},
	"alarms/history":     {name: "v1.ListAlarmHistory", serve: (*call).v1AlarmHistory},
	"alarms/silence":     {name: "v1.SilenceAlarms", changes: true, serve: (*call).v1Silence},
	"alarms/test":        {name: "v1.TestAction", changes: true, serve: (*call).v1TestAction},
	"alarms/acknowledge": {name: "v1.AcknowledgeAlarm", changes: true, serve: (*call).v1Acknowledge},
}

// A v1Error is a refusal as /v1 shows it.
type v1Error struct {
	status  int
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *v1Error) Error() string { return e.Code + ": " + e.Message }

var (
	errV1NotFound = &v1Error{http.StatusNotFound, "NotFound",
		"There is nothing at this path: there are /v1/queues, /v1/queues/NAME/messages, /v1/queues/NAME/fate, /v1/alarms and /v1/backup."}
	errV1Method = &v1Error{http.StatusMethodNotAllowed, "MethodNotAllowed", "This only reads: use GET."}
	errV1Post   = &v1Error{http.StatusMethodNotAllowed, "MethodNotAllowed", "This changes something: use POST."}
)

// errV1Value refuses a parameter of the query.
func errV1Value(name, value, want string) error {
	return sqswire.Errorf(sqswire.InvalidParameterValue, "Value %s for parameter %s is invalid. Reason: Must be %s.", value, name, want)
}

// serveV1 answers a request for /v1.
func (h *Handler) serveV1(w http.ResponseWriter, r *http.Request, e *attempt, pending auth.Pending) {
	route, ok := h.findV1(r.URL.Path)
	if !ok {
		e.refuseV1(w, errV1NotFound)
		return
	}
	e.action = route.name
	switch reads := r.Method == http.MethodGet || r.Method == http.MethodHead; {
	case route.changes && r.Method != http.MethodPost:
		w.Header().Set("Allow", "POST")
		e.refuseV1(w, errV1Post)
		return
	case !route.changes && !reads:
		w.Header().Set("Allow", "GET, HEAD")
		e.refuseV1(w, errV1Method)
		return
	}
	c := &call{Context: r.Context(), h: h, http: r}
	defer c.release()
	answer, err := c.v1(w, pending, route)
	switch {
	case err != nil && r.Context().Err() != nil:
		e.ends("ClientGone")
		panic(http.ErrAbortHandler) // to return would be to answer 200 [WIRE-28]
	case err != nil:
		e.refuseV1(w, err)
	case answer.stream != nil:
		h.streamV1(w, e, answer.stream)
	default:
		h.writeV1(w, http.StatusOK, answer.body)
		e.ends("")
	}
}

// v1 answers a request whose path is known.
func (c *call) v1(w http.ResponseWriter, pending auth.Pending, route v1Route) (v1Answer, error) {
	body, err := c.h.read(w, c.http, pending)
	if err != nil {
		return v1Answer{}, err
	}
	c.body = body.held
	defer body.free()
	if c.principal, err = pending.Finish(body.bytes); err != nil {
		return v1Answer{}, err
	}
	c.http.Body = io.NopCloser(bytes.NewReader(body.bytes))
	if err := c.h.begin(); err != nil {
		return v1Answer{}, err
	}
	defer c.h.end()
	on := c.ownQueue(route.queue)
	if strings.HasPrefix(c.http.URL.Path, v1Path+"/alarms") || c.http.URL.Path == v1Path+"/backup" {
		on = engine.QueueName{Account: c.h.cfg.Door.Account()} // whose alarms they are, and whose server it is
	}
	if err := c.allow(v1Action(route), on); err != nil {
		return v1Answer{}, err
	}
	return route.serve(c, route.queue)
}

// refuseV1 answers an error.
func (e *attempt) refuseV1(w http.ResponseWriter, err error) {
	refusal := asV1Error(err)
	if refusal.Code == string(sqswire.InternalFailure) {
		e.h.cfg.Logger.Error("request failed", "error", err)
	}
	e.h.writeV1(w, refusal.status, refusal)
	e.ends(refusal.Code)
}

// asV1Error turns whatever went wrong into an error of /v1: the words of SQS, but the status that HTTP has
// for it.
func asV1Error(err error) *v1Error {
	var own *v1Error
	if errors.As(err, &own) {
		return own
	}
	wire := wireError(err)
	refusal := &v1Error{wire.Info().Status, strings.TrimPrefix(string(wire.Code), "AWS.SimpleQueueService."), wire.Message}
	switch wire.Code {
	case sqswire.NonExistentQueue:
		refusal.status = http.StatusNotFound
	case sqswire.RequestThrottled:
		refusal.status = http.StatusTooManyRequests
	}
	return refusal
}

func (h *Handler) writeV1(w http.ResponseWriter, status int, body any) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		panic(err) // strings, numbers and times can always be encoded
	}
	header := w.Header()
	header.Set(v1Header, "1")
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(b.Len()))
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	writePaced(w, b.Bytes())
}

// A v1Query reads the parameters of a request and keeps the first mistake.
type v1Query struct {
	values map[string][]string
	err    error
}

// query reads the parameters, which must be among those that are known: a misspelt one would otherwise
// change nothing and say so nowhere.
func (c *call) query(known ...string) *v1Query {
	q := &v1Query{values: c.http.URL.Query()}
	for name, values := range q.values { // order does not matter: any of them refuses the request
		if strings.HasPrefix(name, "X-Amz-") && c.principal.Signed() {
			continue // of the signature, which has been verified
		}
		if !slices.Contains(known, name) || len(values) > 1 {
			q.err = sqswire.Errorf(sqswire.InvalidParameterValue, "The parameter %s is not known here, or is there twice.", name)
		}
	}
	return q
}

func (q *v1Query) text(name string) string {
	if v := q.values[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// number reads a number from low to high; otherwise when it is not there.
func (q *v1Query) number(name string, low, high, otherwise int) int {
	text := q.text(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		if q.err == nil {
			q.err = errV1Value(name, text, "a number from "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
		}
		return otherwise
	}
	return n
}

// v1Time is a moment as /v1 shows it; nil for never.
func v1Time(ms int64) *string {
	if ms == 0 {
		return nil
	}
	text := time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
	return &text
}
