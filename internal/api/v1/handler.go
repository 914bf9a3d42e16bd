package v1

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"tenaq/internal/api/intake"
	"tenaq/internal/api/refusal"
	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/api/wire"
	"tenaq/internal/broker"
	"tenaq/internal/door/auth"
	"tenaq/internal/engine"
	"tenaq/internal/observe/monitor"
)

// Config configures a Handler. Monitor and Backup may be nil; the rest is required.
type Config struct {
	Broker   *broker.Broker
	Door     *auth.Door
	Policies *auth.Policies
	Intake   *intake.Intake
	Logger   *slog.Logger

	// PublicURL begins every queue URL; when empty it is taken from the request. [QUEUE-36]
	PublicURL string

	// Monitor has the alarms that /v1/alarms shows; nil for none.
	Monitor *monitor.Monitor

	// Backup begins a backup for /v1/backup; nil for a server without. It refuses with
	// ErrBackupRunning.
	Backup func(context.Context) (Backup, error)
}

// A Handler serves /v1.
type Handler struct {
	cfg     Config
	control Control // of the handler that serves /v1/cluster, and nothing else
}

// New returns a handler.
func New(cfg Config) *Handler { return &Handler{cfg: cfg} }

// A call is one request on its way through the handler.
type call struct {
	context.Context
	*Handler
	request   *http.Request
	principal auth.Principal
	queue     string // that the path names
	body      []byte

	held *intake.Holding // for the body
	room *intake.Holding // for the answer
}

// An answer is a body to encode, or a stream instead.
type answer struct {
	body   any
	stream Backup
}

// clientGone is the code of requests whose client left before the answer.
const clientGone = "ClientGone"

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from := time.Now()
	wire.SetRequestID(w, wire.RequestID())
	action, code := h.serve(w, r)
	h.cfg.Intake.Ends.Add(action, code, from)
	if code == clientGone {
		panic(http.ErrAbortHandler) // to return would be to answer 200 [WIRE-28]
	}
}

// serve returns the action of a request and the code with which it ended, empty for success.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) (action, code string) {
	if wire.HeadersTooLarge(r) {
		return "", h.refuse(w, wire.ErrHeaders)
	}
	pending, err := h.cfg.Door.Authenticate(r, "sqs")
	if err != nil {
		return "", h.refuse(w, err)
	}
	route, queue := h.find(r.URL.Path)
	if route == nil {
		return "", h.refuse(w, errNotFound)
	}
	action = "v1." + route.action
	switch reads := r.Method == http.MethodGet || r.Method == http.MethodHead; {
	case route.changes && r.Method != http.MethodPost:
		w.Header().Set("Allow", "POST")
		return action, h.refuse(w, errPost)
	case !route.changes && !reads:
		w.Header().Set("Allow", "GET, HEAD")
		return action, h.refuse(w, errMethod)
	}
	c := &call{Context: r.Context(), Handler: h, request: r, queue: queue}
	defer func() { c.held.Release(); c.room.Release() }()
	a, err := c.answer(w, pending, route)
	switch {
	case err != nil && r.Context().Err() != nil:
		return action, clientGone
	case err != nil:
		return action, h.refuse(w, err)
	case a.stream != nil:
		return action, h.stream(w, a.stream)
	}
	write(w, http.StatusOK, a.body)
	return action, ""
}

// answer reads the body of a request, and asks the route for an answer if the principal may use it.
func (c *call) answer(w http.ResponseWriter, pending auth.Pending, route *route) (answer, error) {
	in := c.cfg.Intake
	body, err := in.Read(w, c.request, pending)
	if err != nil {
		return answer{}, err
	}
	c.body, c.held = body.Bytes, body.Held
	defer body.Free()
	if c.principal, err = pending.Finish(body.Bytes); err != nil {
		return answer{}, err
	}
	if err := in.Begin(); err != nil {
		return answer{}, err
	}
	defer in.End()
	on := c.onQueue()
	if route.server {
		on = engine.QueueName{Account: c.cfg.Door.Account()}
	}
	if err := c.cfg.Policies.Allow(c.principal, c.request, route.right(), on); err != nil {
		return answer{}, err
	}
	return route.serve(c)
}

// onQueue is the queue that the path names, of the caller's account.
func (c *call) onQueue() engine.QueueName {
	return engine.QueueName{Account: c.principal.Account(), Name: c.queue}
}

// url returns the URL of a queue. [QUEUE-36]
func (c *call) url(n engine.QueueName) string {
	return wire.BaseURL(c.cfg.PublicURL, c.request) + "/" + n.Account + "/" + n.Name
}

func (c *call) do(op engine.Op) error { return c.cfg.Broker.Do(c, op) }

// refuse answers an error and returns its code.
func (h *Handler) refuse(w http.ResponseWriter, err error) (code string) {
	if asError(err).Code == string(sqswire.InternalFailure) {
		h.cfg.Logger.Error("request failed", "error", err)
	}
	return respond(w, err)
}

// Refuse answers a request with an error, without a Handler, and returns the code of the error.
func Refuse(w http.ResponseWriter, _ *http.Request, err error) (code string) {
	wire.SetRequestID(w, wire.RequestID())
	return respond(w, err)
}

func respond(w http.ResponseWriter, err error) (code string) {
	refused := asError(err)
	refusal.Mark(w.Header(), err)
	write(w, refused.status, refused)
	return refused.Code
}

func write(w http.ResponseWriter, status int, body any) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		panic(err) // strings, numbers and times can always be encoded
	}
	setHeader(w, "application/json")
	wire.Respond(w, status, wire.PlainJSONType, b.Bytes())
}

// setHeader sets the headers of every answer. Tenaq-Api tells clients that the answer comes from
// this API and not from another server that has the same path.
func setHeader(w http.ResponseWriter, kind string) {
	header := w.Header()
	header.Set("Tenaq-Api", "1")
	header.Set("Content-Type", kind)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
}
