package engine

import (
	"crypto/sha256"

	"tenaq/internal/engine/row"
)

// system is the system row in memory.
type system struct {
	row.System
	dirty bool // the row has to be written
}

func (e *Engine) loadSystem() {
	stored, ok := read(&e.rows, "system", row.SystemKey(), row.DecodeSystem)
	if !ok {
		stored = row.System{NextSpace: 1, Clean: true, NextTask: 1}
	}
	e.sys.System, e.now = stored, stored.Stamp
}

// takeSpace returns a space that no row has ever been in.
func (s *system) takeSpace() uint64 {
	space := s.NextSpace
	s.NextSpace++
	s.dirty = true
	return space
}

// LastStamp is the latest time in the store, in Unix milliseconds. The clock of the broker must not
// start before it.
func (e *Engine) LastStamp() int64 { return e.sys.Stamp }

// IsClean reports whether the last stop was clean. It is for the time between Open and Start.
func (e *Engine) IsClean() bool { return e.sys.Clean }

// HiddenUntil is the latest time until which a delivery may be hidden. After it nothing is in
// flight, and no stamps are needed.
func (e *Engine) HiddenUntil() int64 { return e.sys.Hidden }

// ExpiryPausedUntil is when paused expiry resumes, as the store was last written; zero if expiry is
// not paused.
func (e *Engine) ExpiryPausedUntil() int64 { return e.sys.HeldUntil }

// hiddenSlack is how much later than necessary System.Hidden is set, in milliseconds. Under steady
// traffic, the row is then written once in that time and not with every delivery.
const hiddenSlack = 60_000

// noteHidden remembers that a delivery is hidden until at.
func (e *Engine) noteHidden(at int64) {
	if at > e.sys.Hidden {
		e.sys.Hidden, e.sys.dirty = at+hiddenSlack, true
	}
}

// notePause remembers since when expiry has been paused.
func (e *Engine) notePause(paused bool) {
	e.sys.HeldFrom, e.sys.HeldUntil, e.sys.dirty = 0, 0, true
	if paused {
		e.sys.HeldFrom = max(e.now, 1)
	}
}

// trusted is the latest time that is certain: Now, or while expiry is paused, the time before the
// pause. No deduplication window ends by a clock that is in doubt. [DEDUP-23]
func (e *Engine) trusted() int64 {
	if e.expiryPaused {
		return e.sys.HeldFrom
	}
	return e.now
}

// Start is the first command after Open. If the last stop was not clean, deliveries that were
// hidden then stay hidden until Now plus the time for which the server was away, at most Grace
// milliseconds. After a clean stop everything continues, including a grace that is not over.
// [CLOCK-12]
type Start struct{ Grace int64 }

func (op *Start) apply(e *Engine, c *Command) *Error {
	s := &e.sys
	if !s.Clean {
		s.Boot++
		from, until := s.Stamp, c.Now+min(op.Grace, c.Now-s.Stamp) // [CLOCK-11]
		if s.GraceUntil > s.Stamp {
			// The server died during an earlier grace, which not every queue had been given yet.
			from, until = s.GraceFrom, max(s.GraceUntil, until)
		}
		s.GraceFrom, s.GraceUntil = 0, 0
		if op.Grace > 0 { // [CLOCK-13]
			s.GraceFrom, s.GraceUntil = from, until
			e.noteHidden(until)
		}
	}
	if s.IDKey == (row.IDKey{}) { // the first start of the store, or of this version
		sum := sha256.Sum256(append([]byte("message ids "), c.Seed[:]...))
		copy(s.IDKey[:], sum[:])
	}
	s.Clean, s.Stamp, s.dirty = false, c.Now, true
	return nil
}

// Stamp records the time. Clean says that the server is about to stop and answers nothing more.
type Stamp struct{ Clean bool }

func (op *Stamp) apply(e *Engine, c *Command) *Error {
	e.sys.Stamp, e.sys.Clean, e.sys.dirty = c.Now, op.Clean, true
	return nil
}

// PauseExpiry records when paused expiry resumes, so that a restart can continue the pause. It
// comes with ExpiryPaused. [CLOCK-8]
type PauseExpiry struct{ Until int64 }

func (op *PauseExpiry) apply(e *Engine, c *Command) *Error {
	if c.ExpiryPaused {
		e.sys.HeldUntil, e.sys.dirty = op.Until, true
	}
	return nil
}
