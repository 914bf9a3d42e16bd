package bench

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// ServeNothing serves a listener until ctx is done. It is a plain net/http server without limits,
// with an empty handler: it reads each request and answers 200 with the body that answers has for
// its action, such as SendMessage. It shares no code with the server that is measured against it.
func ServeNothing(ctx context.Context, l net.Listener, answers map[string][]byte) error {
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		_, _ = io.Copy(io.Discard, r.Body)
		answer := answers[action]
		header := w.Header()
		header["x-amzn-RequestId"] = []string{"00000000-0000-4000-8000-000000000000"}
		header["Content-Type"] = []string{"application/x-amz-json-1.0"}
		header["Content-Length"] = []string{strconv.Itoa(len(answer))}
		_, _ = w.Write(answer)
	})}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
