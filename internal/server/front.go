package server

import (
	"fmt"
	"net"
	"net/http"
	"strings"
)

// frontPage answers / on both addresses with a short text for a person: what runs here, and where
// to look. On the address of the SQS API anyone may read it, so where requests must be signed it
// has neither the version nor the admin address.
func (s *Server) frontPage(w http.ResponseWriter, r *http.Request, admin bool) {
	var b strings.Builder
	open := admin || s.cfg.Credentials == nil
	b.WriteString("tenaq")
	if open && s.cfg.Version != "" {
		b.WriteString(" " + s.cfg.Version)
	}
	sqs := s.cfg.PublicURL
	if sqs == "" {
		scheme, _, _ := strings.Cut(s.URL(), "://")
		sqs = scheme + "://" + reached(s.Addr(), r.Host)
	}
	fmt.Fprintf(&b, ": a queue that speaks the Amazon SQS protocol\n\nSQS API:  %s\n", sqs)
	if s.cfg.Console == "on" {
		fmt.Fprintf(&b, "  console  %s/console/\n", sqs)
	}
	fmt.Fprintf(&b, "  queues   %s/v1/queues\n  alarms   %[1]s/v1/alarms\n", sqs)
	if a := s.AdminAddr(); open && a != "" {
		a = reached(a, r.Host)
		fmt.Fprintf(&b, "Admin:    http://%s\n  alive    http://%[1]s/livez\n  ready    http://%[1]s/readyz\n  metrics  http://%[1]s/metrics\n", a)
	}
	b.WriteString("\nPoint clients here with AWS_ENDPOINT_URL_SQS=" + sqs +
		"\nTry: tenaq peek --endpoint-url " + sqs + "\n")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(b.String()))
}

// reached returns a listen address as a client can use it. If the server listens on all addresses,
// that is the name that the client used for the machine.
func reached(listens, asked string) string {
	host, port, err := net.SplitHostPort(listens)
	if err != nil || !net.ParseIP(host).IsUnspecified() {
		return listens
	}
	name, _, err := net.SplitHostPort(asked)
	if err != nil {
		name = strings.Trim(asked, "[]")
	}
	return net.JoinHostPort(name, port)
}

// isFront reports whether a request can only be for the front page: a GET of / without a query,
// which the Query protocol would need, without a target and without a signature. [WIRE-33]
func isFront(r *http.Request) bool {
	_, target := r.Header["X-Amz-Target"]
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.URL.Path == "/" &&
		r.URL.RawQuery == "" && !target &&
		r.Header.Get("Authorization") == "" && r.ContentLength == 0
}
