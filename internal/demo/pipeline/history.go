package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"
)

// An event is something that a worker or a task did to a file.
type event struct {
	At        time.Time
	What      what
	File      string
	Message   string `json:",omitempty"` // message id
	Attempt   int    `json:",omitempty"`
	Fence     uint64 `json:",omitempty"`
	TakenOver bool   `json:",omitempty"` // from a worker that was lost
	Why       string `json:",omitempty"`
	Process   int
}

// A what is what happened.
type what string

const (
	received     what = "received"
	started      what = "started" // by the worker, after the claim
	completed    what = "completed"
	failed       what = "failed"
	givenBack    what = "given back"
	busy         what = "busy"
	duplicate    what = "duplicate" // it had been completed before
	deadLettered what = "dead-lettered"
	lost         what = "lost"  // the lease or the claim
	wrote        what = "wrote" // by the task
	found        what = "found" // by the task, which then did not write
	died         what = "died"
)

// A history is the log to which all processes append. One line is one write, so lines do not mix, and what was
// written is there although the process was killed in the next moment.
type history struct {
	f      *os.File
	at     int64 // what is before has been read
	events events
}

func openHistory(path string) (*history, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &history{f: f}, nil
}

// note appends an event. A process that cannot say what it does must not do it.
func (h *history) note(e event) {
	e.At, e.Process = time.Now(), os.Getpid()
	line, err := json.Marshal(e)
	if err == nil {
		_, err = h.f.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "write the history:", err)
		os.Exit(1)
	}
}

// read takes in what has been appended since.
func (h *history) read() error {
	text, err := io.ReadAll(io.NewSectionReader(h.f, h.at, math.MaxInt64-h.at))
	if err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	end := bytes.LastIndexByte(text, '\n') + 1
	h.at += int64(end)
	for line := range bytes.Lines(text[:end]) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("read the history: %w", err)
		}
		h.events = append(h.events, e)
	}
	return nil
}

func (h *history) close() error { return h.f.Close() }

// of returns the events of a file, in their order.
func (h *history) of(file string) (some events) {
	for _, e := range h.events {
		if e.File == file {
			some = append(some, e)
		}
	}
	return some
}

// count counts events of a kind.
func (h *history) count(w what) int { return h.events.count(w) }

// events are some events, in their order.
type events []event

func (es events) count(w what) (n int) {
	for _, e := range es {
		if e.What == w {
			n++
		}
	}
	return n
}

// has reports whether one of these has happened.
func (es events) has(ws ...what) bool {
	return slices.ContainsFunc(es, func(e event) bool { return slices.Contains(ws, e.What) })
}

// tasks is how often the work was begun, without the times that ended because this machine had stood still for
// longer than a lease.
func (es events) tasks() int {
	type delivery struct {
		message string
		process int
	}
	begun := make(map[delivery]bool)
	n := 0
	for _, e := range es {
		d := delivery{e.Message, e.Process}
		switch {
		case e.What == started:
			n++
			begun[d] = true
		case e.What == lost && begun[d]:
			n--
			begun[d] = false
		}
	}
	return n
}

// takenOver reports whether the work was begun in place of a worker that was lost.
func (es events) takenOver() bool {
	return slices.ContainsFunc(es, func(e event) bool { return e.TakenOver })
}
