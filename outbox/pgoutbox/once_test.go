package pgoutbox

import (
	"testing"

	"tenaq/internal/testing/pgtest"
	"tenaq/outbox"
)

// A message with an id is written once. The second call returns the contents of the row, even after
// it was sent.
func TestEnqueueOnce(t *testing.T) {
	b := over(t, pgtest.URL(t), Config{})
	m := outbox.Message{ID: outbox.NewID(), Queue: "q", Body: "one", Group: "g", Headers: map[string]string{"a": "1"}}
	if there, err := b.EnqueueOnce(t.Context(), m); there != nil || err != nil {
		t.Fatalf("got %+v, error %v, want it written", there, err)
	}
	other := outbox.Message{ID: m.ID, Queue: "q", Body: "two"}
	there, err := b.EnqueueOnce(t.Context(), other)
	if err != nil || there == nil || there.Body != "one" || there.Group != "g" || there.Headers["a"] != "1" {
		t.Errorf("got %+v, error %v, want the row that is there", there, err)
	}
	if err := b.Enqueue(t.Context(), other); err == nil {
		t.Error("got no error for an ID that the outbox has")
	}
	if s, err := b.Stats(t.Context()); err != nil || s.Pending != 1 {
		t.Errorf("got %+v, error %v, want one row", s, err)
	}
}
