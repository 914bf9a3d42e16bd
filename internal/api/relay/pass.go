package relay

import (
	"errors"
	"io"
	"net/http"
	"time"

	"tenaq/internal/api/intake"
	"tenaq/internal/api/v1"
)

// spelled are the headers of responses whose names SQS does not write as net/http does.
var spelled = map[string]string{"X-Amzn-Requestid": "x-amzn-RequestId",
	"X-Amzn-Query-Error": "x-amzn-query-error", "Smithy-Protocol": "smithy-protocol"}

// errClient says that a response cannot be written: its client has left, or reads too slowly.
var errClient = errors.New("the client does not read the response")

// pass answers with the response of the leader. A live stream that ends because this node drains
// gets its last event here. The error is errClient, or that of the connection to the leader.
func pass(w http.ResponseWriter, res *http.Response, drained func() bool) error {
	header := w.Header()
	for name, values := range res.Header {
		if as, ok := spelled[name]; ok {
			name = as
		}
		header[name] = values
	}
	header.Del("Connection")
	if _, ok := header["Content-Type"]; !ok {
		header["Content-Type"] = nil // or it would be guessed
	}
	w.WriteHeader(res.StatusCode)
	if res.ContentLength >= 0 {
		return deliver(intake.Paced(w), res.Body, min(res.ContentLength, intake.Small))
	}
	control := http.NewResponseController(w)
	// the one of the request would end the stream in the middle
	_ = control.SetReadDeadline(time.Time{})
	to := &stream{w: w, control: control}
	err := deliver(to, res.Body, intake.Small)
	if err != nil && err != errClient && drained() && to.last == [2]byte{'\n', '\n'} {
		if _, err = to.Write(v1.ByeStopping()); err != nil {
			return errClient
		}
	}
	to.extend() // for the end, which may come long after the last part
	return err
}

// deliver writes each part of a body, of at most size bytes, as soon as it is there.
func deliver(to io.Writer, body io.Reader, size int64) error {
	buf := make([]byte, max(size, 1))
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return errClient
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// streamPause is how long a client may read nothing of a stream, as of a backup at the leader.
const streamPause = 2 * time.Minute

// A stream writes a body of unknown length, which may take hours.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	last    [2]byte // what was written last: two line breaks are between two events
}

func (s *stream) Write(part []byte) (int, error) {
	s.extend()
	n, err := s.w.Write(part)
	for _, c := range part[max(n-2, 0):n] {
		s.last = [2]byte{s.last[1], c}
	}
	if err == nil {
		err = s.control.Flush()
	}
	return n, err
}

func (s *stream) extend() { _ = s.control.SetWriteDeadline(time.Now().Add(streamPause)) }
