package monitor

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"tenaq/internal/engine"
)

// A Note is what an operator wrote about a kind of failure for the next person on call. [NACK-23]
type Note struct {
	Queue string    `json:"queue"`
	Of    string    `json:"incarnation"` // of the queue: another one of its name has no notes
	Kind  string    `json:"kind"`
	Text  string    `json:"text"`
	By    string    `json:"by"`
	At    time.Time `json:"at"`
}

// Bounds of notes.
const (
	notesMax    = 500
	noteMax     = 500 // bytes of a text
	noteKindMax = 64  // bytes
)

// A NotesFull refuses one more note. It has the oldest one, which can be removed.
type NotesFull struct{ Oldest Note }

func (e *NotesFull) Error() string {
	return fmt.Sprintf("there are already %d notes: remove one that is no longer needed, such as the oldest: tenaq dead note %s %s --remove",
		notesMax, e.Oldest.Queue, e.Oldest.Kind)
}

func (n *Note) check() error {
	const legal = "0123456789abcdefghijklmnopqrstuvwxyz"
	odd := func(c rune) bool { return !strings.ContainsRune(legal, c) }
	switch {
	case n.Kind == "" || len(n.Kind) > noteKindMax || strings.ContainsFunc(n.Kind, odd):
		return fmt.Errorf("%w: %s is not a kind of failure; tenaq dead list QUEUE lists the kinds", ErrInvalid,
			clean(n.Kind, noteKindMax))
	}
	return checkNote(n.Text)
}

// checkNote refuses the text of a note that is too long or more than a line.
func checkNote(text string) error {
	switch {
	case len(text) > noteMax:
		return fmt.Errorf("%w: the note has %d bytes, and at most %d are allowed: shorten it", ErrInvalid,
			len(text), noteMax)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return fmt.Errorf("%w: a note is one line of text without control characters", ErrInvalid)
	}
	return nil
}

// PutNote stores a note in the place of an earlier one about the same kind. An empty text removes
// it. Errors are ErrInvalid, *NotesFull, those of the queue, and those of the disk, with which
// nothing has changed. [NACK-23]
func (m *Monitor) PutNote(ctx context.Context, n Note) error {
	if err := n.check(); err != nil {
		return err
	}
	m.noting.Lock() // so that what one request takes back is not what another one has stored
	defer m.noting.Unlock()
	var err error
	if n.Of, err = m.incarnation(ctx, n.Queue); err != nil {
		return err
	}
	n.At = time.Now().UTC().Truncate(time.Millisecond)
	left := slices.DeleteFunc(m.allNotes(), func(old Note) bool {
		return old.Queue == n.Queue && (old.Of != n.Of || old.Kind == n.Kind)
	})
	if n.Text != "" {
		if left, err = m.makeRoom(ctx, left); err != nil {
			return err
		}
		left = append(left, n)
	}
	return m.mutate(func() (func(), error) {
		before := m.notes
		m.notes = left
		return func() { m.notes = before }, nil
	})
}

// makeRoom leaves out the notes of queues that were deleted, if there are too many notes.
func (m *Monitor) makeRoom(ctx context.Context, notes []Note) ([]Note, error) {
	if len(notes) < notesMax {
		return notes, nil
	}
	now := make(map[string]string) // incarnations by the names of the queues
	for _, n := range notes {
		if _, known := now[n.Queue]; known {
			continue
		}
		var gone *engine.Error
		of, err := m.incarnation(ctx, n.Queue)
		if err != nil && !(errors.As(err, &gone) && gone.Code == engine.CodeNoQueue) {
			return nil, err
		}
		now[n.Queue] = of
	}
	left := slices.DeleteFunc(slices.Clone(notes), func(n Note) bool {
		return n.Of != now[n.Queue]
	})
	if len(left) >= notesMax {
		return nil, &NotesFull{left[0]}
	}
	return left, nil
}

// Notes returns the notes about a queue by their kinds. [NACK-23]
func (m *Monitor) Notes(ctx context.Context, queue string) (map[string]*Note, error) {
	all := slices.DeleteFunc(m.allNotes(), func(n Note) bool { return n.Queue != queue })
	if len(all) == 0 {
		return nil, nil
	}
	of, err := m.incarnation(ctx, queue)
	if err != nil {
		return nil, err
	}
	byKind := make(map[string]*Note)
	for i := range all {
		if all[i].Of == of {
			byKind[all[i].Kind] = &all[i]
		}
	}
	return byKind, nil
}

func (m *Monitor) allNotes() []Note {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.notes)
}

// incarnation tells a queue from another one of its name.
func (m *Monitor) incarnation(ctx context.Context, queue string) (string, error) {
	op := &engine.GetQueueAttributes{Queue: engine.QueueName{Account: m.cfg.Account, Name: queue}}
	if err := m.cfg.Queues.Do(ctx, op); err != nil {
		return "", err
	}
	return hex.EncodeToString(op.Incarnation[:]), nil
}
