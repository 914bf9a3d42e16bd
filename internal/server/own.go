package server

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"tenaq/internal/api/cloudwatch"
	"tenaq/internal/api/sqs"
	"tenaq/internal/api/sts"
	"tenaq/internal/api/v1"
)

// Actions returns all actions that a key can be allowed, such as sqs:SendMessage.
func Actions() []string {
	return slices.Concat(sqs.Actions(), v1.Actions(), cloudwatch.Actions(),
		[]string{"sts:" + sts.Action})
}

// URL returns the address at which this process reaches the SQS API, even if that listens on all
// addresses.
func (s *Server) URL() string { return s.reachable(s.Addr()) }

// reachable makes a URL of a listen address.
func (s *Server) reachable(addr string) string {
	if host, port, err := net.SplitHostPort(addr); err == nil && net.ParseIP(host).IsUnspecified() {
		addr = net.JoinHostPort("127.0.0.1", port)
	}
	if s.certificate != nil {
		return "https://" + addr
	}
	return "http://" + addr
}

// HTTPClient returns a client for URL. Over TLS it accepts exactly the certificate of the server,
// regardless of its names.
func (s *Server) HTTPClient() *http.Client {
	t := &http.Transport{DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}
	if s.certificate != nil {
		t.TLSClientConfig = s.certificate.trust()
	}
	return &http.Client{Transport: t}
}

// Reload reloads the credentials and the certificate, if the server has them. What cannot be read
// stays as it was, and the error says so. It may be called at any time. [AUTH-39]
func (s *Server) Reload() error {
	var failed []error
	if keys := s.cfg.Credentials; keys != nil {
		if err := keys.Reload(); err != nil {
			failed = append(failed, err)
		} else {
			s.cfg.Logger.Info("credentials reloaded", "keys", keys.Len())
		}
	}
	if s.certificate != nil {
		if err := s.certificate.reload(); err != nil {
			failed = append(failed, fmt.Errorf("%w; the earlier one stays in use", err))
		}
	}
	return errors.Join(failed...)
}
