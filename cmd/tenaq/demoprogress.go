package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// progress tells how far long work has come: on a terminal in one line that is written over and over,
// elsewhere in a few lines. It belongs to one goroutine at a time.
type progress struct {
	w        io.Writer
	terminal bool
	what     string
	began    time.Time
	shown    bool // a line is on the terminal
}

func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: isTerminal(w) && os.Getenv("TERM") != "dumb"}
}

// begin names the work that begins.
func (p *progress) begin(what string) { p.what, p.began = what, time.Now() }

// say tells of a step. On a terminal the line that moves says enough.
func (p *progress) say(format string, args ...any) {
	if !p.terminal {
		fmt.Fprintf(p.w, "%s: %s\n", p.what, fmt.Sprintf(format, args...))
	}
}

// note tells what a person has to know, on a terminal too.
func (p *progress) note(format string, args ...any) {
	p.done()
	fmt.Fprintf(p.w, "%s: %s\n", p.what, fmt.Sprintf(format, args...))
}

// line writes the line of a terminal.
func (p *progress) line(format string, args ...any) {
	if !p.terminal {
		return
	}
	text := fmt.Sprintf("%s  %2.0f s  %s", p.what, time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
	// A line that wraps could not be written over.
	if width := p.width(); utf8.RuneCountInString(text) > width {
		text = string([]rune(text)[:width])
	}
	fmt.Fprintf(p.w, "\r%s\x1b[K", text)
	p.shown = true
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
