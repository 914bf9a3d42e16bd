package enginetest

import (
	"cmp"
	"fmt"
	"strings"

	"tenaq/internal/engine"
)

// nackBatch ends receives with a reason.
func (p *Player) nackBatch(a *args, lines []string) (string, error) {
	op := &engine.Nack{}
	op.Queue, _ = a.queue()
	ids := make([]string, len(lines)) // which only tell the lines of an answer apart
	for i, line := range lines {
		b, err := a.line(i, line)
		if err != nil {
			return "", err
		}
		op.Entries = append(op.Entries, engine.NackEntry{
			Handle:  p.handle(b.text("r")),
			Verdict: engine.Verdict(b.text("verdict").Value),
			Class:   b.text("class").Value,
			Text:    b.text("text").Value,
			Delay:   b.millis("delay", 0),
		})
		ids[i] = cmp.Or(b.text("id").Value, op.Entries[i].Handle.Text)
		if err := b.done(); err != nil {
			return "", err
		}
	}
	if err := a.done(); err != nil {
		return "", err
	}
	refusal, err := p.do(op)
	if refusal != "" || err != nil {
		return refusal, err
	}
	return outcomes(op.Outcomes, func(i int) string { return ids[i] }), nil
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
