package enginetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"tenaq/internal/engine"
)

// history searches the history of a queue, page by page to its end, and has a line for each
// outcome. Ids are those of aliases. from=10s and to=20s are times since the script began. Max is
// the size of a page. Sorted puts the outcomes into the order of the arrival of their messages, and
// does not show when messages expired, because that depends on when the queue was used. Pages shows
// where a page ends.
func (p *Player) history(a *args, _ []string) (string, error) {
	op := &engine.History{}
	op.Queue, _ = a.queue()
	since := func(key string) int64 {
		if d := a.millis(key, -time.Second); d >= 0 {
			return epoch + d
		}
		return 0
	}
	max := a.number("max")
	if !max.Set {
		max.Value = engine.HistoryMax
	}
	kind, _ := engine.OutcomeKindOf(a.text("outcome").Value)
	op.HistoryQuery = engine.HistoryQuery{
		ID: p.idAs(a.text("id").Value), Lineage: p.idAs(a.text("lineage").Value),
		Key: a.text("key").Value, Group: a.text("group").Value,
		From: since("from"), To: since("to"), Kind: kind, Attribute: a.text("attribute").Value,
		Text: a.text("text").Value, Oldest: a.flag("oldest"), Max: int(max.Value)}
	op.After = a.text("after").Value
	sorted, pages, count := a.flag("sorted"), a.flag("pages"), a.flag("count")
	show := a.values("show")
	var all []engine.Outcome
	var ends []int
	for {
		if refusal, err := p.simple(a, op); refusal != "" || err != nil {
			return refusal, err
		}
		page, next := p.machine.ReadHistory(op)
		all = append(all, page...)
		if next == "" {
			break
		}
		if next == op.After {
			return "", fmt.Errorf("the page after %s leads to itself", next)
		}
		op.After = next
		ends = append(ends, len(all))
	}
	if count {
		return fmt.Sprintf("%d outcomes", len(all)), nil
	}
	if sorted {
		slices.SortStableFunc(all, func(a, b engine.Outcome) int {
			return cmp.Compare(a.Seq, b.Seq)
		})
	}
	var b strings.Builder
	for i := range all {
		if pages && slices.Contains(ends, i) {
			fmt.Fprintln(&b, "next page")
		}
		if sorted && all[i].Kind.String() == "expired" {
			all[i].Ended = epoch
		}
		line, err := p.outcome(&all[i], show)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&b, line)
	}
	return b.String(), nil
}

// idAs is idOf for an alias that may be left out.
func (p *Player) idAs(alias string) (id engine.MessageID) {
	if alias == "" {
		return id
	}
	return p.idOf(alias)
}

// outcome describes an outcome, after it has compared its content with what was sent.
func (p *Player) outcome(o *engine.Outcome, show []string) (string, error) {
	d := &engine.Delivery{ID: o.ID, Lineage: o.Lineage, Receives: o.Receives}
	m, err := p.meet(d)
	if err != nil {
		return "", err
	}
	if got, want := o.Content.Body, m.entry.Body.Value; got != want && !m.outcome {
		return "", fmt.Errorf("%s was sent with the body %.50q and has the outcome of %.50q",
			m.alias, want, got)
	}
	line := fmt.Sprintf("%s %s ended=%s receives=%d", m.alias, o.Kind, sinceEpoch(o.Ended),
		o.Receives)
	for _, part := range [][2]string{{"of", m.of}, {"to", o.To.Name}, {"group", o.Group},
		{"key", p.dedup(o.Key)}} {
		if part[1] != "" {
			line += " " + part[0] + "=" + part[1]
		}
	}
	for _, what := range show {
		switch what {
		case "sent":
			line += " sent=" + sinceEpoch(o.Sent) + " first-sent=" + sinceEpoch(o.FirstSent)
		case "received":
			if o.FirstReceive != 0 {
				line += " first=" + sinceEpoch(o.FirstReceive) +
					" last=" + sinceEpoch(o.LastReceive)
			}
		case "story":
			line += storyText(o.Story)
		case "body":
			line += " body=" + printable(o.Content.Body)
		default:
			return "", fmt.Errorf("cannot show %s", what)
		}
	}
	return line, nil
}

// ReadHistory implements Machine.
func (w *World) ReadHistory(op *engine.History) (page []engine.Outcome, next string) {
	w.mustCommit()
	return engine.ReadHistory(w.store, op, w.cfg.Fault)
}

// noHistory makes the disk full for histories, or no longer.
func (p *Player) noHistory(a *args, _ []string) (string, error) {
	p.noOutcomes = a.word() == "on"
	return "", a.done()
}

// A modelOutcome is what became of a message.
type modelOutcome struct {
	modelMessage
	outcome string
	ended   int64
	to      engine.QueueName

	bucket int   // its number
	opened int64 // when the bucket was
}

// end ends a message in a queue.
func (m *Model) end(q *modelQueue, msg *modelMessage, outcome string, to engine.QueueName) {
	if age, on := q.historyAge(); on {
		o := modelOutcome{modelMessage: *msg, outcome: outcome, ended: m.now, to: to,
			opened: m.now}
		if n := len(q.outcomes); n > 0 {
			last := &q.outcomes[n-1]
			if o.bucket = last.bucket + 1; m.now < last.opened+age/64 {
				o.bucket, o.opened = last.bucket, last.opened
			}
		}
		o.attempts = slices.Clone(msg.attempts)
		q.outcomes = append(q.outcomes, o)
	}
}

// historyAge is for how long a queue keeps outcomes, if it does: the model knows ages alone.
func (q *modelQueue) historyAge() (age int64, on bool) {
	value, on := q.tagged(historyTag)
	value, _, _ = strings.Cut(value, "/")
	d, _ := time.ParseDuration(value)
	return d.Milliseconds(), on
}

// history prepares nothing: the model reads its outcomes at once.
func (m *Model) history(q *modelQueue) *engine.Error {
	if _, on := q.historyAge(); !on {
		return modelRefusal(engine.CodeUnsupported,
			"Queue %s keeps no history. Set its tag tenaq:history, for example to 7d.", q.name.Name)
	}
	m.settle(q)
	return nil
}

// ReadHistory implements Machine. It has all on one page.
func (m *Model) ReadHistory(op *engine.History) (page []engine.Outcome, next string) {
	q := m.queues[op.Queue]
	age, _ := q.historyAge()
	now := m.now
	if m.hold {
		now = m.heldFrom
	}
	for _, o := range slices.Backward(q.outcomes) {
		key := workKey(&o.entry)
		kind, _ := engine.OutcomeKindOf(o.outcome)
		if o.ended <= now-age || op.From != 0 && o.ended < op.From ||
			op.To != 0 && o.ended >= op.To || op.Kind != 0 && op.Kind != kind ||
			op.Key != "" && key != op.Key ||
			op.Group != "" && op.Group != o.entry.Group.Value ||
			op.ID != (engine.MessageID{}) && op.ID != o.id ||
			op.Lineage != (engine.MessageID{}) && op.Lineage != o.lineage ||
			!strings.Contains(o.entry.Body.Value, op.Text) {
			continue
		}
		var found engine.Outcome
		found.ID, found.Lineage, found.Kind = o.id, o.lineage, kind
		found.Ended, found.To = o.ended, o.to
		found.Seq, found.Sent, found.FirstSent = o.seq, o.sent, o.firstSent
		found.Receives, found.FirstReceive, found.LastReceive = o.receives, o.first, o.last
		found.Group, found.Key, found.Content = o.entry.Group.Value, key, contentOf(&o.entry)
		if len(o.attempts) > 0 {
			found.Story = &engine.Story{Attempts: o.attempts}
		}
		page = append(page, found)
	}
	return page, ""
}

// contentOf is what an entry is stored as.
func contentOf(e *engine.Entry) engine.Content {
	c := engine.Content{Body: e.Body.Value, BodyMD5: e.BodyMD5, Sender: e.Sender,
		Trace: traceOf(e)}
	for _, a := range e.Attributes {
		c.Attributes = append(c.Attributes, engine.Attribute{Name: a.Name, Type: a.Type.Value,
			String: a.String.Value, Binary: a.Binary})
	}
	return c
}
