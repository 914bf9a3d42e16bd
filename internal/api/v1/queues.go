package v1

import (
	"time"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/engine"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/work/extension"
)

// A queueList is a page of GET /v1/queues.
type queueList struct {
	Queues   []queue   `json:"queues"`
	Next     string    `json:"next,omitempty" doc:"after of the next page; absent on the last"`
	Snapshot *snapshot `json:"snapshot,omitempty" doc:"of a list that was searched or sorted"`
}

// A snapshot says what a page is a part of.
type snapshot struct {
	ID       int       `json:"id" doc:"snapshot of the next page"`
	At       time.Time `json:"at" doc:"when the queues were looked at"`
	AgeMS    int64     `json:"ageMs"`
	Complete bool      `json:"complete" doc:"false for some seconds after a start, while queues are missing"`
	Total    int       `json:"total" doc:"queues"`
	Matched  int       `json:"matched" doc:"queues that match text and only"`
	From     int       `json:"from" doc:"of these, how many come before the page"`
	Totals   totals    `json:"totals" doc:"of all queues"`
}

// totals are sums over queues.
type totals struct {
	Visible     int64 `json:"visible"`
	InFlight    int64 `json:"inFlight"`
	Delayed     int64 `json:"delayed"`
	OldestAgeMS int64 `json:"oldestAgeMs"`
	Alarms      int   `json:"alarms"`
	rates
}

// rates are those of the last whole minute.
type rates struct {
	Sent     float64 `json:"sentPerS"`
	Received float64 `json:"receivedPerS"`
	Deleted  float64 `json:"deletedPerS"`
}

// A queue is a queue in a list.
type queue struct {
	Name          string       `json:"name"`
	URL           string       `json:"url"`
	FIFO          bool         `json:"fifo"`
	Paused        bool         `json:"paused,omitempty" doc:"no message is delivered until it is resumed"`
	Visible       int64        `json:"visible" doc:"as SQS counts them, blocked and held ones included"`
	InFlight      int64        `json:"inFlight"`
	Delayed       int64        `json:"delayed"`
	OldestAgeMS   int64        `json:"oldestAgeMs" doc:"0 when there is no message"`
	DeadLetters   *deadLetters `json:"deadLetters,omitempty"`
	DeadLettersOf []string     `json:"deadLettersOf,omitempty" doc:"queues whose dead letters come here, the first ten"`
	MoreSources   bool         `json:"deadLettersOfMore,omitempty"`

	// in a list that was searched or sorted
	Alarms int    `json:"alarms,omitempty" doc:"that are raised and not silenced"`
	Rates  *rates `json:"rates,omitempty"`
}

// deadLetters is where messages go that were received too often.
type deadLetters struct {
	Queue       string `json:"queue"`
	MaxReceives int64  `json:"maxReceiveCount,omitempty"`
	Messages    *int64 `json:"messages,omitempty" doc:"in that queue, if it exists"`
}

type queuesIn struct {
	Prefix string `query:"prefix" doc:"how the names begin"`
	After  string `query:"after" doc:"next of the page before"`
	Limit  int    `query:"limit" range:"1,100" default:"50" doc:"at most 50 unless the list is searched or sorted"`

	// These read the list that the monitor has seen last.
	Text     string `query:"text" doc:"a part of the name, whatever its case"`
	Only     string `query:"only" enum:"dead,alarm,active,fifo,paused"`
	Sort     string `query:"sort" enum:"name,visible,inFlight,delayed,age,sent,received,deleted,trouble"`
	Desc     bool   `query:"desc" doc:"the greatest first"`
	From     int    `query:"from" range:"0,10000000" doc:"how many queues to leave out"`
	Snapshot int    `query:"snapshot" range:"0,9000000000" doc:"id of the snapshot of an earlier page"`
}

// searches reports whether the list of the monitor is asked for.
func (in *queuesIn) searches() bool {
	return in.Text != "" || in.Only != "" || in.Sort != "" || in.Desc || in.From != 0 ||
		in.Snapshot != 0
}

// queues answers GET /v1/queues. [PEEK-8, V1-8]
func (c *call) queues(in queuesIn) (list queueList, err error) {
	if in.searches() {
		return c.board(&in)
	}
	op := &engine.PeekQueues{Account: c.principal.Account(), Prefix: in.Prefix, After: in.After,
		Max: in.Limit}
	if err := c.do(op); err != nil {
		return list, err
	}
	list = queueList{Queues: []queue{}, Next: op.Next}
	for i := range op.Queues {
		list.Queues = append(list.Queues, c.shownQueue(&op.Queues[i]))
	}
	return list, nil
}

// board answers with a part of what the monitor has seen last. [V1-8]
func (c *call) board(in *queuesIn) (list queueList, err error) {
	m := c.cfg.Monitor
	switch {
	case in.Prefix != "" || in.After != "":
		return list, sqswire.Errorf(sqswire.InvalidParameterValue,
			"The parameters prefix and after are for lists without text, only, sort, desc, from and snapshot: leave them out.")
	case m == nil || c.principal.Account() != c.cfg.Door.Account():
		return list, sqswire.Errorf(sqswire.InvalidParameterValue,
			"Only the queues of the server's own account can be searched and sorted: leave out text, only, sort, desc, from and snapshot.")
	}
	b := m.Board(in.Snapshot)
	rows, matched := b.Find(monitor.BoardQuery{Text: in.Text, Only: in.Only, Sort: in.Sort,
		Desc: in.Desc, From: in.From, Max: in.Limit})
	t := &b.Totals
	list = queueList{Queues: []queue{}, Snapshot: &snapshot{
		ID: b.ID, At: b.At.UTC(), AgeMS: m.Now().Sub(b.At).Milliseconds(), Complete: b.Complete,
		Total: len(b.Rows), Matched: matched, From: in.From,
		Totals: totals{t.Visible, t.InFlight, t.Delayed, t.AgeMS, t.Alarms, ratesOf(t)},
	}}
	for _, r := range rows {
		q := queue{
			Name: r.Name, URL: c.url(c.queue(r.Name)), FIFO: r.FIFO, Paused: r.Paused,
			Visible:  r.Visible,
			InFlight: r.InFlight, Delayed: r.Delayed, OldestAgeMS: r.AgeMS, Alarms: r.Alarms,
			Rates: new(ratesOf(r)),
		}
		if r.Target != "" {
			q.DeadLetters = &deadLetters{Queue: r.Target}
			if dead := b.Row(r.Target); dead != nil {
				q.DeadLetters.Messages = new(dead.Visible + dead.InFlight + dead.Delayed)
			}
		}
		list.Queues = append(list.Queues, q)
	}
	return list, nil
}

func ratesOf(r *monitor.BoardRow) rates {
	return rates{float64(r.Sent) / 60, float64(r.Received) / 60, float64(r.Deleted) / 60}
}

// A queueDetail is the answer to GET /v1/queues/{queue}.
type queueDetail struct {
	queue
	ARN        string            `json:"arn"`
	Attributes map[string]string `json:"attributes" doc:"as GetQueueAttributes shows them"`
	Tags       map[string]string `json:"tags"`
	Extensions []extensionView   `json:"extensions,omitempty" doc:"what tags switch on that SQS does not have"`
	Handling   Handling          `json:"handling"`
}

// An extensionView is an extension that a tag of the queue switches on.
type extensionView struct {
	Tag   string `json:"tag"`
	Value string `json:"value"`
	Says  string `json:"says" doc:"what it switches on, in a few words"`
}

type queueIn struct {
	Queue string `path:"queue"`
}

// oneQueue answers GET /v1/queues/{queue}. [V1-9]
func (c *call) oneQueue(in queueIn) (d queueDetail, err error) {
	name := c.queue(in.Queue)
	// the settings first: they say if there is no such queue
	settings := &engine.GetQueueAttributes{Queue: name, Names: []string{"All"}}
	if err := c.do(settings); err != nil {
		return d, err
	}
	tags := &engine.ListQueueTags{Queue: name}
	if err := c.do(tags); err != nil {
		return d, err
	}
	// no other name that begins with this one comes before it
	view := &engine.PeekQueues{Account: name.Account, Prefix: name.Name, Max: 1}
	if err := c.do(view); err != nil {
		return d, err
	}
	if len(view.Queues) == 0 || view.Queues[0].Queue != name { // it was deleted in between
		return d, sqswire.Errorf(sqswire.NonExistentQueue, "The specified queue does not exist.")
	}
	d = queueDetail{queue: c.shownQueue(&view.Queues[0]), ARN: settings.Attributes["QueueArn"],
		Attributes: settings.Attributes, Tags: make(map[string]string)}
	for _, t := range tags.Tags {
		d.Tags[t.Key] = t.Value
		if says := extension.ExplainOn(t.Key, t.Value, d.FIFO); says != "" { // [TAG-15]
			d.Extensions = append(d.Extensions, extensionView{t.Key, t.Value, says})
		}
	}
	d.Handling = c.handling(name)
	return d, nil
}

func (c *call) shownQueue(v *engine.QueueView) queue {
	q := queue{
		Name:        v.Queue.Name,
		URL:         c.url(v.Queue),
		FIFO:        v.FIFO,
		Paused:      v.Paused,
		Visible:     v.Visible,
		InFlight:    v.InFlight,
		Delayed:     v.Delayed,
		OldestAgeMS: v.Age,
		MoreSources: v.MoreSources,
	}
	if v.Redrive != (engine.Redrive{}) {
		q.DeadLetters = &deadLetters{Queue: v.Redrive.Target.Name,
			MaxReceives: v.Redrive.MaxReceives}
	}
	for _, source := range v.Sources {
		q.DeadLettersOf = append(q.DeadLettersOf, source.Name)
	}
	return q
}
