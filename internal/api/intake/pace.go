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

// Write writes the body of an answer while its client reads quickly enough. A small one may stay in
// the buffers of the response until the handler returns: the time that its client has begins here.
func Write(w http.ResponseWriter, body []byte) {
	_, _ = Paced(w).Write(body) // the client has left
}

// A PacedWriter writes the body of an answer in parts, while its client reads quickly enough.
type PacedWriter struct {
	w    http.ResponseWriter
	conn *http.ResponseController
	pace pace
}

// Paced returns a writer for the answer that w writes.
func Paced(w http.ResponseWriter) *PacedWriter {
	return &PacedWriter{w, http.NewResponseController(w), newPace()}
}

// Write writes a part. Its error is that of the connection, which cannot be used after it.
func (p *PacedWriter) Write(part []byte) (n int, err error) {
	for n < len(part) && err == nil {
		left := part[n:]
		from, written := time.Now(), 0
		p.conn.SetWriteDeadline(from.Add(p.pace.next()))
		written, err = p.w.Write(left[:min(len(left), chunk)])
		p.pace.moved(written, time.Since(from))
		n += written
	}
	return n, err
}
