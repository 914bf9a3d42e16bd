package worker

import (
	"context"
	"errors"
	"net/url"
	"sync/atomic"
	"time"

	"tenaq/claims"
	"tenaq/internal/work/clip"
	"tenaq/internal/work/queuename"
	"tenaq/internal/work/v1client"
)

// A tenaq server takes the reason for which a message is given back, and keeps it with the message.
// It also takes back the count of a receive that was no attempt. Amazon SQS has no words for that:
// there, the worker only changes the visibility. [NACK-17]

// textMax is the limit of a reason, in bytes. [NACK-3]
const textMax = 1024

// A nack gives a message back.
type nack struct {
	Handle  string `json:"receiptHandle"`
	Verdict string `json:"verdict"`
	Text    string `json:"text,omitempty"`
	DelayMS int64  `json:"delayMs,omitempty"`
}

// reasons sends nacks, once the server is known to take them.
type reasons struct {
	server *v1client.Client
	path   string
	taken  atomic.Bool
	batch  *batcher[nack]
}

// nackRequest is the body of a request.
type nackRequest struct {
	Entries []nack `json:"entries"`
}

// newReasons returns nil if there cannot be a tenaq server.
func newReasons(client SQS, queueURL string) *reasons {
	server := v1client.New(client)
	if server == nil {
		return nil
	}
	r := &reasons{server: server,
		path: "/queues/" + url.PathEscape(queuename.Of(queueURL)) + "/nack"}
	r.batch = &batcher[nack]{send: bounded(r.send)}
	return r
}

// ask asks the server, with a request that changes nothing, whether it takes reasons. A server that
// does not answer now is asked no more: the messages go back without reasons.
func (r *reasons) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	err := r.server.Post(ctx, r.path, nackRequest{Entries: []nack{}}, new(struct{}))
	r.taken.Store(err == nil)
}

// askMax is the time limit of the question.
const askMax = 5 * time.Second

// send carries out one request.
func (r *reasons) send(ctx context.Context, entries []nack) []error {
	var answer struct {
		Outcomes []struct {
			Done          bool
			Code, Message string
		}
	}
	if err := r.server.Post(ctx, r.path, nackRequest{entries}, &answer); err != nil {
		return alike(err, len(entries))
	}
	errs := make([]error, len(entries))
	for i := range entries {
		if i >= len(answer.Outcomes) {
			errs[i] = errors.New("the server has not said what became of the message")
		} else if o := answer.Outcomes[i]; !o.Done {
			errs[i] = &entryError{o.Code, o.Message, true}
		}
	}
	return errs
}

// giveBackWith gives a message back with a reason. If the server takes reasons no more, such as one
// of an earlier version or one that has taken the right away, plain gives it back instead.
func (r *reasons) giveBackWith(n nack, plain func() error) error {
	if !r.areTaken() {
		return plain()
	}
	err := r.batch.do(n)
	refused, ok := errors.AsType[*v1client.Error](err)
	if errors.Is(err, v1client.ErrOther) || ok && !refused.Passing() {
		r.taken.Store(false)
		return plain()
	}
	return err
}

// areTaken reports whether the server takes reasons.
func (r *reasons) areTaken() bool { return r != nil && r.taken.Load() }

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
