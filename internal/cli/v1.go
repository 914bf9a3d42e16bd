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
	"strconv"
	"strings"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"
)

// Limits of what is asked for at a time, and of a body and a reason in a table.
const (
	PeekPage        = 100
	PeekLimitMax    = 10_000
	PeekBodyMax     = 1 << 20
	PeekBodyTable   = 200
	PeekReasonTable = 120
)

// PeekLack ends the error for servers that cannot show messages.
const PeekLack = "shows a message only by delivering it: \"tenaq receive QUEUE --visibility 0\" receives one, which counts and may " +
	"move it to the dead-letter queue; to look without that, use a tenaq server of this version"

// A PeekedList is what peek shows of a queue, as --json prints it.
type PeekedList struct {
	Queue    string   `json:"queue"`
	Messages []Peeked `json:"messages"`
	Next     string   `json:"next,omitempty"` // where to go on; empty at the end
}

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

// Visible says when a hidden message becomes visible, by the clock of the server.
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

type PeekedQueues struct {
	Queues []PeekedQueue `json:"queues"`
	Next   string        `json:"next,omitempty"`
}

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

const peekQueuesPage = 50

// DeadLettersText says where dead letters go and where they come from.
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

// V1Header is the header by which answers of /v1 are recognized.
const V1Header = "Tenaq-Api"

// A V1Client reads what a tenaq server shows beside the SQS API.
type V1Client struct {
	C    *Client // its endpoint, credentials and errors
	HTTP interface {
		Do(*http.Request) (*http.Response, error)
	}
	Lack string // what another server lacks, and what to do: the end of an error
}

// ConnectV1 finds the server. Without credentials, requests are not signed: a server without keys
// accepts that. lack says what another server lacks, and what to do.
func (f *ClientFlags) ConnectV1(ctx context.Context, lack string) (*V1Client, error) {
	e, err := f.Resolve()
	if err != nil {
		return nil, err
	}
	v := &V1Client{C: &Client{Endpoint: e, Timeout: f.Timeout}, Lack: lack}
	if e.IsAmazon() {
		return nil, v.Missing()
	}
	switch c, err := f.Connect(ctx); {
	case err == nil:
		v.C, v.HTTP = c, c.Options().HTTPClient
	case ExitCode(err) == ExitUsage:
		return nil, err
	default:
		v.HTTP = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment,
			DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}}
	}
	return v, nil
}

// RunV1 finds the server for a command.
func (f *ClientFlags) RunV1(
	lack string, do func(ctx context.Context, v *V1Client, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		v, err := f.ConnectV1(cmd.Context(), lack)
		if err != nil {
			return err
		}
		return do(cmd.Context(), v, args)
	}
}

// Sign signs a request like those of the SQS API, if there are credentials.
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

func (v *V1Client) Missing() error { return Codedf(ExitUsage, "%s %s", v.C.Endpoint, v.Lack) }

// Messages shows up to limit messages of a queue without receiving them. query chooses them.
func (v *V1Client) Messages(
	ctx context.Context, queue string, query url.Values, limit int,
) (PeekedList, error) {
	list := PeekedList{Queue: QueueNameOf(queue), Messages: []Peeked{}}
	path := "/queues/" + url.PathEscape(list.Queue) + "/messages"
	err := pages(ctx, v, "look at", queue, path, query, PeekPage, limit,
		func(p *PeekedList) (int, string) {
			list.Messages, list.Next = append(list.Messages, p.Messages...), p.Next
			return len(p.Messages), p.Next
		})
	return list, err
}

// Queues shows up to limit queues. query chooses them.
func (v *V1Client) Queues(
	ctx context.Context, query url.Values, limit int,
) (PeekedQueues, error) {
	list := PeekedQueues{Queues: []PeekedQueue{}}
	err := pages(ctx, v, "look at the queues", "", "/queues", query, peekQueuesPage, limit,
		func(p *PeekedQueues) (int, string) {
			list.Queues, list.Next = append(list.Queues, p.Queues...), p.Next
			return len(p.Queues), p.Next
		})
	return list, err
}

// pages reads pages of at most most things until there are limit of them. take returns how many a
// page has, and where the next one begins: empty at the end.
func pages[P any](
	ctx context.Context, v *V1Client, doing, queue, path string, query url.Values, most, limit int,
	take func(*P) (n int, next string),
) error {
	for got := 0; got < limit; {
		query.Set("limit", strconv.Itoa(min(most, limit-got)))
		var page P
		if err := v.Get(ctx, doing, queue, path, query, &page); err != nil {
			return err
		}
		n, next := take(&page)
		if got += n; next == "" {
			return nil
		}
		query.Set("after", next)
	}
	return nil
}

// Get reads a path below /v1 into an answer. doing and queue begin the sentence of an error.
func (v *V1Client) Get(
	ctx context.Context, doing, queue, path string, query url.Values, answer any,
) error {
	return v.do(ctx, http.MethodGet, doing, queue, path+"?"+query.Encode(), nil, answer)
}

// Post sends a document to a path below /v1.
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
			return Codedf(ExitFailed, "%s: this version cannot read the answer of %s: %v",
				strings.TrimSpace(doing+" "+queue), v.C.Endpoint, err)
		}
		return nil
	}
	return v.Refusal(resp, doing, queue)
}

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
