package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"tenaq/internal/testing/audit"
)

// A v1Client asks a server under /v1. It repeats nothing and waits as long as it takes, so that a
// request without an answer is decided when the server that it was sent to has ended.
type v1Client struct {
	root string
	http *http.Client
}

func newV1Client(endpoint string) v1Client {
	return v1Client{strings.TrimSuffix(endpoint, "/") + "/v1",
		&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
}

// do makes a request and decodes its answer. The status is 0 if there was no whole answer, or one
// that says nothing about the request. Statuses that are refused are errors, except those in fine.
func (c v1Client) do(ctx context.Context, method, path string, in, out any, fine ...int) (
	status int, err error,
) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return 0, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.root+path, body)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil, resp.StatusCode >= 500, resp.StatusCode == http.StatusTooManyRequests:
		return 0, nil
	case resp.StatusCode < 300:
		return resp.StatusCode, json.Unmarshal(text, out)
	}
	for _, s := range fine {
		if resp.StatusCode == s {
			return s, nil
		}
	}
	return resp.StatusCode, fmt.Errorf("%s %s was refused: %d: %s", method, path, resp.StatusCode,
		text)
}

// outcome is what a status says about a request that changes something.
func outcome(status int) audit.Outcome {
	switch {
	case status == 0:
		return audit.Unknown
	case status < 300:
		return audit.Done
	}
	return audit.Refused
}

// verdicts are what workers say of messages, poison only where there is a dead-letter queue.
var verdicts = []audit.Verdict{audit.Retry, audit.Release, audit.Retry, audit.Poison}

// nack gives a message back with a verdict and a reason that no other has.
func (l *Load) nack(ctx context.Context, rng *rand.Rand, q *queue, handle string) error {
	n := audit.Nack{Handle: handle, Verdict: verdicts[rng.IntN(len(verdicts))]}
	switch {
	case n.Verdict == audit.Poison && (l.dead == nil || q == l.dead):
		n.Verdict = audit.Retry
	case n.Verdict != audit.Poison && rng.IntN(2) == 0:
		n.Delay = time.Duration(rng.IntN(1500)) * time.Millisecond
	}
	n.Text = fmt.Sprintf("reason %x", rng.Uint64())
	done, err := l.record.nack(ctx, q, n)
	if done {
		l.mu.Lock()
		l.done.Nacked++
		l.mu.Unlock()
	}
	return err
}

// nack reports whether the message was surely given back.
func (r *recorder) nack(ctx context.Context, q *queue, n audit.Nack) (done bool, err error) {
	type entry struct {
		Handle  string        `json:"receiptHandle"`
		Verdict audit.Verdict `json:"verdict"`
		Class   string        `json:"class"`
		Text    string        `json:"text"`
		DelayMS int64         `json:"delayMs,omitempty"`
	}
	var in struct {
		Entries []entry `json:"entries"`
	}
	in.Entries = []entry{{n.Handle, n.Verdict, "Crash", n.Text, n.Delay.Milliseconds()}}
	var out struct {
		Outcomes []struct {
			Done          bool
			Code, Message string
		}
	}
	n.Call = r.now()
	status, err := r.v1.do(ctx, http.MethodPost, "/queues/"+q.name+"/nack", in, &out)
	n.Return = r.now()
	if n.Outcome = outcome(status); n.Outcome == audit.Done {
		switch o := out.Outcomes; {
		case len(o) != 1:
			return false, fmt.Errorf("a nack of one message was answered with %d outcomes", len(o))
		case !o[0].Done && !slices.Contains(nackRefused, o[0].Code):
			return false, fmt.Errorf("a nack was refused: %s: %s", o[0].Code, o[0].Message)
		case !o[0].Done:
			n.Outcome = audit.Refused // another worker was faster, or its timeout has ended
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Nacks = append(r.history.Nacks, n)
	return n.Outcome == audit.Done, err
}

// readHistories reads all that the queues say about messages that have left them.
func (l *Load) readHistories(ctx context.Context) error {
	if !l.cfg.History {
		return nil
	}
	for _, q := range append([]*queue{l.main}, l.others()...) {
		for after := ""; ; {
			var page struct {
				Outcomes []struct {
					Outcome, MessageID string
					Story              []struct{ Text string }
				}
				Next string
			}
			status, err := l.record.v1.do(ctx, http.MethodGet,
				"/queues/"+q.name+"/history?order=oldest&limit=1000&after="+after, nil, &page)
			if err != nil || status == 0 {
				return fmt.Errorf("the history of %s cannot be read: status %d, %w", q.name,
					status, err)
			}
			for _, o := range page.Outcomes {
				e := audit.Ending{Queue: q.name, MessageID: o.MessageID, How: o.Outcome}
				for _, s := range o.Story {
					e.Said = append(e.Said, s.Text)
				}
				l.record.history.Endings = append(l.record.history.Endings, e)
			}
			if after = page.Next; after == "" {
				break
			}
		}
	}
	return nil
}

// nackRefused are the codes of a nack whose handle is not the newest, or whose message is gone.
var nackRefused = []string{
	handleRefused, "ReceiptHandleIsInvalid", "Conflict", "ResourceNotFoundException",
}
