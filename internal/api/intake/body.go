package intake

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"

	"tenaq/internal/door/auth"
)

const (
	// BodyMax is the largest body of a request, in bytes. [WIRE-21]
	BodyMax = 8 << 20

	// Small is the size up to which room for a whole body is not set aside in advance. It is also
	// the size of answers and bodies for which buffers are kept. In bytes.
	Small = 64 << 10

	// tiny is the size up to which a body is not charged to the budget. The buffers of its
	// connection are as large, and the number of connections bounds them.
	tiny = 4 << 10

	// bodyCost is how often the bytes of a body are in memory when it has arrived: as received,
	// decoded, and encoded for the store.
	bodyCost = 3

	// A body that brings fastBytes every fastTime is a fast one.
	fastBytes = 64 << 10
	fastTime  = 100 * time.Millisecond

	// answerMax is how long after a large body the answer may take, the wait of a poll included.
	answerMax = 3 * time.Minute

	// WaitMax is how long a request waits for its part of a budget before it is refused.
	WaitMax = 10 * time.Second

	// restMax is how long the rest of a refused body is read. A connection that is closed before
	// its client's bytes have been read loses the answer.
	restMax = 2 * time.Second
)

// A Body is the body of a request, byte for byte, because a signature covers exactly that.
type Body struct {
	Bytes []byte
	tiny  *[tiny]byte // that the bytes are in; nil for a larger body

	// Held is what the request holds of the budget until it is answered; nil for a tiny body.
	Held *Holding
}

// Free lets the bytes go. What was made of them still counts until Held is released.
func (b *Body) Free() {
	if b.tiny != nil {
		tinies.Put(b.tiny)
	}
	if b.Held != nil {
		b.Held.Set(int64(len(b.Bytes)) * (bodyCost - 1))
	}
	b.Bytes, b.tiny = nil, nil
}

// Read reads the body of a request, whatever the protocol. Its errors are ErrTooLarge, ErrCutOff,
// ErrBusy and that of the request's context; the connection is then closed after the answer.
// [WIRE-21]
func (in *Intake) Read(w http.ResponseWriter, r *http.Request, p auth.Pending) (b Body, err error) {
	conn := http.NewResponseController(w)
	switch {
	case r.ContentLength == 0:
		return Body{}, nil
	case r.ContentLength > BodyMax:
		return Body{}, ErrTooLarge
	case 0 < r.ContentLength && r.ContentLength <= tiny:
		conn.SetReadDeadline(time.Now().Add(StallMax))
		b.tiny = tinies.Get().(*[tiny]byte)
		b.Bytes = b.tiny[:r.ContentLength]
		if _, err = io.ReadFull(r.Body, b.Bytes); err != nil {
			err = ErrCutOff
		}
	default:
		conn.SetWriteDeadline(time.Now().Add(transferMax)) // of 100 Continue
		b.Held = in.Bodies.Hold(owners(p.Sources(r))...)
		a := &arrival{r: r, conn: conn, pace: newPace(), declared: r.ContentLength, held: b.Held}
		b.Bytes, err = a.read()
		conn.SetWriteDeadline(time.Now().Add(answerMax))
	}
	if err == nil {
		conn.SetReadDeadline(time.Time{})
		return b, nil
	}
	b.Free()
	b.Held.Release()
	conn.SetReadDeadline(time.Now().Add(restMax))
	w.Header().Set("Connection", "close")
	return Body{}, err
}

// Discard reads the body of a request that is refused for overload and keeps nothing of it, so that
// the connection serves the next request: to open another one costs more than to read. Its client
// must be as quick as any other. [WIRE-31]
//
// It reports false when the body ended early. The connection is then closed, and also after the
// answer when the body is larger than BodyMax.
func (in *Intake) Discard(w http.ResponseWriter, r *http.Request) bool {
	if r.ContentLength == 0 {
		return true
	}
	conn, pace := http.NewResponseController(w), newPace()
	buf := tinies.Get().(*[tiny]byte)
	defer tinies.Put(buf)
	for left := int64(BodyMax); left > 0; {
		from := time.Now()
		conn.SetReadDeadline(from.Add(pace.next()))
		n, err := r.Body.Read(buf[:])
		left -= int64(n)
		switch {
		case err == io.EOF:
			conn.SetReadDeadline(time.Time{})
			return true
		case err != nil:
			return false
		}
		pace.moved(n, time.Since(from))
	}
	conn.SetReadDeadline(time.Now().Add(restMax))
	w.Header().Set("Connection", "close")
	return true
}

// owners are the parties that a body counts against: an address, the key that it claims if it
// claims one, and the pair of both.
func owners(address, key string) []string {
	if key == "" {
		return []string{address}
	}
	return []string{address, key, address + pairMark + key}
}

// An arrival is a body on its way in. It is charged as its bytes arrive, for the size of its buffer
// and never for what its headers promise. Only while bytes arrive quickly, room is also set aside
// for the rest and for what is made of it. Otherwise bodies that arrive at the same time would wait
// for each other, each with half of its bytes in memory. [WIRE-30]
type arrival struct {
	r        *http.Request
	conn     *http.ResponseController
	pace     pace
	declared int64 // -1 when the client does not say
	buf      []byte
	held     *Holding
	timer    *time.Timer // ends fast
	counted  int         // bytes that had arrived when the timer was set

	mu   sync.Mutex
	fast bool  // room for all of it is set aside
	size int64 // of buf
}

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
		case n > BodyMax:
			return nil, ErrTooLarge
		case n == a.declared, err == io.EOF && a.declared < 0:
			a.settle()
			return a.buf, a.charge(n * bodyCost)
		case err != nil:
			return nil, ErrCutOff
		}
	}
}

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

// grow enlarges the buffer once there is room for it.
func (a *arrival) grow() error {
	size := 4 * int64(cap(a.buf))
	switch {
	case a.declared < 0:
		size = min(size, BodyMax+1)
	case a.declared <= Small:
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

// charge makes the body hold n bytes, and waits for them up to WaitMax: under overload the line
// would otherwise have no end. [WIRE-27]
func (a *arrival) charge(n int64) error {
	return a.held.Wait(a.r.Context(), n, WaitMax)
}

// settle keeps what is set aside, because the whole body has arrived.
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
		a.held.Set(a.size)
	}
}

// tinies are for tiny bodies, and buffers for small answers.
var (
	tinies  = sync.Pool{New: func() any { return new([tiny]byte) }}
	buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}
)

// Buffer returns an empty buffer for a small answer. Recycle takes it back.
func Buffer() *bytes.Buffer { return buffers.Get().(*bytes.Buffer) }

// Recycle keeps a buffer for the next answer unless it has become large.
func Recycle(buf *bytes.Buffer) {
	if buf.Cap() <= 2*Small {
		buf.Reset()
		buffers.Put(buf)
	}
}
