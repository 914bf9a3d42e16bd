package cloudwatch

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"tenaq/internal/api/wire"
)

const (
	// bodyMax bounds the body of a request, as it comes and inflated. CloudWatch has the same
	// limit.
	bodyMax = 1 << 20

	// small is the size up to which a body is not worth waiting for a place among those that are
	// decoded.
	small = 64 << 10

	// readings and decodings are how many larger bodies may be on their way in at the same time,
	// and how many may be decoded, which takes many times the memory.
	readings  = 64
	decodings = 4

	// placeWait is how long a request waits for one of these places.
	placeWait = 10 * time.Second

	// restMax is how long the rest of a body that is refused may take; see package sqs.
	restMax = 2 * time.Second

	// transferMax is how long a larger body may take on its way in, and an answer on its way out.
	transferMax = time.Minute
)

// Places is a semaphore: sending takes a place, receiving gives one back.
type places chan struct{}

// A body is the body of a request, and the places that it holds until it is released.
type body struct {
	h     *Handler
	bytes []byte // as it came, until it is decoded
	held  []places
}

// read reads the body of a request as received. It checks the compression and nothing else.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) (*body, error) {
	if r.ContentLength > bodyMax {
		return nil, errTooLarge
	}
	if _, err := zipped(r); err != nil {
		return nil, err
	}
	b := &body{h: h}
	if r.ContentLength < 0 || r.ContentLength > small {
		if err := b.take(r.Context(), h.reading); err != nil {
			return nil, err
		}
		conn := http.NewResponseController(w)
		conn.SetReadDeadline(time.Now().Add(transferMax))
	}
	var err error
	if b.bytes, err = readAll(http.MaxBytesReader(w, r.Body, bodyMax)); err != nil {
		b.release()
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(restMax))
		w.Header().Set("Connection", "close")
		return nil, err
	}
	if len(b.held) > 0 {
		http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	return b, nil
}

// decode inflates a body if it is compressed. A slow client holds none of the places for that.
func (b *body) decode(r *http.Request) error {
	z, err := zipped(r)
	if err == nil && (z || len(b.bytes) > small) {
		err = b.take(r.Context(), b.h.decoding)
	}
	if err == nil && z {
		b.bytes, err = inflate(b.bytes)
	}
	return err
}

// take waits for a place up to placeWait: under overload the line would otherwise have no end.
func (b *body) take(ctx context.Context, p places) error {
	limit := time.NewTimer(placeWait)
	defer limit.Stop()
	select {
	case p <- struct{}{}:
		b.held = append(b.held, p)
		return nil
	case <-limit.C:
		return &Error{Throttling, "Too many large requests are in progress: try again."}
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *body) release() {
	for _, p := range b.held {
		<-p
	}
}

func zipped(r *http.Request) (bool, error) {
	switch encoding := r.Header.Get("Content-Encoding"); strings.ToLower(encoding) {
	case "", "identity":
		return false, nil
	case "gzip":
		return true, nil
	default:
		return false, wire.Malformed("The Content-Encoding %q is not supported: send gzip or none.", encoding)
	}
}

func readAll(r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(r)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, errTooLarge
	}
	if err != nil {
		return nil, wire.Malformed("The body ended early.")
	}
	return body, nil
}

func inflate(zipped []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, wire.Malformed("The body is not gzip, as its Content-Encoding says.")
	}
	body, err := io.ReadAll(io.LimitReader(z, bodyMax+1))
	if err != nil {
		return nil, wire.Malformed("The body cannot be inflated: %v.", err)
	}
	if len(body) > bodyMax {
		return nil, errTooLarge
	}
	return body, nil
}
