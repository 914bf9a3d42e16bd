package messages

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	outboxcmd "tenaq/cmd/tenaq/outbox"
	"tenaq/internal/cli"
	"tenaq/internal/work/timeline"
	"tenaq/outbox"
)

// Events of a row of an outbox, other than its send. The server never reports them.
const (
	rowWritten  = "row_written"
	rowSetAside = "row_set_aside"
)

// clockOutbox is the clock of events of an outbox: that of its database.
const clockOutbox = "outbox"

// An outboxRow is a row of an outbox about the work.
type outboxRow struct {
	ID         string     `json:"id"`
	Queue      string     `json:"queue"` // as the row names it
	About      string     `json:"about,omitempty"`
	Type       string     `json:"type,omitempty"`
	Work       string     `json:"work"`
	Generation int        `json:"generation"` // raised by replays
	State      string     `json:"state"`      // pending, sent or set_aside
	Written    time.Time  `json:"written"`
	After      *time.Time `json:"after,omitempty"` // it is not sent before
	SentAt     *time.Time `json:"sentAt,omitempty"`
	SentTo     string     `json:"sentTo,omitempty"`
	Message    string     `json:"messageId,omitempty"`
	SetAside   *time.Time `json:"setAsideAt,omitempty"`
	Attempts   int        `json:"attempts,omitempty"` // that its queue refused
	Reason     string     `json:"reason,omitempty"`
}

// rowsMax is how many rows of one piece of work are shown.
const rowsMax = 100

// readOutbox adds the rows of the work in an outbox, and what the server knows of their messages.
func (t *traced) readOutbox(ctx context.Context, v *cli.V1Client, address string) error {
	box, err := outboxcmd.OpenFinder(ctx, address)
	switch {
	case err != nil && address == "": // the environment names it, perhaps for other commands
		t.Unknown = append(t.Unknown, notKnown{"outbox", "", "failed", err.Error()})
		return nil
	case err != nil || box == nil:
		return err
	}
	defer box.Close()
	t.Outbox = box.String()
	told := t.Events
	works, messages := addNew([]string{t.asked}, t.Keys), []string{t.asked}
	for i := range t.Events {
		messages = addNew(messages, []string{t.Events[i].Message})
	}
	messages = slices.DeleteFunc(messages, func(id string) bool { return id == "" })
	found, err := box.Find(ctx, works, messages, rowsMax+1)
	if err != nil {
		return err
	}
	if len(found) > rowsMax {
		found = found[:rowsMax]
		t.Unknown = append(t.Unknown, notKnown{"outbox", "", "bound",
			fmt.Sprintf("the outbox has more rows of this work than the %d oldest, which are shown", rowsMax)})
	}
	var ids []string
	for i := range found {
		t.addRow(&found[i])
		if id := found[i].MessageID; uuid.MatchString(id) {
			ids = addNew(ids, []string{id})
		}
	}
	if t.Now.IsZero() {
		t.Now = time.Now().UTC()
	}
	return t.askAbout(ctx, v, ids, told)
}

// addRow adds a row and what happened to it.
func (t *traced) addRow(f *outbox.Found) {
	r := outboxRow{ID: f.ID, Queue: f.Queue, About: f.Key, Type: f.Type,
		Work: cmp.Or(f.Dedup, f.ID), Generation: f.Generation, State: "pending",
		Written: f.CreatedAt.UTC(), After: timeOrNil(f.After), SentAt: timeOrNil(f.SentAt),
		SentTo: f.SentTo, Message: f.MessageID, SetAside: timeOrNil(f.ParkedAt),
		Attempts: f.Attempts, Reason: f.Reason}
	event := timeline.Event{Clock: clockOutbox, Queue: f.Queue, Key: r.Work,
		Generation: uint64(f.Generation)}
	written := event
	written.What, written.At = rowWritten, timeOrNil(f.CreatedAt)
	t.Events = append(t.Events, written)
	switch {
	case r.SentAt != nil:
		r.State = "sent"
		event.What, event.At, event.Message = timeline.Sent, r.SentAt, f.MessageID
		event.Queue = cmp.Or(f.SentTo, f.Queue)
		t.Events = append(t.Events, event)
	case r.SetAside != nil:
		r.State = "set_aside"
		event.What, event.At, event.Text = rowSetAside, r.SetAside, f.Reason
		t.Events = append(t.Events, event)
	}
	t.Rows = append(t.Rows, r)
	t.Keys = addNew(t.Keys, []string{r.Work})
}

func timeOrNil(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC().Truncate(time.Millisecond)
	return &at
}

// rowText says what is true now of a row.
func (t *traced) rowText(r *outboxRow) string {
	text := "for " + r.Queue + generationText(r.Generation)
	switch {
	case r.SentAt != nil:
		text += ", sent " + t.ago(r.SentAt)
	case r.SetAside != nil:
		return text + ", set aside after " + cli.Counted(r.Attempts, "attempt", "attempts") + ": " +
			r.Reason
	case r.After != nil && r.After.After(t.Now):
		text += ", to be sent in " + cli.RoughDuration(r.After.Sub(t.Now))
	default:
		text += ", not sent yet"
	}
	return text + cli.OrEmpty(r.Attempts > 0 && r.SentAt == nil,
		", refused "+cli.Counted(r.Attempts, "time", "times")) +
		cli.OrEmpty(r.Reason != "", ": "+r.Reason)
}
