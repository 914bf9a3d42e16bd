package v1

import (
	"cmp"
	"unicode/utf8"

	"tenaq/internal/api/intake"
	"tenaq/internal/engine"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/work/fingerprint"
)

// Limits of a page. [PEEK-5]
const (
	// bodyMax is the most of a body that an answer shows, and pageBytes the contents that are read
	// for one beside the first message, in bytes.
	bodyMax   = 1 << 20
	pageBytes = 4 << 20

	// stepsMax is how often one request looks on when it has found nothing. Each step is a turn of
	// the writer, in which other requests are served as well.
	stepsMax = 16
)

// A messageList is a page of GET /v1/queues/{queue}/messages.
type messageList struct {
	Messages []message `json:"messages"`
	Next     string    `json:"next,omitempty"`
}

// A message is a message that was peeked at. Times are those of the server's clock, so its age is
// there too.
type message struct {
	Queue        string              `json:"queue,omitempty" doc:"where it was found"`
	ID           string              `json:"messageId"`
	State        engine.MessageState `json:"state"`
	Sent         *string             `json:"sent"`
	AgeMS        int64               `json:"ageMs"`
	FirstSent    *string             `json:"firstSent"`
	VisibleAt    *string             `json:"visibleAt"`
	Receives     uint32              `json:"receiveCount"`
	FirstReceive *string             `json:"firstReceive,omitempty"`
	LastReceive  *string             `json:"lastReceive,omitempty"`
	Group        string              `json:"groupId,omitempty"`
	Dedup        string              `json:"deduplicationId,omitempty"`
	Sequence     string              `json:"sequenceNumber,omitempty"`
	// ARN; as its worker wrote it, where SQS does not know it
	Source string `json:"deadLetterSource,omitempty"`
	// Of a dead letter.
	Holds *heldGroup `json:"holds,omitempty" doc:"the group that waits for it"`
	Size  int64      `json:"size"`
	Place string     `json:"place" doc:"for at, and for /v1/replace"`
	Mark  string     `json:"mark,omitempty" doc:"for GET /v1/queues/{queue}/fate; of a message that was asked for by its id"`

	Lineage    string `json:"lineageId" doc:"messageId of the first message of this work"`
	Generation uint64 `json:"generation" doc:"raised by an intended replay of completed work"`
	Fence      uint64 `json:"fence" doc:"number of the latest delivery of the lineage, or 0"`

	// What workers and redrivers wrote about it, when that or the body was asked for.
	Key      string `json:"key,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
	Redrives int    `json:"redrives,omitempty"`

	// Why it failed, as its consumer told the server, or else as a worker wrote. Story is what
	// consumers said when they gave it back, the latest last.
	Reason string    `json:"reason,omitempty"`
	Kind   string    `json:"kind,omitempty"` // the fingerprint of the reason
	Story  []attempt `json:"story,omitempty"`

	Attributes map[string]attribute `json:"attributes,omitempty" doc:"when they were asked for; of a sample, as an edit leaves them"`
	Body       *string              `json:"body,omitempty"` // when it was asked for
	BodyCut    bool                 `json:"bodyCut,omitempty"`
}

// A heldGroup is a group that a dead letter holds. [HOLD-10]
type heldGroup struct {
	Queue string `json:"queue"`
	Group string `json:"groupId"`
}

type messagesIn struct {
	Queue string `path:"queue"`
	State string `query:"state" enum:"visible,in_flight,delayed,blocked,held"`
	After string `query:"after" doc:"next of the page before"`
	At    string `query:"at" doc:"place of a message, to look at that one alone"`
	Limit int    `query:"limit" range:"1,100" default:"20"`
	Body  int    `query:"body" range:"0,1048576" doc:"bytes of each body to show"`
	Trail bool   `query:"trail" doc:"show what workers wrote about the messages"`

	Attributes bool `query:"attributes" doc:"show message attributes"`
}

// messages answers GET /v1/queues/{queue}/messages. [PEEK-5, PEEK-6, PEEK-10]
func (c *call) messages(in messagesIn) (list messageList, err error) {
	op := &engine.Peek{Queue: c.queue(in.Queue), State: engine.MessageState(in.State),
		After: in.After, At: in.At, Max: in.Limit}
	contents := in.Body > 0 || in.Trail || in.Attributes
	if contents {
		op.Bytes = pageBytes
	}
	for range stepsMax {
		if err := c.do(op); err != nil {
			return list, err
		}
		if len(op.Messages) > 0 || op.Next == "" {
			break
		}
		op.After = op.Next
	}
	list = messageList{Messages: []message{}, Next: op.Next}
	if contents {
		size := int64(0)
		for i := range op.Messages {
			if each := op.Messages[i].Size; in.Body > 0 || in.Attributes {
				size += each
			} else { // of each content only the trail is kept
				size = max(size, each)
			}
		}
		if err := c.reserve(size); err != nil {
			return list, err
		}
	}
	for i := range op.Messages {
		m := c.shown(&op.Messages[i])
		if contents && !c.addContent(&m, &op.Messages[i], in.Body, in.Attributes) {
			continue // it was removed since
		}
		list.Messages = append(list.Messages, m)
	}
	return list, nil
}

// reserve waits for memory for size bytes of contents.
func (c *call) reserve(size int64) error {
	c.room = c.cfg.Intake.Answers.Hold(c.principal.Account())
	return c.room.Wait(c, min(size*intake.AnswerCost, intake.AnswerMost), intake.WaitMax)
}

func (c *call) shown(p *engine.Peeked) message {
	m := message{
		ID:           p.ID.String(),
		State:        p.State,
		Sent:         timeText(p.Sent),
		AgeMS:        p.Age,
		FirstSent:    timeText(p.FirstSent),
		VisibleAt:    timeText(p.VisibleAt),
		Receives:     p.Receives,
		FirstReceive: timeText(p.FirstReceive),
		LastReceive:  timeText(p.LastReceive),
		Group:        p.Group,
		Dedup:        p.Dedup,
		Source:       p.Source,
		Size:         p.Size,
		Place:        p.Place,
		Lineage:      p.Lineage.String(),
		Generation:   p.LineageGeneration,
		Fence:        p.Fence,
	}
	if p.Sequence != 0 {
		m.Sequence = p.Sequence.String()
	}
	if h := p.Holds; h != nil {
		m.Holds = &heldGroup{Queue: h.Queue.Name, Group: h.Group}
	}
	if s, ok := c.cfg.Broker.ReadStory(p.Delivery); ok { // [NACK-14]
		m.Story = attemptsOf(&s)
		if a := s.Reason(); a != nil {
			m.Reason, m.Kind = a.Reason(), fingerprint.Of(a.Reason())
		}
	}
	return m
}

// addContent reads the content of a message, off the writer, and adds it, and its attributes if
// they are wanted. It reports false when the message has been removed.
func (c *call) addContent(m *message, p *engine.Peeked, most int, attributes bool) bool {
	content, ok := c.cfg.Broker.ReadContent(p.Delivery)
	if ok {
		m.add(&content, most)
	}
	if ok && attributes {
		m.Attributes = attributesOf(content.Attributes)
	}
	return ok
}

// add adds what workers wrote about a message, and its body up to a limit in bytes.
func (m *message) add(content *engine.Content, most int) {
	t := monitor.TrailOf(content.Attributes)
	m.Key, m.Attempts, m.Redrives = t.Key, t.Attempts, t.Redrives
	if m.Reason == "" && t.Reason != "" {
		m.Reason, m.Kind = t.Reason, fingerprint.Of(t.Reason)
	}
	m.Source = cmp.Or(m.Source, t.Source)
	if most > 0 {
		body, cut := beginning(content.Body, most)
		m.Body, m.BodyCut = &body, cut
	}
}

// attributesOf shows message attributes; nil when there are none. [PEEK-11]
func attributesOf(all []engine.Attribute) map[string]attribute {
	if len(all) == 0 {
		return nil
	}
	shown := make(map[string]attribute)
	for _, a := range all {
		shown[a.Name] = attribute{Type: a.Type, Value: a.String, Base64: a.Binary}
	}
	return shown
}

// beginning returns at most most bytes of a body, cut between characters.
func beginning(body string, most int) (text string, cut bool) {
	if len(body) <= most {
		return body, false
	}
	for most > 0 && !utf8.RuneStart(body[most]) {
		most--
	}
	return body[:most], true
}
