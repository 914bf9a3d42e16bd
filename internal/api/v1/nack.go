package v1

import "tenaq/internal/engine"

type nackIn struct {
	Queue   string      `path:"queue"`
	Entries []NackEntry `json:"entries" doc:"at most ten"`
}

// A NackEntry gives one message back.
type NackEntry struct {
	Handle  string `json:"receiptHandle"`
	Verdict string `json:"verdict" doc:"retry, poison, exhausted or release"`
	Class   string `json:"class,omitempty" doc:"of the error, at most 128 bytes"`
	Text    string `json:"text,omitempty" doc:"why, at most 1024 bytes"`
	DelayMS int64  `json:"delayMs,omitempty" doc:"until the message is visible again"`
	Trail   string `json:"trail,omitempty" doc:"attribute tenaq of the dead letter, with poison or exhausted"`
}

// A NackOutcomes is the answer: an outcome for each entry, in their order.
type NackOutcomes struct {
	Outcomes []NackOutcome `json:"outcomes"`
}

// A NackOutcome is either done, or has the code and the message of an error.
type NackOutcome struct {
	Done    bool   `json:"done"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// nack answers POST /v1/queues/{queue}/nack. [NACK-1, NACK-2]
func (c *call) nack(in nackIn) (out NackOutcomes, err error) {
	op := &engine.Nack{Queue: c.queue(in.Queue)}
	var denied error // for entries with a trail
	for _, e := range in.Entries {
		if e.Trail != "" && op.TrailTo == (engine.QueueName{}) {
			if op.TrailTo, denied, err = c.trailTo(op.Queue); err != nil {
				return out, err
			}
		}
		op.Entries = append(op.Entries, engine.NackEntry{Handle: c.handle(e.Handle),
			Verdict: engine.Verdict(e.Verdict), Class: e.Class, Text: e.Text, Delay: e.DelayMS,
			Trail: engine.Text{Value: e.Trail, Set: e.Trail != ""}})
	}
	if err := c.do(op); err != nil {
		return out, err
	}
	out = NackOutcomes{Outcomes: make([]NackOutcome, len(op.Outcomes))}
	for i, no := range op.Outcomes {
		if out.Outcomes[i].Done = no == nil; no != nil {
			refused := asError(no)
			if denied != nil && in.Entries[i].Trail != "" {
				refused = asError(denied)
			}
			out.Outcomes[i].Code, out.Outcomes[i].Message = refused.Code, refused.Message
		}
	}
	return out, nil
}

// trailTo returns the dead-letter queue in which the caller may write trails. A trail says which
// work a message belongs to and how often it was brought back, so it takes the right to send to
// that queue. Without it, trailTo returns the queue itself, to which no message moves, and why.
// [NACK-22]
func (c *call) trailTo(queue engine.QueueName) (to engine.QueueName, denied, err error) {
	look := &engine.Nack{Queue: queue} // without entries, which changes nothing
	if err := c.do(look); err != nil {
		return to, nil, err
	}
	if look.Target == (engine.QueueName{}) {
		return queue, nil, nil // the engine refuses to move anything
	}
	if denied := c.cfg.Policies.Allow(c.principal, c.request, "sqs:SendMessage",
		look.Target); denied != nil {
		return queue, denied, nil
	}
	return look.Target, nil, nil
}

// handle checks the seal of a receipt handle. The engine refuses one that is wrong.
func (c *call) handle(text string) engine.Handle {
	sealed, ok := c.cfg.Sealer.Open(text)
	return engine.Handle{Text: text, Valid: ok, Incarnation: sealed.Incarnation,
		Space: sealed.Space, Seq: sealed.Seq, Generation: sealed.Generation,
		Received: sealed.Received}
}
