package enginetest

import (
	"fmt"
	"strings"
	"time"

	"tenaq/internal/engine"
)

func (p *Player) send(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	entry := a.entry()
	op := &engine.SendMessage{Queue: q, Draft: engine.NewDraft(entry), Call: a.call(entry)}
	if refusal, err := p.simple(a, op, entry); refusal != "" || err != nil {
		return refusal, err
	}
	return p.accept(op.Sent, entry)
}

func (p *Player) sendBatch(a *args, lines []string) (string, error) {
	op := &engine.SendMessageBatch{}
	op.Queue, _ = a.queue()
	op.Given = len(lines) > 0 || a.flag("empty")
	var entries []engine.Entry
	if err := a.batch(lines, func(b *args) { entries = append(entries, b.entry()) }); err != nil {
		return "", err
	}
	for _, e := range entries {
		op.Drafts = append(op.Drafts, engine.NewDraft(e))
	}
	op.Call = a.call(entries...)
	if refusal, err := p.simple(a, op, entries...); refusal != "" || err != nil {
		return refusal, err
	}
	var b strings.Builder
	for i, s := range op.Sent {
		answer := ""
		if s.Err != nil {
			answer = s.Err.Error()
		} else {
			var err error
			if answer, err = p.accept(s, entries[i]); err != nil {
				return "", err
			}
		}
		fmt.Fprintf(&b, "%s %s\n", entries[i].ID.Value, answer)
	}
	return b.String(), nil
}

// fill sends n messages and answers the aliases of the first and the last. They are equal, except
// that groups=3 spreads them over the groups g1 to g3 and dedups gives each a deduplication id of
// its own.
func (p *Player) fill(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	n, groups, dedups := a.number("n").Value, a.number("groups").Value, a.flag("dedups")
	entry := a.entry()
	if err := a.done(); err != nil {
		return "", err
	}
	draft := engine.NewDraft(entry)
	first, last := "", ""
	for i := range n {
		if groups > 0 {
			entry.Group = engine.Text{Value: fmt.Sprintf("g%d", i%groups+1), Set: true}
		}
		if dedups {
			p.filled++
			entry.Dedup = engine.Text{Value: fmt.Sprintf("fill%d", p.filled), Set: true}
		}
		if groups > 0 || dedups {
			draft = engine.NewDraft(entry)
		}
		op := &engine.SendMessage{Queue: q, Draft: draft}
		refusal, err := p.do(op, entry)
		if refusal != "" || err != nil {
			return refusal, err
		}
		if _, err = p.accept(op.Sent, entry); err != nil {
			return "", err
		}
		if last = p.sent[op.Sent.ID].alias; i == 0 {
			first = last
		}
	}
	return first + " to " + last, nil
}

func (p *Player) receive(a *args, _ []string) (string, error) {
	op := &engine.ReceiveMessage{
		Max:        a.number("max"),
		Visibility: a.number("vt"),
		Wait:       a.number("wait"),
		AttemptID:  a.text("attempt"),
		System:     a.values("names"),
	}
	op.Queue, _ = a.queue()
	show := a.values("show")
	if refusal, err := p.simple(a, op); refusal != "" || err != nil {
		return refusal, err
	}
	if len(op.Messages) == 0 {
		return p.empty(&op.Received), nil
	}
	var b strings.Builder
	for i := range op.Messages {
		line, err := p.deliver(&op.Messages[i], op.Incarnation, show)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&b, line)
	}
	return b.String(), nil
}

// empty describes a receive that found nothing: how long it would wait, and when time alone would
// give it something.
func (p *Player) empty(res *engine.Received) string {
	answer := "nothing"
	if res.WaitFor > 0 {
		answer += ", waits " + (time.Duration(res.WaitFor) * time.Millisecond).String()
		if res.NextReady != 0 {
			answer += ", next at " + sinceEpoch(res.NextReady)
		}
	}
	return answer
}

// receiveMany receives n messages, or as many as there are. It answers how many that were, and the
// first and the last.
func (p *Player) receiveMany(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	n, vt := int(a.number("n").Value), a.number("vt")
	if err := a.done(); err != nil {
		return "", err
	}
	return p.takeAll(q, n, vt, nil)
}

// drain receives and deletes n messages, or all. It answers like receiveMany.
func (p *Player) drain(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	n := a.number("n")
	if !n.Set {
		n.Value = 1 << 30
	}
	if err := a.done(); err != nil {
		return "", err
	}
	return p.takeAll(q, int(n.Value), engine.Int{}, func(h engine.Handle) (string, error) {
		return p.do(&engine.DeleteMessage{Queue: q, Handle: h})
	})
}

// takeAll receives up to n messages, ten at a time, and calls f, if there is one, for each.
func (p *Player) takeAll(
	q engine.QueueName, n int, vt engine.Int, f func(engine.Handle) (string, error),
) (string, error) {
	got, first, last := 0, "", ""
	for got < n {
		op := &engine.ReceiveMessage{
			Queue: q, Max: engine.Int{Value: int64(min(10, n-got)), Set: true}, Visibility: vt,
		}
		refusal, err := p.do(op)
		if refusal != "" || err != nil {
			return refusal, err
		}
		if len(op.Messages) == 0 {
			break
		}
		met := make([]*sentMessage, len(op.Messages)) // all, though a refusal ends this
		for i := range op.Messages {
			if met[i], err = p.meet(&op.Messages[i]); err != nil {
				return "", err
			}
		}
		for i, d := range op.Messages {
			m := met[i]
			if got++; got == 1 {
				first = m.alias
			}
			last = m.alias
			if f == nil {
				continue
			}
			refusal, err := f(engine.Handle{Text: m.alias, Valid: true,
				Incarnation: op.Incarnation,
				Space:       d.Space, Seq: d.Seq, Generation: d.Generation, Received: d.Received})
			if refusal != "" || err != nil {
				return refusal, err
			}
		}
	}
	if got == 0 {
		return "nothing", nil
	}
	return fmt.Sprintf("%d messages, %s to %s", got, first, last), nil
}

func (p *Player) delete(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	return p.simple(a, &engine.DeleteMessage{Queue: q, Handle: p.handle(a.text("r"))})
}

func (p *Player) deleteBatch(a *args, lines []string) (string, error) {
	op := &engine.DeleteMessageBatch{}
	op.Queue, _ = a.queue()
	op.Given = len(lines) > 0 || a.flag("empty")
	if err := a.batch(lines, func(b *args) {
		op.Entries = append(op.Entries,
			engine.DeleteEntry{ID: b.text("id"), Handle: p.handle(b.text("r"))})
	}); err != nil {
		return "", err
	}
	if refusal, err := p.simple(a, op); refusal != "" || err != nil {
		return refusal, err
	}
	return outcomes(op.Outcomes, func(i int) string { return op.Entries[i].ID.Value }), nil
}

func (p *Player) visibility(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	return p.simple(a, &engine.ChangeMessageVisibility{Queue: q, Handle: p.handle(a.text("r")),
		Timeout: a.number("vt")})
}

func (p *Player) visibilityBatch(a *args, lines []string) (string, error) {
	op := &engine.ChangeMessageVisibilityBatch{}
	op.Queue, _ = a.queue()
	op.Given = len(lines) > 0 || a.flag("empty")
	if err := a.batch(lines, func(b *args) {
		op.Entries = append(op.Entries, engine.VisibilityEntry{ID: b.text("id"),
			Handle: p.handle(b.text("r")), Timeout: b.number("vt")})
	}); err != nil {
		return "", err
	}
	if refusal, err := p.simple(a, op); refusal != "" || err != nil {
		return refusal, err
	}
	return outcomes(op.Outcomes, func(i int) string { return op.Entries[i].ID.Value }), nil
}

func outcomes(errs []*engine.Error, id func(int) string) string {
	var b strings.Builder
	for i, err := range errs {
		answer := "ok"
		if err != nil {
			answer = err.Error()
		}
		fmt.Fprintf(&b, "%s %s\n", id(i), answer)
	}
	return b.String()
}

// find looks for the message with the id that an alias stands for, or of the lineage that began
// with it, and answers its queue and its identities.
func (p *Player) find(a *args, _ []string) (string, error) {
	op := &engine.Find{Account: a.account(), ID: p.idOf(a.word())}
	if refusal, err := p.simple(a, op); refusal != "" || err != nil {
		return refusal, err
	}
	if op.Queue == (engine.QueueName{}) {
		return "nothing", nil
	}
	d := &op.Message.Delivery
	m, err := p.meet(d)
	if err != nil {
		return "", err
	}
	lineage, err := p.shown(d, m, "lineage")
	return fmt.Sprintf("%s in %s receives=%d%s", m.alias, op.Queue.Name, d.Receives, lineage), err
}
