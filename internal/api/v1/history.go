package v1

import (
	"time"

	"tenaq/internal/api/intake"
	"tenaq/internal/engine"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/work/fingerprint"
)

// An outcomeList is a page of GET /v1/queues/{queue}/history.
type outcomeList struct {
	Outcomes []outcome `json:"outcomes"`
	Next     string    `json:"next,omitempty" doc:"where to go on; the page may be short or empty"`
	Kept     keptList  `json:"kept"`
}

// A keptList is how much the history of a queue holds.
type keptList struct {
	Outcomes int64   `json:"outcomes"`
	Bytes    int64   `json:"bytes"`
	Oldest   *string `json:"oldest,omitempty" doc:"when the oldest of them ended"`
}

// An outcome is what became of a message. [HIST-2, HIST-7]
type outcome struct {
	Outcome      string  `json:"outcome" enum:"deleted,expired,dead_lettered,moved,parked,replaced,removed"`
	Ended        *string `json:"ended"`
	To           string  `json:"to,omitempty" doc:"name of the queue to which it moved"`
	ID           string  `json:"messageId"`
	Lineage      string  `json:"lineageId"`
	Generation   uint64  `json:"generation"`
	Fence        uint64  `json:"fence" doc:"of its latest delivery"`
	Redrives     uint64  `json:"redrives,omitempty"`
	Sent         *string `json:"sent"`
	FirstSent    *string `json:"firstSent"`
	Receives     uint32  `json:"receiveCount"`
	FirstReceive *string `json:"firstReceive,omitempty"`
	LastReceive  *string `json:"lastReceive,omitempty"`
	Group        string  `json:"groupId,omitempty"`
	Dedup        string  `json:"deduplicationId,omitempty"`
	Sequence     string  `json:"sequenceNumber,omitempty"`
	Source       string  `json:"deadLetterSource,omitempty"`
	Size         int64   `json:"size"`
	Key          string  `json:"key,omitempty"`
	Attempts     int     `json:"attempts,omitempty"`

	// Why it failed, as its consumer told the server, or else as a worker wrote.
	Reason string    `json:"reason,omitempty"`
	Kind   string    `json:"kind,omitempty" doc:"fingerprint of the reason"`
	Story  []attempt `json:"story,omitempty" doc:"what consumers told the server, five of them"`

	Attributes map[string]attribute `json:"attributes,omitempty" doc:"when they were asked for"`
	Body       *string              `json:"body,omitempty" doc:"when it was asked for"`
	BodyCut    bool                 `json:"bodyCut,omitempty"`
}

type historyIn struct {
	Queue      string    `path:"queue"`
	ID         string    `query:"id" doc:"id of the message"`
	Lineage    string    `query:"lineage" doc:"lineage id of the message"`
	Key        string    `query:"key" doc:"key of the work"`
	Group      string    `query:"group" doc:"message group id"`
	From       time.Time `query:"from" doc:"ended at this time or later"`
	To         time.Time `query:"to" doc:"ended before this time"`
	Outcome    string    `query:"outcome" enum:"deleted,expired,dead_lettered,moved,parked,replaced,removed"`
	Attribute  string    `query:"attribute" doc:"has this message attribute: name, or name=value"`
	Text       string    `query:"text" doc:"has this text in its body"`
	Order      string    `query:"order" enum:"newest,oldest" default:"newest"`
	Body       int       `query:"body" range:"0,1048576" doc:"bytes of each body to show"`
	Attributes bool      `query:"attributes" doc:"show message attributes"`
	Limit      int       `query:"limit" range:"1,1000" default:"20"`
	After      string    `query:"after" doc:"next of the page before"`
}

// history answers GET /v1/queues/{queue}/history. [HIST-7, HIST-8, HIST-9]
func (c *call) history(in historyIn) (list outcomeList, err error) {
	kind, _ := engine.OutcomeKindOf(in.Outcome)
	op := &engine.History{Queue: c.queue(in.Queue), After: in.After,
		HistoryQuery: engine.HistoryQuery{Key: in.Key, Group: in.Group,
			From: unixMilli(in.From), To: unixMilli(in.To), Kind: kind,
			Attribute: in.Attribute, Text: in.Text, Oldest: in.Order == "oldest", Max: in.Limit}}
	if op.ID, err = messageID("id", in.ID); err != nil {
		return list, err
	}
	if op.Lineage, err = messageID("lineage", in.Lineage); err != nil {
		return list, err
	}
	if err := c.do(op); err != nil {
		return list, err
	}
	c.room = c.cfg.Intake.Answers.Hold(c.principal.Account())
	if err := c.room.Wait(c, historyRoom, intake.WaitMax); err != nil {
		return list, err
	}
	page, next := c.cfg.Broker.ReadHistory(op)
	list = outcomeList{Outcomes: make([]outcome, len(page)), Next: next}
	list.Kept.Outcomes, list.Kept.Bytes = op.View.Totals()
	list.Kept.Oldest = timeText(op.View.Oldest())
	for i := range page {
		list.Outcomes[i] = shownOutcome(&page[i], in.Body, in.Attributes)
	}
	return list, nil
}

// messageID reads a message id that may be absent.
func messageID(name, text string) (engine.MessageID, error) {
	id, ok := engine.ParseMessageID(text)
	if !ok && text != "" {
		return id, errValue(name, text, "the id of a message")
	}
	return id, nil
}

// historyRoom is the memory that a page takes: what is read at a time, and its JSON.
const historyRoom = (pageBytes + 1<<20) * intake.AnswerCost

// unixMilli is a time of a query; zero when it is absent.
func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// shownOutcome shows an outcome, with up to body bytes of its body.
func shownOutcome(o *engine.Outcome, body int, attributes bool) outcome {
	t := monitor.TrailOf(o.Content.Attributes)
	s := outcome{
		Outcome:      o.Kind.String(),
		Ended:        timeText(o.Ended),
		To:           o.To.Name,
		ID:           o.ID.String(),
		Lineage:      engine.MessageID(o.Outcome.Lineage).String(),
		Generation:   o.Generation,
		Fence:        o.Fence + uint64(o.Deliveries),
		Redrives:     o.Redrives,
		Sent:         timeText(o.Sent),
		FirstSent:    timeText(o.FirstSent),
		Receives:     o.Receives,
		FirstReceive: timeText(o.FirstReceive),
		LastReceive:  timeText(o.LastReceive),
		Group:        o.Group,
		Dedup:        o.Dedup,
		Source:       o.Source,
		Size:         o.Size,
		Key:          o.Key,
		Attempts:     t.Attempts,
	}
	if t.Reason != "" {
		s.Reason, s.Kind = t.Reason, fingerprint.Of(t.Reason)
	}
	if o.Story != nil {
		s.Story = attemptsOf(o.Story)
		if a := o.Story.Reason(); a != nil {
			s.Reason, s.Kind = a.Reason(), fingerprint.Of(a.Reason())
		}
	}
	if o.Dedup != "" {
		s.Sequence = engine.Sequence(o.Seq).String()
	}
	if attributes {
		s.Attributes = attributesOf(o.Content.Attributes)
	}
	if body > 0 {
		text, cut := beginning(o.Content.Body, body)
		s.Body, s.BodyCut = &text, cut
	}
	return s
}
