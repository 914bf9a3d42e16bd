package monitor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tenaq/internal/alarm"
	"tenaq/internal/engine"
)

// A Notice is what an action is told. It is written as JSON where a program reads it; its fields are an interface.
// [ALARM-45]
type Notice struct {
	Alarm       string      `json:"alarm"`
	Description string      `json:"description,omitempty"`
	Queue       string      `json:"queue,omitempty"`
	State       alarm.State `json:"state"`
	Was         alarm.State `json:"was"`
	Reason      string      `json:"reason"`
	At          time.Time   `json:"at"`

	Again   bool `json:"again,omitempty"`   // it has been told before, and goes on
	Changes int  `json:"changes,omitempty"` // how often the state has changed since the last notice, when more than once

	// A message that it is about, where there is one, and why it is there, where that is recorded.
	Sample *Sample `json:"sample,omitempty"`

	// Commands that show more.
	Commands []string `json:"commands,omitempty"`
}

// A Sample is a message of the queue.
type Sample struct {
	MessageID string    `json:"messageId"`
	Key       string    `json:"key,omitempty"` // what its producer calls the work
	FirstSent time.Time `json:"firstSent"`
	Receives  uint32    `json:"receiveCount"`
	Group     string    `json:"groupId,omitempty"`
	Source    string    `json:"deadLetterSource,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Attempts  int       `json:"attempts,omitempty"`
}

// Text is the notice for people.
func (n *Notice) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", n.State, n.Alarm)
	if n.Again {
		b.WriteString(" (still)")
	}
	b.WriteString("\n")
	if n.Description != "" && n.State == alarm.Alarm {
		b.WriteString(n.Description + "\n")
	}
	b.WriteString(n.Reason + "\n")
	if n.Changes > 1 {
		fmt.Fprintf(&b, "It has changed %d times since the last notice.\n", n.Changes)
	}
	if s := n.Sample; s != nil {
		fmt.Fprintf(&b, "Message %s", s.MessageID)
		if s.Key != "" {
			fmt.Fprintf(&b, " (%s)", s.Key)
		}
		fmt.Fprintf(&b, ", first sent %s, received %d times", s.FirstSent.UTC().Format("2006-01-02 15:04:05 UTC"), s.Receives)
		if s.Reason != "" {
			fmt.Fprintf(&b, ": %s", s.Reason)
		}
		b.WriteString("\n")
	}
	for _, c := range n.Commands {
		b.WriteString("  " + c + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (n *Notice) json() []byte {
	b, err := json.Marshal(n)
	if err != nil {
		panic(err) // strings, numbers and times can always be encoded
	}
	return b
}

// Notices of one alarm within this time are at most so many; what is more waits, and is counted. [ALARM-46]
const (
	noticeWindow = 30 * time.Minute
	noticesMax   = 4
)

// tell hands the notices that are due to the actions.
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
		m.tellOne(ctx, e)
	}
}

// isDue reports whether there is something to be told about an alarm.
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
	}
	return e.State == alarm.Alarm && !e.acked && m.cfg.Repeat > 0 && !e.last.IsZero() && now.Sub(e.last) >= m.cfg.Repeat
}

// tellOne hands a notice to the actions of an alarm.
func (m *Monitor) tellOne(ctx context.Context, e *entry) {
	m.mu.Lock()
	n := Notice{
		Alarm: e.Name, Description: e.Description, Queue: queueOf(&e.Rule), State: e.State, Was: e.told, Reason: e.Reason,
		At: e.Since, Again: e.State == e.told, Changes: e.changes,
	}
	names := e.actionsOf(e.State)
	if !e.ActionsEnabled {
		names = nil
	}
	m.mu.Unlock()

	n.Commands = m.commands(n.Alarm, n.Queue, n.State)
	if n.State == alarm.Alarm && n.Queue != "" && len(names) > 0 {
		n.Sample = m.sampleOf(ctx, &n)
	}
	open := make(chan struct{}, len(names)) // an entry for each action that has ended
	for _, name := range names {
		if !m.runs[ActionName(name)].hand(task{n, func() { open <- struct{}{} }}) {
			return // it is told again at the next look
		}
	}
	m.mu.Lock()
	e.told, e.last, e.changes = n.State, m.Now(), 0
	if len(names) == 0 {
		e.done = n.State
	} else {
		e.notices = append(e.notices, e.last)
	}
	m.mu.Unlock()
	if len(names) > 0 {
		go m.settle(ctx, e, n.State, open, len(names))
	}
}

// settle notes that all actions have ended.
func (m *Monitor) settle(ctx context.Context, e *entry, state alarm.State, open <-chan struct{}, n int) {
	for range n {
		select {
		case <-open:
		case <-ctx.Done():
			return // they are run again after the next start
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.done != state {
		e.done = state
		m.saveLocked()
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

// Commands are those that show more of what an alarm is about.
func (m *Monitor) Commands(s *Status) []string { return m.commands(s.Name, s.Queue, s.State) }

func (m *Monitor) commands(name, queue string, state alarm.State) (list []string) {
	if queue != "" {
		list = []string{"tenaq queue show QUEUE", "tenaq peek QUEUE --limit 10"}
		if _, t := templateOf(name); t != nil {
			list = slices.Clone(t.commands)
		}
	}
	if state == alarm.Alarm {
		list = append(list, "tenaq alarms ack "+shellWord(name))
	}
	for i, c := range list {
		list[i] = strings.ReplaceAll(c, "QUEUE", queue)
		if m.cfg.Endpoint != "" && !strings.HasPrefix(c, "tenaq outbox ") { // that is about a database
			list[i] += " --endpoint-url " + m.cfg.Endpoint
		}
	}
	return list
}

// ShippedCommands returns all commands that notices of the alarms may have that every queue has, with the name of a queue
// and an endpoint.
func ShippedCommands(queue, endpoint string) (all []string) {
	m := &Monitor{cfg: Config{Endpoint: endpoint}}
	for i := range templates {
		all = append(all, m.commands(shippedName(queue, templates[i].kind), queue, alarm.Alarm)...)
	}
	return append(all, m.commands("another-alarm", queue, alarm.Alarm)...)
}

// shellWord quotes what a shell would not take for one word.
func shellWord(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// sampleOf looks for a message that an alarm is about: the first that waits, or is in flight where the alarm is about
// those.
func (m *Monitor) sampleOf(ctx context.Context, n *Notice) *Sample {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	states := []engine.MessageState{engine.StateVisible, engine.StateInFlight}
	if _, t := templateOf(n.Alarm); t != nil && (t.kind == KindTimedOut || t.kind == KindDoubleDeletes || t.kind == KindInFlight) {
		states = []engine.MessageState{engine.StateInFlight, engine.StateVisible}
	}
	for _, state := range states {
		res, err := m.cfg.Queues.Do(ctx, engine.Peek{Queue: engine.QueueName{Account: m.cfg.Account, Name: n.Queue}, State: state, Max: 1})
		if err != nil || len(res.Peeked) == 0 {
			continue
		}
		p := &res.Peeked[0]
		s := &Sample{
			MessageID: p.ID.String(), FirstSent: time.UnixMilli(p.FirstSent).UTC(), Receives: p.Receives, Group: p.Group, Source: p.Source,
		}
		if content, ok := m.cfg.Queues.ReadContent(engine.Delivery{Space: p.Space, Seq: p.Seq}); ok {
			s.addTrail(content.Attributes)
		}
		return s
	}
	return nil
}

// trailAttribute is the attribute in which workers of tenaq write what they know of a message, as the query of a URL.
const trailAttribute = "tenaq"

// addTrail adds what the worker has written that gave the message up.
func (s *Sample) addTrail(attributes []engine.Attribute) {
	for _, a := range attributes {
		if a.Name != trailAttribute {
			continue
		}
		v, err := url.ParseQuery(a.String)
		if err != nil || v.Get("v") != "1" {
			return
		}
		s.Key, s.Reason = v.Get("key"), cut(v.Get("reason"), 300)
		s.Source = cmp.Or(v.Get("source"), s.Source)
		s.Attempts, _ = strconv.Atoi(v.Get("attempts"))
	}
}

// cut returns the first bytes of a text.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
