package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"tenaq/internal/api/framing"
	"tenaq/internal/api/http1"
	"tenaq/internal/api/sqs"
	"tenaq/internal/api/sts"
	"tenaq/internal/api/v1"
	"tenaq/internal/console"
	"tenaq/internal/door/auth"
)

// services serves all APIs behind the same door.
func (s *Server) services() http.Handler {
	identity := sts.New(s.door)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// With credentials, an unsigned request is refused by every API.
		if sts.Is(r) || s.cfg.Credentials == nil && sts.IsUnsigned(r) {
			identity.ServeHTTP(w, r)
			return
		}
		s.answer(w, r, s.relay)
	})
}

// answer answers a request of any API but STS, which needs no store, or leaves it to absent while
// another node writes the store. Each node can say how the cluster is.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, absent http.Handler) {
	v := s.writer.Load()
	switch {
	case s.node != nil && v1.IsCluster(r) &&
		(v != nil || r.Method == http.MethodGet && !auth.IsSession(r)): // the leader knows sessions
		s.cluster.ServeHTTP(w, r)
	case v != nil:
		v.ServeHTTP(w, r)
	default:
		absent.ServeHTTP(w, r)
	}
}

// withHealth serves LocalStack's health page and the front page beside the SQS API. Anyone may read
// them.
func (s *Server) withHealth(api, health http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.cfg.Console == "on" && console.Is(r) {
			s.serveConsole(w, r)
			return
		}
		front := isFront(r)
		if r.URL.Path != "/_localstack/health" && !front {
			api.ServeHTTP(w, r)
			return
		}
		if forbidden(w, s.door.Public(r)) {
			return
		}
		if front {
			s.frontPage(w, r, false)
			return
		}
		health.ServeHTTP(w, r)
	})
}

// forbidden answers an error of the door, and reports whether there was one.
func forbidden(w http.ResponseWriter, err error) bool {
	if err == nil {
		return false
	}
	refusal, _ := errors.AsType[*auth.Error](err)
	http.Error(w, refusal.Message, http.StatusForbidden)
	return true
}

// oneLength makes the SQS API refuse every request whose end is ambiguous, no matter which API it
// is for. [WIRE-32]
func (s *Server) oneLength(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if framing.Ambiguous(r) {
			w.Header().Set("Connection", "close")
			sqs.Refuse(w, r, sqs.Check(r))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// noWebPages protects an admin address on loopback from web pages: a foreign name that resolves to
// a loopback address is not a name of this machine. Any name is accepted when the admin address is
// open to other machines.
func (s *Server) noWebPages(h http.Handler) http.Handler {
	if loopback, err := isLoopback(s.cfg.AdminListen); err != nil || !loopback {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !auth.IsLoopback(r.Host) {
			http.Error(w, "The admin address accepts only names of this machine, such as localhost, as Host.",
				http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// counted counts the requests in progress: the store must outlive them, including those whose
// connections a stop has cut.
func (s *Server) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handlers.Add(1)
		defer s.handlers.Done()
		defer s.logPanic()
		h.ServeHTTP(w, r)
	})
}

// logPanic logs the panic of a handler, and lets it continue as one that only closes the
// connection: what the HTTP server says of it has the level DEBUG, as what clients do wrong.
func (s *Server) logPanic() {
	v := recover()
	if v == nil {
		return
	}
	if v != http.ErrAbortHandler {
		s.cfg.Logger.Error("request failed", "error",
			fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
	}
	panic(http.ErrAbortHandler)
}

// newHTTP makes what serves one of the addresses.
func (s *Server) newHTTP(h http.Handler) *http1.Server {
	return http1.New(&http.Server{
		Handler:           s.counted(s.oneLength(h)),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       2 * time.Minute, // of a request, and the wait of its poll
		WriteTimeout:      4 * time.Minute, // the same, and the answer
		IdleTimeout:       idleMax,
		// Handlers refuse headers that are too large; beyond this package http does so, without a
		// request id. [WIRE-26]
		MaxHeaderBytes:               256 << 10,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}, s.cfg.Logger)
}

// rejoin serves a connection again that a suspended poll has had; ahead is what was already read
// from it.
func (s *Server) rejoin(conn net.Conn, ahead []byte) { s.http.Rejoin(conn, ahead) }
