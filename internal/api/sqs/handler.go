package sqs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"tenaq/internal/api/framing"
	"tenaq/internal/api/handle"
	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/broker"
	"tenaq/internal/door/auth"
	"tenaq/internal/engine"
	"tenaq/internal/observe/monitor"
)

// Limits of a request.
const (
	bodyMax = 8 << 20 // bytes [WIRE-21]

	// bodyBudget bounds what requests hold in memory at the same time, with what is made of their bodies, and
	// answerBudget what the answers hold that have messages. A part of each is for small ones. [WIRE-29, WIRE-30]
	bodyBudget    = 96 << 20
	bodyReserve   = 24 << 20
	answerBudget  = 96 << 20
	answerReserve = 16 << 20

	// answerMax is how long after a large body the answer may take, the wait of a poll included.
	answerMax = 3 * time.Minute

	// readWait is how long a request waits for its part of a budget before it is refused.
	readWait = 10 * time.Second

	// workMax is how many requests are at work at the same time unless the Config says otherwise: more than wait for the
	// writer at most, since those that wait must not be refused here in another order. [WIRE-27]
	workMax = 20_000

	// headerMax is how large a request line and the headers may be together. [WIRE-26]
	headerMax = 64 << 10

	// restMax is how long the rest of a body that is refused may take. It is not read for its own sake: a connection that is closed
	// before what was sent has been read loses the answer.
	restMax = 2 * time.Second
)

// Config holds what a Handler is told once.
type Config struct {
	Broker *broker.Broker
	Sealer *handle.Sealer
	Logger *slog.Logger

	// Door authenticates requests, and Policies decides what their senders may do. When Policies is nil, the policies
	// are those of the Broker.
	Door     *auth.Door
	Policies *auth.Policies

	// PublicURL begins every queue URL; when empty it is taken from the request. [QUEUE-36]
	PublicURL string

	// RequestMax is how many requests may be at work at the same time, from when they are read until they are answered;
	// 20000 when zero. Receives that wait for messages do not count. [WIRE-27]
	RequestMax int

	// Rejoin has the HTTP server serve a connection again on which a parked poll was answered: what is read from it begins with
	// ahead. Nil when there is no such way; polls then wait as handlers of the HTTP server, which takes several times the
	// memory. IdleMax is how long such a connection may wait for its next request, 2 minutes when zero. Who sets Rejoin
	// calls Drain and Shutdown.
	Rejoin  func(conn net.Conn, ahead []byte)
	IdleMax time.Duration

	// Monitor has the alarms that /v1/alarms shows; nil for none.
	Monitor *monitor.Monitor

	// Backup begins a backup for /v1/backup; nil for a server without. It refuses with ErrBackupRunning.
	Backup func(context.Context) (Backup, error)
}

// A Handler serves the SQS API.
type Handler struct {
	cfg     Config
	bodies  *budget // of requests
	answers *budget // with messages
	counts  counts

	working atomic.Int64 // requests, those that wait for messages included
	parking parking
}

// New returns a handler.
func New(cfg Config) *Handler {
	if cfg.Policies == nil {
		cfg.Policies = auth.NewPolicies(cfg.Broker, cfg.Logger)
	}
	cfg.RequestMax = cmp.Or(cfg.RequestMax, workMax)
	cfg.IdleMax = cmp.Or(cfg.IdleMax, 2*time.Minute)
	return &Handler{
		cfg:     cfg,
		bodies:  newBudget(bodyBudget, bodyReserve, small*bodyCost),
		answers: newBudget(answerBudget, answerReserve, small*answerCost),

		parking: parking{polls: make(map[*parkedPoll]struct{})},
	}
}

// A call is one request on its way through the handler.
type call struct {
	context.Context
	h         *Handler
	http      *http.Request
	principal auth.Principal

	// For polls, which may have to go on without their handler.
	w       http.ResponseWriter
	attempt *attempt
	op      *operation // nil until it is known

	body *holding // of a request that is not a poll
	room *holding // for the answer to a poll
}

// release gives back what the call holds. A poll that goes on without its handler takes the room along.
func (c *call) release() {
	c.body.release()
	c.room.release()
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := attempt{h: h, from: time.Now(), protocol: protocolOf(r), id: requestID()}
	w.Header()["x-amzn-RequestId"] = []string{e.id}
	if framing.Ambiguous(r) {
		w.Header().Set("Connection", "close")
		e.refuse(w, errTwoLengths)
		return
	}
	if headerSize(r) > headerMax {
		e.refuse(w, errHeaders)
		return
	}
	pending, err := h.cfg.Door.Authenticate(r, "sqs")
	v1 := isV1(r)
	switch {
	case err != nil && v1:
		e.refuseV1(w, err)
		return
	case err != nil:
		e.refuse(w, err)
		return
	case v1:
		h.serveV1(w, r, &e, pending)
		return
	case e.protocol == noProtocol:
		e.refuse(w, errNotFound)
		return
	}
	c := &call{Context: r.Context(), h: h, http: r, w: w, attempt: &e}
	defer c.release()
	op, req, err := c.request(w, pending, e.protocol)
	if c.op = op; op != nil {
		e.action = op.Name
	}
	if err == nil {
		err = h.begin()
	}
	var resp response
	if err == nil {
		defer func() {
			if err != errParked {
				h.end()
			}
		}()
		if err = c.permit(op, req); err == nil {
			resp, err = op.serve(c, req)
		}
	}
	switch {
	case err == errParked:
	case err != nil && r.Context().Err() != nil:
		e.ends("ClientGone")
		panic(http.ErrAbortHandler) // to return would be to answer 200 [WIRE-28]
	case err != nil:
		e.refuse(w, err)
	default:
		e.succeed(w, op, resp)
	}
}

// begin takes up a request, or refuses it because too many are at work. [WIRE-27]
func (h *Handler) begin() error {
	n, most := h.working.Add(1), int64(h.cfg.RequestMax)
	if n > most && n-h.cfg.Broker.Metrics().Polls > most {
		h.end()
		return broker.ErrThrottled
	}
	return nil
}

func (h *Handler) end() { h.working.Add(-1) }

// headerSize returns how many bytes the request line and the headers have, about.
func headerSize(r *http.Request) int {
	n := len(r.Method) + len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, value := range values {
			n += len(name) + len(value) + 4
		}
	}
	return n
}

// request reads a request. The body that it came with is not kept.
func (c *call) request(w http.ResponseWriter, pending auth.Pending, p protocol) (*operation, sqswire.Shape, error) {
	body, err := c.h.read(w, c.http, pending)
	if err != nil {
		return nil, nil, err
	}
	c.body = body.held
	defer body.free()
	if c.principal, err = pending.Finish(body.bytes); err != nil {
		return nil, nil, err
	}
	return p.decode(c.h, c.http, body.bytes)
}

// A statusError is a refusal whose status is not the one of its code.
type statusError struct {
	error
	status int
}

var (
	errNotFound = statusError{sqswire.Errorf(sqswire.InvalidAction, "There is nothing here that a request of this form could mean. "+
		"Requests are POSTs of AWS JSON 1.0 to / with the header X-Amz-Target: AmazonSQS.<Action>, or forms with the parameter Action."),
		http.StatusNotFound} // [WIRE-24]
	errNoAction = statusError{sqswire.Errorf(sqswire.InvalidAction, "The request has no parameter Action."), http.StatusNotFound} // [XML-25]
	errTooLarge = statusError{sqswire.Errorf(sqswire.MalformedInput, "The request body is larger than 8 MiB."),
		http.StatusRequestEntityTooLarge}
	errHeaders = statusError{sqswire.Errorf(sqswire.MalformedInput, "The request line and the headers are larger than 64 KiB."),
		http.StatusRequestHeaderFieldsTooLarge}
	errTwoLengths = sqswire.Errorf(sqswire.MalformedInput,
		"The request has both Content-Length and Transfer-Encoding: send one of them.")
	errCutOff = sqswire.Errorf(sqswire.MalformedInput, "the body ended early")
)

// succeed answers what an operation has brought.
func (e *attempt) succeed(w http.ResponseWriter, op *operation, resp response) {
	var answer []byte
	if resp.size > 0 {
		answer = e.protocol.appendAnswer(make([]byte, 0, resp.size), op.Operation, resp.shape, e.id)
	} else {
		buf := buffers.Get().(*bytes.Buffer)
		defer recycle(buf)
		buf.Write(e.protocol.appendAnswer(buf.AvailableBuffer(), op.Operation, resp.shape, e.id))
		answer = buf.Bytes()
	}
	if resp.room != nil {
		resp.room.set(int64(len(answer))) // the messages themselves are not needed any more
	}
	e.h.write(w, http.StatusOK, e.protocol, answer)
	e.ends("")
}

// refuse answers an error.
func (e *attempt) refuse(w http.ResponseWriter, err error) {
	h, wire := e.h, wireError(err)
	status := wire.Info().Status
	var special statusError
	if errors.As(err, &special) {
		status = special.status
	}
	if wire.Code == sqswire.InternalFailure {
		h.cfg.Logger.Error("request failed", "error", err)
	}
	w.Header()["x-amzn-query-error"] = []string{wire.QueryError()}
	if special == errNoAction {
		h.write(w, status, queryXML, []byte(sqswire.UnknownOperationXML))
	} else {
		h.write(w, status, e.protocol, e.protocol.appendError(nil, wire, e.id))
	}
	e.ends(string(wire.Code))
}

// wireError turns whatever went wrong into an error of the protocol.
func wireError(err error) *sqswire.Error {
	var refusal *engine.Error
	var denial *auth.Error
	var special statusError
	switch {
	case errors.As(err, &refusal):
		return &sqswire.Error{Code: sqswire.ErrorCode(refusal.Code), Message: refusal.Message}
	case errors.As(err, &denial):
		return &sqswire.Error{Code: sqswire.ErrorCode(denial.Code), Message: denial.Message}
	case errors.As(err, &special):
		return sqswire.AsError(special.error)
	case errors.Is(err, broker.ErrThrottled):
		return sqswire.Errorf(sqswire.RequestThrottled, "Request is throttled.")
	case errors.Is(err, broker.ErrStopped), errors.Is(err, broker.ErrNoSpace):
		return sqswire.Errorf(sqswire.ServiceUnavailable, "%s", err.Error())
	}
	wire := sqswire.AsError(err)
	if wire.Code == sqswire.InternalFailure {
		// What went wrong is for the log. [ERR-1]
		return sqswire.Errorf(sqswire.InternalFailure, "The request failed for a reason inside the server: see its log.")
	}
	return wire
}

func (h *Handler) write(w http.ResponseWriter, status int, p protocol, body []byte) {
	header := w.Header()
	header["Content-Type"] = contentTypes[p]
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	writePaced(w, body)
}

// requestID returns a random UUID. Request ids are for finding an exchange again, not for guarding
// anything.
func requestID() string {
	var id engine.MessageID
	for i := range 2 {
		v := rand.Uint64()
		for j := range 8 {
			id[8*i+j] = byte(v >> (8 * j))
		}
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id.String()
}

// A response is a shape to encode, how large it will be about if that is known, and the room that an answer with messages holds.
type response struct {
	shape sqswire.Shape
	size  int
	room  *holding
}

func answer(shape sqswire.Shape) (response, error) { return response{shape: shape}, nil }

// do asks the broker.
func (c *call) do(op engine.Op) (engine.Result, error) { return c.h.cfg.Broker.Do(c, op) }

func hexOf(sum [16]byte) string { return hex.EncodeToString(sum[:]) }
