package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tenaq/internal/engine"
)

// commands is everything a script can say.
var commands map[string]func(*Player, *args, []string) (string, error)

func init() {
	commands = map[string]func(*Player, *args, []string) (string, error){
		// Actions of SQS.
		"create":           (*Player).create,
		"delete-queue":     (*Player).deleteQueue,
		"list-queues":      (*Player).listQueues,
		"url":              (*Player).url,
		"set":              (*Player).set,
		"get":              (*Player).get,
		"tag":              (*Player).tag,
		"untag":            (*Player).untag,
		"tags":             (*Player).tags,
		"purge":            (*Player).purge,
		"send":             (*Player).send,
		"send-batch":       (*Player).sendBatch,
		"receive":          (*Player).receive,
		"delete":           (*Player).delete,
		"delete-batch":     (*Player).deleteBatch,
		"visibility":       (*Player).visibility,
		"visibility-batch": (*Player).visibilityBatch,

		// Shorthands.
		"counters":     (*Player).counters,    // get, for the three counters
		"fill":         (*Player).fill,        // many equal sends
		"receive-many": (*Player).receiveMany, // receives, ten at a time, without showing them
		"drain":        (*Player).drain,       // receives and deletes, all or n messages
		"create-many":  (*Player).createMany,  // queues q0001 and so on
		"tag-many":     (*Player).tagMany,     // tags tag01 and so on, on a queue that is there or is created

		// The world around the engine.
		"advance": (*Player).advance,
		"hold":    (*Player).holdExpiry,
		"config":  (*Player).config,
		"restart": (*Player).restart,
		"stamp":   (*Player).stamp,
		"sweep":   (*Player).sweep,
		"turn":    (*Player).beginTurn,
		"end":     (*Player).endTurn,
		"rows":    (*Player).rows,
		"stirred": (*Player).stirred,
	}
}

func (p *Player) create(a *args, _ []string) (string, error) {
	op := engine.CreateQueue{}
	op.Queue, op.NameSet = a.queue()
	for _, t := range a.values("tags") {
		key, value, _ := strings.Cut(t, "=")
		op.Tags = append(op.Tags, engine.Tag{Key: a.value(key), Value: a.value(value)})
	}
	op.Attributes = a.queueAttributes()
	return p.simple(a, op)
}

// queueAttributes takes all that is left: what begins with a capital letter is an attribute.
func (a *args) queueAttributes() map[string]string {
	keys, values := a.pairs()
	if len(keys) == 0 {
		return nil
	}
	attributes := make(map[string]string)
	for i, k := range keys {
		if k == "" || k[0] < 'A' || k[0] > 'Z' {
			a.complain("unknown argument %s", k)
		}
		attributes[k] = values[i]
	}
	return attributes
}

func (p *Player) deleteQueue(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	return p.simple(a, engine.DeleteQueue{Queue: q})
}

func (p *Player) listQueues(a *args, _ []string) (string, error) {
	op := engine.ListQueues{
		Account:    a.account(),
		Prefix:     a.text("prefix").Value,
		MaxResults: a.number("max"),
		NextToken:  a.text("token").Value,
	}
	if err := a.done(); err != nil {
		return "", err
	}
	// A token appears as t1, t2 and so on; any other text is one that nobody handed out.
	if n, err := strconv.Atoi(strings.TrimPrefix(op.NextToken, "t")); err == nil && n >= 1 && n <= len(p.tokens) {
		op.NextToken = p.tokens[n-1]
	}
	res, refusal, err := p.do(op)
	if refusal != "" || err != nil {
		return refusal, err
	}
	var b strings.Builder
	for i, q := range res.Queues {
		// A thousand names are nothing to read.
		if len(res.Queues) > 20 && i >= 2 && i < len(res.Queues)-2 {
			if i == 2 {
				fmt.Fprintf(&b, "... %d more\n", len(res.Queues)-4)
			}
			continue
		}
		fmt.Fprintln(&b, q.Name)
	}
	if res.NextToken != "" {
		p.tokens = append(p.tokens, res.NextToken)
		fmt.Fprintf(&b, "next=t%d\n", len(p.tokens))
	}
	return b.String(), nil
}

func (p *Player) url(a *args, _ []string) (string, error) {
	op := engine.GetQueueURL{}
	op.Queue, op.NameSet = a.queue()
	answer, err := p.simple(a, op)
	if answer == "" && err == nil {
		answer = op.Queue.Name
	}
	return answer, err
}

func (p *Player) set(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	return p.simple(a, engine.SetQueueAttributes{Queue: q, Values: a.queueAttributes()})
}

func (p *Player) get(a *args, _ []string) (string, error) {
	op := engine.GetQueueAttributes{}
	op.Queue, _ = a.queue()
	op.Names, _ = a.pairs()
	res, refusal, err := p.do(op)
	if refusal != "" || err != nil {
		return refusal, err
	}
	var lines []string
	for name, value := range res.Attributes { // order does not matter: sorted below
		lines = append(lines, name+"="+value+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, ""), nil
}

func (p *Player) counters(a *args, _ []string) (string, error) {
	op := engine.GetQueueAttributes{Names: []string{"All"}}
	op.Queue, _ = a.queue()
	if err := a.done(); err != nil {
		return "", err
	}
	res, refusal, err := p.do(op)
	if refusal != "" || err != nil {
		return refusal, err
	}
	return fmt.Sprintf("visible=%s in-flight=%s delayed=%s",
		res.Attributes["ApproximateNumberOfMessages"],
		res.Attributes["ApproximateNumberOfMessagesNotVisible"],
		res.Attributes["ApproximateNumberOfMessagesDelayed"]), nil
}

func (p *Player) tag(a *args, _ []string) (string, error) {
	op := engine.TagQueue{}
	op.Queue, _ = a.queue()
	keys, values := a.pairs()
	for i := range keys {
		op.Tags = append(op.Tags, engine.Tag{Key: keys[i], Value: values[i]})
	}
	return p.simple(a, op)
}

func (p *Player) createMany(a *args, _ []string) (string, error) {
	n := a.number("n").Value
	if err := a.done(); err != nil {
		return "", err
	}
	for i := range n {
		name := engine.QueueName{Account: accountDefault, Name: fmt.Sprintf("q%04d", i+1)}
		_, refusal, err := p.do(engine.CreateQueue{Queue: name, NameSet: true})
		if refusal != "" || err != nil {
			return refusal, err
		}
	}
	return "", nil
}

func (p *Player) tagMany(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	var tags []engine.Tag
	for i := range a.number("n").Value {
		tags = append(tags, engine.Tag{Key: fmt.Sprintf("tag%02d", i+1), Value: "x"})
	}
	if a.flag("create") {
		return p.simple(a, engine.CreateQueue{Queue: q, NameSet: true, Tags: tags})
	}
	return p.simple(a, engine.TagQueue{Queue: q, Tags: tags})
}

func (p *Player) untag(a *args, _ []string) (string, error) {
	op := engine.UntagQueue{}
	op.Queue, _ = a.queue()
	op.Keys, _ = a.pairs()
	return p.simple(a, op)
}

func (p *Player) tags(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	if err := a.done(); err != nil {
		return "", err
	}
	res, refusal, err := p.do(engine.ListQueueTags{Queue: q})
	if refusal != "" || err != nil {
		return refusal, err
	}
	var b strings.Builder
	for _, t := range res.Tags {
		fmt.Fprintf(&b, "%s=%s\n", printable(t.Key), printable(t.Value))
	}
	return b.String(), nil
}

func (p *Player) purge(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	return p.simple(a, engine.PurgeQueue{Queue: q})
}

func (p *Player) send(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	entry := a.entry()
	if err := a.done(); err != nil {
		return "", err
	}
	res, refusal, err := p.do(&engine.SendMessage{Queue: q, Draft: engine.NewDraft(entry)}, entry)
	if refusal != "" || err != nil {
		return refusal, err
	}
	return p.accept(res.Sent[0].ID, entry)
}

func (p *Player) sendBatch(a *args, lines []string) (string, error) {
	op := &engine.SendMessageBatch{}
	op.Queue, _ = a.queue()
	op.Given = len(lines) > 0 || a.flag("empty")
	var entries []engine.Entry
	for _, line := range lines {
		b, err := parseEntry(line)
		if err != nil {
			return "", err
		}
		entries = append(entries, b.entry())
		if err := b.done(); err != nil {
			return "", err
		}
	}
	for _, e := range entries {
		op.Drafts = append(op.Drafts, engine.NewDraft(e))
	}
	if err := a.done(); err != nil {
		return "", err
	}
	res, refusal, err := p.do(op, entries...)
	if refusal != "" || err != nil {
		return refusal, err
	}
	var b strings.Builder
	for i, s := range res.Sent {
		answer := ""
		if s.Err != nil {
			answer = s.Err.Error()
		} else if answer, err = p.accept(s.ID, entries[i]); err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s %s\n", entries[i].ID.Value, answer)
	}
	return b.String(), nil
}

// fill sends n equal messages and answers the aliases of the first and the last.
func (p *Player) fill(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	n := a.number("n").Value
	entry := a.entry()
	if err := a.done(); err != nil {
		return "", err
	}
	draft := engine.NewDraft(entry)
	first, last := "", ""
	for i := range n {
		res, refusal, err := p.do(&engine.SendMessage{Queue: q, Draft: draft}, entry)
		if refusal != "" || err != nil {
			return refusal, err
		}
		if last, err = p.accept(res.Sent[0].ID, entry); err != nil {
			return "", err
		}
		if i == 0 {
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
	if err := a.done(); err != nil {
		return "", err
	}
	res, refusal, err := p.do(op)
	if refusal != "" || err != nil {
		return refusal, err
	}
	if len(res.Messages) == 0 {
		return p.empty(&res), nil
	}
	var b strings.Builder
	for i := range res.Messages {
		line, err := p.deliver(&res.Messages[i], res.Incarnation, show)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&b, line)
	}
	return b.String(), nil
}

// empty describes a receive that found nothing: how long it would wait, and when time alone would give
// it something.
func (p *Player) empty(res *engine.Result) string {
	answer := "nothing"
	if res.Wait > 0 {
		answer += ", waits " + (time.Duration(res.Wait) * time.Millisecond).String()
		if res.NextReady != 0 {
			answer += ", next at " + sinceEpoch(res.NextReady)
		}
	}
	return answer
}

// receiveMany receives n messages, or as many as there are. It answers how many that were, and the first
// and the last.
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
		_, refusal, err := p.do(&engine.DeleteMessage{Queue: q, Handle: h})
		return refusal, err
	})
}

// takeAll receives up to n messages, ten at a time, and calls f, if there is one, for each.
func (p *Player) takeAll(q engine.QueueName, n int, vt engine.Int, f func(engine.Handle) (string, error)) (string, error) {
	got, first, last := 0, "", ""
	for got < n {
		res, refusal, err := p.do(&engine.ReceiveMessage{
			Queue: q, Max: engine.Int{Value: int64(min(10, n-got)), Set: true}, Visibility: vt,
		})
		if refusal != "" || err != nil {
			return refusal, err
		}
		if len(res.Messages) == 0 {
			break
		}
		for _, d := range res.Messages {
			m := p.sent[d.ID]
			if m == nil {
				return "", fmt.Errorf("received message %s, which was never sent", d.ID)
			}
			if got++; got == 1 {
				first = m.alias
			}
			last = m.alias
			if f == nil {
				continue
			}
			refusal, err := f(engine.Handle{Text: m.alias, Valid: true, Incarnation: res.Incarnation,
				Space: d.Space, Seq: d.Seq, Generation: d.Generation})
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
	for _, line := range lines {
		b, err := parseEntry(line)
		if err != nil {
			return "", err
		}
		op.Entries = append(op.Entries, engine.DeleteEntry{ID: b.text("id"), Handle: p.handle(b.text("r"))})
		if err := b.done(); err != nil {
			return "", err
		}
	}
	if err := a.done(); err != nil {
		return "", err
	}
	res, refusal, err := p.do(op)
	if refusal != "" || err != nil {
		return refusal, err
	}
	return outcomes(res.Outcomes, func(i int) string { return op.Entries[i].ID.Value }), nil
}

func (p *Player) visibility(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	return p.simple(a, &engine.ChangeMessageVisibility{Queue: q, Handle: p.handle(a.text("r")), Timeout: a.number("vt")})
}

func (p *Player) visibilityBatch(a *args, lines []string) (string, error) {
	op := &engine.ChangeMessageVisibilityBatch{}
	op.Queue, _ = a.queue()
	op.Given = len(lines) > 0 || a.flag("empty")
	for _, line := range lines {
		b, err := parseEntry(line)
		if err != nil {
			return "", err
		}
		op.Entries = append(op.Entries,
			engine.VisibilityEntry{ID: b.text("id"), Handle: p.handle(b.text("r")), Timeout: b.number("vt")})
		if err := b.done(); err != nil {
			return "", err
		}
	}
	if err := a.done(); err != nil {
		return "", err
	}
	res, refusal, err := p.do(op)
	if refusal != "" || err != nil {
		return refusal, err
	}
	return outcomes(res.Outcomes, func(i int) string { return op.Entries[i].ID.Value }), nil
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

// advance lets time pass.
func (p *Player) advance(a *args, _ []string) (string, error) {
	d, err := time.ParseDuration(a.word())
	if err != nil || d < 0 {
		return "", errors.New("advance needs a duration")
	}
	p.now += d.Milliseconds()
	return "", a.done()
}

// holdExpiry says whether the clock is to be trusted.
func (p *Player) holdExpiry(a *args, _ []string) (string, error) {
	switch word := a.word(); word {
	case "on", "off":
		p.hold = word == "on"
	default:
		return "", errors.New("hold is on or off")
	}
	return "", a.done()
}

// config changes settings of the server, which takes a restart.
func (p *Player) config(a *args, _ []string) (string, error) {
	if n := a.number("in-flight-max"); n.Set {
		p.cfg.InFlightMax = n.Value
	}
	ms := func(key string, v *int64) { *v = a.millis(key, time.Duration(*v)*time.Millisecond) }
	ms("purge-interval", &p.cfg.PurgeInterval)
	ms("recreate-delay", &p.cfg.RecreateDelay)
	if err := a.done(); err != nil {
		return "", err
	}
	p.machine.Stop(p.now, true)
	p.machine.Start(p.cfg, p.now, graceDefault.Milliseconds())
	return "", nil
}

// graceDefault bounds the visibility grace where a script does not say otherwise.
const graceDefault = time.Minute

// restart stops the server, cleanly or not, and starts it again after it was down for a while.
func (p *Player) restart(a *args, _ []string) (string, error) {
	clean := true
	switch word := a.word(); word {
	case "", "clean":
	case "unclean":
		clean = false
	default:
		return "", fmt.Errorf("cannot restart %s", word)
	}
	grace, down := a.millis("grace", graceDefault), a.millis("down", 0)
	if err := a.done(); err != nil {
		return "", err
	}
	p.machine.Stop(p.now, clean)
	p.now += down
	p.machine.Start(p.cfg, p.now, grace)
	return "", nil
}

// stamp stores the time, as the server does every few seconds.
func (p *Player) stamp(a *args, _ []string) (string, error) {
	return p.simple(a, engine.Stamp{})
}

// sweep visits every queue, max of them at a time.
func (p *Player) sweep(a *args, _ []string) (string, error) {
	size := a.number("max")
	if !size.Set {
		size.Value = 100
	}
	if err := a.done(); err != nil {
		return "", err
	}
	op := engine.Sweep{Max: int(size.Value)}
	for range 10_000 {
		res, refusal, err := p.do(op)
		if refusal != "" || err != nil || len(res.Queues) == 0 {
			return refusal, err
		}
		op.After = res.Queues[0]
	}
	return "", errors.New("the sweep does not end")
}

func (p *Player) beginTurn(a *args, _ []string) (string, error) {
	if p.world != nil {
		p.world.hold(true)
	}
	return "", a.done()
}

func (p *Player) endTurn(a *args, _ []string) (string, error) {
	if p.world != nil {
		p.world.hold(false)
	}
	return "", a.done()
}

// rows says how many rows of each kind the store has for messages.
func (p *Player) rows(a *args, _ []string) (string, error) {
	if p.world == nil {
		return "", errors.New("only an engine has rows")
	}
	return p.world.rows(), a.done()
}

// stirred names the queues that something happened to since it was last asked.
func (p *Player) stirred(a *args, _ []string) (string, error) {
	if p.world == nil {
		return "", errors.New("only an engine has stirred queues")
	}
	return strings.Join(p.world.takeStirred(), "\n"), a.done()
}
