package enginetest

import (
	"fmt"
	"strings"

	"tenaq/internal/engine"
)

// groups shows the message groups of a queue, in pages of max. A page that is not the last ends
// with a line that says so. With page it shows one page, and says where the next one begins.
func (p *Player) groups(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	from, page := a.text("after").Value, a.flag("page")
	op := &engine.PeekGroups{Queue: q, Group: a.text("group").Value, Locked: a.flag("locked"),
		After: p.token(from), Max: int(a.numberOr("max", 100))}
	var b strings.Builder
	for {
		if refusal, err := p.simple(a, op); refusal != "" || err != nil {
			return strings.Replace(refusal, "Value "+op.After+" ", "Value "+from+" ", 1), err
		}
		for _, g := range op.Groups {
			first := "none"
			if g.Messages > 0 {
				first = p.alias(g.First.ID)
			}
			fmt.Fprintf(&b, "%s %s, %d messages, first %s, since or until %s", g.Group, g.State,
				g.Messages, first, sinceEpoch(g.VisibleAt))
			for _, h := range g.HeldBy {
				fmt.Fprintf(&b, ", held by %s in %s", p.alias(h.ID), h.Queue.Name)
			}
			b.WriteString("\n")
		}
		switch op.After = op.Next; {
		case op.After == "":
			return b.String(), nil
		case page:
			p.tokens = append(p.tokens, op.Next)
			fmt.Fprintf(&b, "next=t%d\n", len(p.tokens))
			return b.String(), nil
		}
		b.WriteString("more\n")
	}
}

// alias returns the alias of a message. One that has moved and was not received since has none.
func (p *Player) alias(id engine.MessageID) string {
	if m := p.sent[id]; m != nil {
		return m.alias
	}
	return "new"
}

// peek shows the states of messages.
func (p *Player) peek(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	op := &engine.Peek{Queue: q, Max: 100, State: engine.MessageState(a.text("state").Value)}
	var b strings.Builder
	for {
		if refusal, err := p.simple(a, op); refusal != "" || err != nil {
			return refusal, err
		}
		for _, m := range op.Messages {
			fmt.Fprintf(&b, "%d %s", m.Seq, m.State)
			if m.Holds != nil {
				fmt.Fprintf(&b, ", holds %s of %s", m.Holds.Group, m.Holds.Queue.Name)
			}
			b.WriteString("\n")
		}
		if op.After = op.Next; op.After == "" {
			return b.String(), nil
		}
	}
}

// release makes what is in flight of a group receivable.
func (p *Player) release(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	op := &engine.ReleaseGroup{Queue: q, Group: a.text("group").Value}
	if refusal, err := p.simple(a, op); refusal != "" || err != nil {
		return refusal, err
	}
	if op.Holds > 0 {
		return fmt.Sprintf("released %d, and from %d dead letters", op.Released, op.Holds), nil
	}
	return fmt.Sprintf("released %d", op.Released), nil
}
