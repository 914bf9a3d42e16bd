package auth

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
)

var errElsewhere = denied("Requests from web pages of other origins are refused.") // [AUTH-3]

// refuseWebPages refuses requests that only a browser would send. Last remembers one host, because
// nearly all requests name the same.
func refuseWebPages(r *http.Request, hosts []string, last *atomic.Pointer[string]) error {
	if known := last.Load(); known == nil || *known != r.Host {
		switch {
		case allowedHost(hosts, r.Host):
			host := strings.Clone(r.Host)
			last.Store(&host)
		case r.Context().Value(forwardedKey{}) == nil:
			return denied(fmt.Sprintf("This server does not accept the Host %q: add it with --allowed-hosts.", r.Host))
		}
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || hostname(u.Host) != hostname(r.Host) {
			return errElsewhere
		}
	}
	if fromElsewhere(r) {
		return errElsewhere
	}
	return nil
}

type forwardedKey struct{}

// Forwarded marks a request whose Host another node of the cluster has accepted: only that node
// knows by which names its clients reach it. [AUTH-2]
func Forwarded(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), forwardedKey{}, true))
}

// fromElsewhere reports whether a browser makes a request for a page of another origin, port
// included. A GET for an image or a link, and in some browsers a form, carries no Origin, but could
// still delete a queue. Browsers name the origin in one of these headers, which other clients do
// not send. Some do not when they open a WebSocket; no page of the server opens one. [AUTH-3,
// XML-37]
func fromElsewhere(r *http.Request) bool {
	if r.Header.Get("Sec-WebSocket-Key") != "" {
		return true
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-site", "cross-site":
		return true
	case "same-origin", "none": // none is the address line
		return false
	}
	page, err := url.Parse(cmp.Or(r.Header.Get("Origin"), r.Header.Get("Referer")))
	return err != nil || page.Host != "" && !strings.EqualFold(page.Host, r.Host)
}

// isBrowser reports whether a browser shows that it makes the request, for a page or from its
// address line. SDKs and curl send none of these headers. A browser may leave out all of them in a
// GET over plain HTTP to another machine. [CONSOLE-14]
func isBrowser(r *http.Request) bool {
	return len(r.Header["Sec-Fetch-Site"]) > 0 || len(r.Header["Origin"]) > 0 ||
		len(r.Header["Referer"]) > 0
}

// isNavigation reports whether a browser follows a link, in a window of its own and not in a frame.
func isNavigation(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document"
}

// allowedHost reports whether a Host header is allowed. Loopback names always are.
func allowedHost(hosts []string, host string) bool {
	return hosts == nil || IsLoopback(host) || slices.Contains(hosts, hostname(host))
}

// IsLoopback reports whether a Host header names the machine itself. The page of another site
// cannot send such a header, whatever address its name resolves to.
func IsLoopback(host string) bool {
	name := hostname(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}

// hostname returns the host of a Host header without port, brackets and case.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}
