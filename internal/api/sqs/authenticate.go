package sqs

import (
	"cmp"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/door/credentials"
	"tenaq/internal/door/sigv4"
)

// A Principal is who a request comes from. Handlers ask for one, and only a Door, and authenticate, make them.
type Principal struct {
	account, id string
	region      string
	key         *credentials.Key // nil for everybody, without credentials
}

// Account is the account that the principal is of.
func (p Principal) Account() string { return p.account }

// ARN names the principal as errors, policies and STS do: a user, or without credentials the root user of the account.
func (p Principal) ARN() string {
	if p.key == nil {
		return "arn:aws:iam::" + p.account + ":root"
	}
	return p.key.ARN()
}

// UserID is the other name of the principal, which messages show as SenderId. [AUTH-40]
func (p Principal) UserID() string { return p.id }

// DoorConfig holds what a Door is told once.
type DoorConfig struct {
	// Credentials are the keys that requests must be signed with; nil lets everybody in.
	Credentials *credentials.Set

	// Account is whose queues an unauthenticated request means, Region the one that signatures must be for and that ARNs
	// show.
	Account, Region string

	// Hosts are the names a request may carry in its Host header without credentials; nil allows any. [AUTH-2]
	Hosts []string

	// Aliases are names that this server has for its clients and that a proxy replaces, with their ports. A signature may
	// be for any of them. [AUTH-36]
	Aliases []string
}

// A Door decides who a request comes from. It is the only place that does, for every API on an address.
type Door struct {
	cfg      DoorConfig
	verifier *sigv4.Verifier
	host     atomic.Pointer[string]
}

// NewDoor returns a door.
func NewDoor(cfg DoorConfig) *Door {
	return &Door{cfg: cfg, verifier: sigv4.New(sigv4.Config{Region: cfg.Region, Hosts: cfg.Aliases})}
}

// Pending is a request that may turn out to be valid: its signature cannot be verified before its body is read. The zero
// Pending is nobody's.
type Pending struct {
	door   *Door
	signed *sigv4.Request // nil without credentials
}

// Authenticate refuses requests that cannot be valid, before anything of their body is read. What is signed must be signed
// for the service: "sqs" for SQS and /v1, "monitoring" for CloudWatch, "sts" for STS. Without credentials any signature is
// let in, and what is checked is that the request does not come from a web page. Errors are for the client.
// [AUTH-2 to AUTH-5, AUTH-14]
func (d *Door) Authenticate(r *http.Request, service string) (Pending, error) {
	if d.cfg.Credentials == nil {
		if err := refuseWebPages(r, d.cfg.Hosts, &d.host); err != nil {
			return Pending{}, err
		}
		return Pending{door: d}, nil
	}
	signed, err := d.verifier.Parse(r, service)
	if err != nil {
		return Pending{}, signatureError(err)
	}
	if err := refuseAmbiguous(r); err != nil {
		return Pending{}, err
	}
	if d.cfg.Credentials.Find(signed.KeyID) == nil { // whoever has no key has no body to be waited for [AUTH-34]
		return Pending{}, sqswire.Errorf(sqswire.InvalidClientTokenID, "The security token included in the request is invalid.")
	}
	return Pending{d, signed}, nil
}

// Public refuses a request for what anybody may read, signed or not, if it comes from a web page. [AUTH-2]
func (d *Door) Public(r *http.Request) error {
	if d.cfg.Credentials != nil {
		return nil
	}
	return refuseWebPages(r, d.cfg.Hosts, &d.host)
}

// sources are those for which a body counts before its signature can be verified: the address it comes from, the key that
// it says it is signed with, and both together, so that one address cannot use up the share of a key that it only knows
// the name of. [WIRE-30]
func (p Pending) sources(r *http.Request) []string {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	if p.signed == nil {
		return []string{address}
	}
	return []string{address, p.signed.KeyID, address + pairMark + p.signed.KeyID}
}

// Finish makes the principal, or refuses the request. Body is the body as it came, before anything of it is understood or
// decompressed; nil when there is none.
func (p Pending) Finish(body []byte) (Principal, error) {
	switch {
	case p.door == nil:
		return Principal{}, sqswire.Errorf(sqswire.AccessDenied, "Nobody has decided who may ask.")
	case p.door.cfg.Credentials == nil:
		return Principal{account: p.door.cfg.Account, id: p.door.cfg.Account, region: p.door.cfg.Region}, nil
	}
	return p.door.verify(p.signed, body)
}

// refuseWebPages refuses what only a browser would send. Last has a memory of one: nearly all requests name the same host.
func refuseWebPages(r *http.Request, hosts []string, last *atomic.Pointer[string]) error {
	if known := last.Load(); known == nil || *known != r.Host {
		if !allowedHost(hosts, r.Host) {
			return sqswire.Errorf(sqswire.AccessDenied, "The Host %q is not one this server answers to: name it with --allowed-hosts.", r.Host)
		}
		host := strings.Clone(r.Host)
		last.Store(&host)
	}
	origin := r.Header.Get("Origin")
	if origin != "" {
		if u, err := url.Parse(origin); err != nil || !sameHost(u.Host, r.Host) {
			return errElsewhere
		}
	}
	if (origin == "" || r.Method == http.MethodGet || r.Method == http.MethodHead) && fromElsewhere(r) {
		return errElsewhere
	}
	return nil
}

var errElsewhere = sqswire.Errorf(sqswire.AccessDenied, "Requests from web pages of other origins are refused.") // [XML-37]

// allowedHost reports whether a host is one of those that are allowed: loopback names always are.
func allowedHost(hosts []string, host string) bool {
	if hosts == nil {
		return true
	}
	name := hostname(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() {
		return true
	}
	return slices.Contains(hosts, name)
}

// IsLoopbackHost reports whether a Host header names the machine itself, as a web page of elsewhere cannot, whatever
// address its name leads to.
func IsLoopbackHost(host string) bool { return allowedHost([]string{}, host) }

func sameHost(a, b string) bool { return strings.EqualFold(a, b) || hostname(a) == hostname(b) }

// hostname returns the host of a Host header without port, brackets and case.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// arn names a queue; without a name what stands for all of an account's.
func (p Principal) arn(account, name string) string {
	return "arn:aws:sqs:" + p.region + ":" + cut(cmp.Or(account, p.account)) + ":" + cut(name)
}
