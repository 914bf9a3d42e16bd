package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Limits of what is asked for at a time, and of a body and a reason in a table.
const (
	peekPage        = 100
	peekLimitMax    = 10_000
	peekBodyMax     = 1 << 20
	peekBodyTable   = 200
	peekReasonTable = 120
)

// peekLack says what to do where there is no such look.
const peekLack = "shows a message only by delivering it: \"tenaq receive QUEUE --visibility 0\" receives one, which counts and may " +
	"move it to the dead-letter queue; to look without that, use a tenaq server of this version"

type peekFlags struct {
	clientFlags
	state, after string
	limit        int
	bodies       bool
}

func newPeekCmd(a *app) *cobra.Command {
	f := &peekFlags{}
	cmd := &cobra.Command{
		Use:   "peek [QUEUE]",
		Short: "Look at messages without receiving them, or at all queues",
		Long: `Look at the messages of a queue without receiving them: nothing is counted as a receive, hidden or moved.
Without a queue, look at what waits in all of them.

Messages come in the order in which they entered the queue. Each is in one of these states:
  visible    it can be received now
  in_flight  it was received, and its visibility timeout is not over
  delayed    its delay is not over
  blocked    in a FIFO queue, it waits behind a message of its group that is in flight or delayed

Of a message that a worker of tenaq gave up, the key of its work, the number of attempts and the reason are
shown, and the queue it came from. They are what the worker wrote into the attribute tenaq.

When there are more messages than --limit, the command says where to go on with --after. With --json all is
shown that is known: times, deduplication ids, sequence numbers, the id with which a message was first sent.
A body that is kept beside the queue is shown as the pointer to it.

This needs a tenaq server. Other servers show a message only by delivering it. There, use
"tenaq receive QUEUE --visibility 0": it counts as a receive, and one receive too many moves the message to
the dead-letter queue.`,
		Example: `  tenaq peek
  tenaq peek orders
  tenaq peek orders --state in_flight --limit 100
  tenaq peek orders-dlq --body
  tenaq peek orders --body --json | jq -r '.messages[].body'`,
		Args: wants(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.limit < 1 || f.limit > peekLimitMax {
				return usagef("--limit: %d is not a number from 1 to %d", f.limit, peekLimitMax)
			}
			v, err := f.connectV1(cmd.Context(), peekLack)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				for _, name := range []string{"state", "body"} {
					if cmd.Flags().Changed(name) {
						return usagef("--%s is about messages; name a queue", name)
					}
				}
				return f.printQueues(cmd.Context(), a, v)
			}
			return f.printMessages(cmd.Context(), a, v, args[0])
		},
	}
	f.clientFlags.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.state, "state", "", "only messages in this `state`: visible, in_flight, delayed or blocked")
	flags.IntVar(&f.limit, "limit", 20, "show at most this `number` of messages or queues")
	flags.BoolVar(&f.bodies, "body", false, "show bodies as well, their beginning in the table and up to 1 MiB with --json")
	completes(cmd, "state", "visible", "in_flight", "delayed", "blocked")
	flags.StringVar(&f.after, "after", "", "go on from this `place`, as an earlier look has named it")
	return cmd
}

// A peekedList is what peek shows of a queue, as --json prints it.
type peekedList struct {
	Queue    string   `json:"queue"`
	Messages []peeked `json:"messages"`
	Next     string   `json:"next,omitempty"` // where to go on; empty at the end
}

// A peeked is a message as the server shows it.
type peeked struct {
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
	Key          string     `json:"key,omitempty"` // this and the next three as workers and redrivers wrote them
	Reason       string     `json:"reason,omitempty"`
	Attempts     int        `json:"attempts,omitempty"`
	Redrives     int        `json:"redrives,omitempty"`
	Body         *string    `json:"body,omitempty"`
	BodyCut      bool       `json:"bodyCut,omitempty"`
}

// printMessages shows messages of a queue.
func (f *peekFlags) printMessages(ctx context.Context, a *app, v *v1Client, queue string) error {
	if isAmazonURL(queue) {
		return usagef("%s is a queue of Amazon, which shows a message only by delivering it", queue)
	}
	list := peekedList{Queue: queueNameOf(queue), Messages: []peeked{}, Next: f.after}
	for {
		query := url.Values{"limit": {strconv.Itoa(min(peekPage, f.limit-len(list.Messages)))}, "trail": {"1"}}
		if f.state != "" {
			query.Set("state", f.state)
		}
		if list.Next != "" {
			query.Set("after", list.Next)
		}
		switch {
		case f.bodies && a.json:
			query.Set("body", strconv.Itoa(peekBodyMax))
		case f.bodies:
			query.Set("body", strconv.Itoa(peekBodyTable))
		}
		var page peekedList
		if err := v.get(ctx, "look at", queue, "/queues/"+url.PathEscape(list.Queue)+"/messages", query, &page); err != nil {
			return err
		}
		list.Messages = append(list.Messages, page.Messages...)
		if list.Next = page.Next; list.Next == "" || len(list.Messages) >= f.limit {
			break
		}
	}
	if a.json {
		return a.printJSON(list)
	}
	if len(list.Messages) > 0 {
		if err := a.printTable(messageTable(list.Messages, f.bodies)); err != nil {
			return err
		}
	} else {
		a.note("no messages")
	}
	if list.Next != "" {
		a.note("there may be more; go on with --after %s", list.Next)
	}
	return nil
}

// messageTable has the columns that say something about these messages.
func messageTable(messages []peeked, bodies bool) table {
	columns := []struct {
		head   string
		always bool
		cell   func(m *peeked) string
	}{
		{"MESSAGE", true, func(m *peeked) string { return m.ID }},
		{"STATE", true, func(m *peeked) string { return m.State }},
		{"AGE", true, func(m *peeked) string { return roughDuration(time.Duration(m.AgeMS) * time.Millisecond) }},
		{"RECEIVES", true, func(m *peeked) string { return strconv.FormatInt(m.Receives, 10) }},
		{"SIZE", true, func(m *peeked) string { return strconv.FormatInt(m.Size, 10) }},
		{"VISIBLE", false, (*peeked).visible},
		{"GROUP", false, func(m *peeked) string { return m.Group }},
		{"FROM", false, func(m *peeked) string { return queueNameOf(m.Source) }},
		{"KEY", false, func(m *peeked) string { return m.Key }},
		{"ATTEMPTS", false, func(m *peeked) string { return orEmpty(m.Attempts > 0, strconv.Itoa(m.Attempts)) }},
		{"REASON", false, func(m *peeked) string { return firstWords(m.Reason, peekReasonTable) }},
		{"BODY", bodies, (*peeked).beginning},
	}
	t := table{rows: make([][]string, len(messages))}
	for _, c := range columns {
		cells, says := make([]string, len(messages)), c.always
		for i := range messages {
			cells[i] = c.cell(&messages[i])
			says = says || cells[i] != ""
		}
		if !says {
			continue
		}
		t.head = append(t.head, c.head)
		for i, cell := range cells {
			t.rows[i] = append(t.rows[i], cell)
		}
	}
	return t
}

// visible says when a message that is not can be received, by the clock of the server.
func (m *peeked) visible() string {
	now := m.Sent.Add(time.Duration(m.AgeMS) * time.Millisecond)
	if left := m.VisibleAt.Sub(now); left > 0 {
		return "in " + roughDuration(left)
	}
	return ""
}

// beginning is the body as a table shows it.
func (m *peeked) beginning() string {
	switch {
	case m.Body == nil:
		return ""
	case m.BodyCut:
		return *m.Body + "..."
	}
	return *m.Body
}

// roughDuration says a duration to its largest unit.
func roughDuration(d time.Duration) string {
	for _, u := range []time.Duration{24 * time.Hour, time.Hour, time.Minute} {
		if d >= u {
			return humanDuration(d.Truncate(u))
		}
	}
	return humanDuration(d)
}

// A peekedQueues is what peek shows of all queues.
type peekedQueues struct {
	Queues []peekedQueue `json:"queues"`
	Next   string        `json:"next,omitempty"`
}

// A peekedQueue is a queue as the server shows it.
type peekedQueue struct {
	queueRef
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

// printQueues shows the queues.
func (f *peekFlags) printQueues(ctx context.Context, a *app, v *v1Client) error {
	list := peekedQueues{Queues: []peekedQueue{}, Next: f.after}
	for {
		query := url.Values{"limit": {strconv.Itoa(min(peekQueuesPage, f.limit-len(list.Queues)))}}
		if list.Next != "" {
			query.Set("after", list.Next)
		}
		var page peekedQueues
		if err := v.get(ctx, "look at the queues", "", "/queues", query, &page); err != nil {
			return err
		}
		list.Queues = append(list.Queues, page.Queues...)
		if list.Next = page.Next; list.Next == "" || len(list.Queues) >= f.limit {
			break
		}
	}
	if a.json {
		return a.printJSON(list)
	}
	if len(list.Queues) == 0 {
		a.note("no queues at %s", v.c.endpoint)
	} else if err := a.printTable(queueTable(list.Queues)); err != nil {
		return err
	}
	if list.Next != "" {
		a.note("there are more; go on with --after %s", list.Next)
	}
	return nil
}

// peekQueuesPage is how many queues are asked for at a time.
const peekQueuesPage = 50

func queueTable(queues []peekedQueue) table {
	t := table{head: []string{"QUEUE", "VISIBLE", "IN FLIGHT", "DELAYED", "OLDEST", "DEAD LETTERS"}}
	for i := range queues {
		q := &queues[i]
		oldest := ""
		if q.Visible+q.InFlight+q.Delayed > 0 {
			oldest = roughDuration(time.Duration(q.OldestAgeMS) * time.Millisecond)
		}
		t.add(q.Name, strconv.FormatInt(q.Visible, 10), strconv.FormatInt(q.InFlight, 10), strconv.FormatInt(q.Delayed, 10), oldest, q.deadLetters())
	}
	return t
}

// deadLetters says where dead letters go and where they come from.
func (q *peekedQueue) deadLetters() string {
	var says []string
	if q.DeadLetters != nil {
		says = append(says, fmt.Sprintf("to %s after %d", q.DeadLetters.Queue, q.DeadLetters.MaxReceives))
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
