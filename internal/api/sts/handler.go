// Package sts answers the one question of AWS STS that programs ask before they use a queue: which
// identity their credentials have. It serves GetCallerIdentity, in the Query protocol of
// 2011-06-15, as SDKs and the AWS CLI send it.
//
// What it guarantees: no body is read before the door has let the request in, and none is decoded
// before its signature is verified. The answer holds the identity of the caller and nothing else.
//
// It leaves authentication to auth. Its caller asks Is and IsUnsigned which requests are for STS.
package sts

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"tenaq/internal/api/wire"
	"tenaq/internal/door/auth"
)

const (
	// Action is the action that there is.
	Action = "GetCallerIdentity"

	apiVersion = "2011-06-15"
	namespace  = "https://sts.amazonaws.com/doc/" + apiVersion + "/"

	// bodyMax is the size of a request in bytes, of which one that is signed and means something
	// has a hundred.
	bodyMax = 16 << 10

	// peekMax is up to which size a body that is not signed is looked at to find out whether it is
	// for STS.
	peekMax = 1 << 10
)

// A Handler serves STS. It accepts every key: a caller needs no right to ask for its own identity.
// [AUTH-49]
type Handler struct{ door *auth.Door }

// New returns a handler behind a door.
func New(door *auth.Door) *Handler { return &Handler{door} }

// Is reports whether a request is for STS, by what can be seen before its body: the service that it
// is signed for, or the action in its address.
func Is(r *http.Request) bool {
	if r.Header.Get("X-Amz-Target") != "" {
		return false // no protocol of STS has one
	}
	if service := wire.SignedService(r); service != "" {
		return service == "sts"
	}
	return r.Method == http.MethodGet && strings.Contains(r.URL.RawQuery, "Action="+Action) &&
		r.URL.Query().Get("Action") == Action
}

// IsUnsigned reports whether a request that is not signed is for STS. It looks into the body of a
// small form, which can be read again afterwards.
func IsUnsigned(r *http.Request) bool {
	if r.Method != http.MethodPost || r.Header.Get("Authorization") != "" ||
		r.Header.Get("X-Amz-Target") != "" ||
		!auth.IsForm(r.Header.Get("Content-Type")) || r.ContentLength <= 0 ||
		r.ContentLength > peekMax {
		return false
	}
	var b strings.Builder
	_, err := io.Copy(&b, r.Body)
	rest := io.Reader(strings.NewReader(b.String()))
	if err != nil {
		rest = io.MultiReader(rest, failing{err})
	}
	r.Body = readCloser{rest, r.Body}
	form, err := url.ParseQuery(b.String())
	return err == nil && form.Get("Action") == Action
}

// A failing reader fails as the connection did.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

type readCloser struct {
	io.Reader
	io.Closer
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := answer{w: w, id: wire.RequestID(),
		json: strings.Contains(r.Header.Get("Accept"), "application/json")}
	identity, err := h.serve(w, r)
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client has left, and to return would be to answer 200
	}
	if err != nil {
		a.refuse(err)
		return
	}
	a.identity(identity)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) (p auth.Principal, err error) {
	pending, err := h.door.Authenticate(r, "sts")
	if err != nil {
		return p, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return p, &auth.Error{Code: "MalformedInput",
				Status:  http.StatusRequestEntityTooLarge,
				Message: "The body of the request is larger than 16 KiB."}
		}
		return p, badRequest("MalformedInput", "The body ended early.")
	}
	if p, err = pending.Finish(body); err != nil {
		return p, err
	}
	return p, checkAction(r, string(body))
}

func badRequest(code, message string) error {
	return &auth.Error{Code: code, Status: http.StatusBadRequest, Message: message}
}

// checkAction refuses everything but the one action there is.
func checkAction(r *http.Request, body string) error {
	form, err := url.ParseQuery(body)
	if err != nil || r.Method == http.MethodGet {
		form = url.Values{}
	}
	query := r.URL.Query()
	action, version := cmp.Or(form.Get("Action"), query.Get("Action")), cmp.Or(form.Get("Version"),
		query.Get("Version"), apiVersion)
	switch {
	case r.Method != http.MethodPost && r.Method != http.MethodGet, action == "":
		return badRequest("MissingAction", "The request is not a form with the parameter Action.")
	case action != Action || version != apiVersion:
		return badRequest("InvalidAction", fmt.Sprintf(
			"Could not find operation %s for version %s: this server has %s of version %s only.",
			wire.Cut(action), wire.Cut(version), Action, apiVersion))
	}
	return nil
}

// An answer is on its way to a client.
type answer struct {
	w    http.ResponseWriter
	id   string
	json bool
}

func (a answer) identity(p auth.Principal) {
	if a.json {
		a.write(http.StatusOK, wire.PlainJSONType,
			wire.AppendJSON(nil, wire.Object{{Name: Action + "Response", Tree: wire.Object{
				{Name: Action + "Result", Tree: wire.Object{
					{Name: "Account", Tree: p.Account()}, {Name: "Arn", Tree: p.ARN()},
					{Name: "UserId", Tree: p.UserID()},
				}},
				{Name: "ResponseMetadata", Tree: wire.Object{{Name: "RequestId", Tree: a.id}}},
			}}}))
		return
	}
	a.write(http.StatusOK, wire.XMLType, wire.ResultXML(namespace, Action, wire.Object{
		{Name: "Arn", Tree: p.ARN()}, {Name: "UserId", Tree: p.UserID()},
		{Name: "Account", Tree: p.Account()},
	}, a.id))
}

func (a answer) refuse(err error) {
	refusal, ok := errors.AsType[*auth.Error](err)
	if !ok {
		refusal = &auth.Error{Code: "AccessDenied", Status: http.StatusForbidden,
			Message: err.Error()}
	}
	fault := "Sender"
	if refusal.Status >= 500 {
		fault = "Receiver"
	}
	if a.json {
		a.write(refusal.Status, wire.PlainJSONType, wire.AppendJSON(nil, wire.Object{
			{Name: "Error", Tree: wire.Object{
				{Name: "Code", Tree: refusal.Code}, {Name: "Message", Tree: refusal.Message},
				{Name: "Type", Tree: fault},
			}},
			{Name: "RequestId", Tree: a.id},
		}))
		return
	}
	a.write(refusal.Status, wire.XMLType,
		wire.FailureXML(namespace, refusal.Code, refusal.Message, fault, a.id))
}

func (a answer) write(status int, kind []string, body []byte) {
	wire.SetRequestID(a.w, a.id)
	wire.Respond(a.w, status, kind, body)
}
