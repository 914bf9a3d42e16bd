package redrive

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"tenaq/internal/work/queuename"
	"tenaq/internal/work/trail"
	"tenaq/internal/work/v1client"
)

// A tenaq server moves a received dead letter in one step. A redriver that dies leaves the letter
// in one queue, and it keeps its lineage and everything else that the server knows of it. On any
// other server, a redriver sends a copy and deletes the letter. [NACK-21]

// oneStep asks the server for such moves.
type oneStep struct {
	mu    sync.Mutex
	until time.Time // it does not ask before, because a policy has denied it
}

// deniedPause is how long a redriver sends and deletes after a policy has denied a move.
const deniedPause = 5 * time.Minute

// moveRequest is the body of a request.
type moveRequest struct {
	Queue      string                    `json:"queue"`
	Handle     string                    `json:"receiptHandle"`
	To         string                    `json:"to"`
	Attributes map[string]trailAttribute `json:"attributes,omitempty"`
	Delay      int64                     `json:"delayMs,omitempty"`
	Park       bool                      `json:"park,omitempty"`
}

type trailAttribute struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// canMove reports whether the server moves letters to the queue with a URL in one step.
func (r *Redriver) canMove(ctx context.Context, to string) bool {
	from := r.cfg.DeadLetterURL
	if r.cfg.Mover != nil || accountOf(from) != accountOf(to) ||
		queuename.IsFIFO(from) != queuename.IsFIFO(to) || !r.features.has(ctx).moves {
		return false
	}
	r.oneStep.mu.Lock()
	defer r.oneStep.mu.Unlock()
	return !time.Now().Before(r.oneStep.until)
}

// accountOf returns the account in the URL of a queue.
func accountOf(queueURL string) string { return path.Base(path.Dir(queueURL)) }

// moveOnce moves a letter with the trail of a decision in one step. It reports false if the server
// has refused for good and the letter has to be copied instead. After any other error it may have
// moved the letter. [NACK-21]
func (r *Redriver) moveOnce(
	ctx context.Context, l *letter, to string, d Decision,
) (taken bool, err error) {
	in := moveRequest{Queue: r.name, Handle: aws.ToString(l.raw.ReceiptHandle),
		To: queuename.Of(to), Park: d.Action != Redrive, Delay: d.Delay.Milliseconds()}
	t := l.onward(d)
	if d.Action == Park {
		t.Died = time.Now() // a parked message keeps the time of its send
	}
	aside := trail.MayBeAside(l.raw.MessageAttributes)
	fifo := queuename.IsFIFO(to)
	switch {
	case l.bad != nil: // an unreadable trail stays as it is
	case !aside:
		in.Attributes = map[string]trailAttribute{trail.Attribute: {"String", t.String()}}
	case fifo || in.Park: // its id there is known
		if err := t.PutAside(ctx, r.cfg.Store, r.asideID(l.raw)); err != nil {
			return true, err
		}
	}
	var answer struct{ MessageID, Mark string }
	err = r.features.server.Post(ctx, "/replace", in, &answer)
	if isUnknown(err) {
		if at := r.whereabouts(ctx, l.Lineage, l.ID); at.Queue == in.To && at.Queue != r.name {
			answer.MessageID, answer.Mark, err = at.MessageID, at.Mark, nil
		}
	}
	refused, ok := errors.AsType[*v1client.Error](err)
	switch {
	case err == nil && aside && l.bad == nil && !fifo && !in.Park:
		return true, t.PutAside(ctx, r.cfg.Store, answer.MessageID)
	case err == nil:
		if r.follower != nil && d.Action == Redrive {
			l.mark = answer.Mark
		}
		return true, nil
	case ok && (refused.Code == codeGone || refused.Status == http.StatusConflict):
		r.cfg.Logger.Warn("another process has taken a dead letter; the redriver leaves it alone",
			"message", l.ID, "error", err)
		l.lost = true
		return true, nil
	case ok && refused.Status == http.StatusForbidden || errors.Is(err, v1client.ErrOther):
		r.deny(err)
		return false, nil
	}
	return true, err
}

// isUnknown reports whether a request that failed may have taken effect.
func isUnknown(err error) bool {
	refused, ok := errors.AsType[*v1client.Error](err)
	return err != nil && !errors.Is(err, v1client.ErrOther) && (!ok || refused.Passing())
}

// A place says where a piece of work is.
type place struct{ Queue, MessageID, Mark string }

// whereabouts asks the server where the message of a lineage is that was a letter with an id. The
// result is the zero value if no queue has it, or if the server does not say. The server does not
// know the lineage in the trail of a message that was copied; for it, the letter began one.
// [NACK-21]
func (r *Redriver) whereabouts(ctx context.Context, lineage, letter string) place {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), whereaboutsMax)
	defer cancel()
	for _, id := range []string{lineage, letter} {
		var at place
		err := r.features.server.Get(ctx, "/messages/"+url.PathEscape(id), nil, &at)
		if err == nil && at.Mark != "" {
			return at
		}
	}
	return place{}
}

// whereaboutsMax is the time limit of the question.
const whereaboutsMax = 5 * time.Second

// codeGone is the code of a letter that is no longer in its queue. [NACK-19]
const codeGone = "ResourceNotFoundException"

// deny keeps the redriver from asking for a while.
func (r *Redriver) deny(err error) {
	r.oneStep.mu.Lock()
	defer r.oneStep.mu.Unlock()
	r.oneStep.until = time.Now().Add(deniedPause)
	r.cfg.Logger.Warn("the server does not let this redriver move dead letters in one step; it sends copies and deletes for a while",
		"error", err, "retry_in", deniedPause)
}
