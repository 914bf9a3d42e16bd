package v1

import (
	"maps"
	"net/http"
	"slices"

	"tenaq/internal/engine"
)

type editIn struct {
	Queue      string                `json:"queue"`
	Place      string                `json:"place" doc:"of the message, from a look at the queue"`
	To         string                `json:"to,omitempty" doc:"name of a queue; absent for the source of the message"`
	Body       *string               `json:"body,omitempty" doc:"absent to keep the body"`
	Attributes map[string]*attribute `json:"attributes,omitempty" doc:"user attributes to set; null removes one; all others stay"`
	Group      string                `json:"group,omitempty" doc:"absent to keep the message group"`
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
}

var errGone = &Error{http.StatusNotFound, "NotFound",
	"The message is gone: it was deleted, moved or has expired. List the messages of the queue again."}

// replaceMessage answers POST /v1/replace. [TASK-17]
func (c *call) replaceMessage(in editIn) (replaced, error) {
	if err := c.allow(in.Queue, c.route.right(), "sqs:ReceiveMessage",
		"sqs:DeleteMessage"); err != nil {
		return replaced{}, err
	}
	if err := c.allowTo(in.To); err != nil {
		return replaced{}, err
	}
	if in.Place == "" {
		return replaced{}, errValue("place", "", "the place of a message")
	}
	look := &engine.Peek{Queue: c.queue(in.Queue), At: in.Place, Max: 1}
	if err := c.do(look); err != nil {
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
	op := &engine.Replace{Queue: look.Queue, Place: in.Place, To: in.To, By: c.by(),
		Draft: engine.NewDraft(entry)}
	if err := c.do(op); err != nil {
		return replaced{}, err
	}
	out := replaced{ID: op.Sent.ID.String(), Lineage: look.Messages[0].Lineage.String()}
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
