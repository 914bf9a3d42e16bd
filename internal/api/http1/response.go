package http1

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A response is the http.ResponseWriter of the requests of a connection. An answer is gathered and
// written at once when the handler has returned, as long as it is small.
type response struct {
	c      *conn
	header http.Header

	status  int    // 0 before WriteHeader
	length  int64  // of the body, as the handler declares it; -1 if it does not
	written int64  // of it
	held    []byte // of a body of unknown length
	out     []byte // is what has not been written to the connection

	headed  bool // the head is complete
	sent    bool // a part of the answer was sent
	typed   bool // its type was said
	dated   bool // and its Date
	chunked bool
	last    bool // the connection is closed after this answer
	taken   bool // the connection has been hijacked, or left to net/http
	err     error
}

const (
	// outSize is how much of an answer is gathered, in bytes.
	outSize = 4 << 10

	// heldMax is how large a body of unknown length may be to be sent in one piece, in bytes. It is
	// the one of net/http.
	heldMax = 2 << 10

	// restMax is how much of a body that the handler has not read is read for it, in bytes. It is
	// the one of net/http, and so is how long a client with a longer rest may read its answer.
	restMax   = 256 << 10
	lingerMax = 500 * time.Millisecond

	writeSlack = time.Second
)

var outs = sync.Pool{New: func() any { return new([outSize]byte) }}

func (w *response) begin() {
	clear(w.header)
	*w = response{c: w.c, header: w.header, length: -1}
}

func (w *response) Header() http.Header { return w.header }

// WriteHeader begins the head. Later changes of the header are not in it.
func (w *response) WriteHeader(status int) {
	if w.status != 0 || status < 200 || w.taken {
		return
	}
	w.status = status
	_, w.typed = w.header["Content-Type"]
	w.typed = w.typed || w.header.Get("Content-Encoding") != ""
	w.out = appendHead(outs.Get().(*[outSize]byte)[:0], status, w.header, w.writes)
}

// writes decides about each header of a handler.
func (w *response) writes(name, value string) bool {
	switch name {
	case "Connection":
		w.last = w.last || value == "close"
	case "Content-Length":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 || !w.hasBody() {
			return false
		}
		w.length = n
	case "Content-Type":
		return w.status != http.StatusNotModified
	case "Date":
		w.dated = true
	case "Trailer", "Transfer-Encoding":
		return false
	}
	return true
}

func (w *response) hasBody() bool {
	return w.status != http.StatusNoContent && w.status != http.StatusNotModified
}

// endHead completes the head, of which begin is how the body begins, or all of it.
func (w *response) endHead(begin []byte, all bool) {
	w.headed = true
	asked := w.last
	w.last = w.last || w.c.s.draining.Load()
	if rest := w.c.body.left; rest > 0 && !w.last {
		if rest < restMax {
			_, err := io.Copy(io.Discard, &w.c.body)
			w.last = err != nil
		} else {
			w.last = true
		}
	}
	w.c.now = time.Now()
	if !w.dated {
		w.out = appendDate(w.out, w.c.now)
	}
	if w.hasBody() {
		if w.length < 0 && all {
			w.length = int64(len(begin))
			w.out = appendField(w.out, "Content-Length", strconv.Itoa(len(begin)))
		}
		if !w.typed && len(begin) > 0 {
			w.out = appendField(w.out, "Content-Type", http.DetectContentType(begin))
		}
		w.chunked = w.length < 0
	}
	if w.last && !asked {
		w.out = appendField(w.out, "Connection", "close")
	}
	if w.chunked {
		w.out = appendField(w.out, "Transfer-Encoding", "chunked")
	}
	w.out = append(w.out, "\r\n"...)
}

func (w *response) Write(p []byte) (n int, err error) {
	w.WriteHeader(http.StatusOK)
	w.written += int64(len(p))
	switch {
	case w.taken:
		return 0, http.ErrHijacked
	case !w.hasBody():
		return 0, http.ErrBodyNotAllowed
	case w.length >= 0 && w.written > w.length:
		return 0, http.ErrContentLength
	}
	if !w.headed {
		if w.length < 0 && len(w.held)+len(p) <= heldMax {
			w.held = append(w.held, p...)
			return len(p), nil
		}
		w.release(p)
	}
	w.put(p)
	return len(p), w.err
}

// release adds what is held to the answer, because the body continues with p.
func (w *response) release(p []byte) {
	if held := w.held; len(held) > 0 {
		w.endHead(held, false)
		w.put(held)
	} else {
		w.endHead(p, false)
	}
}

// put adds a part of the body.
func (w *response) put(p []byte) {
	if w.chunked && len(p) > 0 {
		w.out = append(strconv.AppendInt(w.out, int64(len(p)), 16), "\r\n"...)
		defer func() { w.out = append(w.out, "\r\n"...) }()
	}
	if len(w.out)+len(p) <= outSize {
		w.out = append(w.out, p...)
	} else {
		w.send(p)
	}
}

// send writes what was gathered to the connection, and p after it.
func (w *response) send(p []byte) {
	w.sent = true
	if w.err == nil && len(w.out)+len(p) > 0 {
		w.c.writes.apply()
		if len(p) == 0 {
			_, w.err = w.c.raw.Write(w.out)
		} else {
			_, w.err = (&net.Buffers{w.out, p}).WriteTo(w.c.raw)
		}
	}
	w.out = w.out[:0]
}

// finish sends what is left of the answer once the handler has returned. It reports whether the
// connection can be used for another request.
func (w *response) finish() bool {
	w.WriteHeader(http.StatusOK)
	if !w.headed {
		w.endHead(w.held, true)
		w.put(w.held)
	}
	if w.sent { // maybe long ago
		w.c.now = time.Now()
	}
	if w.chunked {
		w.out = append(w.out, "0\r\n\r\n"...)
	}
	w.send(nil)
	if cap(w.out) == outSize {
		outs.Put((*[outSize]byte)(w.out[:outSize]))
	}
	switch rest := w.c.body.left; {
	case w.err != nil:
		return false
	case rest >= restMax:
		// A client loses an answer if its bytes arrive at a closed connection.
		if half, ok := w.c.raw.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			time.Sleep(lingerMax)
		}
	case rest > 0:
		_, _ = io.Copy(io.Discard, &w.c.body)
	}
	return !w.last && (w.length < 0 || w.written == w.length || !w.hasBody())
}

// FlushError sends what there is of the answer.
func (w *response) FlushError() error {
	if w.WriteHeader(http.StatusOK); !w.headed && !w.taken {
		w.release(nil)
	}
	w.send(nil)
	return w.err
}

// SetReadDeadline is for http.ResponseController. It is applied with the next read.
func (w *response) SetReadDeadline(t time.Time) error {
	c := w.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reads.want(t, 0); c.watch.reading {
		c.reads.apply()
	}
	return nil
}

// SetWriteDeadline is for http.ResponseController. It is applied with the next write, and at most
// writeSlack late: answers that follow each other closely need not move it.
func (w *response) SetWriteDeadline(t time.Time) error {
	w.c.writes.want(t, writeSlack)
	return nil
}

// Hijack takes the connection from the loop.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c := w.c
	if w.taken || w.status != 0 {
		return nil, nil, http.ErrHijacked
	}
	w.taken = true
	c.watch.interrupt()
	ahead := bytes.Clone(c.buf[c.r:c.w])
	r := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(ahead), c.raw), len(ahead))
	_, err := r.Peek(len(ahead))
	c.raw.SetDeadline(time.Time{})
	if c.s.ConnState != nil {
		c.s.ConnState(c.raw, http.StateHijacked)
	}
	return c.raw, bufio.NewReadWriter(r, bufio.NewWriterSize(c.raw, 1)), err
}
