package v1

import "tenaq/internal/engine"

// A messageFate is what became of a message, as GET /v1/queues/{queue}/fate shows it.
type messageFate struct {
	State    engine.MessageState `json:"state"`
	Receives uint32              `json:"receiveCount,omitempty"` // while it is in its queue
}

type fateIn struct {
	Queue string `path:"queue"`
	Mark  string `query:"mark" doc:"the header Tenaq-Mark of the answer to the send"`
}

// fate answers GET /v1/queues/{queue}/fate. [PEEK-9]
func (c *call) fate(in fateIn) (messageFate, error) {
	op := &engine.Follow{Queue: c.queue(in.Queue), Mark: in.Mark}
	err := c.do(op)
	return messageFate{State: op.Fate.State, Receives: op.Fate.Receives}, err
}
