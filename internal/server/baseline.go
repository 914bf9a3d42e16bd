package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// Baseline serves a listener until ctx is done, with the HTTP stack, the limits and the response
// headers of a Server but without anything behind them. It reads each request and answers 200 with
// the body that answers has for its action, such as SendMessage. A Server is measured against it.
func Baseline(ctx context.Context, l net.Listener, answers map[string][]byte) error {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		_, _ = io.Copy(io.Discard, r.Body)
		answer := answers[action]
		header := w.Header()
		header["x-amzn-RequestId"] = []string{"00000000-0000-4000-8000-000000000000"}
		header["Content-Type"] = []string{"application/x-amz-json-1.0"}
		header["Content-Length"] = []string{strconv.Itoa(len(answer))}
		_, _ = w.Write(answer)
	})
	s := newHTTP(h, slog.New(slog.DiscardHandler))
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
