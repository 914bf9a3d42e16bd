package cli

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A line that changes a thousand times a second is painted ten times a second, and the last text is
// shown.
func TestProgressRepaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := &Progress{W: &out, Terminal: true}
		p.Begin("move")
		for i := range 1000 {
			p.Line("%d of 1000", i+1)
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

// A pending repaint does not follow output that comes after done.
func TestProgressDoneStopsRepaint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := &Progress{W: &out, Terminal: true}
		p.Begin("move")
		p.Line("1")
		p.Line("2")
		p.Done()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got, want := out.String(), "\rmove   0 s  1\x1b[K\r\x1b[K"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestProgressEscapes(t *testing.T) {
	var out strings.Builder
	p := &Progress{W: &out, Terminal: true}
	p.Begin("moving \u202eq")
	p.Line("\u009b2J")
	p.Note("a\u2028b")
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
		if rate, left := RateText(test.done, test.took), LeftText(test.done, test.whole, test.took); rate != test.rate || left != test.left {
			t.Errorf("%s: got %q and %q, want %q and %q", name, rate, left, test.rate, test.left)
		}
	}
}
