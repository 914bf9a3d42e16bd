package v1

import "tenaq/internal/engine"

// A queueList is a page of GET /v1/queues.
type queueList struct {
	Queues []queue `json:"queues"`
	Next   string  `json:"next,omitempty"`
}

// A queue is a queue in a list.
type queue struct {
	Name          string       `json:"name"`
	URL           string       `json:"url"`
	FIFO          bool         `json:"fifo"`
	Visible       int64        `json:"visible"` // as SQS counts them, blocked ones included
	InFlight      int64        `json:"inFlight"`
	Delayed       int64        `json:"delayed"`
	OldestAgeMS   int64        `json:"oldestAgeMs"` // 0 when there is none
	DeadLetters   *deadLetters `json:"deadLetters,omitempty"`
	DeadLettersOf []string     `json:"deadLettersOf,omitempty"` // names, the first ten
	MoreSources   bool         `json:"deadLettersOfMore,omitempty"`
}

// deadLetters is where messages go that were received too often.
type deadLetters struct {
	Queue       string `json:"queue"`
	MaxReceives int64  `json:"maxReceiveCount"`
}

// queues answers GET /v1/queues?prefix=&after=&limit=. [PEEK-8]
func (c *call) queues() (answer, error) {
	q := c.query("prefix", "after", "limit")
	op := &engine.PeekQueues{
		Account: c.principal.Account(),
		Prefix:  q.text("prefix"),
		After:   q.text("after"),
		Max:     q.number("limit", 1, engine.PeekQueuesMax, engine.PeekQueuesMax),
	}
	if q.err != nil {
		return answer{}, q.err
	}
	if err := c.do(op); err != nil {
		return answer{}, err
	}
	list := queueList{Queues: []queue{}, Next: op.Next}
	for i := range op.Queues {
		list.Queues = append(list.Queues, c.shownQueue(&op.Queues[i]))
	}
	return answer{body: list}, nil
}

func (c *call) shownQueue(v *engine.QueueView) queue {
	q := queue{
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
		q.DeadLetters = &deadLetters{v.Redrive.Target.Name, v.Redrive.MaxReceives}
	}
	for _, source := range v.Sources {
		q.DeadLettersOf = append(q.DeadLettersOf, source.Name)
	}
	return q
}
