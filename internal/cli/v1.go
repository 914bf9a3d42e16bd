package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/spf13/cobra"

	"tenaq/internal/work/v1client"
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
	Holds        *HeldGroup `json:"holds,omitempty"` // that waits for this dead letter
	Size         int64      `json:"size"`
	Lineage      string     `json:"lineageId"`
	Generation   int64      `json:"generation"`
	Fence        int64      `json:"fence"`
	Place        string     `json:"place,omitempty"`
	// this and the next three as workers and redrivers wrote them
	Key      string `json:"key,omitempty"`
	Reason   string `json:"reason,omitempty"` // or as its consumer told the server
	Attempts int    `json:"attempts,omitempty"`
	Redrives int    `json:"redrives,omitempty"`
	Kind     string `json:"kind,omitempty"` // of the reason
	// what consumers said when they gave the message back, the latest last
	Story   []PeekedAttempt `json:"story,omitempty"`
	Body    *string         `json:"body,omitempty"`
	BodyCut bool            `json:"bodyCut,omitempty"`

	Attributes map[string]PeekedAttribute `json:"attributes,omitempty"` // of a sample, after an edit
}

// A HeldGroup is a group of messages, and its queue.
type HeldGroup struct {
	Queue string `json:"queue"`
	Group string `json:"groupId"`
}

// A PeekedAttribute is a user attribute. A type that begins with Binary has its value in base64.
type PeekedAttribute struct {
	Type   string `json:"type"`
	Value  string `json:"value,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
}

// A PeekedAttempt is how a receive ended: retry, poison, release or returned.
type PeekedAttempt struct {
	How      string    `json:"how"`
	Receive  int64     `json:"receive"`
	Received time.Time `json:"received"`
	Ended    time.Time `json:"ended"`
	Class    string    `json:"class,omitempty"`
	Text     string    `json:"text,omitempty"`
}

// A FoundMessage is a message with its queue, as show prints it with --json.
type FoundMessage struct {
	Queue string `json:"queue"`
	Peeked
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
const V1Header = v1client.Header

// A V1Client reads what a tenaq server shows beside the SQS API.
type V1Client struct {
	C    *Client // its endpoint, credentials and errors
	HTTP sqs.HTTPClient
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

// OnQueueV1 finds the server for a command whose first argument is a queue. do gets the name of the
// queue and the other arguments.
func (f *ClientFlags) OnQueueV1(
	lack string, do func(ctx context.Context, v *V1Client, queue string, args []string) error,
) func(*cobra.Command, []string) error {
	return f.RunV1(lack, func(ctx context.Context, v *V1Client, args []string) error {
		queue, err := v.QueueName(ctx, args[0])
		if err != nil {
			return err
		}
		return do(ctx, v, queue, args[1:])
	})
}

func (v *V1Client) Missing() error { return Codedf(ExitUsage, "%s %s", v.C.Endpoint, v.Lack) }

// Messages shows up to limit messages of a queue without receiving them. query chooses them.
func (v *V1Client) Messages(
	ctx context.Context, queue string, query url.Values, limit int,
) (PeekedList, error) {
	list := PeekedList{Queue: QueueNameOf(queue), Messages: []Peeked{}}
	path := "/queues/" + url.PathEscape(list.Queue) + "/messages"
	err := Pages(ctx, v, "look at", queue, path, query, PeekPage, limit,
		func(p *PeekedList) (int, string) {
			list.Messages, list.Next = append(list.Messages, p.Messages...), p.Next
			return len(p.Messages), p.Next
		})
	return list, err
}

// Message finds a message by its id or by that of its lineage. query says what to show of it.
func (v *V1Client) Message(
	ctx context.Context, id string, query url.Values,
) (found FoundMessage, err error) {
	err = v.Get(ctx, "show "+id, "", "/messages/"+url.PathEscape(id), query, &found)
	return found, err
}

// Queues shows up to limit queues. query chooses them.
func (v *V1Client) Queues(
	ctx context.Context, query url.Values, limit int,
) (PeekedQueues, error) {
	list := PeekedQueues{Queues: []PeekedQueue{}}
	err := Pages(ctx, v, "look at the queues", "", "/queues", query, peekQueuesPage, limit,
		func(p *PeekedQueues) (int, string) {
			list.Queues, list.Next = append(list.Queues, p.Queues...), p.Next
			return len(p.Queues), p.Next
		})
	return list, err
}

// HeldGroupsMax is how many held groups HeldGroups counts.
const HeldGroupsMax = 100

// HeldGroups counts the message groups of a queue that wait for dead letters.
func (v *V1Client) HeldGroups(ctx context.Context, queue string) (n int, err error) {
	var page struct {
		Groups []struct {
			State string `json:"state"`
		} `json:"groups"`
	}
	query := url.Values{"only": {"locked"}, "limit": {strconv.Itoa(HeldGroupsMax)}}
	err = v.Get(ctx, "list the groups of", queue,
		"/queues/"+url.PathEscape(QueueNameOf(queue))+"/groups", query, &page)
	for _, g := range page.Groups {
		if g.State == "held" {
			n++
		}
	}
	return n, err
}

// Pages reads pages of at most most things until there are limit of them. take returns how many a
// page has, and where the next one begins: empty at the end.
func Pages[P any](
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
	ctx, cancel := v.C.Bound(ctx, 0)
	defer cancel()
	return v.Explain(ctx, doing, queue, v.API().Get(ctx, path, query, answer))
}

// Post sends a document to a path below /v1.
func (v *V1Client) Post(ctx context.Context, doing, about, path string, in, answer any) error {
	ctx, cancel := v.C.Bound(ctx, 0)
	defer cancel()
	return v.Explain(ctx, doing, about, v.API().Post(ctx, path, in, answer))
}

// API is the client whose errors Explain explains.
func (v *V1Client) API() *v1client.Client {
	c := &v1client.Client{URL: v.C.Endpoint.URL, HTTP: v.HTTP}
	if v.C.Client != nil {
		o := v.C.Options()
		c.Credentials, c.Region = o.Credentials, o.Region
	}
	return c
}

// Explain is Client.Explain for errors of API.
func (v *V1Client) Explain(ctx context.Context, doing, about string, err error) error {
	if err == v1client.ErrOther {
		return v.Missing()
	}
	return v.C.Explain(doing, about, WithCause(ctx, err))
}
