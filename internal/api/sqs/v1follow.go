package sqs

import "tenaq/internal/engine"

// Headers with which a message can be followed: of a SendMessage request, to ask for it, and of its answer,
// with the mark to ask for the message by. [PEEK-9]
const (
	followHeader = "Tenaq-Follow"
	markHeader   = "Tenaq-Mark"
)

// A v1Fate is what became of a message, as GET /v1/queues/NAME/fate shows it.
type v1Fate struct {
	State    engine.MessageState `json:"state"`
	Receives uint32              `json:"receiveCount,omitempty"` // while it is in its queue
}

// v1Fate answers GET /v1/queues/NAME/fate?mark=. [PEEK-9]
func (c *call) v1Fate(queue string) (v1Answer, error) {
	q := c.query("mark")
	op := engine.Follow{Queue: c.ownQueue(queue), Mark: q.text("mark")}
	if q.err != nil {
		return v1Answer{}, q.err
	}
	res, err := c.do(op)
	if err != nil {
		return v1Answer{}, err
	}
	return v1Answer{body: v1Fate{State: res.Fate.State, Receives: res.Fate.Receives}}, nil
}
