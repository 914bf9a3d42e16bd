package v1

import "tenaq/internal/engine"

type nackIn struct {
	Queue   string      `path:"queue"`
	Entries []nackEntry `json:"entries" doc:"at most ten"`
}

// A nackEntry gives one message back.
type nackEntry struct {
	Handle  string `json:"receiptHandle"`
	Verdict string `json:"verdict" doc:"retry, poison, exhausted or release"`
	Class   string `json:"class,omitempty" doc:"of the error, at most 128 bytes"`
	Text    string `json:"text,omitempty" doc:"why, at most 1024 bytes"`
	DelayMS int64  `json:"delayMs,omitempty" doc:"until the message is visible again"`
	Trail   string `json:"trail,omitempty" doc:"attribute tenaq of the dead letter, with poison or exhausted"`
}

// A nackOutcomes is the answer: an outcome for each entry, in their order.
type nackOutcomes struct {
	Outcomes []nackOutcome `json:"outcomes"`
}

// A nackOutcome is either done, or has the code and the message of an error.
type nackOutcome struct {
	Done    bool   `json:"done"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// nack answers POST /v1/queues/{queue}/nack. [NACK-1, NACK-2]
func (c *call) nack(in nackIn) (out nackOutcomes, err error) {
	op := &engine.Nack{Queue: c.queue(in.Queue)}
	for _, e := range in.Entries {
		op.Entries = append(op.Entries, engine.NackEntry{Handle: c.handle(e.Handle),
			Verdict: engine.Verdict(e.Verdict), Class: e.Class, Text: e.Text, Delay: e.DelayMS,
			Trail: engine.Text{Value: e.Trail, Set: e.Trail != ""}})
	}
	if err := c.do(op); err != nil {
		return out, err
	}
	out = nackOutcomes{Outcomes: make([]nackOutcome, len(op.Outcomes))}
	for i, no := range op.Outcomes {
		if out.Outcomes[i].Done = no == nil; no != nil {
			refused := asError(no)
			out.Outcomes[i].Code, out.Outcomes[i].Message = refused.Code, refused.Message
		}
	}
	return out, nil
}

// handle checks the seal of a receipt handle. The engine refuses one that is wrong.
func (c *call) handle(text string) engine.Handle {
	sealed, ok := c.cfg.Sealer.Open(text)
	return engine.Handle{Text: text, Valid: ok, Incarnation: sealed.Incarnation,
		Space: sealed.Space, Seq: sealed.Seq, Generation: sealed.Generation,
		Received: sealed.Received}
}
