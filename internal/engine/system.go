package engine

// system is the one row about the store as a whole.
//
// Boots and stamps exist for the visibility grace. While anything may be in flight the broker stamps
// the time every few seconds. A start that does not find a clean stop therefore knows, to within one
// stamp, when the server stopped answering: consumers could not delete what they had in the meantime,
// so their deliveries stay hidden for a while instead of all being delivered again at once. [CLOCK-10, CLOCK-11]
type system struct {
	nextSpace uint64
	boot      uint64 // counts starts after stops that were not clean
	clean     bool   // the last stop was a clean one; false while running
	stamp     int64  // when the last stamp was written
	hidden    int64  // no delivery was ever hidden until later than this

	graceFrom, graceUntil int64 // deliveries ending in between are held until graceUntil

	heldFrom  int64  // the last time before expiry was held; zero while it is not
	heldUntil int64  // when it goes on if nothing happens; zero while it is not held
	nextTask  uint64 // number of the next move task

	dirty bool
}

func (e *Engine) loadSystem() {
	e.sys = system{nextSpace: 1, clean: true, nextTask: 1}
	value, ok := e.rows.get(systemKey())
	if !ok {
		return
	}
	if e.sys, ok = decodeSystem(value); !ok {
		e.rows.damaged("system", systemKey())
	}
	e.now = e.sys.stamp
}

// systemVersion is that of the system row. Versions 2 to 4 hold the same: version 3 keeps programs away that cannot read state
// rows of version 3, and version 4 those that cannot read queue rows of version 3.
const systemVersion = 5

// stampedVersion is the first in which no row is later than the stamp, whatever a power cut has left.
const stampedVersion = 5

func (s *system) encode(b enc) []byte {
	b.byte(systemVersion)
	b.uint(s.nextSpace)
	b.uint(s.boot)
	b.bool(s.clean)
	b.int(s.stamp)
	b.int(s.hidden)
	b.int(s.graceFrom)
	b.int(s.graceUntil)
	b.int(s.heldFrom)
	b.uint(s.nextTask)
	b.int(s.heldUntil)
	return b
}

func decodeSystem(value []byte) (s system, ok bool) {
	d := dec{b: value}
	version := d.version(systemVersion)
	s.nextTask = 1
	s.nextSpace, s.boot, s.clean, s.stamp, s.hidden = d.uint(), d.uint(), d.bool(), d.int(), d.int()
	s.graceFrom, s.graceUntil = d.int(), d.int()
	if version > 1 {
		s.heldFrom, s.nextTask = d.int(), d.uint()
	}
	if version > 4 {
		s.heldUntil = d.int()
	} else if s.heldFrom != 0 {
		s.heldUntil = maxTime // nobody has noted it
	}
	return s, d.done()
}

// takeSpace returns a space that no row has ever been in.
func (s *system) takeSpace() uint64 {
	space := s.nextSpace
	s.nextSpace++
	s.dirty = true
	return space
}

// LastStamp is the latest time the store knows of, in Unix milliseconds: the broker's clock must not
// start before it.
func (e *Engine) LastStamp() int64 { return e.sys.stamp }

// HiddenUntil is the latest time until which some delivery may be hidden. After it nothing is in
// flight, and no stamps are needed.
func (e *Engine) HiddenUntil() int64 { return e.sys.hidden }

// HeldUntil is until when expiry was to be held when the store was last written; zero when it was not held.
func (e *Engine) HeldUntil() int64 { return e.sys.heldUntil }

// hiddenSlack is how much later than necessary system.hidden is set, so that under steady traffic the row
// is written once in this many milliseconds and not with every delivery.
const hiddenSlack = 60_000

// noteHidden remembers that a delivery is hidden until at.
func (e *Engine) noteHidden(at int64) {
	if at > e.sys.hidden {
		e.sys.hidden, e.sys.dirty = at+hiddenSlack, true
	}
}

// noteHold remembers since when expiry has been held.
func (e *Engine) noteHold(held bool) {
	e.sys.heldFrom, e.sys.heldUntil, e.sys.dirty = 0, 0, true
	if held {
		e.sys.heldFrom = max(e.now, 1)
	}
}

// trusted is the latest time that is beyond doubt: Now, or while expiry is held the time before. No
// deduplication window ends by the clock that expiry is held for. [DEDUP-23]
func (e *Engine) trusted() int64 {
	if e.hold {
		return e.sys.heldFrom
	}
	return e.now
}

// Start is the first command after Open. If the last stop was not a clean one, deliveries that were
// hidden at that moment stay so until Now plus the time the server was away, at most Grace
// milliseconds. After a clean one everything goes on as it was, a grace that is not over included.
// [CLOCK-12]
type Start struct{ Grace int64 }

func (op Start) apply(e *Engine, c *Command) (Result, error) {
	s := &e.sys
	if !s.clean {
		s.boot++
		from, until := s.stamp, c.Now+min(op.Grace, c.Now-s.stamp) // [CLOCK-11]
		if s.graceUntil > s.stamp {
			// The server died during an earlier grace, which not every queue had been given yet.
			from, until = s.graceFrom, max(s.graceUntil, until)
		}
		s.graceFrom, s.graceUntil = 0, 0
		if op.Grace > 0 { // [CLOCK-13]
			s.graceFrom, s.graceUntil = from, until
			e.noteHidden(until)
		}
	}
	s.clean, s.stamp, s.dirty = false, c.Now, true
	return Result{}, nil
}

// Stamp records the time. Clean says that the server is about to stop and answers nothing any more.
type Stamp struct{ Clean bool }

func (op Stamp) apply(e *Engine, c *Command) (Result, error) {
	e.sys.stamp, e.sys.clean, e.sys.dirty = c.Now, op.Clean, true
	return Result{}, nil
}

// Hold records until when expiry is held if nothing happens that begins the hold anew, so that a restart can go on with
// it. [CLOCK-8] It comes with HoldExpiry.
type Hold struct{ Until int64 }

func (op Hold) apply(e *Engine, c *Command) (Result, error) {
	if c.HoldExpiry {
		e.sys.heldUntil, e.sys.dirty = op.Until, true
	}
	return Result{}, nil
}
