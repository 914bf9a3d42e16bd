package enginetest

import (
	"fmt"
	"strings"

	"tenaq/internal/engine"
)

// groups shows the message groups of a queue, in pages of max. A page that is not the last ends
// with a line that says so.
func (p *Player) groups(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	op := &engine.PeekGroups{Queue: q, Group: a.text("group").Value, Locked: a.flag("locked"),
		Max: 100}
	if most := a.number("max"); most.Set {
		op.Max = int(most.Value)
	}
	if err := a.done(); err != nil {
		return "", err
	}
	var b strings.Builder
	for {
		refusal, err := p.do(op)
		if refusal != "" || err != nil {
			return refusal, err
		}
		for _, g := range op.Groups {
			fmt.Fprintf(&b, "%s %s, %d messages, first %s, since or until %s\n", g.Group, g.State,
				g.Messages, p.sent[g.First.ID].alias, sinceEpoch(g.VisibleAt))
		}
		if op.After = op.Next; op.After == "" {
			return b.String(), nil
		}
		b.WriteString("more\n")
	}
}

// release makes what is in flight of a group receivable.
func (p *Player) release(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	op := &engine.ReleaseGroup{Queue: q, Group: a.text("group").Value}
	if err := a.done(); err != nil {
		return "", err
	}
	refusal, err := p.do(op)
	if refusal != "" || err != nil {
		return refusal, err
	}
	return fmt.Sprintf("released %d", op.Released), nil
}
