// Package relay serves the requests of clients on a node of a cluster that does not lead: it passes
// them to the leader and returns the leader's responses.
//
// What it guarantees:
//
//   - A request that every node would refuse never reaches the leader: headers that are too large,
//     an unknown key, a request from a web page, a request for no API, a body over 8 MiB.
//   - A response arrives as the leader has sent it: status, headers and body, and each part of a
//     stream as soon as it is there. If the leader is lost in between, the connection to the client
//     is cut, so that a part is not taken for the whole.
//   - If no node carries the request out, the client gets status 503; if that is unknown, 500. Both
//     have the form of the API and the protocol of its request. It never gets 503 for a request
//     that may have been carried out.
//   - A request that waits for a leader is answered here if this node becomes the leader.
//   - A client that disconnects ends its request at the leader.
//   - A node that stops ends the live streams that it passes on, with the event that says so.
//   - Bodies stay within the budget of the Intake. At most forwardsMax requests are forwarded at a
//     time, and at most receivesMax of them receive messages, so that consumers which wait leave
//     room for other requests.
//
// It leaves to the leader everything that takes a signature, a policy or a queue to decide, and to
// package forward which node that is and what may be sent twice.
package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"tenaq/internal/api/cloudwatch"
	"tenaq/internal/api/http1"
	"tenaq/internal/api/intake"
	"tenaq/internal/api/sqs"
	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/api/v1"
	"tenaq/internal/api/wire"
	"tenaq/internal/broker"
	"tenaq/internal/cluster/forward"
	"tenaq/internal/door/auth"
)

// Bounds of the requests that a node forwards at the same time. Each takes a connection to the
// leader, with TLS about 50 KB at each end.
const (
	forwardsMax = 6000
	receivesMax = 5000
)

// Config configures a Handler. All fields are required, Here only if that of the Forwarder is set.
type Config struct {
	Forwarder *forward.Forwarder
	Door      *auth.Door
	Intake    *intake.Intake
	Logger    *slog.Logger

	// Here answers requests for which the Forwarder has found that this node leads.
	Here http.Handler
}

// A Handler forwards requests. It is safe for concurrent use.
type Handler struct {
	cfg                Config
	forwards, receives places

	serving context.Context // done when receives no longer wait, and live streams end
	drain   context.CancelFunc
}

// New returns a Handler.
func New(cfg Config) *Handler {
	h := &Handler{cfg: cfg, forwards: places{most: forwardsMax},
		receives: places{most: receivesMax}}
	h.serving, h.drain = context.WithCancel(context.Background())
	return h
}

// Drain answers every receive that waits at the leader, ends every live stream, and lets none wait
// or begin from now on. It is for a node that stops: its clients ask another one.
func (h *Handler) Drain() { h.drain() }

// An api is what a node that does not lead must know about the API of a request.
type api struct {
	service string                      // that a signature must be for; empty for /v1
	check   func(r *http.Request) error // what can be refused by the headers
	refuse  func(w http.ResponseWriter, r *http.Request, err error) (code string)
}

func (a api) authenticate(door *auth.Door, r *http.Request) (auth.Pending, error) {
	if a.service == "" {
		return door.AuthenticateV1(r)
	}
	return door.Authenticate(r, a.service)
}

func apiOf(r *http.Request) api {
	switch {
	case cloudwatch.Is(r):
		return api{service: "monitoring", refuse: cloudwatch.Refuse}
	case v1.Is(r):
		return api{refuse: v1.Refuse}
	}
	return api{service: "sqs", check: sqs.Check, refuse: sqs.Refuse}
}

// Refuse answers a request of any API with an error, in the form of its API and protocol. A node
// that is asked by another one and does not lead answers with broker.ErrNotLeader.
func Refuse(w http.ResponseWriter, r *http.Request, err error) { apiOf(r).refuse(w, r, err) }

// action is the name under which forwarded requests are counted in Intake.Ends, with the code of
// the error that this node has answered with. A response of the leader counts as success, whatever
// it says.
const action = "Forward"

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from, api, ends := time.Now(), apiOf(r), &h.cfg.Intake.Ends
	sent, err := h.forward(w, r, api)
	switch {
	case err == nil:
		ends.Add(action, "", from)
	case errors.Is(err, forward.ErrHere):
		h.cfg.Here.ServeHTTP(w, r) // and counts it
	case r.Context().Err() != nil, errors.Is(err, errClient):
		ends.Add(action, "ClientGone", from)
		panic(http.ErrAbortHandler) // to return would be to answer 200 [WIRE-28]
	case sent:
		h.cfg.Logger.Warn("connection to a client cut: the leader was lost during a response",
			"error", err)
		ends.Add(action, string(sqswire.InternalError), from)
		panic(http.ErrAbortHandler)
	default:
		ends.Add(action, api.refuse(w, r, err), from)
	}
}

// errDrained answers a receive whose node stops. If the receive was waiting at the leader, that may
// have handed messages out to it.
var errDrained = sqswire.Errorf(sqswire.InternalError,
	"The server is stopping and no longer waits for messages: receive again.")

// forward passes a request on. If it fails, sent says whether a part of the response is on its way.
func (h *Handler) forward(w http.ResponseWriter, r *http.Request, api api) (sent bool, err error) {
	body, err := h.read(w, r, api)
	if err != nil {
		return false, err
	}
	defer body.Held.Release()
	in := h.cfg.Intake
	if err := in.Begin(); err != nil {
		return false, err
	}
	defer in.End()
	if !h.forwards.take() {
		return false, intake.ErrBusy
	}
	defer h.forwards.give()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	serves := func() bool { return true }
	live := v1.IsLive(r)
	if live {
		if h.serving.Err() != nil {
			return false, broker.ErrStopped
		}
		defer context.AfterFunc(h.serving, cancel)()
	}
	if isReceive(r, body.Bytes) {
		if h.serving.Err() != nil { // the leader would hand out messages that are lost on the way
			return false, errDrained
		}
		if !h.receives.take() {
			return false, intake.ErrBusy
		}
		defer h.receives.give()
		http1.Watch(ctx) // [POLL-10]
		serves = context.AfterFunc(h.serving, cancel)
		defer serves()
	}
	res, err := h.cfg.Forwarder.Do(r.WithContext(ctx), body.Bytes)
	drained := !serves() || live && h.serving.Err() != nil
	switch {
	case errors.Is(err, forward.ErrHere):
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body.Bytes)), int64(len(body.Bytes))
		return false, err
	case err != nil && live && drained:
		return false, broker.ErrStopped
	case err != nil && drained:
		return false, errDrained
	case err != nil:
		return false, err
	}
	defer res.Body.Close()
	return true, pass(w, res, func() bool { return live && h.serving.Err() != nil })
}

// read reads the body of a request, unless every node would refuse the request.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, api api) (intake.Body, error) {
	if wire.HeadersTooLarge(r) {
		return intake.Body{}, wire.ErrHeaders
	}
	pending, err := api.authenticate(h.cfg.Door, r)
	if err == nil && api.check != nil {
		err = api.check(r)
	}
	if err != nil {
		return intake.Body{}, err
	}
	if h.forwards.isFull() || h.receives.isFull() && isReceive(r, nil) {
		if !h.cfg.Intake.Discard(w, r) {
			return intake.Body{}, intake.ErrCutOff
		}
		return intake.Body{}, intake.ErrBusy
	}
	body, err := h.cfg.Intake.Read(w, r, pending)
	if body.Held != nil {
		body.Held.Set(int64(len(body.Bytes))) // nothing is made of it here
		return body, err
	}
	// The buffer of a tiny one is used again, and the transport may go on reading it after an early
	// response of the leader.
	sent := bytes.Clone(body.Bytes)
	body.Free()
	return intake.Body{Bytes: sent}, err
}

// isReceive reports whether a request receives messages, and so may wait. A body that only contains
// the words counts as one too.
func isReceive(r *http.Request, body []byte) bool {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		return strings.HasSuffix(target, ".ReceiveMessage")
	}
	const words = "Action=ReceiveMessage"
	return strings.Contains(r.URL.RawQuery, words) ||
		len(body) <= intake.Small && bytes.Contains(body, []byte(words))
}

// places bound how many requests do something at the same time.
type places struct {
	most int64
	used atomic.Int64
}

func (p *places) take() bool {
	if p.used.Add(1) > p.most {
		p.give()
		return false
	}
	return true
}

func (p *places) isFull() bool { return p.used.Load() >= p.most }

func (p *places) give() { p.used.Add(-1) }
