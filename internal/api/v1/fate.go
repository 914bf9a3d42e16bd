package v1

import "tenaq/internal/engine"

// A messageFate is what became of a message, as GET /v1/queues/NAME/fate shows it.
type messageFate struct {
	State    engine.MessageState `json:"state"`
	Receives uint32              `json:"receiveCount,omitempty"` // while it is in its queue
}

// fate answers GET /v1/queues/NAME/fate?mark=. [PEEK-9]
func (c *call) fate() (answer, error) {
	q := c.query("mark")
	op := &engine.Follow{Queue: c.onQueue(), Mark: q.text("mark")}
	if q.err != nil {
		return answer{}, q.err
	}
	if err := c.do(op); err != nil {
		return answer{}, err
	}
	return answer{body: messageFate{State: op.Fate.State, Receives: op.Fate.Receives}}, nil
}
