package peers

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// answerMax is how long a peer may take to answer.
const answerMax = time.Minute

// A wire is a connection that writes what was collected in out and reads lines and blocks.
type wire struct {
	c   net.Conn
	r   *bufio.Reader
	out []byte
}

func dialWire(ctx context.Context, port string) (*wire, error) {
	dialer := net.Dialer{Timeout: answerMax}
	c, err := dialer.DialContext(ctx, "tcp", "127.0.0.1:"+port)
	if err != nil {
		return nil, err
	}
	return &wire{c: c, r: bufio.NewReaderSize(c, 64<<10)}, nil
}

func (w *wire) close() { w.c.Close() }

// flush writes what was collected.
func (w *wire) flush() error {
	if err := w.c.SetDeadline(time.Now().Add(answerMax)); err != nil {
		return err
	}
	_, err := w.c.Write(w.out)
	w.out = w.out[:0]
	return err
}

// await waits for the next byte until a moment, and reports whether it came.
func (w *wire) await(until time.Time) (bool, error) {
	if w.r.Buffered() > 0 {
		return true, nil
	}
	if err := w.c.SetReadDeadline(until); err != nil {
		return false, err
	}
	_, err := w.r.Peek(1)
	if late, ok := err.(net.Error); ok && late.Timeout() {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, w.c.SetReadDeadline(time.Now().Add(answerMax))
}

// line returns the next line without its end, valid until the next read.
func (w *wire) line() ([]byte, error) {
	line, err := w.r.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}

// skip skips n bytes.
func (w *wire) skip(n int) error {
	_, err := w.r.Discard(n)
	return err
}

// block returns the next n bytes.
func (w *wire) block(n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(w.r, b)
	return b, err
}

// number parses a length.
func number(text []byte) (int, error) {
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return 0, fmt.Errorf("the peer sent %.60q, which is not a number", text)
	}
	return n, nil
}
