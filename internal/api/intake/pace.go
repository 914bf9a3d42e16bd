package intake

import (
	"net/http"
	"time"
)

// How quickly a body must arrive and an answer be read. A slower client is cut off, because it
// holds memory meanwhile. [WIRE-30, WIRE-31]
const (
	// StallMax is how long a client may send or read nothing.
	StallMax = 10 * time.Second

	// rateMin is how many bytes a second a client must send or read on average. It may fall behind
	// by StallMax.
	rateMin = 32 << 10

	// transferMax is how long a body or an answer may take in all. The wait of a poll in between
	// does not count. [WIRE-22]
	transferMax = time.Minute

	// chunk is how much of an answer is written at a time: less than rateMin in StallMax.
	chunk = 256 << 10
)

// A pace is how much time a transfer has left.
type pace struct{ credit, left time.Duration }

func newPace() pace { return pace{StallMax, transferMax} }

// next returns how long the next step may take.
func (p *pace) next() time.Duration { return min(p.credit, p.left) }

func (p *pace) moved(n int, took time.Duration) {
	p.left -= took
	p.credit = min(StallMax, p.credit-took+time.Duration(n)*time.Second/rateMin)
}

// Write writes the body of an answer while its client reads quickly enough. A tiny one stays in the
// buffers of the connection.
func Write(w http.ResponseWriter, body []byte) {
	conn := http.NewResponseController(w)
	for p := newPace(); len(body) > 0; {
		from := time.Now()
		if len(body) > tiny {
			conn.SetWriteDeadline(from.Add(p.next()))
		}
		n, err := w.Write(body[:min(len(body), chunk)])
		if err != nil {
			return
		}
		p.moved(n, time.Since(from))
		body = body[n:]
	}
}
