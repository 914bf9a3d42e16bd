package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// repaintPause is the time between two paintings of the line: more than ten a second help no reader, and
// cost a slow terminal more than the work itself.
const repaintPause = 100 * time.Millisecond

// progress tells how far long work has come: on a terminal in one line that is written over and over,
// elsewhere in a few lines.
type progress struct {
	w        io.Writer
	terminal bool

	mu      sync.Mutex // a timer paints too
	what    string
	began   time.Time
	text    string      // of the line
	painted time.Time   // when the line was painted last
	timer   *time.Timer // paints a text that came soon after another; nil when none is waiting
	shown   bool        // a line is on the terminal
}

func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: isTerminal(w) && os.Getenv("TERM") != "dumb"}
}

// begin names the work that begins.
func (p *progress) begin(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.began = what, time.Now()
}

// say tells of a step. On a terminal the line that moves says enough.
func (p *progress) say(format string, args ...any) {
	if !p.terminal {
		fmt.Fprintf(p.w, "%s: %s\n", p.what, fmt.Sprintf(format, args...))
	}
}

// note tells what a person has to know, on a terminal too.
func (p *progress) note(format string, args ...any) {
	p.done()
	text := fmt.Sprintf("%s: %s", p.what, fmt.Sprintf(format, args...))
	if p.terminal {
		text = oneLine(text)
	}
	fmt.Fprintln(p.w, text)
}

// line writes the line of a terminal, at once or with the next painting, which shows the latest text.
func (p *progress) line(format string, args ...any) {
	if !p.terminal {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = fmt.Sprintf(format, args...)
	switch wait := repaintPause - time.Since(p.painted); {
	case p.timer != nil:
	case wait > 0:
		p.timer = time.AfterFunc(wait, p.repaint)
	default:
		p.paint()
	}
}

// repaint paints the text that was waiting, unless it was taken away meanwhile.
func (p *progress) repaint() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer = nil
		p.paint()
	}
}

func (p *progress) paint() {
	text := oneLine(fmt.Sprintf("%s  %2.0f s  %s", p.what, time.Since(p.began).Seconds(), p.text))
	// A line that wraps could not be written over.
	if width := p.width(); utf8.RuneCountInString(text) > width {
		text = string([]rune(text)[:width])
	}
	fmt.Fprintf(p.w, "\r%s\x1b[K", text)
	p.painted, p.shown = time.Now(), true
}

func (p *progress) width() int {
	if f, ok := p.w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 1 {
			return width - 1
		}
	}
	return 79
}

// done takes the line away.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// bar draws part of whole.
func bar(part, whole int) string {
	const width = 20
	full := width * min(part, whole) / max(whole, 1)
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", width-full) + "]"
}

// paceFrom is how long work must have gone on before its rate means anything.
const paceFrom = 500 * time.Millisecond

// rateText says how many were done a second, and leftText how long the rest of the whole takes at the same
// rate. Each begins with a comma, or is empty when nothing can be said.
func rateText(done int64, took time.Duration) string {
	if done <= 0 || took < paceFrom {
		return ""
	}
	rate := float64(done) / took.Seconds()
	if rate < 10 {
		return fmt.Sprintf(", %.1f/s", rate)
	}
	return fmt.Sprintf(", %.0f/s", rate)
}

func leftText(done, whole int64, took time.Duration) string {
	if done <= 0 || done >= whole || took < paceFrom {
		return ""
	}
	left := time.Duration(float64(took) * (float64(whole-done) / float64(done)))
	return ", " + humanDuration(max(left.Round(time.Second), time.Second)) + " left"
}
