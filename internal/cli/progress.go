package cli

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

// repaintPause is the time between two paintings of the line: more than ten a second help no
// reader, and cost a slow terminal more than the work itself.
const repaintPause = 100 * time.Millisecond

// Progress tells how far long work has come: on a terminal in one line that is written over and
// over, elsewhere in a few lines.
type Progress struct {
	W        io.Writer
	Terminal bool

	mu      sync.Mutex // a timer paints too
	what    string
	Began   time.Time
	text    string      // of the line
	painted time.Time   // when the line was painted last
	timer   *time.Timer // paints a text that came soon after another; nil when none is waiting
	shown   bool        // a line is on the terminal
}

func NewProgress(w io.Writer) *Progress {
	return &Progress{W: w, Terminal: IsTerminal(w) && os.Getenv("TERM") != "dumb"}
}

// Begin names the work that begins.
func (p *Progress) Begin(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.Began = what, time.Now()
}

// Say tells of a step. On a terminal the line that moves says enough.
func (p *Progress) Say(format string, args ...any) {
	if !p.Terminal {
		fmt.Fprintf(p.W, "%s: %s\n", p.what, fmt.Sprintf(format, args...))
	}
}

// Note tells what a person has to know, on a terminal too.
func (p *Progress) Note(format string, args ...any) {
	p.Done()
	text := fmt.Sprintf("%s: %s", p.what, fmt.Sprintf(format, args...))
	if p.Terminal {
		text = OneLine(text)
	}
	fmt.Fprintln(p.W, text)
}

// Line writes the line of a terminal, at once or with the next painting, which shows the latest
// text.
func (p *Progress) Line(format string, args ...any) {
	if !p.Terminal {
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
func (p *Progress) repaint() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer = nil
		p.paint()
	}
}

func (p *Progress) paint() {
	text := OneLine(fmt.Sprintf("%s  %2.0f s  %s", p.what, time.Since(p.Began).Seconds(), p.text))
	// A line that wraps could not be written over.
	if width := p.width(); utf8.RuneCountInString(text) > width {
		text = string([]rune(text)[:width])
	}
	fmt.Fprintf(p.W, "\r%s\x1b[K", text)
	p.painted, p.shown = time.Now(), true
}

func (p *Progress) width() int {
	if f, ok := p.W.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 1 {
			return width - 1
		}
	}
	return 79
}

// Done takes the line away.
func (p *Progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	if p.shown {
		fmt.Fprint(p.W, "\r\x1b[K")
		p.shown = false
	}
}

// Bar draws part of whole.
func Bar(part, whole int) string {
	const width = 20
	full := width * min(part, whole) / max(whole, 1)
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", width-full) + "]"
}

// paceFrom is how long work must have gone on before its rate means anything.
const paceFrom = 500 * time.Millisecond

// RateText says how many were done a second, and leftText how long the rest of the whole takes at
// the same rate. Each begins with a comma, or is empty when nothing can be said.
func RateText(done int64, took time.Duration) string {
	if done <= 0 || took < paceFrom {
		return ""
	}
	rate := float64(done) / took.Seconds()
	if rate < 10 {
		return fmt.Sprintf(", %.1f/s", rate)
	}
	return fmt.Sprintf(", %.0f/s", rate)
}

func LeftText(done, whole int64, took time.Duration) string {
	if done <= 0 || done >= whole || took < paceFrom {
		return ""
	}
	left := time.Duration(float64(took) * (float64(whole-done) / float64(done)))
	return ", " + HumanDuration(max(left.Round(time.Second), time.Second)) + " left"
}
