package sqs

import (
	"net/http"
	"time"
)

// How quickly a body must come in and an answer go out. A client that is slower is cut off, since it holds memory for as long as
// it takes. [WIRE-30, WIRE-31]
const (
	// stallMax is how long a client may send or read nothing.
	stallMax = 10 * time.Second

	// rateMin is how many bytes a second a client must send or read on average. It may fall behind by stallMax.
	rateMin = 32 << 10

	// transferMax is how long a body or an answer may take in all. The time in between, in which a poll waits, is not
	// counted. [WIRE-22]
	transferMax = time.Minute

	// chunk is how much of an answer is written at a time: less than rateMin in stallMax.
	chunk = 256 << 10
)

// A pace is how much time a transfer has left.
type pace struct{ credit, left time.Duration }

func newPace() pace { return pace{stallMax, transferMax} }

// next returns how long the next step may take.
func (p *pace) next() time.Duration { return min(p.credit, p.left) }

// moved notes that a step moved n bytes.
func (p *pace) moved(n int, took time.Duration) {
	p.left -= took
	p.credit = min(stallMax, p.credit-took+time.Duration(n)*time.Second/rateMin)
}

// writePaced writes the body of an answer, as long as its client reads quickly enough. A tiny one stays in the buffers of
// the connection.
func writePaced(w http.ResponseWriter, body []byte) {
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
