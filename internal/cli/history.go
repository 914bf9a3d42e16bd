package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"
)

// HistoryLack ends the error for servers that keep no history.
const HistoryLack = "keeps no history of messages: that needs a tenaq server of this version"

// historyPage is how many outcomes are asked for at a time.
const historyPage = 1000

// An Outcome is what became of a message, as --json prints it.
type Outcome struct {
	Outcome      string     `json:"outcome"`
	Ended        time.Time  `json:"ended"`
	To           string     `json:"to,omitempty"`
	ID           string     `json:"messageId"`
	Lineage      string     `json:"lineageId"`
	Generation   uint64     `json:"generation"`
	Fence        uint64     `json:"fence"`
	Redrives     uint64     `json:"redrives,omitempty"`
	Sent         time.Time  `json:"sent"`
	FirstSent    time.Time  `json:"firstSent"`
	Receives     int64      `json:"receiveCount"`
	FirstReceive *time.Time `json:"firstReceive,omitempty"`
	LastReceive  *time.Time `json:"lastReceive,omitempty"`
	Group        string     `json:"groupId,omitempty"`
	Dedup        string     `json:"deduplicationId,omitempty"`
	Sequence     string     `json:"sequenceNumber,omitempty"`
	Source       string     `json:"deadLetterSource,omitempty"`
	Size         int64      `json:"size"`
	Key          string     `json:"key,omitempty"`
	Attempts     int        `json:"attempts,omitempty"`

	// Why it failed, and what consumers said when they gave it back, the latest last.
	Reason string          `json:"reason,omitempty"`
	Kind   string          `json:"kind,omitempty"`
	Story  []PeekedAttempt `json:"story,omitempty"`

	// as the server shows them, when they were asked for
	Attributes json.RawMessage `json:"attributes,omitempty"`
	Body       *string         `json:"body,omitempty"`
	BodyCut    bool            `json:"bodyCut,omitempty"`
}

// Beginning is the body as a table shows it.
func (o *Outcome) Beginning() string {
	return (&Peeked{Body: o.Body, BodyCut: o.BodyCut}).Beginning()
}

// History passes up to limit outcomes of a queue to take, page by page. query chooses them. Next is
// where to go on; empty at the end.
func (v *V1Client) History(
	ctx context.Context, queue string, query url.Values, limit int, take func([]Outcome) error,
) (next string, err error) {
	type answer struct {
		Outcomes []Outcome
		Next     string
	}
	var taken error
	path := "/queues/" + url.PathEscape(QueueNameOf(queue)) + "/history"
	err = Pages(ctx, v, "search the history of", queue, path, query, historyPage, limit,
		func(p *answer) (int, string) {
			if taken = take(p.Outcomes); taken != nil {
				return limit, ""
			}
			next = p.Next
			return len(p.Outcomes), p.Next
		})
	if err == nil {
		err = taken
	}
	return next, err
}

// ParseTimeOrAgo reads a time as RFC 3339 has it, or a duration before now.
func ParseTimeOrAgo(text string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	ago, err := ParseDuration(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a time such as 2026-01-31T12:00:00Z nor a duration such as 2h", text)
	}
	return time.Now().Add(-ago), nil
}
