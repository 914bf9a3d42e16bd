package v1

import (
	"net/http"

	"tenaq/internal/engine"
)

var errNoMessage = &Error{http.StatusNotFound, "MessageNotFound",
	"No queue that the caller may look into has a message with this id or lineage. It was deleted, " +
		"has expired or was purged, or it was sent by a version of tenaq whose message ids do not " +
		"say where a message is."}

type foundIn struct {
	ID   string `path:"id" doc:"messageId or lineageId"`
	Body int    `query:"body" range:"0,1048576" doc:"bytes of the body to show"`

	Attributes bool `query:"attributes" doc:"show message attributes"`
}

// found answers GET /v1/messages/{id}. It always shows what workers wrote about the message.
// [ID-8, ID-11]
func (c *call) found(in foundIn) (m message, err error) {
	id, ok := engine.ParseMessageID(in.ID)
	if !ok {
		return m, errValue("id", in.ID, "a message id, which is a UUID")
	}
	op := &engine.Find{Account: c.principal.Account(), ID: id}
	if err := c.do(op); err != nil {
		return m, err
	}
	if op.Queue == (engine.QueueName{}) {
		return m, errNoMessage
	}
	// The right to use the route was asked for without a queue. A refusal would name the queue.
	if c.allow(op.Queue.Name, "tenaq:PeekMessages") != nil {
		return m, errNoMessage
	}
	if err := c.reserve(op.Message.Size); err != nil {
		return m, err
	}
	m = c.shown(&op.Message)
	m.Queue, m.Mark = op.Queue.Name, op.Mark
	if !c.addContent(&m, &op.Message, in.Body, in.Attributes) {
		return m, errNoMessage // it was removed since
	}
	return m, nil
}
