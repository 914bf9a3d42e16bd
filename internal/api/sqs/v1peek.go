package sqs

import (
	"cmp"
	"unicode/utf8"

	"tenaq/internal/engine"
	"tenaq/internal/observe/monitor"
)

// Limits of a page. [PEEK-5]
const (
	v1PageUsual = 20

	// v1BodyMax is the most of a body that an answer shows, and v1PageBytes the contents that are read for one,
	// the first message aside.
	v1BodyMax   = 1 << 20
	v1PageBytes = 4 << 20

	// v1Steps is how often one request goes on to look when it has found nothing. Each is a turn of the writer's
	// work, in which others are served as well.
	v1Steps = 16
)

// A v1QueueList is a page of GET /v1/queues.
type v1QueueList struct {
	Queues []v1Queue `json:"queues"`
	Next   string    `json:"next,omitempty"`
}

// A v1Queue is a queue in a list.
type v1Queue struct {
	Name          string         `json:"name"`
	URL           string         `json:"url"`
	FIFO          bool           `json:"fifo"`
	Visible       int64          `json:"visible"` // as SQS counts them, those that are blocked included
	InFlight      int64          `json:"inFlight"`
	Delayed       int64          `json:"delayed"`
	OldestAgeMS   int64          `json:"oldestAgeMs"` // 0 when there is none
	DeadLetters   *v1DeadLetters `json:"deadLetters,omitempty"`
	DeadLettersOf []string       `json:"deadLettersOf,omitempty"` // names, the first ten
	MoreSources   bool           `json:"deadLettersOfMore,omitempty"`
}

// v1DeadLetters is where messages go that were received too often.
type v1DeadLetters struct {
	Queue       string `json:"queue"`
	MaxReceives int64  `json:"maxReceiveCount"`
}

// v1Queues answers GET /v1/queues?prefix=&after=&limit=. [PEEK-8]
func (c *call) v1Queues(string) (v1Answer, error) {
	q := c.query("prefix", "after", "limit")
	op := engine.PeekQueues{
		Account: c.principal.Account(),
		Prefix:  q.text("prefix"),
		After:   q.text("after"),
		Max:     q.number("limit", 1, engine.PeekQueuesMax, engine.PeekQueuesMax),
	}
	if q.err != nil {
		return v1Answer{}, q.err
	}
	res, err := c.do(op)
	if err != nil {
		return v1Answer{}, err
	}
	list := v1QueueList{Queues: []v1Queue{}, Next: res.NextToken}
	for i := range res.QueueViews {
		list.Queues = append(list.Queues, c.v1Queue(&res.QueueViews[i]))
	}
	return v1Answer{body: list}, nil
}

func (c *call) v1Queue(v *engine.QueueView) v1Queue {
	q := v1Queue{
		Name:        v.Queue.Name,
		URL:         c.url(v.Queue),
		FIFO:        v.FIFO,
		Visible:     v.Visible,
		InFlight:    v.InFlight,
		Delayed:     v.Delayed,
		OldestAgeMS: v.Age,
		MoreSources: v.MoreSources,
	}
	if v.Redrive != (engine.Redrive{}) {
		q.DeadLetters = &v1DeadLetters{v.Redrive.Target.Name, v.Redrive.MaxReceives}
	}
	for _, source := range v.Sources {
		q.DeadLettersOf = append(q.DeadLettersOf, source.Name)
	}
	return q
}

// A v1MessageList is a page of GET /v1/queues/NAME/messages.
type v1MessageList struct {
	Messages []v1Message `json:"messages"`
	Next     string      `json:"next,omitempty"`
}

// A v1Message is a message that was looked at. Times are by the clock of the server, which is why its age is
// there too.
type v1Message struct {
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
	Source       string              `json:"deadLetterSource,omitempty"` // ARN; as its worker wrote it, where SQS does not know it
	Lineage      string              `json:"lineageId"`
	Size         int64               `json:"size"`

	// What workers and redrivers wrote about it, when that or the body was asked for.
	Key      string `json:"key,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
	Redrives int    `json:"redrives,omitempty"`

	Body    *string `json:"body,omitempty"` // when it was asked for
	BodyCut bool    `json:"bodyCut,omitempty"`
}

// v1Messages answers GET /v1/queues/NAME/messages?state=&after=&limit=&body=&trail=. Body is how many bytes of
// each body are wanted, and trail whether what workers wrote is. [PEEK-5, PEEK-6, PEEK-10]
func (c *call) v1Messages(queue string) (v1Answer, error) {
	q := c.query("state", "after", "limit", "body", "trail")
	op := engine.Peek{
		Queue: c.ownQueue(queue),
		State: engine.MessageState(q.text("state")),
		After: q.text("after"),
		Max:   q.number("limit", 1, engine.PeekMax, v1PageUsual),
	}
	body := q.number("body", 0, v1BodyMax, 0)
	contents := body > 0 || q.number("trail", 0, 1, 0) == 1
	if contents {
		op.Bytes = v1PageBytes
	}
	if q.err != nil {
		return v1Answer{}, q.err
	}
	var res engine.Result
	for range v1Steps {
		var err error
		if res, err = c.do(op); err != nil {
			return v1Answer{}, err
		}
		if len(res.Peeked) > 0 || res.NextToken == "" {
			break
		}
		op.After = res.NextToken
	}
	answer, list := v1Answer{}, v1MessageList{Messages: []v1Message{}, Next: res.NextToken}
	if contents {
		size := int64(0)
		for i := range res.Peeked {
			if each := res.Peeked[i].Size; body > 0 {
				size += each
			} else { // of each content only the trail is kept
				size = max(size, each)
			}
		}
		c.room = c.h.answers.hold(c.principal.Account())
		if err := c.room.wait(c, min(size*answerCost, answerMost), readWait); err != nil {
			return v1Answer{}, err
		}
	}
	for i := range res.Peeked {
		m := v1MessageOf(&res.Peeked[i])
		if contents && !c.addContent(&m, &res.Peeked[i], body) {
			continue // it was removed since
		}
		list.Messages = append(list.Messages, m)
	}
	answer.body = list
	return answer, nil
}

func v1MessageOf(p *engine.Peeked) v1Message {
	m := v1Message{
		ID:           p.ID.String(),
		State:        p.State,
		Sent:         v1Time(p.Sent),
		AgeMS:        p.Age,
		FirstSent:    v1Time(p.FirstSent),
		VisibleAt:    v1Time(p.VisibleAt),
		Receives:     p.Receives,
		FirstReceive: v1Time(p.FirstReceive),
		LastReceive:  v1Time(p.LastReceive),
		Group:        p.Group,
		Dedup:        p.Dedup,
		Source:       p.Source,
		Lineage:      p.Lineage.String(),
		Size:         p.Size,
	}
	if p.Sequence != 0 {
		m.Sequence = p.Sequence.String()
	}
	return m
}

// addContent reads the content of a message, off the writer. It shows what workers wrote, and no more of the body than was
// asked for. It reports false when the message is not there any more.
func (c *call) addContent(m *v1Message, p *engine.Peeked, most int) bool {
	content, ok := c.h.cfg.Broker.ReadContent(engine.Delivery{Space: p.Space, Seq: p.Seq})
	if !ok {
		return false
	}
	t := monitor.TrailOf(content.Attributes)
	m.Key, m.Reason, m.Attempts, m.Redrives = t.Key, t.Reason, t.Attempts, t.Redrives
	m.Source = cmp.Or(m.Source, t.Source)
	if most == 0 {
		return true
	}
	body := content.Body
	if len(body) > most {
		for most > 0 && !utf8.RuneStart(body[most]) {
			most--
		}
		body, m.BodyCut = body[:most], true
	}
	m.Body = &body
	return true
}
