package server

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"tenaq/internal/api/framing"
	"tenaq/internal/api/sts"
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
		s.writer.Load().ServeHTTP(w, r)
	})
}

// withHealth serves LocalStack's health page and the front page beside the SQS API. Anyone may read
// them.
func (s *Server) withHealth(api, health http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		front := isFront(r)
		if r.URL.Path != "/_localstack/health" && !front {
			api.ServeHTTP(w, r)
			return
		}
		if err := s.door.Public(r); err != nil {
			refusal, _ := errors.AsType[*auth.Error](err)
			http.Error(w, refusal.Message, http.StatusForbidden)
			return
		}
		if front {
			s.frontPage(w, r, false)
			return
		}
		health.ServeHTTP(w, r)
	})
}

// oneLength lets the SQS API refuse every request whose end is ambiguous, whatever API it is for.
// [WIRE-32]
func (s *Server) oneLength(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if framing.Ambiguous(r) {
			s.writer.Load().api.ServeHTTP(w, r)
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
		h.ServeHTTP(w, r)
	})
}

func (s *Server) newHTTP(h http.Handler) *http.Server {
	return newHTTP(s.counted(s.oneLength(h)), s.cfg.Logger)
}

func newHTTP(h http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ConnContext:       framing.Context,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       2 * time.Minute, // of a request, and the wait of its poll
		WriteTimeout:      4 * time.Minute, // the same, and the answer
		IdleTimeout:       idleMax,
		// Handlers refuse headers that are too large; beyond this package http does so, without a
		// request id. [WIRE-26]
		MaxHeaderBytes:               256 << 10,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}
