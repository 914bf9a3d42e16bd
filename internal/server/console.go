package server

import (
	"net"
	"net/http"

	"tenaq/internal/api/v1"
	"tenaq/internal/console"
)

// serveConsole answers a request for the console. It needs no store, so every node of a cluster has
// it. [CONSOLE-2]
func (s *Server) serveConsole(w http.ResponseWriter, r *http.Request) {
	allow := s.door.Public
	if console.IsPage(r) {
		allow = s.door.Page // [CONSOLE-5]
	}
	if !forbidden(w, allow(r)) {
		console.Serve(w, r)
	}
}

// consoleOnly serves an address of the console's own: the console and /v1, which it reads.
func (s *Server) consoleOnly(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case console.Is(r):
			s.serveConsole(w, r)
		case v1.Is(r):
			api.ServeHTTP(w, r)
		case r.URL.Path == "/" && !forbidden(w, s.door.Page(r)):
			w.Header().Set("Location", console.Path[1:])
			w.WriteHeader(http.StatusTemporaryRedirect)
		case r.URL.Path != "/":
			http.Error(w, "This address serves "+console.Path+" and /v1 only.",
				http.StatusNotFound)
		}
	})
}

// openConsole takes the console's own address, if it has one.
func (s *Server) openConsole() (err error) {
	if own := s.cfg.ownConsole(); own != "" {
		if s.consoleListener, err = net.Listen("tcp", own); err != nil {
			return listenError("console", own, err)
		}
	}
	return nil
}

// ConsoleURL is where a person on this machine finds the console; empty when there is none.
func (s *Server) ConsoleURL() string {
	switch {
	case s.consoleListener != nil:
		return s.reachable(s.consoleListener.Addr().String()) + console.Path
	case s.cfg.Console == "on":
		return s.URL() + console.Path
	}
	return ""
}
