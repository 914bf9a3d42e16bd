package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go"
)

// An alarmChange is an alarm that came into another state.
type alarmChange struct {
	Alarm  string    `json:"alarm"`
	Queue  string    `json:"queue,omitempty"`
	Was    string    `json:"was"`
	State  string    `json:"state"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

type AlarmHistory struct {
	Changes []alarmChange `json:"changes"`
}

// Limits of what is asked for at a time, and of a body and a reason in a table.
const (
	PeekPage        = 100
	PeekLimitMax    = 10_000
	PeekBodyMax     = 1 << 20
	PeekBodyTable   = 200
	PeekReasonTable = 120
)

// PeekLack says what to do where there is no such look.
const PeekLack = "shows a message only by delivering it: \"tenaq receive QUEUE --visibility 0\" receives one, which counts and may " +
	"move it to the dead-letter queue; to look without that, use a tenaq server of this version"

// A PeekedList is what peek shows of a queue, as --json prints it.
type PeekedList struct {
	Queue    string   `json:"queue"`
	Messages []Peeked `json:"messages"`
	Next     string   `json:"next,omitempty"` // where to go on; empty at the end
}

// A Peeked is a message as the server shows it.
type Peeked struct {
	ID           string     `json:"messageId"`
	State        string     `json:"state"`
	Sent         time.Time  `json:"sent"`
	AgeMS        int64      `json:"ageMs"`
	FirstSent    time.Time  `json:"firstSent"`
	VisibleAt    time.Time  `json:"visibleAt"`
	Receives     int64      `json:"receiveCount"`
	FirstReceive *time.Time `json:"firstReceive,omitempty"`
	LastReceive  *time.Time `json:"lastReceive,omitempty"`
	Group        string     `json:"groupId,omitempty"`
	Dedup        string     `json:"deduplicationId,omitempty"`
	Sequence     string     `json:"sequenceNumber,omitempty"`
	Source       string     `json:"deadLetterSource,omitempty"`
	Lineage      string     `json:"lineageId"`
	Size         int64      `json:"size"`
	// this and the next three as workers and redrivers wrote them
	Key      string  `json:"key,omitempty"`
	Reason   string  `json:"reason,omitempty"`
	Attempts int     `json:"attempts,omitempty"`
	Redrives int     `json:"redrives,omitempty"`
	Body     *string `json:"body,omitempty"`
	BodyCut  bool    `json:"bodyCut,omitempty"`
}

// Visible says when a message that is not can be received, by the clock of the server.
func (m *Peeked) Visible() string {
	now := m.Sent.Add(time.Duration(m.AgeMS) * time.Millisecond)
	if left := m.VisibleAt.Sub(now); left > 0 {
		return "in " + RoughDuration(left)
	}
	return ""
}

// Beginning is the body as a table shows it.
func (m *Peeked) Beginning() string {
	switch {
	case m.Body == nil:
		return ""
	case m.BodyCut:
		return *m.Body + "..."
	}
	return *m.Body
}

// RoughDuration says a duration to its largest unit.
func RoughDuration(d time.Duration) string {
	for _, u := range []time.Duration{24 * time.Hour, time.Hour, time.Minute} {
		if d >= u {
			return HumanDuration(d.Truncate(u))
		}
	}
	return HumanDuration(d)
}

// A PeekedQueues is what peek shows of all queues.
type PeekedQueues struct {
	Queues []PeekedQueue `json:"queues"`
	Next   string        `json:"next,omitempty"`
}

// A PeekedQueue is a queue as the server shows it.
type PeekedQueue struct {
	QueueRef
	FIFO          bool               `json:"fifo"`
	Visible       int64              `json:"visible"`
	InFlight      int64              `json:"inFlight"`
	Delayed       int64              `json:"delayed"`
	OldestAgeMS   int64              `json:"oldestAgeMs"`
	DeadLetters   *peekedDeadLetters `json:"deadLetters,omitempty"`
	DeadLettersOf []string           `json:"deadLettersOf,omitempty"`
	MoreSources   bool               `json:"deadLettersOfMore,omitempty"`
}

type peekedDeadLetters struct {
	Queue       string `json:"queue"`
	MaxReceives int64  `json:"maxReceiveCount"`
}

// PeekQueuesPage is how many queues are asked for at a time.
const PeekQueuesPage = 50

// deadLetters says where dead letters go and where they come from.
func (q *PeekedQueue) DeadLettersText() string {
	var says []string
	if q.DeadLetters != nil {
		says = append(says, fmt.Sprintf("to %s after %d", q.DeadLetters.Queue,
			q.DeadLetters.MaxReceives))
	}
	if len(q.DeadLettersOf) > 0 {
		from := "of " + strings.Join(q.DeadLettersOf, ", ")
		if q.MoreSources {
			from += " and others"
		}
		says = append(says, from)
	}
	return strings.Join(says, "; ")
}

// V1Header is what a tenaq server says of itself in answers of /v1.
const V1Header = "Tenaq-Api"

// A V1Client reads what a tenaq server shows beside the SQS API.
type V1Client struct {
	// for its endpoint, its credentials if it has any, and its words for what goes wrong
	C    *Client
	HTTP interface {
		Do(*http.Request) (*http.Response, error)
	}
	Lack string // what it means that a server is not ours
}

// ConnectV1 finds the server. A server without credentials is asked without any, so it does not
// matter if there are none. Lack is what to say, and to do, where the server is none of ours.
func (f *ClientFlags) ConnectV1(ctx context.Context, lack string) (*V1Client, error) {
	c, err := f.Connect(ctx)
	switch {
	case err == nil && !c.Endpoint.IsAmazon():
		return &V1Client{c, c.Options().HTTPClient, lack}, nil
	case err != nil && ExitCode(err) == ExitUsage:
		return nil, err
	}
	e, err := f.Resolve()
	if err != nil {
		return nil, err
	}
	timeout, err := ParseDuration(f.Timeout)
	if err != nil {
		return nil, err
	}
	v := &V1Client{&Client{Endpoint: e, Timeout: timeout}, &http.Client{Transport: &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}}, lack}
	if e.IsAmazon() {
		return nil, v.Missing()
	}
	return v, nil
}

// Sign signs a request as those of the SQS API are signed, where there is anything to sign with.
func (v *V1Client) Sign(ctx context.Context, req *http.Request, body []byte) error {
	if v.C.Client == nil || v.C.Options().Credentials == nil {
		return nil
	}
	keys, err := v.C.Options().Credentials.Retrieve(ctx)
	if err != nil {
		return Codedf(ExitFailed, "there are no credentials for %s: %v", v.C.Endpoint, err)
	}
	sum := sha256.Sum256(body)
	return v4.NewSigner().SignHTTP(ctx, keys, req, hex.EncodeToString(sum[:]), "sqs",
		v.C.Options().Region, time.Now())
}

// Missing says what to do where there is nothing of the kind.
func (v *V1Client) Missing() error { return Codedf(ExitUsage, "%s %s", v.C.Endpoint, v.Lack) }

// Get reads a path below /v1 into an answer. What is being done to which queue begins the sentence
// when it fails.
func (v *V1Client) Get(
	ctx context.Context, doing, queue, path string, query url.Values, answer any,
) error {
	return v.do(ctx, http.MethodGet, doing, queue, path+"?"+query.Encode(), nil, answer)
}

// Post sends a document to a path below /v1 that changes something.
func (v *V1Client) Post(ctx context.Context, doing, about, path string, in, answer any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return v.do(ctx, http.MethodPost, doing, about, path, body, answer)
}

func (v *V1Client) do(
	ctx context.Context, method, doing, queue, path string, in []byte, answer any,
) error {
	ctx, cancel := v.C.Bound(ctx, 0)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, v.C.Endpoint.URL+"/v1"+path,
		bytes.NewReader(in))
	if err != nil {
		return Usagef("%s is not an address to ask at: %v", v.C.Endpoint, err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if err := v.Sign(ctx, req, in); err != nil {
		return err
	}
	resp, err := v.HTTP.Do(req)
	if err != nil {
		return v.C.Explain(doing, queue, WithCause(ctx, err))
	}
	defer resp.Body.Close()
	if resp.Header.Get(V1Header) == "" {
		return v.Missing()
	}
	if resp.StatusCode == http.StatusOK {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return v.C.Explain(doing, queue, WithCause(ctx, err))
		}
		if err := json.Unmarshal(body, answer); err != nil {
			return Codedf(ExitFailed, "%s: %s has answered what this version cannot read: %v",
				strings.TrimSpace(doing+" "+queue), v.C.Endpoint, err)
		}
		return nil
	}
	return v.Refusal(resp, doing, queue)
}

// Refusal reads why a server has refused.
func (v *V1Client) Refusal(resp *http.Response, doing, queue string) error {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return v.C.Explain(doing, queue, err)
	}
	var refusal struct{ Code, Message string }
	if json.Unmarshal(body, &refusal) != nil || refusal.Code == "" {
		refusal.Code = http.StatusText(resp.StatusCode)
	}
	return v.C.Explain(doing, queue,
		&smithy.GenericAPIError{Code: refusal.Code, Message: refusal.Message})
}
