package enginetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/work/fingerprint"
)

// filter reads what a task takes. m names a message, and older is the least age of messages.
func (p *Player) filter(a *args) (f engine.TaskFilter) {
	f.Group, f.Text = a.text("group").Value, a.text("text").Value
	if m := a.text("m"); m.Set {
		f.ID = p.idOf(m.Value)
	}
	if source := a.text("from"); source.Set {
		f.Source = p.arn(accountDefault, source.Value)
	}
	if older := a.millis("older", 0); older > 0 {
		f.To = p.now - older + 1
	}
	if younger := a.millis("younger", 0); younger > 0 {
		f.From = p.now - younger
	}
	f.Reason = a.text("reason").Value
	if kind := a.text("kind-of"); kind.Set {
		failed := engine.Attempt{Class: a.text("class").Value, Text: kind.Value}
		f.Kind = fingerprint.Of(failed.Reason())
	}
	f.Key = a.text("key").Value
	f.Outcome, _ = engine.OutcomeKindOf(a.text("outcome").Value)
	f.ReceivesMin = uint64(a.number("receives").Value)
	f.ReceivesMax = uint64(a.number("receives-max").Value)
	for _, pair := range a.values("with") {
		name, value, _ := strings.Cut(pair, "=")
		f.Attributes = append(f.Attributes, engine.TaskAttribute{Name: name, Value: value})
	}
	return f
}

// idOf returns the id of the message with an alias.
func (p *Player) idOf(alias string) [16]byte {
	for id, m := range p.sent { // order does not matter: aliases differ
		if m.alias == alias {
			return id
		}
	}
	return [16]byte{0xff}
}

// edit reads what a task changes in each message.
func (a *args) edit() engine.TaskEdit {
	body, removed := a.text("body"), a.values("without")
	if size := a.number("size"); size.Set {
		body = engine.Text{Value: filler(int(size.Value)), Set: true}
	}
	var set []engine.Attribute
	for _, attr := range a.attributes("attr") {
		set = append(set, engine.Attribute{Name: attr.Name, Type: attr.Type.Value,
			String: attr.String.Value, Binary: attr.Binary})
	}
	if !body.Set {
		return engine.NewEdit(nil, set, removed)
	}
	return engine.NewEdit(&body.Value, set, removed)
}

var works = []string{"move", "delete", "park", "replay"}

// taskStart starts a task that selects and answers its id. Later steps may name it k1, k2 and so
// on, in the order of starts.
func (p *Player) taskStart(a *args, _ []string) (string, error) {
	op := &engine.StartTask{Filter: p.filter(a), To: a.text("to").Value,
		Rate: a.number("rate").Value, Most: a.number("max").Value,
		Expected: a.number("expected").Value, Confirm: a.number("confirm").Value,
		By: a.text("by").Value, Note: a.text("note").Value,
		Missing: a.flag("missing"), Newest: a.flag("newest"), Edit: a.edit()}
	op.Queue, _ = a.queue()
	if ms := a.millis("delay", -time.Millisecond); ms != -1 {
		op.Delay = engine.Int{Value: ms, Set: true}
	}
	if do := a.text("do").Value; do != "" {
		op.Work = engine.TaskWork(slices.Index(works, do))
	}
	if refusal, err := p.simple(a, op); refusal != "" || err != nil {
		return refusal, err
	}
	p.selections = append(p.selections, op.Task.ID)
	p.edits = p.edits || !op.Edit.None() || op.Work == engine.TaskReplay
	return showView(&op.Task), nil
}

func showView(t *engine.TaskView) string {
	text := fmt.Sprintf("%s %s %s done=%d", t.ID, works[t.Work], t.Status, t.Done)
	number := func(name string, n int64) {
		if n != 0 {
			text += fmt.Sprintf(" %s=%d", name, n)
		}
	}
	number("skipped", t.Skipped)
	number("expected", t.Expected)
	number("max", t.Most)
	number("confirm", t.Confirm)
	number("rate", t.Rate)
	for _, part := range []struct{ name, value string }{{"to", t.To}, {"by", t.By},
		{"note", t.Note}, {"failure", t.Failure}} {
		if part.value != "" {
			text += fmt.Sprintf(" %s=%s", part.name, part.value)
		}
	}
	if t.Newest {
		text += " newest"
	}
	if t.Delay.Set {
		text += " delay=" + fmt.Sprint(time.Duration(t.Delay.Value)*time.Millisecond)
	}
	if !t.Edit.None() {
		text += fmt.Sprintf(" edit=body:%t,set:%d,without:%d", t.Edit.HasBody, len(t.Edit.Set),
			len(t.Edit.Removed))
	}
	if t.Missing {
		text += " missing"
	}
	text += " started=" + sinceEpoch(t.Started)
	if t.Ended != 0 {
		text += " ended=" + sinceEpoch(t.Ended)
	}
	if t.SQS {
		text += " sqs"
	}
	return text
}

// taskCount counts to the end, or until there are max messages.
func (p *Player) taskCount(a *args, _ []string) (string, error) {
	most := a.number("max").Value
	op := &engine.CountTask{Filter: p.filter(a), Back: a.flag("back"), Most: most,
		To: a.text("to").Value, Newest: a.flag("newest"), Edit: a.edit(),
		Replay: a.flag("replay"), Missing: a.flag("missing")}
	op.Queue, _ = a.queue()
	count, bytes, skipped, samples := int64(0), int64(0), int64(0), ""
	var skips engine.ReplaySkips
	for {
		if refusal, err := p.simple(a, op); refusal != "" || err != nil {
			return refusal, err
		}
		for i := range op.Samples {
			m, err := p.meet(&op.Samples[i].Delivery)
			if err != nil {
				return "", err
			}
			if count == 0 {
				samples += " " + m.alias
			}
		}
		for i := range op.Outcomes {
			o := &op.Outcomes[i]
			m, err := p.meet(&engine.Delivery{ID: o.ID, Lineage: o.Lineage})
			if err != nil {
				return "", err
			}
			if count == 0 {
				samples += " " + m.alias
			}
		}
		count, bytes, skipped = count+op.Count, bytes+op.Bytes, skipped+op.Skipped
		skips.Live, skips.Later, skips.Refused = skips.Live+op.Skips.Live,
			skips.Later+op.Skips.Later, skips.Refused+op.Skips.Refused
		if op.After = op.Next; op.Next == "" || most > 0 && count == most {
			if op.Replay {
				samples = fmt.Sprintf(" live=%d later=%d refused=%d%s", skips.Live, skips.Later,
					skips.Refused, samples)
			}
			return fmt.Sprintf("count=%d bytes=%d skipped=%d%s", count, bytes, skipped, samples),
				nil
		}
		op.Most = max(most-count, 0)
	}
}

// taskList lists the tasks of all queues or of one, in pages of two.
func (p *Player) taskList(a *args, _ []string) (string, error) {
	op := &engine.ListTasks{Account: a.account(), Queue: a.text("q").Value,
		Active: a.flag("active"), Max: 2}
	var b strings.Builder
	for {
		if refusal, err := p.simple(a, op); refusal != "" || err != nil {
			return refusal, err
		}
		for i := range op.Tasks {
			fmt.Fprintln(&b, showView(&op.Tasks[i]))
		}
		if op.After = op.Next; op.Next == "" {
			return b.String(), nil
		}
	}
}

// taskChange is the command for a change of a task.
func taskChange(change engine.TaskChange) func(*Player, *args, []string) (string, error) {
	return func(p *Player, a *args, _ []string) (string, error) { return p.changeTask(a, change) }
}

func (p *Player) changeTask(a *args, change engine.TaskChange) (string, error) {
	op := &engine.ChangeTask{Account: a.account(), ID: a.text("task").Value, Change: change,
		Rate: a.number("rate").Value, By: a.text("by").Value}
	if err := a.done(); err != nil {
		return "", err
	}
	if number, ok := strings.CutPrefix(op.ID, "k"); ok {
		if n, err := strconv.Atoi(number); err == nil && n >= 1 && n <= len(p.selections) {
			op.ID = p.selections[n-1]
		}
	}
	refusal, err := p.do(op)
	if refusal != "" || err != nil {
		return refusal, err
	}
	return showView(&op.Task), nil
}

// A place is where a message was seen.
type place struct {
	text string
	received
}

// replace sends another content in the place of message m, which a count has shown or would show,
// or of the message of the handle r. With only-trail, the content is that of the message with
// another attribute tenaq.
func (p *Player) replace(a *args, _ []string) (string, error) {
	r, alias, trail := a.text("r"), a.text("m").Value, a.text("only-trail")
	op := &engine.Replace{To: a.text("to").Value, By: a.text("by").Value, Park: a.flag("park")}
	op.Queue, _ = a.queue()
	entry := a.entry()
	if err := a.done(); err != nil {
		return "", err
	}
	of, known := p.received[r.Value]
	if r.Set {
		op.Handle = p.handle(r)
	} else {
		var answer string
		var err error
		if op.Place, of, answer, err = p.placeOf(op.Queue, alias); answer != "" || err != nil {
			return answer, err
		}
	}
	if trail.Set && known {
		delay := entry.Delay
		entry = withTrail(p.sent[of.id].entry, trail.Value)
		entry.Delay, entry.Group, entry.Dedup = delay, engine.Text{}, engine.Text{}
	}
	op.Draft = engine.NewDraft(entry)
	refusal, err := p.do(op, entry)
	if refusal != "" || err != nil {
		if op.Place != "" {
			refusal = strings.ReplaceAll(refusal, op.Place, "PLACE")
		}
		return refusal, err
	}
	first := *p.sent[of.lineage] // a copy: clones of the player share the other one
	first.latest = &entry
	p.sent[of.lineage] = &first
	if m := p.sent[op.Sent.ID]; m != nil && op.Park {
		same := *m
		same.entry, same.latest = entry, &entry
		p.sent[op.Sent.ID] = &same
		return same.alias, nil
	}
	return p.accept(op.Sent, entry)
}

// placeOf returns the place at which a message was seen last, after a look for it.
func (p *Player) placeOf(
	q engine.QueueName, alias string,
) (text string, of received, answer string, err error) {
	look := &engine.CountTask{Queue: q, Filter: engine.TaskFilter{ID: p.idOf(alias)}}
	key := q.Name + " " + alias
	for more := true; more; more = look.After != "" {
		if refusal, err := p.do(look); refusal != "" || err != nil {
			return "", of, refusal, err
		}
		for i := range look.Samples {
			s := &look.Samples[i]
			p.places[key] = place{s.Place, received{s.ID, s.Lineage}}
		}
		look.After = look.Next
	}
	at, ok := p.places[key]
	if !ok {
		return "", of, "not seen", nil
	}
	return at.text, at.received, "", nil
}

// logAction writes an entry of the action log.
func (p *Player) logAction(a *args, _ []string) (string, error) {
	op := &engine.LogAction{Account: a.account(), By: a.text("by").Value,
		Name: a.text("name").Value, About: a.text("about").Value, Text: a.text("text").Value}
	return p.simple(a, op)
}

// actions lists what was done, the latest action first, in pages of two. What it says about ids of
// messages is left out.
func (p *Player) actions(a *args, _ []string) (string, error) {
	op := &engine.ListActions{Account: a.account(), Max: 2}
	limit := a.number("max").Value
	var b strings.Builder
	for n := int64(0); ; {
		if refusal, err := p.simple(a, op); refusal != "" || err != nil {
			return refusal, err
		}
		for _, action := range op.Actions {
			if n++; limit != 0 && n > limit {
				return b.String(), nil
			}
			text := action.Text
			if action.Name == "Replace" {
				text = text[strings.LastIndex(text, " ")+1:]
			}
			fmt.Fprintf(&b, "%d %s %s %s %s %s\n", action.Number, sinceEpoch(action.At), action.By,
				action.Name, action.About, strings.TrimSpace(text))
		}
		if op.Before = op.Next; op.Next == 0 {
			return b.String(), nil
		}
	}
}
