package messages

import (
	"testing"
	"time"
)

func TestBarOfSend(t *testing.T) {
	s := &lineSender{sent: 1, input: 4000}
	if got, want := s.bar(1000, 2*time.Second), "[=====               ] 1 line sent, 0.5/s, 6 s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := (&lineSender{sent: 20, failed: 2}).bar(1000, 2*time.Second), "20 lines sent, 10/s, 2 failed"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
