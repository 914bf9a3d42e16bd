package pipe

import (
	"bytes"
	"io"
	"sync"
)

// lineMax is the maximum size of a line in bytes. A longer one is split.
const lineMax = 8 << 10

// A passer writes the output of tasks to one writer, line by line.
type passer struct {
	mu sync.Mutex
	to io.Writer
}

// pass writes one line with a prefix.
func (p *passer) pass(prefix string, line []byte) {
	text := prefix + safe(string(line), "\t") + "\n"
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = io.WriteString(p.to, text) // an error here cannot be reported
}

// lines splits the output of one task into lines.
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

// printed keeps the output of one task, and passes it on if Command.Output is set.
type printed struct {
	out   *output
	lines *lines // nil without Command.Output
}

// Write never fails.
func (p *printed) Write(b []byte) (int, error) {
	if p.lines != nil {
		_, _ = p.lines.Write(b)
	}
	return p.out.Write(b)
}

// Close passes on the last line.
func (p *printed) Close() error {
	if p.lines != nil {
		p.lines.close()
	}
	return nil
}
