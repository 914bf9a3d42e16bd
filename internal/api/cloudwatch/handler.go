// Package cloudwatch serves the part of CloudWatch that alarms need, over HTTP: calls that put,
// describe and delete alarms, and that put and read metrics. It speaks the three protocols that
// clients of CloudWatch use: AWS Query, AWS JSON 1.0, and Smithy RPC v2 with CBOR.
//
// What it guarantees:
//
//   - No body is read before the door has let the request in. None is inflated or decoded before
//     its signature is verified, and no call runs that the caller's key does not allow.
//   - A request for something that is not offered is refused with a sentence that says what to use
//     instead. Members that CloudWatch itself does not know are ignored, as CloudWatch ignores
//     them.
//   - A request is bounded before it is decoded: bytes (compressed or not), parts, depth, and the
//     length of each list.
//   - A refused call has changed nothing, with two exceptions. DeleteAlarms deletes the alarms that
//     exist, as in CloudWatch. A PutMetricData with too many metrics keeps those that had room.
//   - Errors have the code, the status and the header that SDKs build their typed errors from.
//
// It leaves what alarms do, and which actions exist, to monitor; rules and metric math to alarm;
// and retention to series. Names, limits and errors are those of the service's model, and a test
// compares them. The members of requests and answers are the fields of the structs in
// shapes_alarm.go and shapes_metric.go; operation.go has the table of calls.
package cloudwatch

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"tenaq/internal/api/intake"
	"tenaq/internal/api/refusal"
	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/api/wire"
	"tenaq/internal/door/auth"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/observe/series"
)

// A Monitor keeps alarms and metrics. *monitor.Monitor is one.
type Monitor interface {
	// Put creates an alarm or replaces it.
	Put(d monitor.Definition) error
	// Delete deletes alarms, or none of them if one is not there.
	Delete(names ...string) error
	// Alarms returns the alarms that were put, by name.
	Alarms() []monitor.Status
	SetState(name string, s alarm.State, reason, data string) error
	EnableActions(enable bool, names ...string) error
	SetTags(name string, set map[string]string, remove []string) error
	// History returns the changes of states, the oldest first.
	History() []monitor.Change
	Series() *series.Store
	Now() time.Time
}

// Config configures a Handler. Monitor and Door are required.
type Config struct {
	Monitor Monitor

	// Door authenticates requests. Alarms belong to its account, and only keys of that account may
	// use them. [AUTH-14, AUTH-38]
	Door *auth.Door

	// Region is what ARNs show; us-east-1 when empty.
	Region string

	// Logger reports requests that failed inside the server; slog.Default() when nil.
	Logger *slog.Logger
}

// A Handler serves CloudWatch.
type Handler struct {
	cfg Config

	reading, decoding, computing places
}

// New returns a handler.
func New(cfg Config) *Handler {
	cfg.Region = cmp.Or(cfg.Region, "us-east-1")
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return &Handler{cfg: cfg, reading: make(places, readings), decoding: make(places, decodings),
		computing: make(places, computations)}
}

// Is reports whether a request that came to an address of several services is for CloudWatch. The
// target of AWS JSON and the path of RPC v2 name the service; of the others the signature does,
// which names it too.
func Is(r *http.Request) bool {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		return strings.HasPrefix(target, targetPrefix)
	}
	if strings.HasPrefix(r.URL.Path, pathPrefix) {
		return true
	}
	return wire.SignedService(r) == "monitoring"
}

// A call is one request on its way through the handler.
type call struct {
	context.Context
	*Handler
	op *operation
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := answer{w: w, protocol: protocolOf(r), id: wire.RequestID()}
	op, out, err := h.serve(w, r, a.protocol)
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client has left, and to return would be to answer 200
	}
	if err != nil {
		refused := refusalOf(err)
		if refused.Code == InternalServiceError {
			h.cfg.Logger.Error("CloudWatch request failed", "error", err)
		}
		a.refuse(err, refused)
		return
	}
	a.result(op, out)
}

func (h *Handler) serve(
	w http.ResponseWriter, r *http.Request, p protocol,
) (*operation, any, error) {
	pending, err := h.cfg.Door.Authenticate(r, "monitoring")
	if err != nil {
		return nil, nil, err
	}
	body, err := h.read(w, r)
	if err != nil {
		return nil, nil, err
	}
	defer body.release()
	principal, err := pending.Finish(body.bytes)
	if err != nil {
		return nil, nil, err
	}
	if err := body.decode(r); err != nil {
		return nil, nil, err
	}
	name, in, err := p.request(r, body.bytes)
	if err != nil {
		return nil, nil, err
	}
	op, ok := operations[name]
	if !ok {
		return nil, nil, notOffered(name)
	}
	if account := h.account(); principal.Account() != account {
		return nil, nil, &Error{AccessDenied,
			"Alarms belong to account " + account + ": use a key of that account."}
	}
	if err := principal.Authorize("cloudwatch:"+name, "*"); err != nil {
		return nil, nil, err
	}
	out, err := op.serve(&call{r.Context(), h, op}, in)
	return op, out, err
}

// account is the account that the alarms belong to.
func (h *Handler) account() string { return h.cfg.Door.Account() }

// Refuse answers a request with an error in the protocol of the request, without a Handler, and
// returns the code of the error.
func Refuse(w http.ResponseWriter, r *http.Request, err error) (code string) {
	refused := refusalOf(err)
	answer{w: w, protocol: protocolOf(r), id: wire.RequestID()}.refuse(err, refused)
	return string(refused.Code)
}

// refusalOf turns any error into one of the protocol. What is not expected here is an
// InternalServiceError.
func refusalOf(err error) *Error {
	var refused *Error
	var malformed *wire.Error
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &malformed):
		return &Error{Code(malformed.Code), malformed.Message}
	case errors.Is(err, monitor.ErrInvalid):
		return &Error{ValidationError,
			strings.TrimPrefix(err.Error(), monitor.ErrInvalid.Error()+": ")}
	case errors.Is(err, monitor.ErrNotFound):
		return &Error{ResourceNotFound, err.Error()}
	case errors.Is(err, monitor.ErrLimit):
		return &Error{LimitExceeded, err.Error()}
	}
	switch e := refusal.Of(err); e.Code {
	case sqswire.InternalFailure, sqswire.InternalError:
		return &Error{InternalServiceError, e.Message}
	case sqswire.RequestThrottled:
		return &Error{Throttling, e.Message}
	default:
		return &Error{Code(e.Code), e.Message}
	}
}

// An answer is on its way to a client.
type answer struct {
	w        http.ResponseWriter
	protocol protocol
	id       string
}

func (a answer) result(op *operation, out any) {
	kind, body := a.protocol.result(op, out, a.id)
	a.write(http.StatusOK, kind, body)
}

// refuse answers err as what it was turned into.
func (a answer) refuse(err error, e *Error) {
	info := e.info()
	fault := "Sender"
	if info.status >= 500 {
		fault = "Receiver"
	}
	a.w.Header()["x-amzn-query-error"] = []string{string(e.Code) + ";" + fault}
	status := info.status
	switch {
	case e == errTooLarge, errors.Is(err, intake.ErrTooLarge):
		status = http.StatusRequestEntityTooLarge
	case errors.Is(err, wire.ErrHeaders):
		status = http.StatusRequestHeaderFieldsTooLarge
	}
	refusal.Mark(a.w.Header(), err)
	kind, body := a.protocol.failure(e, fault, a.id)
	a.write(status, kind, body)
}

func (a answer) write(status int, kind []string, body []byte) {
	if a.protocol == rpcCBOR {
		a.w.Header()["smithy-protocol"] = []string{"rpc-v2-cbor"}
	}
	wire.SetRequestID(a.w, a.id)
	wire.Respond(a.w, status, kind, body)
}
