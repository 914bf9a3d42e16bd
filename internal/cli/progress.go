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

// repaintPause is the time between two paintings of the line. More than ten per second help no
// reader and may cost more than the work itself.
const repaintPause = 100 * time.Millisecond

// Progress shows how far long work has come: on a terminal in one line that is updated, elsewhere
// in a few lines.
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

// NewProgress begins to show some work.
func NewProgress(w io.Writer, what string) *Progress {
	p := &Progress{W: w, Terminal: IsTerminal(w) && os.Getenv("TERM") != "dumb"}
	p.Begin(what)
	return p
}

func (p *Progress) Begin(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.Began = what, time.Now()
}

// Say reports a step, unless a terminal shows the line.
func (p *Progress) Say(format string, args ...any) {
	if !p.Terminal {
		fmt.Fprintf(p.W, "%s: %s\n", p.what, fmt.Sprintf(format, args...))
	}
}

// Note reports something above the line.
func (p *Progress) Note(format string, args ...any) {
	p.Done()
	text := fmt.Sprintf("%s: %s", p.what, fmt.Sprintf(format, args...))
	if p.Terminal {
		text = OneLine(text)
	}
	fmt.Fprintln(p.W, text)
}

// Line updates the line of a terminal, now or when it is painted next.
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

// repaint paints the text that was waiting, unless Done was called meanwhile.
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

func Bar(part, whole int) string {
	const width = 20
	full := width * min(part, whole) / max(whole, 1)
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", width-full) + "]"
}

// paceFrom is how long work must have gone on before its rate means anything.
const paceFrom = 500 * time.Millisecond

// RateText formats how many were done per second. It begins with a comma, and is empty if that is
// not known yet.
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

// LeftText formats how long the rest of the whole takes at the same rate, like RateText.
func LeftText(done, whole int64, took time.Duration) string {
	if done <= 0 || done >= whole || took < paceFrom {
		return ""
	}
	left := time.Duration(float64(took) * (float64(whole-done) / float64(done)))
	return ", " + HumanDuration(max(left.Round(time.Second), time.Second)) + " left"
}
