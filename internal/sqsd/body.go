package sqsd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"tenaq/internal/broker"
)

// A body is what a request brought with it, byte for byte, since a signature is made over just that. It holds
// its part of the budget until it is released.
type body struct {
	bytes  []byte
	h      *Handler
	small  *bytes.Buffer // that the bytes are in; nil for a large body
	weight int64         // of a large one
}

func (b *body) release() {
	if b.small != nil {
		recycle(b.small)
	}
	if b.weight > 0 {
		b.h.reads.Release(b.weight)
	}
}

// read reads the body of a request, whatever the protocol. [WIRE-21]
func (h *Handler) read(w http.ResponseWriter, r *http.Request) (body, error) {
	switch {
	case r.ContentLength == 0:
		return body{}, nil
	case r.ContentLength > bodyMax:
		return body{}, errTooLarge
	case 0 < r.ContentLength && r.ContentLength <= small:
		buf := buffers.Get().(*bytes.Buffer)
		buf.Grow(int(r.ContentLength))
		b := body{bytes: buf.AvailableBuffer()[:r.ContentLength], small: buf}
		if _, err := io.ReadFull(r.Body, b.bytes); err != nil {
			b.release()
			return body{}, errCutOff
		}
		return b, nil
	}
	b := body{h: h, weight: r.ContentLength}
	if b.weight < 0 {
		b.weight = bodyMax
	}
	if err := h.acquireRead(r.Context(), b.weight); err != nil {
		return body{}, err
	}
	conn := http.NewResponseController(w)
	conn.SetReadDeadline(time.Now().Add(transferMax))
	conn.SetWriteDeadline(time.Now().Add(transferMax)) // of 100 Continue
	var err error
	b.bytes, err = io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
	conn.SetWriteDeadline(time.Now().Add(answerMax))
	if err == nil {
		conn.SetReadDeadline(time.Time{})
		return b, nil
	}
	b.release()
	conn.SetReadDeadline(time.Now().Add(restMax))
	w.Header().Set("Connection", "close")
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return body{}, errTooLarge
	}
	return body{}, errCutOff
}

// acquireRead waits for a part of the budget, but not for long: who comes when all of it is in use would otherwise stand in a
// line that has no end. [WIRE-27]
func (h *Handler) acquireRead(ctx context.Context, weight int64) error {
	limited, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	err := h.reads.Acquire(limited, weight)
	if err != nil && ctx.Err() == nil {
		return broker.ErrThrottled
	}
	return err
}

// buffers are for small bodies, in and out.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func recycle(buf *bytes.Buffer) {
	if buf.Cap() <= 2*small {
		buf.Reset()
		buffers.Put(buf)
	}
}
