package v1

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tenaq/internal/broker"
	"tenaq/internal/engine"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/work/timeline"
)

// searchHistories searches the histories of this answer, and those of the queues of the work, for
// every id and key that is known by now.
func (t *tracer) searchHistories() error {
	if !t.search {
		return nil
	}
	names := slices.Clone(t.involved)
	for _, page := range t.pages {
		if !slices.Contains(names, page.Name) {
			names = append(names, page.Name)
		}
	}
	if err := t.prepare(names); err != nil {
		return err
	}
	for _, name := range names {
		op := t.histories[name]
		if op == nil {
			continue
		}
		for _, id := range slices.Clone(t.ids) {
			t.searchFor(op, engine.HistoryQuery{Either: id}, "i"+id.String())
		}
		for _, key := range slices.Clone(t.keys) {
			t.searchFor(op, engine.HistoryQuery{Key: key}, "k"+key)
		}
	}
	return nil
}

// prepare asks for the histories of queues as they are now. A few of them share a turn, so that
// other requests do not wait for many.
func (t *tracer) prepare(names []string) error {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, asked := t.histories[name]
		return asked
	})
	for few := range slices.Chunk(names, traceSubmitted) {
		ops, pending := make([]*engine.History, len(few)), make([]broker.Pending, len(few))
		errs := make([]error, len(few))
		for i, name := range few {
			t.histories[name] = nil
			if !t.mayOn("history", maySearch, name) {
				continue
			}
			ops[i] = &engine.History{Queue: t.queue(name),
				HistoryQuery: engine.HistoryQuery{Max: traceSearch}}
			pending[i], errs[i] = t.cfg.Broker.Submit(ops[i])
		}
		for i, op := range ops {
			if op == nil {
				continue
			}
			if errs[i] == nil {
				errs[i] = pending[i].Wait(t)
			}
			if err := t.prepared(op, errs[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepared keeps a history, or notes why there is none.
func (t *tracer) prepared(op *engine.History, err error) error {
	name := op.Queue.Name
	refused, _ := errors.AsType[*engine.Error](err)
	switch {
	case err == nil:
		t.histories[name] = op
		t.answer.Histories++
	case refused != nil && refused.Code == engine.CodeUnsupported:
		t.lack("history", name, "off", "the queue keeps no history, so messages that ended there "+
			"are not known; to keep one, set its tag tenaq:history")
	case refused != nil && refused.Code == engine.CodeNoQueue:
		t.lack("history", name, "gone", "there is no such queue any more, and its history went with it")
	default:
		return err
	}
	return nil
}

// searchFor searches one history for one id or key, once.
func (t *tracer) searchFor(op *engine.History, q engine.HistoryQuery, term string) {
	if done := (searched{op.Queue.Name, term}); t.searched[done] {
		return
	} else {
		t.searched[done] = true
	}
	q.Max = traceSearch
	op.HistoryQuery = q
	page, next := t.cfg.Broker.ReadHistory(op)
	if next != "" {
		t.lack("history", op.Queue.Name, "bound",
			fmt.Sprintf("only the latest %d outcomes are shown", traceSearch))
	}
	for i := range page {
		if !t.mayStay(op.Queue.Name) {
			return
		}
		t.addStay(endedStay(op.Queue.Name, &page[i]), page[i].Content.Attributes)
	}
}

// mayStay reports whether there is room for another stay of a message.
func (t *tracer) mayStay(queue string) bool {
	if len(t.stays) < traceStays {
		return true
	}
	t.lack("messages", queue, "bound", "the work has more messages than are shown")
	return false
}

// addStay adds a stay, and what it says about where else to look.
func (t *tracer) addStay(s timeline.Stay, attributes []engine.Attribute) {
	w := monitor.TrailOf(attributes)
	s.Trail = timeline.Trail{Key: w.Key, Lineage: w.Lineage, Source: nameOfARN(w.Source),
		Reason: w.Reason, Generation: uint64(w.Generation), Attempts: w.Attempts,
		Redrives: w.Redrives, FirstSent: w.FirstSent}
	t.stays = append(t.stays, s)
	for _, queue := range []string{s.Queue, s.Source, s.To, s.Trail.Source} {
		t.involve(queue)
	}
	t.addID(s.Lineage)
	t.addID(s.Trail.Lineage)
	t.generation = max(t.generation, min(w.Generation, timeline.GenerationsMax-1),
		int(min(s.Generation, timeline.GenerationsMax-1)))
	if w.Key == "" { // a worker claims the id of the first message then
		w.Key = s.Lineage
	}
	t.addKey(w.Key)
}

// liveStay is the stay of a message that is in its queue.
func liveStay(queue string, p *engine.Peeked, story *engine.Story) timeline.Stay {
	return timeline.Stay{
		Queue: queue, Message: p.ID.String(), Lineage: p.Lineage.String(),
		Source: nameOfARN(p.Source), Generation: p.LineageGeneration, Redrives: p.Redrives,
		Sent: p.Sent, FirstSent: p.FirstSent, Arrived: p.Arrived, Based: p.Based,
		Receives: p.Receives, Deliveries: p.Generation, Fence: p.Fence,
		FirstReceive: p.FirstReceive, LastReceive: p.LastReceive, Attempts: attemptsIn(story),
	}
}

// endedStay is a stay as its outcome shows it.
func endedStay(queue string, o *engine.Outcome) timeline.Stay {
	return timeline.Stay{
		Queue: queue, Message: o.ID.String(), Lineage: engine.MessageID(o.Outcome.Lineage).String(),
		Source: nameOfARN(o.Source), Generation: o.Generation, Redrives: o.Redrives,
		Sent: o.Sent, FirstSent: o.FirstSent, Arrived: o.Arrived, Based: o.Base,
		Receives: o.Receives, Deliveries: o.Deliveries, Fence: o.Fence + uint64(o.Deliveries),
		FirstReceive: o.FirstReceive, LastReceive: o.LastReceive, Attempts: attemptsIn(o.Story),
		How: o.Kind.String(), Ended: o.Ended, To: o.To.Name,
	}
}

func attemptsIn(s *engine.Story) (list []timeline.Attempt) {
	if s == nil {
		return nil
	}
	for _, a := range s.Attempts {
		list = append(list, timeline.Attempt{Verdict: a.How.String(), Receive: a.Receive,
			Received: a.Received, Ended: a.Ended, Class: a.Class, Text: a.Text})
	}
	return list
}

// nameOfARN is the name of the queue with an ARN.
func nameOfARN(arn string) string { return arn[strings.LastIndexByte(arn, ':')+1:] }

// lookForDead looks for messages with a key of the work, where none with a known id is in a queue.
// Messages that wait are not indexed by their key, so it looks at the front of the queues of the
// work and of their dead-letter queues: a worker sends a dead letter as a message with another id.
// [TRACE-2]
func (t *tracer) lookForDead() error {
	if !t.peek || len(t.answer.Messages) > 0 {
		return nil
	}
	queues, err := t.likelyQueues()
	if err != nil {
		return err
	}
	if len(queues) == 0 {
		t.lack("messages", "", "unindexed",
			"no queue of this work is known, and messages that wait are not indexed by their key")
		return nil
	}
	for _, queue := range queues {
		if err := t.lookAt(queue); err != nil {
			return err
		}
	}
	return t.follow()
}

// likelyQueues returns the queues of the work and their dead-letter queues.
func (t *tracer) likelyQueues() (queues []string, err error) {
	add := func(name string) {
		switch {
		case slices.Contains(queues, name):
		case len(queues) == traceLooked && t.mayOn("messages", mayPeek, name):
			t.lack("messages", name, "bound", "the queue was not looked at for messages of the key")
		case len(queues) == traceLooked:
		default:
			queues = append(queues, name)
		}
	}
	for _, name := range t.involved {
		view := &engine.PeekQueues{Account: t.principal.Account(), Prefix: name, Max: 1}
		if err := t.do(view); err != nil {
			return nil, err
		}
		if len(view.Queues) == 0 || view.Queues[0].Queue.Name != name {
			continue // it was deleted
		}
		add(name)
		to := view.Queues[0].Redrive.Target
		if to.Account == t.principal.Account() {
			add(to.Name)
		}
	}
	return queues, nil
}

// lookAt looks at the first messages of a queue for those with a key of the work.
func (t *tracer) lookAt(queue string) error {
	if !t.mayOn("messages", mayPeek, queue) {
		return nil
	}
	op := &engine.Peek{Queue: t.queue(queue), Max: engine.PeekMax, Bytes: pageBytes}
	for looked := 0; looked < traceLook; {
		if err := t.do(op); err != nil {
			if refused, ok := errors.AsType[*engine.Error](err); ok &&
				refused.Code == engine.CodeNoQueue {
				return nil
			}
			return err
		}
		for i := range op.Messages {
			p := &op.Messages[i]
			content, ok := t.cfg.Broker.ReadContent(p.Delivery)
			w := monitor.TrailOf(content.Attributes)
			if ok && w.Key != "" && slices.Contains(t.keys, w.Key) || t.isKnown(w.Lineage) {
				t.addLive(queue, p)
			}
		}
		looked += len(op.Messages)
		if op.After = op.Next; op.Next == "" {
			return nil
		}
	}
	t.lack("messages", queue, "bound", fmt.Sprintf(
		"only the first %d messages of the queue were looked at for the key", traceLook))
	return nil
}

// isKnown reports whether a text is the id of a message of the work.
func (t *tracer) isKnown(text string) bool {
	id, ok := engine.ParseMessageID(text)
	return ok && slices.Contains(t.ids, id)
}
