package monitor

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/observe/alarm"
)

// A Notice is what an action receives. Its JSON is an interface. [ALARM-45]
type Notice struct {
	Alarm       string      `json:"alarm"`
	Description string      `json:"description,omitempty"`
	Queue       string      `json:"queue,omitempty"`
	State       alarm.State `json:"state"`
	Was         alarm.State `json:"was"`
	Reason      string      `json:"reason"`
	At          time.Time   `json:"at"`

	Again bool `json:"again,omitempty"` // a reminder: the alarm lasts
	// changes of the state since the last notice, if more than one
	Changes int `json:"changes,omitempty"`

	// A message that the alarm is about, if one was found.
	Sample *Sample `json:"sample,omitempty"`

	// Commands that show more.
	Commands []string `json:"commands,omitempty"`

	// Where the page of a built-in alarm is. [ALARM-53]
	Page string `json:"page,omitempty"`

	undeclared []string // actions that the log replaces
}

// A Sample is a message of the queue.
type Sample struct {
	MessageID string    `json:"messageId"`
	Key       string    `json:"key,omitempty"` // the key that its producer gave the work
	FirstSent time.Time `json:"firstSent"`
	Receives  uint32    `json:"receiveCount"`
	Group     string    `json:"groupId,omitempty"`
	Source    string    `json:"deadLetterSource,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Attempts  int       `json:"attempts,omitempty"`
}

func (n *Notice) json() []byte {
	b, err := json.Marshal(n)
	if err != nil {
		panic(err) // strings, numbers and times can always be encoded
	}
	return b
}

// At most noticesMax notices of one alarm are sent within noticeWindow. Further ones wait and are
// counted. [ALARM-46]
const (
	noticeWindow = 30 * time.Minute
	noticesMax   = 4
)

func (m *Monitor) tell(ctx context.Context) {
	m.mu.Lock()
	var due []*entry
	for _, e := range m.alarms { // the order does not matter: each has its own notices
		if m.isDue(e) {
			due = append(due, e)
		}
	}
	m.mu.Unlock()
	for _, e := range due {
		if ctx.Err() != nil {
			return // it is due after the next start
		}
		m.tellOne(ctx, e)
	}
}

// isDue reports whether an alarm has a notice to send.
func (m *Monitor) isDue(e *entry) bool {
	now := m.Now()
	for len(e.notices) > 0 && now.Sub(e.notices[0]) > noticeWindow {
		e.notices = e.notices[1:]
	}
	switch {
	case m.silenceOf(e.Name) != nil || len(e.notices) >= noticesMax:
		return false
	case e.State != e.told:
		return true
	case e.State != alarm.Alarm || e.ack != nil || e.last.IsZero():
		return false
	}
	return e.news || m.cfg.Repeat > 0 && now.Sub(e.last) >= m.cfg.Repeat
}

// tellOne hands a notice to the actions of an alarm.
func (m *Monitor) tellOne(ctx context.Context, e *entry) {
	m.mu.Lock()
	n := Notice{
		Alarm: e.Name, Description: e.Description, Queue: queueOf(&e.Rule), State: e.State,
		Was: e.told, Reason: e.Reason,
		At: e.Since, Again: e.State == e.told, Changes: e.changes,
	}
	var runs []*runner
	if e.ActionsEnabled {
		runs, n.undeclared = m.runnersOf(e)
	}
	e.told, e.last, e.changes, e.news = n.State, m.Now(), 0, false
	e.round, e.open = e.round+1, len(runs)
	round := e.round
	if len(runs) == 0 {
		e.done = n.State
		m.changed()
	} else {
		e.notices = append(e.notices, e.last)
	}
	m.mu.Unlock()
	if len(runs) == 0 {
		return
	}
	n.Commands, n.Page = m.commands(n.Alarm, n.Queue, n.State), m.page(n.Alarm, n.State)
	if n.State == alarm.Alarm && n.Queue != "" {
		n.Sample = m.sampleOf(ctx, &n)
	}
	for _, r := range runs {
		r.hand(&task{notice: n, ended: func() { m.ended(e, round, n.State) }})
	}
}

// runnersOf returns the runners of the actions that an alarm has for its state. The log replaces
// the undeclared ones.
func (m *Monitor) runnersOf(e *entry) (runs []*runner, undeclared []string) {
	for _, name := range e.actionsOf(e.State) {
		switch r := m.runs[ActionName(name)]; {
		case r != nil:
			runs = append(runs, r)
		case m.cfg.LogUnknownActions:
			undeclared = append(undeclared, name)
		default:
			m.cfg.Logger.Error("notice not sent: the action is no longer declared", "alarm",
				e.Name, "action", name)
		}
	}
	if logs := m.runs[LogAction]; len(undeclared) > 0 && !slices.Contains(runs, logs) {
		runs = append(runs, logs)
	}
	return runs, undeclared
}

// ended notes that one of the actions of a round has ended, and that all have.
func (m *Monitor) ended(e *entry, round int, state alarm.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.round != round {
		return
	}
	if e.open--; e.open == 0 && e.done != state {
		e.done = state
		m.changed()
	}
}

func (e *entry) actionsOf(s alarm.State) []string {
	switch s {
	case alarm.Alarm:
		return e.OnAlarm
	case alarm.OK:
		return e.OnOK
	}
	return e.OnInsufficient
}

// samplePages bounds the search for the newest dead letter, in pages of engine.PeekMax.
const samplePages = 5

// sampleOf looks for a message that an alarm is about: the newest dead letter that the search
// reaches, a message in flight if the alarm is about those, or else the oldest that waits.
func (m *Monitor) sampleOf(ctx context.Context, n *Notice) *Sample {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	states, pages, most := []engine.MessageState{engine.StateVisible, engine.StateInFlight}, 1, 1
	if _, t := templateOf(n.Alarm); t != nil {
		switch t.kind {
		case KindTimedOut, KindDoubleDeletes, KindInFlight, KindStuck:
			slices.Reverse(states)
		case KindDeadLetters:
			states, pages, most = []engine.MessageState{""}, samplePages, engine.PeekMax
		}
	}
	for _, state := range states {
		if p := m.lastOf(ctx, &engine.Peek{Queue: engine.QueueName{Account: m.cfg.Account,
			Name: n.Queue}, State: state, Max: most}, pages); p != nil {
			return m.sampled(p)
		}
	}
	return nil
}

// lastOf returns the last message of a few pages.
func (m *Monitor) lastOf(ctx context.Context, op *engine.Peek, pages int) (last *engine.Peeked) {
	for range pages {
		if err := m.cfg.Queues.Do(ctx, op); err != nil {
			break
		}
		if n := len(op.Messages); n > 0 {
			last = &op.Messages[n-1]
		}
		if op.After = op.Next; op.After == "" {
			break
		}
	}
	return last
}

// sampled is what a notice says of a message.
func (m *Monitor) sampled(p *engine.Peeked) *Sample {
	s := &Sample{
		MessageID: p.ID.String(), FirstSent: time.UnixMilli(p.FirstSent).UTC(),
		Receives: p.Receives, Group: p.Group, Source: p.Source,
	}
	if content, ok := m.cfg.Queues.ReadContent(p.Delivery); ok {
		s.addTrail(content.Attributes)
	}
	if told, ok := m.cfg.Queues.ReadStory(p.Delivery); ok {
		if a := told.Reason(); a != nil { // its consumer told the server
			s.Reason = clean(a.Reason(), reasonMax)
		}
	}
	return s
}

// trailAttribute is the attribute in which workers of tenaq write what they know of a message, as
// the query of a URL.
const trailAttribute = "tenaq"

// A Trail is what workers and redrivers wrote about a message. Any client can forge it.
type Trail struct {
	Key      string // what its producer calls the work
	Reason   string // why it was given up
	Source   string // ARN of the queue it comes from
	Attempts int
	Redrives int

	Lineage    string // id of the first message of the work
	Generation int
	FirstSent  int64 // Unix milliseconds; zero if it is unknown
}

// TrailOf reads the trail of a message from its attributes; it is zero if there is no readable one.
func TrailOf(attributes []engine.Attribute) Trail {
	i := slices.IndexFunc(attributes, func(a engine.Attribute) bool {
		return a.Name == trailAttribute
	})
	if i < 0 {
		return Trail{}
	}
	v, err := url.ParseQuery(attributes[i].String)
	if err != nil || v.Get("v") != "1" {
		return Trail{}
	}
	number := func(field string) int {
		n, _ := strconv.Atoi(v.Get(field))
		return max(n, 0)
	}
	return Trail{v.Get("key"), v.Get("reason"), v.Get("source"), number("attempts"),
		number("redrives"), v.Get("lineage"), number("generation"), int64(number("first-sent"))}
}

// addTrail adds what the worker wrote when it gave the message up.
func (s *Sample) addTrail(attributes []engine.Attribute) {
	t := TrailOf(attributes)
	s.Key, s.Reason, s.Attempts = clean(t.Key, nameMax), clean(t.Reason, reasonMax), t.Attempts
	s.Source = cmp.Or(clean(t.Source, nameMax), s.Source)
}
