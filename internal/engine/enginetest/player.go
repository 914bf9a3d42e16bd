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
)

// A Machine is what a Player plays against. Its answers to the same requests must be the same whatever
// it is made of.
type Machine interface {
	// Start begins to serve, for the first time or after Stop. Grace is what engine.Start is given.
	Start(cfg engine.Config, now, grace int64)

	// Stop ends what Start began, cleanly or not.
	Stop(now int64, clean bool)

	// Do carries out one request.
	Do(Request) (engine.Result, error)
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

	now   int64
	hold  bool
	count uint64 // of requests, for their seeds

	sent    map[engine.MessageID]*sentMessage
	handles map[string]engine.Handle
	tokens  []string // paging tokens, t1 and so on
}

// A sentMessage is what the player knows about a message that was accepted.
type sentMessage struct {
	alias string
	entry engine.Entry
}

// epoch is when every script begins: 2026-01-01 00:00 UTC, in Unix milliseconds.
const epoch = 1767225600000

// NewPlayer returns a player at the beginning of a script.
func NewPlayer(m Machine) *Player {
	p := &Player{
		machine: m,
		now:     epoch,
		sent:    make(map[engine.MessageID]*sentMessage),
		handles: make(map[string]engine.Handle),
		cfg: engine.Config{
			Region:        "us-east-1",
			InFlightMax:   120000,
			PurgeInterval: time.Minute.Milliseconds(),
			RecreateDelay: time.Minute.Milliseconds(),
		},
	}
	if w, ok := m.(*World); ok {
		p.world = w
		w.entryOf = func(id engine.MessageID) *engine.Entry { return &p.sent[id].entry }
	}
	m.Start(p.cfg, p.now, graceDefault.Milliseconds())
	return p
}

// Play carries out one step and returns its answer, lines that each end with a line feed. An error is a
// mistake of the script or an answer that contradicts an earlier one; what the engine refuses is an
// answer like others.
func (p *Player) Play(s Step) (answer string, err error) {
	cmd, a, err := parseArgs(s.Text)
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
func (p *Player) do(op engine.Op, entries ...engine.Entry) (res engine.Result, refusal string, err error) {
	p.count++
	r := Request{Command: engine.Command{Now: p.now, HoldExpiry: p.hold, Op: op}, Entries: entries}
	binary.BigEndian.PutUint64(r.Seed[:], p.count*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(r.Seed[8:], p.count)
	res, err = p.machine.Do(r)
	var no *engine.Error
	if errors.As(err, &no) {
		return res, no.Error(), nil
	}
	return res, "", err
}

// simple submits an operation that answers nothing when it succeeds.
func (p *Player) simple(a *args, op engine.Op) (string, error) {
	if err := a.done(); err != nil {
		return "", err
	}
	_, refusal, err := p.do(op)
	return refusal, err
}

// accept gives a message that was sent its alias.
func (p *Player) accept(id engine.MessageID, entry engine.Entry) (alias string, err error) {
	if old := p.sent[id]; old != nil {
		return "", fmt.Errorf("the id %s of %s was given out again", id, old.alias)
	}
	alias = fmt.Sprintf("m%d", len(p.sent)+1)
	p.sent[id] = &sentMessage{alias: alias, entry: entry}
	return alias, nil
}

// handle returns the receipt handle that an alias stands for. Any other text is a handle that nobody
// has sealed.
func (p *Player) handle(t engine.Text) engine.Handle {
	if h, ok := p.handles[t.Value]; ok {
		return h
	}
	return engine.Handle{Text: t.Value}
}

// deliver describes a received message. Show names what is not shown always.
func (p *Player) deliver(d *engine.Delivery, incarnation [16]byte, show []string) (line string, err error) {
	m := p.sent[d.ID]
	if m == nil {
		return "", fmt.Errorf("received message %s, which was never sent", d.ID)
	}
	h := engine.Handle{
		Text:        fmt.Sprintf("r%d", len(p.handles)+1),
		Valid:       true,
		Incarnation: incarnation,
		Space:       d.Space,
		Seq:         d.Seq,
		Generation:  d.Generation,
	}
	p.handles[h.Text] = h
	line = fmt.Sprintf("%s body=%s receipt=%s receives=%d", m.alias, printable(m.entry.Body.Value), h.Text, d.Receives)
	if d.Group != "" {
		line += " group=" + d.Group
	}
	for _, what := range show {
		switch what {
		case "id":
			line += " id=" + d.ID.String()
		case "sent":
			line += " sent=" + sinceEpoch(d.Sent)
		case "first":
			line += " first=" + sinceEpoch(d.FirstReceive)
		case "size":
			line += fmt.Sprintf(" size=%d", d.Size)
		case "sender":
			line += " sender=" + m.entry.Sender
		case "trace":
			line += " trace=" + printable(traceOf(&m.entry))
		case "attr":
			for _, attr := range m.entry.Attributes {
				line += fmt.Sprintf(" %s:%s=%s", attr.Name, attr.Type.Value, printable(attr.String.Value+string(attr.Binary)))
			}
		default:
			return "", fmt.Errorf("cannot show %s", what)
		}
	}
	return line, nil
}

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
	case s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '"' || r > '~' }):
		return fmt.Sprintf("%q", s)
	}
	return s
}

// sinceEpoch shows a time as the time that has passed since the script began.
func sinceEpoch(ms int64) string { return (time.Duration(ms-epoch) * time.Millisecond).String() }

// traceOf is the trace header that a message ends up with. One from the transport is left out when it
// cannot be one. [MA-21]
func traceOf(e *engine.Entry) string {
	if i := slices.IndexFunc(e.System, func(a engine.EntryAttribute) bool { return a.Name == "AWSTraceHeader" }); i >= 0 {
		return e.System[i].String.Value
	}
	if len(e.Trace) > 1024 || strings.ContainsFunc(e.Trace, func(r rune) bool { return r < ' ' || r == utf8.RuneError }) {
		return ""
	}
	return e.Trace
}
