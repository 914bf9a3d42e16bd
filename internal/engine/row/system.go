package row

// A System is the one row about the store as a whole.
//
// Boots and stamps exist for the visibility grace. While anything may be in flight, the broker
// stamps the time every few seconds. A start after an unclean stop therefore knows, to within one
// stamp, when the server stopped answering. Consumers could not delete their messages since then.
// So their deliveries stay hidden for a while, instead of being delivered again all at once.
// [CLOCK-10, CLOCK-11]
type System struct {
	NextSpace uint64
	Boot      uint64 // counts starts after stops that were not clean
	Clean     bool   // the last stop was a clean one; false while running
	Stamp     int64  // when the last stamp was written
	Hidden    int64  // no delivery was ever hidden until later than this

	GraceFrom, GraceUntil int64 // deliveries ending in between are held until graceUntil

	HeldFrom  int64  // the last time before expiry was held; zero while it is not
	HeldUntil int64  // when expiry goes on if nothing happens; zero while it is not held
	NextTask  uint64 // number of the next move task
}

func (s *System) Encode(b []byte) []byte {
	c := Codec{B: b}
	s.parts(&c)
	return c.B
}

func (s *System) parts(c *Codec) {
	version := c.Version(systemVersion)
	c.Uint(&s.NextSpace, &s.Boot)
	c.bool(&s.Clean)
	c.Int(&s.Stamp, &s.Hidden, &s.GraceFrom, &s.GraceUntil)
	if version > 1 {
		c.Int(&s.HeldFrom)
		c.Uint(&s.NextTask)
	}
	if version > 4 {
		c.Int(&s.HeldUntil)
	} else if s.HeldFrom != 0 {
		s.HeldUntil = MaxTime // a version that did not note it
	}
}

// systemVersion is the version of the system row. Versions 2 to 4 hold the same. Version 3 keeps
// out programs that cannot read state rows of version 3, and version 4 those that cannot read queue
// rows of version 3.
const systemVersion = 5

// StampedVersion is the first version in which no row is later than the stamp, even after a power
// cut.
const StampedVersion = 5

func DecodeSystem(value []byte) (s System, ok bool) {
	c := Codec{B: value, Reading: true}
	s.NextTask = 1 // the first version has none
	s.parts(&c)
	return s, c.Done()
}
