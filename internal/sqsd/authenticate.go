package sqsd

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"tenaq/internal/sqswire"
)

// A Principal is who a request comes from. Handlers ask for one, and only authenticate makes them.
type Principal struct{ account, id string }

// authenticate decides who a request comes from. Without credentials that is everybody who can reach
// the server; what is checked then is that the request does not come from a web page that a browser on
// this machine happens to show. A signature is not looked at. [AUTH-2, AUTH-3, AUTH-4]
func (h *Handler) authenticate(r *http.Request) (Principal, error) {
	if !h.knownHost(r.Host) {
		return Principal{}, sqswire.Errorf(sqswire.AccessDenied,
			"The Host %q is not one this server answers to: name it with --allowed-hosts.", r.Host)
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || !sameHost(u.Host, r.Host) {
			return Principal{}, sqswire.Errorf(sqswire.AccessDenied, "Requests from web pages of other origins are refused.")
		}
	}
	return Principal{account: h.cfg.Account, id: h.cfg.Account}, nil
}

// Authenticate reports why a request is not let in, for handlers of other APIs on the same address.
func (h *Handler) Authenticate(r *http.Request) error {
	_, err := h.authenticate(r)
	return err
}

// knownHost is allowedHost with a memory of one: nearly all requests name the same host.
func (h *Handler) knownHost(host string) bool {
	if last := h.host.Load(); last != nil && *last == host {
		return true
	}
	allowed := h.allowedHost(host)
	if allowed {
		host = strings.Clone(host)
		h.host.Store(&host)
	}
	return allowed
}

// allowedHost reports whether a request may carry this Host header: loopback names always may.
func (h *Handler) allowedHost(host string) bool {
	if h.cfg.Hosts == nil {
		return true
	}
	name := hostname(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() {
		return true
	}
	return slices.Contains(h.cfg.Hosts, name)
}

func sameHost(a, b string) bool { return strings.EqualFold(a, b) || hostname(a) == hostname(b) }

// hostname returns the host of a Host header without port, brackets and case.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}
