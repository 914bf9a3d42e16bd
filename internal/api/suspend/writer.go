package suspend

import (
	"net"
	"net/http"
	"time"

	"tenaq/internal/api/http1"
	"tenaq/internal/api/intake"
)

// A writer is the http.ResponseWriter of a suspended connection. It writes what the HTTP server
// would write.
type writer struct {
	conn   net.Conn
	header http.Header
	status int
	last   bool // answer of the connection
	err    error
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) { w.status = status }

// SetWriteDeadline is for http.ResponseController.
func (w *writer) SetWriteDeadline(t time.Time) error { return w.conn.SetWriteDeadline(t) }

// Write writes a part of the body, and the header before the first part.
func (w *writer) Write(body []byte) (n int, err error) {
	if n = len(body); w.header != nil {
		buf := intake.Buffer()
		defer intake.Recycle(buf)
		buf.Write(http1.AppendHead(buf.AvailableBuffer(), w.status, w.header, w.last))
		w.header = nil
		if len(body) <= intake.Small {
			buf.Write(body)
			body = nil
		}
		w.conn.SetWriteDeadline(time.Now().Add(intake.StallMax))
		_, w.err = w.conn.Write(buf.Bytes())
	}
	if w.err == nil && len(body) > 0 {
		_, w.err = w.conn.Write(body)
	}
	return n, w.err
}
