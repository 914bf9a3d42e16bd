package v1

import (
	"errors"
	"maps"
	"net/http"
	"slices"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/engine"
)

type editIn struct {
	Queue      string                `json:"queue"`
	Place      string                `json:"place,omitempty" doc:"of the message, from a look at the queue"`
	Handle     string                `json:"receiptHandle,omitempty" doc:"of a message that the caller has received, instead of place"`
	To         destination           `json:"to,omitempty" doc:"name of a queue; absent for the source of the message"`
	Body       *string               `json:"body,omitempty" doc:"absent to keep the body"`
	Attributes map[string]*attribute `json:"attributes,omitempty" doc:"user attributes to set; null removes one; all others stay"`
	Group      string                `json:"group,omitempty" doc:"absent to keep the message group"`
	Delay      *int64                `json:"delayMs,omitempty" range:"0,900000" doc:"until the new message can be received, rounded up to whole seconds; absent for the delay of its queue"`
	Park       bool                  `json:"park,omitempty" doc:"keep the identities, the source and the receive count of the message"`
}

// An attribute is a user attribute. A type that begins with Binary has its value in base64.
type attribute struct {
	Type   string `json:"type"`
	Value  string `json:"value,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
}

// A replaced is the answer to POST /v1/replace.
type replaced struct {
	ID       string `json:"messageId"`
	Lineage  string `json:"lineageId" doc:"that of the message that was replaced"`
	Sequence string `json:"sequenceNumber,omitempty"`
	Mark     string `json:"mark" doc:"for GET /v1/queues/{queue}/fate, like the header Tenaq-Mark"`
}

// errGone refuses a message that was in the queue before. [TASK-17, NACK-19]
var errGone = &Error{http.StatusConflict, string(engine.CodeNoResource),
	"The message is gone: it was replaced, moved or deleted, or has expired. Find it by its " +
		"lineage id, or list the messages of the queue again."}

// errHandle refuses a receipt handle that is not of the queue. [HND-3, HND-19]
var errHandle = sqswire.Errorf("ReceiptHandleIsInvalid",
	"The receipt handle is not of a message in this queue.")

// replaceMessage answers POST /v1/replace. [TASK-17, NACK-19]
func (c *call) replaceMessage(in editIn) (replaced, error) {
	if err := c.allow(in.Queue, c.route.right(), "sqs:ReceiveMessage",
		"sqs:DeleteMessage"); err != nil {
		return replaced{}, err
	}
	if err := c.allowTo(string(in.To)); err != nil {
		return replaced{}, err
	}
	op := &engine.Replace{Queue: c.queue(in.Queue), Place: in.Place, To: string(in.To),
		Park: in.Park, By: c.by()}
	look := &engine.Peek{Queue: op.Queue, At: in.Place, Max: 1}
	switch {
	case (in.Place == "") == (in.Handle == ""):
		return replaced{}, errValue("place", in.Place,
			"the place of a message, or absent and receiptHandle the handle of one")
	case in.Handle != "":
		op.Handle = c.handle(in.Handle)
		look.At = engine.PlaceOf(&op.Handle)
	}
	err := c.do(look)
	refused, _ := errors.AsType[*engine.Error](err)
	switch {
	case in.Handle != "" && refused != nil && refused.Code == engine.CodeInvalidParameter:
		return replaced{}, errHandle
	case err != nil:
		return replaced{}, err
	}
	if len(look.Messages) == 0 {
		return replaced{}, errGone
	}
	if err := c.reserve(look.Messages[0].Size); err != nil {
		return replaced{}, err
	}
	content, ok := c.cfg.Broker.ReadContent(look.Messages[0].Delivery)
	if !ok {
		return replaced{}, errGone
	}
	change := (&edit{in.Body, in.Attributes}).ofEngine()
	entry := engine.Edited(&content, &change)
	entry.Group = engine.Text{Value: in.Group, Set: in.Group != ""}
	if in.Delay != nil {
		entry.Delay = engine.Int{Value: (*in.Delay + 999) / 1000, Set: true}
	}
	op.Draft = engine.NewDraft(entry)
	err = c.do(op)
	refused, _ = errors.AsType[*engine.Error](err)
	switch {
	case refused != nil && refused.Code == engine.CodeNoResource:
		return replaced{}, errGone
	case err != nil:
		return replaced{}, err
	}
	out := replaced{ID: op.Sent.ID.String(), Lineage: op.Lineage.String(), Mark: op.Sent.Mark}
	if op.Sent.Sequence != 0 {
		out.Sequence = op.Sent.Sequence.String()
	}
	return out, nil
}

// An edit is how a message changes on its way. [TASK-17, TASK-22]
type edit struct {
	Body       *string               `json:"body,omitempty" doc:"absent to keep the body"`
	Attributes map[string]*attribute `json:"attributes,omitempty" doc:"user attributes to set; null removes one; all others stay"`
}

// ofEngine returns the edit as the engine has it.
func (in *edit) ofEngine() engine.TaskEdit {
	var set []engine.Attribute
	var removed []string
	for _, name := range slices.Sorted(maps.Keys(in.Attributes)) {
		if a := in.Attributes[name]; a != nil {
			set = append(set, engine.Attribute{Name: name, Type: a.Type, String: a.Value,
				Binary: a.Base64})
		} else {
			removed = append(removed, name)
		}
	}
	return engine.NewEdit(in.Body, set, removed)
}
