package pipe

import (
	"bytes"
	"io"
	"sync"
)

// lineMax bounds a line that is passed on, in bytes: a longer one is cut into several.
const lineMax = 8 << 10

// A passer passes on what tasks print, line by line, to one writer.
type passer struct {
	mu sync.Mutex
	to io.Writer
}

// pass writes one line, with what it belongs to in front.
func (p *passer) pass(prefix string, line []byte) {
	text := prefix + safe(string(line), "\t") + "\n"
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = io.WriteString(p.to, text) // there is nobody to tell
}

// lines cuts what one task prints into lines and passes them on.
type lines struct {
	to     *passer
	prefix string
	open   []byte // the line that has not ended
}

// Write passes on the lines that end in p. It never fails.
func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		piece := p[:min(len(p), lineMax-len(l.open))]
		if end := bytes.IndexByte(piece, '\n'); end >= 0 {
			l.open = append(l.open, piece[:end]...)
			p = p[end+1:]
			l.flush()
			continue
		}
		l.open = append(l.open, piece...)
		p = p[len(piece):]
		if len(l.open) == lineMax {
			l.flush()
		}
	}
	return n, nil
}

// flush passes on the line, ended or not.
func (l *lines) flush() {
	l.to.pass(l.prefix, bytes.TrimSuffix(l.open, []byte("\r")))
	l.open = l.open[:0]
}

// close passes on what is left.
func (l *lines) close() {
	if len(l.open) > 0 {
		l.flush()
	}
}

// printed is where the output of one task goes: it is kept, and passed on if somebody wants it.
type printed struct {
	out   *output
	lines *lines // nil when nobody does
}

// Write never fails.
func (p *printed) Write(b []byte) (int, error) {
	if p.lines != nil {
		_, _ = p.lines.Write(b)
	}
	return p.out.Write(b)
}

// Close is for the end of the output.
func (p *printed) Close() error {
	if p.lines != nil {
		p.lines.close()
	}
	return nil
}
