package sqs

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"

	"tenaq/internal/door/auth"
)

const (
	// small is the size up to which a body is not worth room for all that it says it has. It is also the size of answers
	// and bodies for which buffers are kept.
	small = 64 << 10

	// tiny is the size up to which a body is not charged to the budget. It is no more than what its connection has in
	// buffers anyway, and bounded with the connections.
	tiny = 4 << 10

	// bodyCost is how often the bytes of a body are in memory when it has arrived: as they came, decoded, and encoded for
	// the store.
	bodyCost = 3

	// A body that brings fastBytes every fastTime is a fast one.
	fastBytes = 64 << 10
	fastTime  = 100 * time.Millisecond
)

// A body is what a request brought with it, byte for byte, since a signature is made over just that.
type body struct {
	bytes []byte
	tiny  *[tiny]byte // that the bytes are in; nil for a larger body
	held  *holding    // what the request holds of the budget until it is answered; nil for a tiny body
}

// free lets the bytes go. What was made of them is still held for.
func (b *body) free() {
	if b.tiny != nil {
		tinies.Put(b.tiny)
	}
	if b.held != nil {
		b.held.set(int64(len(b.bytes)) * (bodyCost - 1))
	}
	b.bytes, b.tiny = nil, nil
}

// read reads the body of a request, whatever the protocol. [WIRE-21]
func (h *Handler) read(w http.ResponseWriter, r *http.Request, p auth.Pending) (b body, err error) {
	conn := http.NewResponseController(w)
	switch {
	case r.ContentLength == 0:
		return body{}, nil
	case r.ContentLength > bodyMax:
		return body{}, errTooLarge
	case 0 < r.ContentLength && r.ContentLength <= tiny:
		conn.SetReadDeadline(time.Now().Add(stallMax))
		b.tiny = tinies.Get().(*[tiny]byte)
		b.bytes = b.tiny[:r.ContentLength]
		if _, err = io.ReadFull(r.Body, b.bytes); err != nil {
			err = errCutOff
		}
	default:
		conn.SetWriteDeadline(time.Now().Add(transferMax)) // of 100 Continue
		b.held = h.bodies.hold(owners(p.Sources(r))...)
		a := &arrival{r: r, conn: conn, pace: newPace(), declared: r.ContentLength, held: b.held}
		b.bytes, err = a.read()
		conn.SetWriteDeadline(time.Now().Add(answerMax))
	}
	if err == nil {
		conn.SetReadDeadline(time.Time{})
		return b, nil
	}
	b.free()
	b.held.release()
	conn.SetReadDeadline(time.Now().Add(restMax))
	w.Header().Set("Connection", "close")
	return body{}, err
}

// owners are the parties that a body counts against: an address, the key that it claims if it claims one, and the pair of
// both.
func owners(address, key string) []string {
	if key == "" {
		return []string{address}
	}
	return []string{address, key, address + pairMark + key}
}

// An arrival is a body on its way in. It is charged for as its bytes arrive: for what its buffer has, never for what its
// headers promise. Only while bytes come quickly there is also room set aside for the rest and for what is made of it, so that
// bodies which arrive at the same time do not wait for each other, each with half of its bytes in memory. [WIRE-30]
type arrival struct {
	r        *http.Request
	conn     *http.ResponseController
	pace     pace
	declared int64 // -1 when the client does not say
	buf      []byte
	held     *holding
	timer    *time.Timer // ends fast
	counted  int         // how many bytes had come when the timer was set

	mu   sync.Mutex
	fast bool  // room for all of it is set aside
	size int64 // of buf
}

// read reads to the end.
func (a *arrival) read() ([]byte, error) {
	defer a.slow()
	a.buf = make([]byte, 0, tiny)
	for {
		if len(a.buf) == cap(a.buf) {
			if err := a.grow(); err != nil {
				return nil, err
			}
		}
		err := a.step()
		switch n := int64(len(a.buf)); {
		case n > bodyMax:
			return nil, errTooLarge
		case n == a.declared, err == io.EOF && a.declared < 0:
			a.settle()
			return a.buf, a.charge(n * bodyCost)
		case err != nil:
			return nil, errCutOff
		}
	}
}

// step reads what there is.
func (a *arrival) step() error {
	from := time.Now()
	a.conn.SetReadDeadline(from.Add(a.pace.next()))
	n, err := a.r.Body.Read(a.buf[len(a.buf):cap(a.buf)])
	a.buf = a.buf[:len(a.buf)+n]
	a.pace.moved(n, time.Since(from))
	if a.timer != nil && len(a.buf)-a.counted >= fastBytes {
		a.counted = len(a.buf)
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.fast {
			a.timer.Reset(fastTime)
		}
	}
	return err
}

// grow makes the buffer larger, when there is room for it.
func (a *arrival) grow() error {
	size := 4 * int64(cap(a.buf))
	switch {
	case a.declared < 0:
		size = min(size, bodyMax+1)
	case a.declared <= small:
		size = a.declared
	default:
		size = min(size, a.declared)
	}
	if a.timer == nil && a.declared > 0 {
		if err := a.charge(a.declared * bodyCost); err != nil {
			return err
		}
		a.mu.Lock()
		a.fast, a.counted = true, len(a.buf)
		a.timer = time.AfterFunc(fastTime, a.slow)
		a.mu.Unlock()
	}
	a.mu.Lock()
	fast := a.fast
	a.size = size
	a.mu.Unlock()
	if !fast {
		if err := a.charge(size); err != nil {
			return err
		}
	}
	a.buf = append(make([]byte, 0, size), a.buf...)
	return nil
}

// charge has the body hold n bytes, and waits for them, but not for long: who comes when all are in use would otherwise stand
// in a line that has no end. [WIRE-27]
func (a *arrival) charge(n int64) error {
	return a.held.wait(a.r.Context(), n, readWait)
}

// settle keeps what is set aside: all of the body is here.
func (a *arrival) settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
	}
	a.fast = false
}

// slow gives back what is set aside beyond the buffer.
func (a *arrival) slow() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.fast {
		a.fast = false
		a.held.set(a.size)
	}
}

// tinies are for tiny bodies, and buffers for small answers.
var (
	tinies  = sync.Pool{New: func() any { return new([tiny]byte) }}
	buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}
)

func recycle(buf *bytes.Buffer) {
	if buf.Cap() <= 2*small {
		buf.Reset()
		buffers.Put(buf)
	}
}
