package queues

import (
	"testing"
	"time"
)

func TestBarOfMove(t *testing.T) {
	whole := int64(60)
	task := moveTask{Moved: 15, ToMove: &whole}
	if got, want := task.bar(5*time.Second), "[=====               ] 15 of about 60 moved, 3.0/s, 15 s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := (&moveTask{Moved: 15}).bar(5*time.Second), "15 moved, 3.0/s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
