package worker

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"tenaq/claims"
	"tenaq/internal/work/clip"
	"tenaq/internal/work/queuename"
	"tenaq/internal/work/v1client"
)

// A tenaq server takes the reason for which a message is given back, and keeps it with the message.
// It also takes back the count of a receive that was no attempt, and moves a message to the
// dead-letter queue in one step. Amazon SQS has no words for that: there, the worker only changes
// the visibility, or sends and deletes. [NACK-17]

// textMax is the limit of a reason, in bytes. [NACK-3]
const textMax = 1024

// A nack gives a message back.
type nack struct {
	Handle  string `json:"receiptHandle"`
	Verdict string `json:"verdict"`
	Text    string `json:"text,omitempty"`
	DelayMS int64  `json:"delayMs,omitempty"`
	Trail   string `json:"trail,omitempty"`
}

// Verdicts with which the queue moves a message to its dead-letter queue. [NACK-18]
const (
	poison    = "poison"
	exhausted = "exhausted"
)

// reasons sends nacks to a server that takes them.
type reasons struct {
	server *v1client.Client
	path   string
	log    *slog.Logger
	batch  *batcher[nack]
	nacked func(handle string, hidden time.Duration, moved bool)

	mu     sync.Mutex
	until  time.Time // no reasons are sent before, because the server has refused one
	logged bool
}

// refusalPause is how long messages go back without reasons after the server has refused one.
const refusalPause = 5 * time.Minute

// nackRequest is the body of a request.
type nackRequest struct {
	Entries []nack `json:"entries"`
}

// A nackObserver is a client that tracks the messages of the worker. Nacks do not pass through its
// methods, so it is told of each one that is done: for how long the message is hidden, or that the
// queue has moved it to its dead-letter queue.
type nackObserver interface {
	Nacked(handle string, hidden time.Duration, moved bool)
}

// newReasons returns nil if there cannot be a tenaq server.
func newReasons(client SQS, queueURL string, log *slog.Logger) *reasons {
	server := v1client.New(client)
	if server == nil {
		return nil
	}
	r := &reasons{server: server, log: log, nacked: func(string, time.Duration, bool) {},
		path: "/queues/" + url.PathEscape(queuename.Of(queueURL)) + "/nack"}
	if observer, ok := client.(nackObserver); ok {
		r.nacked = observer.Nacked
	}
	r.batch = &batcher[nack]{send: bounded(r.send)}
	return r
}

// offered asks the server, with a request that changes nothing, whether it takes reasons. It is
// false if the server is another one or of an earlier version, or does not allow it. A server that
// does not say is asked again later, with a reason.
func (r *reasons) offered(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	err := r.server.Post(ctx, r.path, nackRequest{Entries: []nack{}}, new(struct{}))
	refused, ok := errors.AsType[*v1client.Error](err)
	switch {
	case errors.Is(err, v1client.ErrOther),
		ok && (refused.Status == http.StatusForbidden || refused.Status == http.StatusNotFound):
		return false
	case err != nil:
		r.suspend(err)
	}
	return true
}

// askMax is the time limit of the question.
const askMax = 5 * time.Second

// suspend lets messages go back without reasons for a while. It logs the first refusal.
func (r *reasons) suspend(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = time.Now().Add(refusalPause)
	if isRefusal(err) && !r.logged {
		r.logged = true
		r.log.Warn("the server refuses reasons: messages go back without them, and this worker tries again later",
			"error", err, "retry_in", refusalPause)
	}
}

// isRefusal reports whether the server would refuse the same request again.
func isRefusal(err error) bool {
	refused, ok := errors.AsType[*v1client.Error](err)
	return errors.Is(err, v1client.ErrOther) || ok && !refused.Passing()
}

// send carries out one request.
func (r *reasons) send(ctx context.Context, entries []nack) []error {
	var answer struct {
		Outcomes []struct {
			Done          bool
			Code, Message string
		}
	}
	if err := r.server.Post(ctx, r.path, nackRequest{entries}, &answer); err != nil {
		if isRefusal(err) {
			r.suspend(err)
		}
		return alike(err, len(entries))
	}
	errs := make([]error, len(entries))
	for i, e := range entries {
		if i >= len(answer.Outcomes) {
			errs[i] = errors.New("the server did not report the outcome of the message")
		} else if o := answer.Outcomes[i]; !o.Done {
			errs[i] = &entryError{o.Code, o.Message, true}
		} else {
			r.nacked(e.Handle, time.Duration(e.DelayMS)*time.Millisecond,
				e.Verdict == poison || e.Verdict == exhausted)
		}
	}
	return errs
}

// giveBackWith gives a message back with a reason. If the request fails, plain gives it back
// instead: a reason is sent only once, and plain has the retries of the client. If the server has
// taken the reason nevertheless, plain does no harm.
func (r *reasons) giveBackWith(n nack, plain func() error) error {
	if !r.areTaken() {
		return plain()
	}
	err := r.batch.do(n)
	if _, refused := errors.AsType[*entryError](err); err == nil || refused {
		return err
	}
	return plain()
}

// areTaken reports whether the server takes reasons.
func (r *reasons) areTaken() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !time.Now().Before(r.until)
}

// nackOf returns how a verdict reads to the server. A message that was not tried is released. The
// reason has no class, as in the trail of a dead letter, so both are of the same kind.
func nackOf(d *delivery, v verdict, after time.Duration) nack {
	n := nack{Handle: d.handle, Verdict: "release", Text: clip.To(v.reason, textMax),
		DelayMS: after.Milliseconds()}
	if v.end == claims.Failed {
		n.Verdict = "retry"
	}
	if n.Text == "" && v.err != nil {
		n.Text = clip.To(v.err.Error(), textMax)
	}
	return n
}
