package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A line that changes a thousand times a second is painted ten times a second, and the last text is shown.
func TestProgressRepaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := &progress{w: &out, terminal: true}
		p.begin("move")
		for i := range 1000 {
			p.line("%d of 1000", i+1)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(repaintPause) // nothing changes any more
		synctest.Wait()
		painted := strings.Count(out.String(), "\r")
		if painted < 10 || painted > 11 {
			t.Errorf("got %d paintings in a second, want 10 or 11", painted)
		}
		if !strings.HasSuffix(out.String(), "1000 of 1000\x1b[K") {
			t.Errorf("got %q at the end, want the last text", out.String()[max(0, out.Len()-40):])
		}
	})
}

// What waits to be painted is not painted behind what is printed after done.
func TestProgressDoneStopsRepaint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := &progress{w: &out, terminal: true}
		p.begin("move")
		p.line("1")
		p.line("2")
		p.done()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got, want := out.String(), "\rmove   0 s  1\x1b[K\r\x1b[K"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestProgressEscapes(t *testing.T) {
	var out strings.Builder
	p := &progress{w: &out, terminal: true}
	p.begin("moving \u202eq")
	p.line("\u009b2J")
	p.note("a\u2028b")
	if strings.ContainsAny(out.String(), "\u202e\u009b\u2028") {
		t.Errorf("got %q, want nothing in it that drives a terminal", out.String())
	}
}

func TestRateAndLeft(t *testing.T) {
	for name, test := range map[string]struct {
		done, whole int64
		took        time.Duration
		rate, left  string
	}{
		"begun":     {5, 100, 400 * time.Millisecond, "", ""},
		"nothing":   {0, 100, time.Second, "", ""},
		"half":      {50, 100, 10 * time.Second, ", 5.0/s", ", 10 s left"},
		"fast":      {3000, 3001, time.Second, ", 3000/s", ", 1 s left"},
		"slow":      {1, 3601, time.Second, ", 1.0/s", ", 1 h left"},
		"all":       {100, 100, 2 * time.Second, ", 50/s", ""},
		"more":      {101, 100, 2 * time.Second, ", 50/s", ""},
		"no bounds": {40, 0, 2 * time.Second, ", 20/s", ""},
	} {
		if rate, left := rateText(test.done, test.took), leftText(test.done, test.whole, test.took); rate != test.rate || left != test.left {
			t.Errorf("%s: got %q and %q, want %q and %q", name, rate, left, test.rate, test.left)
		}
	}
}

func TestBarsOfMoveAndSend(t *testing.T) {
	whole := int64(60)
	task := moveTask{Moved: 15, ToMove: &whole}
	if got, want := task.bar(5*time.Second), "[=====               ] 15 of about 60 moved, 3.0/s, 15 s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := (&moveTask{Moved: 15}).bar(5*time.Second), "15 moved, 3.0/s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s := &lineSender{sent: 1, input: 4000}
	if got, want := s.bar(1000, 2*time.Second), "[=====               ] 1 line sent, 0.5/s, 6 s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := (&lineSender{sent: 20, failed: 2}).bar(1000, 2*time.Second), "20 lines sent, 10/s, 2 failed"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
