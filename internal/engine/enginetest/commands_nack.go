package enginetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tenaq/internal/engine"
)

// nackBatch ends receives with a reason.
func (p *Player) nackBatch(a *args, lines []string) (string, error) {
	op := &engine.Nack{}
	op.Queue, _ = a.queue()
	var ids []string // which only tell the lines of an answer apart
	if err := a.batch(lines, func(b *args) {
		e := engine.NackEntry{
			Handle:  p.handle(b.text("r")),
			Verdict: engine.Verdict(b.text("verdict").Value),
			Class:   b.text("class").Value,
			Text:    b.text("text").Value,
			Delay:   b.millis("delay", 0),
			Trail:   b.text("trail"),
		}
		op.Entries = append(op.Entries, e)
		ids = append(ids, cmp.Or(b.text("id").Value, e.Handle.Text))
	}); err != nil {
		return "", err
	}
	if refusal, err := p.simple(a, op); refusal != "" || err != nil {
		return refusal, err
	}
	for i, no := range op.Outcomes {
		if n := &op.Entries[i]; no == nil && n.Trail.Set {
			p.retrail(p.received[n.Handle.Text], n.Trail.Value)
		}
	}
	return outcomes(op.Outcomes, func(i int) string { return ids[i] }), nil
}

// retrail notes that a message, and what it becomes, has another value of the attribute tenaq.
func (p *Player) retrail(of received, trail string) {
	m := *p.sent[of.id] // a copy: clones of the player share the other one
	m.entry = withTrail(m.entry, trail)
	p.sent[of.id] = &m
	first := *p.sent[of.lineage]
	first.latest = &m.entry
	p.sent[of.lineage] = &first
}

// withTrail returns an entry with another value of the attribute tenaq.
func withTrail(e engine.Entry, trail string) engine.Entry {
	a := engine.EntryAttribute{Name: "tenaq", Type: engine.Text{Value: "String", Set: true},
		String: engine.Text{Value: trail, Set: true}}
	e.Attributes = slices.Clone(e.Attributes)
	for i := range e.Attributes {
		if e.Attributes[i].Name == a.Name {
			e.Attributes[i] = a
			return e
		}
	}
	e.Attributes = append(e.Attributes, a)
	return e
}

// storyText shows what consumers said about a message.
func storyText(s *engine.Story) string {
	if s == nil {
		return ""
	}
	var b strings.Builder
	for _, a := range s.Attempts {
		fmt.Fprintf(&b, " (%s of receive %d, %s to %s", a.How, a.Receive,
			sinceEpoch(a.Received), sinceEpoch(a.Ended))
		if a.Class != "" {
			fmt.Fprintf(&b, ", class %s", printable(a.Class))
		}
		if a.Text != "" {
			fmt.Fprintf(&b, ", %s", printable(a.Text))
		}
		b.WriteString(")")
	}
	return b.String()
}
