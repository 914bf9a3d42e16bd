// Package auth decides who sends a request and what the sender may do. SQS, /v1, CloudWatch and STS
// share it.
//
// A Door authenticates in two steps, because a signature covers the body: Authenticate refuses what
// cannot be valid before any of the body is read, and Pending.Finish verifies the signature and
// makes the Principal. What a principal may do is decided by the patterns of its key
// (Principal.Authorize) and, on a queue, by the queue's policy as well (Policies.Allow).
//
// What the package guarantees:
//
//   - Only a Door makes a Principal, and only from a request that it has accepted.
//   - A refusal does not reveal whether a queue of another account exists. [AUTH-20]
//   - An unknown key costs the same work as a known one with the wrong signature. [AUTH-9, AUTH-34]
//   - Sessions of pages, users of a proxy and tokens are accepted for /v1 only. [V1-7, CONSOLE-10,
//     CONSOLE-19]
//   - The header of a proxy is trusted only from the peers that the credentials file names.
//     [CONSOLE-19]
//
// It leaves signatures to sigv4, keys to credentials, the language of policies to policy, and the
// form of an error response to its callers.
package auth

import (
	"crypto/sha256"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"tenaq/internal/door/credentials"
	"tenaq/internal/door/sigv4"
)

// An Error is a refusal, meant for the client. Its code is one that every AWS service has.
type Error = sigv4.Error

func denied(message string) *Error {
	return &Error{Code: "AccessDenied", Status: http.StatusForbidden, Message: message}
}

// Config configures a Door.
type Config struct {
	// Credentials are the keys that requests must be signed with; nil accepts unsigned requests.
	Credentials *credentials.Set

	// Account owns the queues that an unsigned request means. Region is the one that signatures
	// must be for and that ARNs show.
	Account, Region string

	// Hosts are the names that the Host header of an unsigned request may carry; nil allows any.
	// [AUTH-2]
	Hosts []string

	// Aliases are host names, with their ports, that a proxy in front of this server replaces. A
	// signature may be for any of them. [AUTH-36]
	Aliases []string

	// Sessions lets pages sign in for /v1. ReadOnlyPages lets no page change anything, and without
	// credentials leaves browsers only what reads /v1.
	// [CONSOLE-10, CONSOLE-14]
	Sessions, ReadOnlyPages bool
}

// A Door authenticates the requests of every API on an address.
type Door struct {
	cfg      Config
	verifier *sigv4.Verifier
	host     atomic.Pointer[string] // that the last request named
	tokens   atomic.Pointer[[]byte] // the secret of tokens; nil before there is one
	sessions sessions
}

// New returns a door.
func New(cfg Config) *Door {
	return &Door{cfg: cfg, verifier: sigv4.New(sigv4.Config{Region: cfg.Region,
		Hosts: cfg.Aliases})}
}

// Account is the server's own account, which unsigned requests use.
func (d *Door) Account() string { return d.cfg.Account }

// Keys are those that requests can be signed with; nil if they need not be.
func (d *Door) Keys() []*credentials.Key {
	if d.cfg.Credentials == nil {
		return nil
	}
	return d.cfg.Credentials.Keys()
}

// Pending is a request that may turn out to be valid: its signature cannot be verified before its
// body is read. The zero Pending is refused.
type Pending struct {
	door    *Door
	signed  *sigv4.Request // nil without credentials, and with one of those below
	bearer  *bearer        // nil without a token
	session *session       // nil without a session
	proxied *proxied       // nil unless a proxy names the user
	signIn  *signIn        // nil unless it begins a session
}

// Authenticate refuses requests that cannot be valid, before any of their body is read. A signature
// must be for the service: "sqs" for SQS and /v1, "monitoring" for CloudWatch, "sts" for STS.
// Without credentials any signature is accepted, and the check is that the request does not come
// from a web page. Errors are of type *Error. [AUTH-2 to AUTH-5, AUTH-14]
func (d *Door) Authenticate(r *http.Request, service string) (Pending, error) {
	if d.cfg.Credentials == nil {
		if d.cfg.ReadOnlyPages && isBrowser(r) { // pages use /v1 only
			return Pending{}, errReadOnly
		}
		return d.unsigned(r)
	}
	signed, err := d.verifier.Parse(r, service)
	switch {
	case err != nil && bearerOf(r) != nil: // [V1-7]
		return Pending{}, denied("A bearer token is for /v1 only: sign other requests with a key.")
	case err != nil:
		return Pending{}, err
	}
	if err := refuseAmbiguous(r); err != nil {
		return Pending{}, err
	}
	// the body of an unknown key is not waited for [AUTH-34]
	if d.cfg.Credentials.Find(signed.KeyID) == nil {
		return Pending{}, &Error{Code: sigv4.InvalidClientTokenID,
			Status:  http.StatusForbidden,
			Message: "The security token included in the request is invalid."}
	}
	return Pending{door: d, signed: signed}, nil
}

// unsigned is Authenticate without credentials.
func (d *Door) unsigned(r *http.Request) (Pending, error) {
	if err := refuseWebPages(r, d.cfg.Hosts, &d.host); err != nil {
		return Pending{}, err
	}
	return Pending{door: d}, nil
}

// Public refuses a request for something that is open to everyone if it comes from a web page.
// [AUTH-2]
func (d *Door) Public(r *http.Request) error {
	if d.cfg.Credentials != nil {
		return nil
	}
	return refuseWebPages(r, d.cfg.Hosts, &d.host)
}

// Page is Public for a page that links lead to, which has no data: a browser may follow a link from
// anywhere to it. [CONSOLE-5]
func (d *Door) Page(r *http.Request) error {
	if d.cfg.Credentials == nil && isNavigation(r) && (allowedHost(d.cfg.Hosts, r.Host) ||
		r.Context().Value(forwardedKey{}) != nil) {
		return nil
	}
	return d.Public(r)
}

// Sources are the parties that a body counts against before its signature can be verified: the
// address that it comes from and the key that it claims, empty without credentials. [WIRE-30]
func (p Pending) Sources(r *http.Request) (address, key string) {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	switch {
	case p.signed != nil:
		key = p.signed.KeyID
	case p.bearer != nil:
		key = p.bearer.keyID
	}
	return address, key
}

// Finish makes the principal, or refuses the request. Body is the body as it was received, before
// it is decoded or decompressed; nil when there is none. Errors are of type *Error. [V1-23]
func (p Pending) Finish(body []byte) (Principal, error) {
	who, err := p.finish(body)
	if err == nil && who.key != nil {
		who.key.Use()
	}
	return who, err
}

func (p Pending) finish(body []byte) (Principal, error) {
	switch {
	case p.door == nil:
		return Principal{}, denied("The request was not authenticated.")
	case p.door.cfg.Credentials == nil:
		return Principal{account: p.door.cfg.Account, id: p.door.cfg.Account,
			region: p.door.cfg.Region}, nil
	case p.bearer != nil:
		return p.door.verifyToken(p.bearer)
	case p.session != nil:
		return p.door.verifySession(p.session)
	case p.proxied != nil:
		return p.door.verifyProxied(p.proxied)
	case p.signIn != nil:
		return p.door.verifySignIn(p.signIn, body)
	}
	return p.door.verify(p.signed, body)
}

// verify makes the principal of a signed request. It does the same work for a known key and an
// unknown one. [AUTH-7 to AUTH-16, AUTH-34, AUTH-40]
func (d *Door) verify(signed *sigv4.Request, body []byte) (Principal, error) {
	key := d.cfg.Credentials.Find(signed.KeyID)
	var secrets *sigv4.Key
	if key != nil {
		secrets = &sigv4.Key{Secret: key.Secret.Reveal(), Token: key.Token.Reveal(),
			Expires: key.Expires}
	}
	if err := signed.Verify(secrets, sha256.Sum256(body)); err != nil {
		return Principal{}, err
	}
	return Principal{account: key.Account, id: key.UserID(), region: d.cfg.Region, key: key}, nil
}

// refuseAmbiguous refuses a request of the JSON protocol whose body would be read as a form.
// Clients need not sign Content-Type, so a proxy that changes it could make parameters of the text
// of a message. The other way round there is no X-Amz-Target, which is always signed. [AUTH-41]
func refuseAmbiguous(r *http.Request) error {
	kinds := r.Header["Content-Type"]
	if r.Header.Get("X-Amz-Target") != "" &&
		(len(kinds) > 1 || len(kinds) == 1 && IsForm(kinds[0])) {
		return denied("A request with the header X-Amz-Target must have a JSON body: send Content-Type: application/x-amz-json-1.0.")
	}
	return nil
}

// IsForm reports whether a Content-Type is that of a form, which carries the Query protocol.
func IsForm(kind string) bool {
	kind, _, _ = strings.Cut(kind, ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/x-www-form-urlencoded")
}
