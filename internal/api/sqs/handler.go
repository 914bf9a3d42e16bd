package sqs

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"tenaq/internal/api/framing"
	"tenaq/internal/api/handle"
	"tenaq/internal/api/intake"
	"tenaq/internal/api/refusal"
	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/api/suspend"
	"tenaq/internal/api/wire"
	"tenaq/internal/broker"
	"tenaq/internal/door/auth"
	"tenaq/internal/engine"
)

// Config configures a Handler. Broker, Sealer, Logger and Door are required.
type Config struct {
	Broker *broker.Broker
	Sealer *handle.Sealer
	Logger *slog.Logger

	// Door authenticates requests, and Policies decides what their senders may do. When Policies is
	// nil, the policies are those of the Broker.
	Door     *auth.Door
	Policies *auth.Policies

	// Intake bounds the requests in progress and their memory. When nil, the handler makes one of
	// its own.
	Intake *intake.Intake

	// PublicURL begins every queue URL; when empty it is taken from the request. [QUEUE-36]
	PublicURL string

	// Rejoin lets the HTTP server serve a connection again on which a suspended poll was answered;
	// ahead is what was already read from it. When nil, polls wait as handlers of the HTTP server,
	// which takes several times the memory. If Rejoin is set, the caller must call Drain and
	// Shutdown. IdleMax is how long such a connection may wait for its next request, 2 minutes when
	// zero.
	Rejoin  func(conn net.Conn, ahead []byte)
	IdleMax time.Duration
}

// A Handler serves the SQS API.
type Handler struct {
	cfg       Config
	suspended *suspend.Set
	waiting   atomic.Int64 // polls in handlers
}

// New returns a handler.
func New(cfg Config) *Handler {
	if cfg.Policies == nil {
		cfg.Policies = auth.NewPolicies(cfg.Broker, cfg.Logger)
	}
	if cfg.Intake == nil {
		cfg.Intake = intake.New(intake.Config{Polls: func() int64 {
			return cfg.Broker.Metrics().Polls
		}})
	}
	return &Handler{cfg: cfg,
		suspended: suspend.New(suspend.Config{Rejoin: cfg.Rejoin, IdleMax: cfg.IdleMax})}
}

// An attempt is a request on its way to an answer.
type attempt struct {
	h        *Handler
	from     time.Time
	protocol protocol
	id       string // of the request
	action   string // empty until it is known
}

// ends counts the attempt under the code of its error, empty for success.
func (e *attempt) ends(code string) { e.h.cfg.Intake.Ends.Add(e.action, code, e.from) }

// A call is one request on its way through the handler.
type call struct {
	context.Context
	h         *Handler
	http      *http.Request
	principal auth.Principal

	// For polls, which may have to continue without their handler.
	w       http.ResponseWriter
	attempt *attempt
	op      *operation // nil until it is known

	body *intake.Holding // of a request that is not a poll
	room *intake.Holding // for the answer to a poll
}

// release gives back what the call holds. A suspended poll keeps the room.
func (c *call) release() {
	c.body.Release()
	c.room.Release()
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := attempt{h: h, from: time.Now(), protocol: protocolOf(r), id: wire.RequestID()}
	wire.SetRequestID(w, e.id)
	if framing.Ambiguous(r) {
		w.Header().Set("Connection", "close")
		e.refuse(w, errTwoLengths)
		return
	}
	if wire.HeadersTooLarge(r) {
		e.refuse(w, wire.ErrHeaders)
		return
	}
	pending, err := h.cfg.Door.Authenticate(r, "sqs")
	if err == nil && e.protocol == noProtocol {
		err = errNotFound
	}
	if err != nil {
		e.refuse(w, err)
		return
	}
	c := &call{Context: r.Context(), h: h, http: r, w: w, attempt: &e}
	defer c.release()
	op, req, err := c.request(w, pending, e.protocol)
	if c.op = op; op != nil {
		e.action = op.Name
	}
	if err == nil {
		err = h.cfg.Intake.Begin()
	}
	var resp response
	if err == nil {
		defer func() {
			if err != errSuspended {
				h.cfg.Intake.End()
			}
		}()
		if err = c.permit(op, req); err == nil {
			resp, err = op.serve(c, req)
		}
	}
	switch {
	case err == errSuspended:
	case err != nil && r.Context().Err() != nil:
		e.ends("ClientGone")
		panic(http.ErrAbortHandler) // to return would be to answer 200 [WIRE-28]
	case err != nil:
		e.refuse(w, err)
	default:
		e.succeed(w, op, resp)
	}
}

// request reads a request. The body that it came with is not kept.
//
// Under overload a request that the broker would refuse is refused here if its head names its
// operation: its body is neither decoded nor counted, and its signature is not verified. So the
// sender, who may be a stranger with a known key id, learns that the server is busy and nothing
// else. [DUR-25]
func (c *call) request(
	w http.ResponseWriter, pending auth.Pending, p protocol,
) (*operation, sqswire.Shape, error) {
	if op := p.named(c.http); op != nil && c.h.isBusy(op, c.http) {
		if !c.h.cfg.Intake.Discard(w, c.http) {
			return op, nil, intake.ErrCutOff
		}
		return op, nil, broker.ErrThrottled
	}
	body, err := c.h.cfg.Intake.Read(w, c.http, pending)
	if err != nil {
		return nil, nil, err
	}
	c.body = body.Held
	defer body.Free()
	if c.principal, err = pending.Finish(body.Bytes); err != nil {
		return nil, nil, err
	}
	return p.decode(c.h, c.http, body.Bytes)
}

// isBusy reports whether the broker would refuse a request for overload. What a message takes is
// about the size of its request.
func (h *Handler) isBusy(op *operation, r *http.Request) bool {
	size := int64(0)
	if op.class == engine.ClassSend {
		size = r.ContentLength
	}
	return r.ContentLength <= intake.BodyMax && h.cfg.Broker.IsFull(op.class, size)
}

// A statusError is a refusal whose status is not the one of its code.
type statusError struct {
	error
	status int
}

func (e statusError) Unwrap() error { return e.error }

var (
	errNotFound = statusError{sqswire.Errorf(sqswire.InvalidAction,
		"This is not a request of the SQS API. "+
			"Send a POST of AWS JSON 1.0 to / with the header X-Amz-Target: AmazonSQS.<Action>, or a form with the parameter Action."),
		http.StatusNotFound} // [WIRE-24]
	errNoAction = statusError{sqswire.Errorf(sqswire.InvalidAction,
		"The request has no parameter Action."), http.StatusNotFound} // [XML-25]
	errTwoLengths = sqswire.Errorf(sqswire.MalformedInput,
		"The request has both Content-Length and Transfer-Encoding: send one of them.")
)

func (e *attempt) succeed(w http.ResponseWriter, op *operation, resp response) {
	var answer []byte
	if resp.size > 0 {
		answer = e.protocol.appendAnswer(make([]byte, 0, resp.size), op.Operation, resp.shape, e.id)
	} else {
		buf := intake.Buffer()
		defer intake.Recycle(buf)
		buf.Write(e.protocol.appendAnswer(buf.AvailableBuffer(), op.Operation, resp.shape, e.id))
		answer = buf.Bytes()
	}
	if resp.room != nil {
		resp.room.Set(int64(len(answer))) // the messages themselves are no longer needed
	}
	wire.Respond(w, http.StatusOK, contentTypes[e.protocol], answer)
	e.ends("")
}

// throttled is the answer to JSON requests that are refused for overload. It is encoded once,
// because the server gives it when it has the least time.
var throttled = func() (t struct {
	code          sqswire.ErrorCode
	status        int
	query, length []string
	body          []byte
}) {
	refused := refusal.Of(broker.ErrThrottled)
	t.code, t.status = refused.Code, refusal.Status(broker.ErrThrottled, refused)
	t.query, t.body = []string{refused.QueryError()}, awsJSON.appendError(nil, refused, "")
	t.length = []string{strconv.Itoa(len(t.body))}
	return t
}()

func (e *attempt) throttle(w http.ResponseWriter) {
	header := w.Header()
	header["Content-Type"], header["Content-Length"] = wire.JSONType, throttled.length
	header["x-amzn-query-error"] = throttled.query
	w.WriteHeader(throttled.status)
	intake.Write(w, throttled.body)
	e.ends(string(throttled.code))
}

// refuse answers an error.
func (e *attempt) refuse(w http.ResponseWriter, err error) {
	if err == broker.ErrThrottled && e.protocol == awsJSON {
		e.throttle(w)
		return
	}
	refused := refusal.Of(err)
	if refused.Code == sqswire.InternalFailure {
		e.h.cfg.Logger.Error("request failed", "error", err)
	}
	e.protocol.refuse(w, err, refused, e.id)
	e.ends(string(refused.Code))
}

// Refuse answers a request with an error in the protocol of the request, without a Handler, and
// returns the code of the error.
func Refuse(w http.ResponseWriter, r *http.Request, err error) (code string) {
	id, refused := wire.RequestID(), refusal.Of(err)
	wire.SetRequestID(w, id)
	protocolOf(r).refuse(w, err, refused, id)
	return string(refused.Code)
}

// refuse answers err as what it was turned into.
func (p protocol) refuse(w http.ResponseWriter, err error, refused *sqswire.Error, id string) {
	status := refusal.Status(err, refused)
	var special statusError
	if errors.As(err, &special) {
		status = special.status
	}
	refusal.Mark(w.Header(), err)
	w.Header()["x-amzn-query-error"] = []string{refused.QueryError()}
	if special == errNoAction {
		wire.Respond(w, status, wire.XMLType, []byte(sqswire.UnknownOperationXML))
		return
	}
	wire.Respond(w, status, contentTypes[p], p.appendError(nil, refused, id))
}

// A response is a shape to encode, how large it will be about if that is known, and the room that
// an answer with messages holds.
type response struct {
	shape sqswire.Shape
	size  int
	room  *intake.Holding
}

func answer(shape sqswire.Shape) (response, error) { return response{shape: shape}, nil }

func (c *call) do(op engine.Op) error { return c.h.cfg.Broker.Do(c, op) }

func hexOf(sum [16]byte) string { return hex.EncodeToString(sum[:]) }
