package engine

import (
	"crypto/md5"
	"strings"

	"tenaq/internal/engine/row"
)

// An edit changes messages on their way to another queue: all that a task moves, or the one that
// Replace takes. What becomes of each is checked as a send would be. [TASK-17, TASK-22]

type TaskEdit = row.TaskEdit

// editMax bounds the edit of a task, in bytes: every step of the task writes it again.
const editMax = 64 << 10

// NewEdit returns the edit that sets user attributes, removes those with some names, and sets the
// body unless that is nil.
func NewEdit(body *string, set []Attribute, removed []string) TaskEdit {
	edit := TaskEdit{Set: set, Removed: removed}
	if body != nil {
		edit.HasBody, edit.Body, edit.BodyMD5 = true, *body, md5.Sum([]byte(*body))
	}
	return edit
}

// Edited returns what an edit makes of a message with a content.
func Edited(old *Content, edit *TaskEdit) Entry {
	entry := Entry{Body: Text{Value: old.Body, Set: true}, BodyMD5: old.BodyMD5,
		Sender: old.Sender, Trace: old.Trace}
	if edit.HasBody {
		entry.Body.Value, entry.BodyMD5 = edit.Body, edit.BodyMD5
	}
	for _, a := range old.Attributes {
		if !edit.Changes(a.Name) {
			entry.Attributes = append(entry.Attributes, entryAttribute(a))
		}
	}
	for _, a := range edit.Set {
		entry.Attributes = append(entry.Attributes, entryAttribute(a))
	}
	return entry
}

func entryAttribute(a Attribute) EntryAttribute {
	sent := EntryAttribute{Name: a.Name, Type: Text{Value: a.Type, Set: true}}
	if row.IsBinary(a.Type) {
		sent.Binary, sent.HasBinary = a.Binary, true
	} else {
		sent.String = Text{Value: a.String, Set: true}
	}
	return sent
}

// checkEdit refuses an edit of a task that no queue would accept for any message. A task may not
// change the attribute in which workers keep the identity of the work: with one value for all of
// its messages they would be copies of each other, and without it new work. [TASK-22]
func checkEdit(edit *TaskEdit) *Error {
	if edit.HasBody && edit.Body == "" {
		return errMissing("body")
	}
	if edit.Changes(trailAttribute) {
		return errValue(trailAttribute, "attributes", "A task does not change the identity of "+
			"its messages. Replace them one by one.")
	}
	d := NewDraft(Edited(&Content{Body: "x"}, edit))
	if d.attributes != nil {
		return d.attributes
	}
	size := d.size
	for _, name := range edit.Removed {
		size += int64(len(name))
	}
	if size > editMax {
		return errNumber(size, "edit", "Must have at most 65536 bytes. Replace messages one by one.")
	}
	return d.letters
}

// Bytes is the size of a draft as SQS counts it.
func (d *Draft) Bytes() int64 { return d.size }

// checkInPlace refuses a draft that a queue does not take in the place of a message. Ids that the
// draft does not have are those of the message.
func (d *Draft) checkInPlace(to *queue, m *row.Meta) *Error {
	if !d.group.Set && m.Group != "" {
		d.group = Text{Value: m.Group, Set: true}
	}
	if to.fifo() && !d.dedup.Set {
		d.dedup = Text{Value: m.Dedup, Set: true}
	}
	return d.check(to, 0)
}

// sendInPlace removes a message and sends a draft in its place, which checkInPlace has checked. The
// new id is made from random.
func (e *Engine) sendInPlace(
	q, to *queue, m *message, d *Draft, delay int64, random MessageID,
) *message {
	e.prepareEnd(q, m)
	with := &rewritten{e.contentOf(q, m), d.content, d.size}
	moved := e.redriven(to, m, random, d.size, delay)
	moved.Group, moved.Dedup = strings.Clone(d.group.Value), strings.Clone(d.dedup.Value)
	e.transferAs(q, to, m, moved, row.OutcomeReplaced, with)
	e.tally(q).Moved.Add(1)
	e.stir(to)
	return moved
}
