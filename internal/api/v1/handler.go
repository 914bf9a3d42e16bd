package v1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"tenaq/internal/api/handle"
	"tenaq/internal/api/intake"
	"tenaq/internal/api/refusal"
	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/api/wire"
	"tenaq/internal/broker"
	"tenaq/internal/door/auth"
	"tenaq/internal/engine"
	"tenaq/internal/observe/monitor"
)

// Config configures a Handler. Monitor, Redrivers, Stores, Settings, Status, Backup and Control may
// be nil; the rest is required.
type Config struct {
	Broker   *broker.Broker
	Door     *auth.Door
	Policies *auth.Policies
	Intake   *intake.Intake
	Logger   *slog.Logger
	Sealer   *handle.Sealer // of receipt handles

	// SQS carries out actions of SQS for /v1/do; nil for a server without.
	SQS SQS

	// PublicURL begins every queue URL; when empty it is taken from the request. [QUEUE-36]
	PublicURL string

	// Version is that of the program, and Actions are all actions that a key can be allowed, for
	// GET /v1. Without Actions these are the actions of this package.
	Version string
	Actions []string

	// Monitor has the alarms that /v1/alarms shows; nil for none.
	Monitor *monitor.Monitor

	// Redrivers are those of this process; nil for none.
	Redrivers Redrivers

	// Stores are those outside the server whose claims are shown; nil for none.
	Stores Stores

	// Settings are those of the server, without passwords; nil for a server without a list.
	Settings []Setting

	// Status fills in what the server knows besides its broker for /v1/status, without waiting for
	// the disk; nil for a server without.
	Status func(*ServerStatus)

	// Backup begins a backup for /v1/backup; nil for a server without. It refuses with
	// ErrBackupRunning.
	Backup func(context.Context) (Backup, error)

	// Control is that of the cluster; nil for a single server.
	Control Control
}

// A Handler serves /v1.
type Handler struct {
	cfg     Config
	live    *lives
	asked   chan struct{} // holds one for each redriver that is asked
	reached chan struct{} // holds one for each request to a store outside
	making  chan struct{} // holds one while the example is made
	asides  *asides
	since   time.Time // of what is known
}

// New returns a handler.
func New(cfg Config) *Handler {
	return &Handler{cfg: cfg, live: newLives(cfg.Broker, cfg.Door.Account()),
		asked:   make(chan struct{}, redriversAtOnce),
		reached: make(chan struct{}, storesAtOnce),
		making:  make(chan struct{}, 1),
		asides:  newAsides(),
		since:   time.Now().UTC().Truncate(time.Second)}
}

// Drain ends the live streams, and lets none begin from now on. Their clients are told to come
// again. [V1-13]
func (h *Handler) Drain() { h.live.stop() }

// A call is one request on its way through the handler.
type call struct {
	context.Context
	*Handler
	w         http.ResponseWriter // for headers
	request   *http.Request
	route     *route
	path      map[string]string // what stands for the names in the path of the route
	principal auth.Principal
	body      []byte

	held *intake.Holding // for the body
	room *intake.Holding // for the answer
}

// A streamed answer writes itself.
type streamed interface {
	kind() string // its Content-Type, even for a zero value

	// stream returns the code under which the request is counted, empty for success.
	stream(h *Handler, w http.ResponseWriter) (code string)
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
	pending, err := h.cfg.Door.AuthenticateV1(r)
	if err != nil {
		return "", h.refuse(w, err)
	}
	route, values, allow := h.find(r)
	switch {
	case allow != nil && route == nil:
		w.Header().Set("Allow", allowed(allow))
		return "", h.refuse(w, errMethod(allow))
	case route == nil:
		return "", h.refuse(w, errNotFound)
	}
	action = "v1." + route.action
	c := &call{Context: r.Context(), Handler: h, w: w, request: r, route: route, path: values}
	defer func() { c.held.Release(); c.room.Release() }()
	answer, err := c.answer(w, pending)
	switch {
	case err != nil && r.Context().Err() != nil:
		return action, clientGone
	case err != nil:
		code := h.refuse(w, err)
		if isFailedSignIn(r, code) {
			h.cfg.Logger.Warn("sign-in to the console failed", "address", r.RemoteAddr)
		}
		return action, code
	}
	if s, ok := answer.(streamed); ok {
		return action, s.stream(h, w)
	}
	write(w, http.StatusOK, "application/json", answer)
	return action, ""
}

// answer reads the body of a request, and asks the route for an answer if the principal may use it.
func (c *call) answer(w http.ResponseWriter, pending auth.Pending) (any, error) {
	in := c.cfg.Intake
	body, err := in.Read(w, c.request, pending)
	if err != nil {
		return nil, err
	}
	c.body, c.held = body.Bytes, body.Held
	defer body.Free()
	if c.principal, err = pending.Finish(body.Bytes); err != nil {
		return nil, err
	}
	if err := in.Begin(); err != nil {
		return nil, err
	}
	defer in.End()
	if c.route.changes() {
		if err := c.cfg.Door.AllowChange(c.principal, c.request); err != nil {
			return nil, err
		}
	}
	if err := c.authorize(); err != nil {
		return nil, err
	}
	return c.route.serve(c)
}

// authorize refuses a request whose principal may not use the route.
func (c *call) authorize() error {
	on := c.queue(c.path["queue"])
	switch {
	case c.route.free:
		return nil
	case c.route.server:
		on.Account = c.cfg.Door.Account()
	}
	return c.cfg.Policies.Allow(c.principal, c.request, c.route.right(), on)
}

// log notes in the action log what the caller has done. [TASK-16]
func (c *call) log(about, text string) { c.logAs(c.route.action, about, text) }

// logAs does not fail what has been done: its sender would repeat it.
func (c *call) logAs(name, about, text string) {
	const most = 300 // bytes of each text
	cut := func(s string) string { return strings.ToValidUTF8(s[:min(len(s), most)], "") }
	entry := &engine.LogAction{Account: c.principal.Account(), By: c.by(), Name: name,
		About: cut(about), Text: cut(text)}
	if err := c.do(entry); err != nil {
		c.cfg.Logger.Warn("an action has no entry in the action log", "error", err,
			"by", entry.By, "action", entry.Name, "about", entry.About, "text", entry.Text)
	}
}

// queue is a queue of the caller's account.
func (c *call) queue(name string) engine.QueueName {
	return engine.QueueName{Account: c.principal.Account(), Name: name}
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
	problem := refused.problem(wire.RequestIDOf(w))
	if claim, ok := errors.AsType[*refusedClaim](err); ok {
		problem.Claim, problem.RetryInMS = claim.entry, milliseconds(claim.retryIn)
	}
	write(w, refused.status, problemType, problem)
	return refused.Code
}

func write(w http.ResponseWriter, status int, kind string, body any) {
	setHeader(w, kind)
	if plain, ok := body.(interface{ appendJSON([]byte) []byte }); ok {
		wire.Respond(w, status, []string{kind}, append(plain.appendJSON(nil), '\n'))
		return
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		panic(err) // strings, numbers and times can always be encoded
	}
	wire.Respond(w, status, []string{kind}, b.Bytes())
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
