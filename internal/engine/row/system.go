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

	HeldFrom  int64  // the last time before expiry was paused; zero while it is not
	HeldUntil int64  // when paused expiry resumes; zero while it is not paused
	NextTask  uint64 // number of the next move task

	IDKey IDKey // masks the places in message ids; zero before the first start

	// Unowned says that there may be spaces without an owner row, which versions before 6 took.
	Unowned bool

	// Fallen says that rows in moved may name spaces that have fallen. They are removed step by
	// step, in the order of their ids. Swept is the last id that was looked at. Again says that a
	// space has fallen since the first: after the last id, everything is looked at once more.
	Fallen bool
	Swept  MessageID
	Again  bool

	// Holds says that a dead letter has held a group. Programs before version 7 remove a dead
	// letter without ending its hold, and so must not open the store any more.
	Holds bool
}

func (s *System) Encode(b []byte) []byte { return encode(b, s, (*System).parts) }

func (s *System) parts(c *Codec) {
	version := byte(systemIdentity)
	if s.Holds {
		version = systemVersion
	}
	version = c.version(version, systemVersion)
	s.Holds = version == systemVersion
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
	if version < 6 {
		s.Unowned = true
		return
	}
	c.ID((*[16]byte)(&s.IDKey))
	c.bool(&s.Unowned, &s.Fallen)
	if s.Fallen {
		c.ID((*[16]byte)(&s.Swept))
		c.bool(&s.Again)
	}
}

// systemVersion is the version of the system row. Versions 2 to 4 hold the same. Version 3 keeps
// out programs that cannot read state rows of version 3, version 4 those that cannot read queue
// rows of version 3, and version 6 those that do not know how messages are found, and all else that
// came with it: newer message, delivery and task rows, reasons, history and records. Version 7 is
// the same, and only written once a dead letter has held a group.
const (
	systemIdentity = 6
	systemVersion  = 7
)

// StampedVersion is the first version in which no row is later than the stamp, even after a power
// cut.
const StampedVersion = 5

func DecodeSystem(value []byte) (s System, ok bool) {
	s.NextTask = 1 // the first version has none
	ok = decode(value, &s, (*System).parts)
	return s, ok
}
