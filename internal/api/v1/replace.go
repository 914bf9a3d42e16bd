package v1

import (
	"crypto/md5"
	"maps"
	"net/http"
	"slices"
	"strings"

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
	if err := c.waitForContents(look.Messages); err != nil {
		return replaced{}, err
	}
	content, ok := c.cfg.Broker.ReadContent(look.Messages[0].Delivery)
	if !ok {
		return replaced{}, errGone
	}
	op := &engine.Replace{Queue: look.Queue, Place: in.Place, To: in.To, By: c.by(),
		Draft: engine.NewDraft(in.entry(&content))}
	if err := c.do(op); err != nil {
		return replaced{}, err
	}
	out := replaced{ID: op.Sent.ID.String(), Lineage: look.Messages[0].Lineage.String()}
	if op.Sent.Sequence != 0 {
		out.Sequence = op.Sent.Sequence.String()
	}
	return out, nil
}

// entry is what the message becomes that has a content.
func (in *editIn) entry(old *engine.Content) engine.Entry {
	entry := engine.Entry{Body: engine.Text{Value: old.Body, Set: true}, Sender: old.Sender,
		Trace: old.Trace}
	if in.Body != nil {
		entry.Body.Value = *in.Body
	}
	entry.BodyMD5 = md5.Sum([]byte(entry.Body.Value))
	if in.Group != "" {
		entry.Group = engine.Text{Value: in.Group, Set: true}
	}
	for _, a := range old.Attributes {
		if _, changed := in.Attributes[a.Name]; !changed {
			entry.Attributes = append(entry.Attributes, entryAttribute(a))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.Attributes)) {
		if a := in.Attributes[name]; a != nil {
			entry.Attributes = append(entry.Attributes, entryAttribute(engine.Attribute{Name: name,
				Type: a.Type, String: a.Value, Binary: a.Base64}))
		}
	}
	return entry
}

func entryAttribute(a engine.Attribute) engine.EntryAttribute {
	sent := engine.EntryAttribute{Name: a.Name, Type: engine.Text{Value: a.Type, Set: true}}
	if strings.HasPrefix(a.Type, "Binary") {
		sent.Binary, sent.HasBinary = a.Binary, true
	} else {
		sent.String = engine.Text{Value: a.String, Set: true}
	}
	return sent
}
