package enginetest

import (
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"tenaq/internal/engine"
	"tenaq/internal/observe/tally"
)

// A Machine is what a Player plays against. Its answers to the same requests must be the same
// whatever it is made of.
type Machine interface {
	// Start begins to serve, for the first time or after Stop. Grace is what engine.Start is given.
	Start(cfg engine.Config, now, grace int64)

	// Stop ends what Start began, cleanly or not.
	Stop(now int64, clean bool)

	// Do carries out one request. Its operation then has the answer.
	Do(Request) error

	// ReadHistory reads a page of the search that Do has just prepared.
	ReadHistory(*engine.History) (page []engine.Outcome, next string)

	// Content is what a delivered message carries, without its ids. It is there unless the message
	// has been removed since.
	Content(*engine.Delivery) (engine.Entry, bool)

	// Tally is what was counted since the first Start.
	Tally() *tally.Queues
}

// A Request is a command together with what its drafts were made of, which the engine does not show
// and a model needs.
type Request struct {
	engine.Command
	Entries []engine.Entry
}

// A Player plays steps against a machine.
type Player struct {
	machine Machine
	world   *World // the machine, when it is one
	cfg     engine.Config

	now  int64
	hold bool

	noOutcomes bool // because the disk is full

	count uint64 // of requests, for their seeds

	sent    map[engine.MessageID]*sentMessage
	filled  int // messages that fill made different from each other
	handles map[string]engine.Handle
	// messages that the handles are of, by their aliases
	received map[string]received
	aliases  map[engine.Handle]string // of handles, by what they say without their text
	tokens   []string                 // paging tokens, t1 and so on
	tasks    map[string][]moveTask    // by the ARN of their source, in the order of their start
	started  int                      // how many tasks that are

	versions    map[uint64]string // aliases of versions of records, v1 and so on
	lastVersion uint64
	selections  []string         // ids of tasks that select, in the order of their start
	edits       bool             // one of them edits, or is a replay
	places      map[string]place // of messages that could be replaced, by queue and alias
}

// A received message is what the player knows about the one of a handle.
type received struct{ id, lineage engine.MessageID }

// A sentMessage is what the player knows about a message that was accepted.
type sentMessage struct {
	alias string
	of    string // alias of the message that it was before it was redriven
	entry engine.Entry

	latest *engine.Entry // of its lineage, when it was replaced

	told    bool // the entry is what the machine says, because a task may have edited the message
	outcome bool // or less than that: what an outcome says
}

// later is what the messages that it became were sent as.
func (m *sentMessage) later() engine.Entry {
	if m.latest != nil {
		return *m.latest
	}
	return m.entry
}

// epoch is when every script begins: 2026-01-01 00:00 UTC, in Unix milliseconds.
const epoch = 1767225600000

// NewPlayer returns a player at the beginning of a script.
func NewPlayer(m Machine) *Player {
	p := &Player{
		machine:  m,
		now:      epoch,
		sent:     make(map[engine.MessageID]*sentMessage),
		handles:  make(map[string]engine.Handle),
		received: make(map[string]received),
		aliases:  make(map[engine.Handle]string),
		tasks:    make(map[string][]moveTask),

		versions: make(map[uint64]string),
		places:   make(map[string]place),
		cfg: engine.Config{
			Region:        "us-east-1",
			InFlightMax:   120000,
			PurgeInterval: time.Minute.Milliseconds(),
			RecreateDelay: time.Minute.Milliseconds(),
		},
	}
	if w, ok := m.(*World); ok {
		p.world = w
		w.entryOf = p.entryOf
	}
	m.Start(p.cfg, p.now, graceDefault.Milliseconds())
	return p
}

// Play carries out one step and returns its answer, lines that each end with a line feed. An error
// is a mistake of the script or an answer that contradicts an earlier one; what the engine refuses
// is an answer like others.
func (p *Player) Play(s Step) (answer string, err error) {
	cmd, a, err := s.args()
	if err != nil {
		return "", err
	}
	play, ok := commands[cmd]
	if !ok {
		return "", fmt.Errorf("unknown command %s", cmd)
	}
	answer, err = play(p, a, s.Lines)
	if err = errors.Join(err, a.bad); err != nil {
		return answer, fmt.Errorf("%s: %w", s.Text, err)
	}
	if answer != "" && !strings.HasSuffix(answer, "\n") {
		answer += "\n"
	}
	return answer, nil
}

// Receipts is how many receipt handles the script has been given so far.
func (p *Player) Receipts() int { return len(p.handles) }

// do submits an operation. A refusal is returned as the text of an answer.
func (p *Player) do(op engine.Op, entries ...engine.Entry) (refusal string, err error) {
	p.count++
	r := Request{Command: engine.Command{Now: p.now, ExpiryPaused: p.hold,
		NoHistory: p.noOutcomes, Op: op}, Entries: entries}
	binary.BigEndian.PutUint64(r.Seed[:], p.count*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(r.Seed[8:], p.count)
	err = p.machine.Do(r)
	var no *engine.Error
	if errors.As(err, &no) {
		return no.Error(), nil
	}
	return "", err
}

// simple submits an operation whose arguments have all been read. It answers nothing when it
// succeeds.
func (p *Player) simple(a *args, op engine.Op, entries ...engine.Entry) (string, error) {
	if err := a.done(); err != nil {
		return "", err
	}
	return p.do(op, entries...)
}

// accept gives a message that was sent its alias, and describes what a send answers.
func (p *Player) accept(s engine.Sent, entry engine.Entry) (answer string, err error) {
	m := p.sent[s.ID]
	switch {
	case m == nil && s.Duplicate:
		return "", fmt.Errorf("a duplicate of %s, which was never sent", s.ID)
	case m != nil && !s.Duplicate:
		return "", fmt.Errorf("the id %s of %s was given out again", s.ID, m.alias)
	case m == nil:
		m = p.name(s.ID, &sentMessage{entry: entry})
	}
	answer = m.alias
	if s.Sequence != 0 {
		answer += fmt.Sprintf(" seq=%d", uint64(s.Sequence))
	}
	switch {
	case s.Again:
		answer += " again"
	case s.Duplicate:
		answer += " duplicate"
	}
	if s.Told {
		answer += " told"
	}
	return answer, nil
}

// name gives a message the next alias.
func (p *Player) name(id engine.MessageID, m *sentMessage) *sentMessage {
	m.alias = fmt.Sprintf("m%d", len(p.sent)+1)
	p.sent[id] = m
	return m
}

// meet returns what is known about a message that was received. One that a move task has made a new
// message of is known by the one it was, and gets an alias of its own when it is met first. If a
// task edits, the machine has to say what became of it, and the answer shows that.
func (p *Player) meet(d *engine.Delivery) (*sentMessage, error) {
	m, first := p.sent[d.ID], p.sent[d.Lineage]
	switch {
	case m == nil && first == nil:
		return nil, fmt.Errorf("received message %s, which was never sent", d.ID)
	case m == nil:
		m = p.name(d.ID, &sentMessage{of: first.alias, entry: first.later(), told: p.edits,
			outcome: p.edits})
	}
	if m.outcome && d.Seq != 0 { // an outcome has no place
		told := *m // a copy: clones of the player share the other one
		if entry, ok := p.machine.Content(d); ok {
			told.entry, told.outcome = entry, false
		}
		m = &told
		p.sent[d.ID] = m
	}
	return m, nil
}

// entryOf returns what the message of a delivery was sent as; nil if the player cannot know.
func (p *Player) entryOf(d *engine.Delivery) *engine.Entry {
	m := p.sent[d.ID]
	switch {
	case m == nil && p.edits, m != nil && m.outcome:
		return nil
	case m != nil:
		return &m.entry
	}
	entry := p.sent[d.Lineage].later()
	return &entry
}

// handle returns the receipt handle that an alias stands for. Any other text is a handle that the
// player never sealed.
func (p *Player) handle(t engine.Text) engine.Handle {
	if h, ok := p.handles[t.Value]; ok {
		return h
	}
	return engine.Handle{Text: t.Value}
}

// receipt returns the alias of the handle of a delivery: a new one, unless it is the handle of an
// earlier delivery, which the repeat of a receive attempt has returned again.
func (p *Player) receipt(d *engine.Delivery, incarnation [16]byte) string {
	h := engine.Handle{Valid: true, Incarnation: incarnation, Space: d.Space, Seq: d.Seq,
		Generation: d.Generation, Received: d.Received}
	alias, ok := p.aliases[h]
	if !ok {
		alias = fmt.Sprintf("r%d", len(p.handles)+1)
		p.aliases[h] = alias
		h.Text = alias
		p.handles[alias] = h
		p.received[alias] = received{d.ID, d.Lineage}
	}
	return alias
}

// deliver describes a received message. Show names what is not shown always.
func (p *Player) deliver(
	d *engine.Delivery, incarnation [16]byte, show []string,
) (line string, err error) {
	m, err := p.meet(d)
	if err != nil {
		return "", err
	}
	line = m.alias
	if m.of != "" {
		line += " of=" + m.of
	}
	line += fmt.Sprintf(" body=%s receipt=%s receives=%d", printable(m.entry.Body.Value),
		p.receipt(d, incarnation), d.Receives)
	if m.told {
		show = slices.Concat([]string{"attr", "sender", "trace", "size"}, show)
	}
	if d.Group != "" {
		line += " group=" + d.Group
	}
	for _, what := range show {
		text, err := p.shown(d, m, what)
		if err != nil {
			return "", err
		}
		line += text
	}
	return line, nil
}

// shown is one thing about a received message, with a blank in front. What the message does not
// have is left out.
func (p *Player) shown(d *engine.Delivery, m *sentMessage, what string) (text string, err error) {
	switch what {
	case "id":
		return " id=" + d.ID.String(), nil
	case "sent":
		return " sent=" + sinceEpoch(d.Sent), nil
	case "first":
		return " first=" + sinceEpoch(d.FirstReceive), nil
	case "size":
		return fmt.Sprintf(" size=%d", d.Size), nil
	case "sender":
		return " sender=" + m.entry.Sender, nil
	case "trace":
		return " trace=" + printable(traceOf(&m.entry)), nil
	case "attr":
		for _, attr := range m.entry.Attributes {
			text += fmt.Sprintf(" %s:%s=%s", attr.Name, attr.Type.Value,
				printable(attr.String.Value+string(attr.Binary)))
		}
		return text, nil
	case "trail":
		for _, attr := range m.entry.Attributes {
			if attr.Name == "tenaq" {
				text = " trail=" + p.named(attr.String.Value)
			}
		}
		return text, nil
	case "seq":
		if d.Sequence != 0 {
			text = fmt.Sprintf(" seq=%d", uint64(d.Sequence))
		}
		return text, nil
	case "dedup":
		if d.Dedup != "" {
			text = " dedup=" + p.dedup(d.Dedup)
		}
		return text, nil
	case "story":
		return storyText(d.Story), nil
	case "lineage": // the identities, if there is anything to be said
		if first := p.sent[d.Lineage]; first != m {
			text = " lineage=" + first.alias
		}
		if d.LineageGeneration != 0 {
			text += fmt.Sprintf(" generation=%d", d.LineageGeneration)
		}
		text += fmt.Sprintf(" fence=%d", d.Fence)
		if d.FirstSent != d.Sent {
			text += " first-sent=" + sinceEpoch(d.FirstSent)
		}
		return text, nil
	case "source":
		if d.Source != "" {
			text = " source=" + queueOfARN(d.Source)
		}
		return text, nil
	}
	return "", fmt.Errorf("cannot show %s", what)
}

// dedup shows a deduplication id. That of a dead-lettered message is its message id, of which a
// script knows the alias alone.
func (p *Player) dedup(text string) string {
	if len(text) != messageIDLen {
		return p.named(text)
	}
	for id, m := range p.sent { // order does not matter: ids differ
		if id.String() == text {
			return "id-of-" + m.alias
		}
	}
	return text
}

// named shows a text with aliases in the place of the ids of messages.
func (p *Player) named(text string) string {
	if len(text) < messageIDLen {
		return text
	}
	for id, m := range p.sent { // order does not matter: ids differ
		text = strings.ReplaceAll(text, id.String(), m.alias)
	}
	return text
}

// messageIDLen is the length of a message id as text.
var messageIDLen = len(engine.MessageID{}.String())

// queueOfARN is the name of the queue that an ARN ends with.
func queueOfARN(arn string) string { return arn[strings.LastIndex(arn, ":")+1:] }

// filler is a body of n bytes.
func filler(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	return strings.Repeat(letters, n/len(letters)+1)[:n]
}

func md5Of(s string) [16]byte { return md5.Sum([]byte(s)) }

// printable shortens what no script wants to show in full and quotes what does not fit in a word.
func printable(s string) string {
	switch {
	case len(s) > 40:
		return fmt.Sprintf("<%d bytes>", len(s))
	case s == "" || strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r == '"' || r > '~'
	}):
		return fmt.Sprintf("%q", s)
	}
	return s
}

// sinceEpoch shows a time as the time that has passed since the script began.
func sinceEpoch(ms int64) string { return (time.Duration(ms-epoch) * time.Millisecond).String() }

// traceOf is the trace header that a message ends up with. One from the transport is left out when
// it cannot be one. [MA-21]
func traceOf(e *engine.Entry) string {
	if i := slices.IndexFunc(e.System, func(a engine.EntryAttribute) bool {
		return a.Name == "AWSTraceHeader"
	}); i >= 0 {
		return e.System[i].String.Value
	}
	if len(e.Trace) > 1024 || strings.ContainsFunc(e.Trace, func(r rune) bool {
		return r < ' ' || r == utf8.RuneError
	}) {
		return ""
	}
	return e.Trace
}
