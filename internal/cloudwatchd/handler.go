// Package cloudwatchd is CloudWatch over HTTP, as far as alarms need it: alarms are put, looked at and deleted, metrics
// are put and read. It speaks the three protocols that clients of CloudWatch do, whichever a request is in: AWS Query,
// AWS JSON 1.0, and Smithy RPC v2 with CBOR.
//
// What it guarantees:
//
//   - No call runs, and no body is read, before Config.Authenticate has let the request pass. Without that function
//     every request is refused.
//   - What is asked for and not offered is refused with a sentence that says what to use instead; nothing that a caller
//     gave a meaning to is dropped. Members that CloudWatch itself does not know are ignored, as it ignores them.
//   - A request is bounded before it is understood: bytes (compressed or not), parts, depth, the length of each list.
//   - A call that is refused has changed nothing, with two exceptions: DeleteAlarms deletes the alarms that it finds, as
//     in CloudWatch, and a PutMetricData for which there are too many metrics keeps those that had room.
//   - Errors have the code, the status and the header that SDKs make their typed errors of.
//
// It leaves to monitor what alarms do and which actions there are, to alarm what a rule may be and metric math, to
// series what is kept and for how long. Names, limits and errors are those of the service's model, and a test holds them
// to it. The members of requests and answers are the fields of the structs in shapes_alarm.go and shapes_metric.go;
// operation.go has the list of calls.
package cloudwatchd

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tenaq/internal/alarm"
	"tenaq/internal/monitor"
	"tenaq/internal/series"
)

const (
	// bodyMax bounds the body of a request, as it comes and inflated. CloudWatch has the same limit.
	bodyMax = 1 << 20

	// small is the size up to which a body is not worth waiting for a place among those that are decoded.
	small = 64 << 10

	// readings and decodings are how many larger bodies may be on their way in at the same time, and how many may be
	// decoded, which takes many times the memory.
	readings  = 64
	decodings = 4

	// transferMax is how long a larger body may take on its way in, and an answer on its way out.
	transferMax = time.Minute
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
	Series() *series.Store
	Now() time.Time
}

// Config holds what a Handler is told once.
type Config struct {
	Monitor Monitor

	// Authenticate says whether a request may be answered at all. It is asked first. Its error is for the caller: an
	// *Error is answered as it is, another as AccessDenied with its text.
	Authenticate func(*http.Request) error

	// Compute evaluates the expressions of GetMetricData, as alarm.Compute does. Without it they are refused.
	Compute Compute

	// Account and Region are what ARNs show; 000000000000 and us-east-1 when empty.
	Account, Region string

	// Logger is told of requests that failed for a reason inside the server; slog.Default() when nil.
	Logger *slog.Logger
}

// A Handler serves CloudWatch.
type Handler struct {
	cfg Config

	reading, decoding, computing places
}

// Places are taken by sending and given back by receiving.
type places chan struct{}

// New returns a handler.
func New(cfg Config) *Handler {
	cfg.Account = cmp.Or(cfg.Account, "000000000000")
	cfg.Region = cmp.Or(cfg.Region, "us-east-1")
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Handler{cfg: cfg, reading: make(places, readings), decoding: make(places, decodings), computing: make(places, computations)}
}

// Is reports whether a request that came to an address of several services is for CloudWatch. The target of AWS JSON
// and the path of RPC v2 name the service; of the others the signature does, which names it too.
func Is(r *http.Request) bool {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		return strings.HasPrefix(target, targetPrefix)
	}
	if strings.HasPrefix(r.URL.Path, pathPrefix) {
		return true
	}
	_, scope, signed := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	if signed {
		scope, _, _ = strings.Cut(scope, ",")
	} else if strings.Contains(r.URL.RawQuery, "X-Amz-Credential=") {
		scope = r.URL.Query().Get("X-Amz-Credential")
	}
	// A scope is key/date/region/service/aws4_request, with another algorithm it is without a region.
	parts := strings.Split(strings.TrimSpace(scope), "/")
	return len(parts) >= 4 && parts[len(parts)-2] == "monitoring"
}

// A call is one request on its way through the handler.
type call struct {
	context.Context
	*Handler
	op *operation
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := answer{w: w, protocol: protocolOf(r), id: requestID()}
	op, out, err := h.serve(w, r, a.protocol)
	if r.Context().Err() != nil {
		return // nobody is there to read it
	}
	if err != nil {
		a.refuse(h.refusal(r, err))
		return
	}
	a.result(op, out)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, p protocol) (*operation, any, error) {
	if err := h.authenticate(r); err != nil {
		return nil, nil, err
	}
	body, release, err := h.body(w, r)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	name, in, err := p.request(r, body)
	if err != nil {
		return nil, nil, err
	}
	op, ok := operations[name]
	if !ok {
		return nil, nil, notOffered(name)
	}
	out, err := op.serve(&call{r.Context(), h, op}, in)
	return op, out, err
}

func (h *Handler) authenticate(r *http.Request) error {
	if h.cfg.Authenticate == nil {
		return &Error{AccessDenied, "Nothing here decides who may ask."}
	}
	err := h.cfg.Authenticate(r)
	var refusal *Error
	if err != nil && !errors.As(err, &refusal) {
		return &Error{AccessDenied, err.Error()}
	}
	return err
}

// refusal turns whatever went wrong into an error of the protocol.
func (h *Handler) refusal(r *http.Request, err error) *Error {
	var refusal *Error
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.Is(err, monitor.ErrInvalid):
		return &Error{ValidationError, strings.TrimPrefix(err.Error(), monitor.ErrInvalid.Error()+": ")}
	case errors.Is(err, monitor.ErrNotFound):
		return &Error{ResourceNotFound, err.Error()}
	case errors.Is(err, monitor.ErrLimit):
		return &Error{LimitExceeded, err.Error()}
	}
	h.cfg.Logger.Error("CloudWatch request failed", "error", err)
	return &Error{InternalServiceError, "The request failed for a reason inside the server: see its log."}
}

// body reads the body of a request. What a larger one takes up is given back by release.
func (h *Handler) body(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	if r.ContentLength > bodyMax {
		return nil, nil, errTooLarge
	}
	zipped := false
	switch encoding := r.Header.Get("Content-Encoding"); strings.ToLower(encoding) {
	case "", "identity":
	case "gzip":
		zipped = true
	default:
		return nil, nil, malformed("The Content-Encoding %q is not one this server reads: send gzip or none.", encoding)
	}
	var held []places
	release = func() {
		for _, p := range held {
			<-p
		}
	}
	take := func(p places) error {
		select {
		case p <- struct{}{}:
			held = append(held, p)
			return nil
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
	if r.ContentLength < 0 || r.ContentLength > small {
		if err := take(h.reading); err != nil {
			return nil, nil, err
		}
		conn := http.NewResponseController(w)
		conn.SetReadDeadline(time.Now().Add(transferMax))
		defer conn.SetReadDeadline(time.Time{})
	}
	body, err = read(http.MaxBytesReader(w, r.Body, bodyMax))
	if err == nil && (zipped || len(body) > small) {
		err = take(h.decoding) // a client that is slow has none of these
	}
	if err == nil && zipped {
		body, err = inflate(body)
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return body, release, nil
}

func read(r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(r)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, errTooLarge
	}
	if err != nil {
		return nil, malformed("The body ended early.")
	}
	return body, nil
}

func inflate(zipped []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, malformed("The body is not gzip, as its Content-Encoding says.")
	}
	body, err := io.ReadAll(io.LimitReader(z, bodyMax+1))
	if err != nil {
		return nil, malformed("The body cannot be inflated: %v.", err)
	}
	if len(body) > bodyMax {
		return nil, errTooLarge
	}
	return body, nil
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

func (a answer) refuse(e *Error) {
	info := catalogue[e.Code]
	fault := "Sender"
	if info.status >= 500 {
		fault = "Receiver"
	}
	a.w.Header()["x-amzn-query-error"] = []string{string(e.Code) + ";" + fault}
	status := info.status
	if e == errTooLarge {
		status = http.StatusRequestEntityTooLarge
	}
	kind, body := a.protocol.failure(e, fault, a.id)
	a.write(status, kind, body)
}

func (a answer) write(status int, kind string, body []byte) {
	header := a.w.Header()
	header["x-amzn-RequestId"] = []string{a.id}
	if a.protocol == rpcCBOR {
		header["smithy-protocol"] = []string{"rpc-v2-cbor"}
	}
	if kind != "" {
		header["Content-Type"] = []string{kind}
	}
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	if len(body) > small {
		http.NewResponseController(a.w).SetWriteDeadline(time.Now().Add(transferMax))
	}
	a.w.WriteHeader(status)
	a.w.Write(body)
}

// requestID returns a random UUID.
func requestID() string {
	var id [16]byte
	rand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
