package row

// SegmentBits says how many messages belong to a segment: 1 << SegmentBits with neighbouring
// numbers.
const SegmentBits = 12

// A Segment row counts neighbours: the messages whose numbers differ in the last 12 bits alone.
type Segment struct {
	First uint64 // no message of the segment before it is live
	Sent  int64  // the latest time from which the retention of one counts that is not late
	Live  int64
	Late  int64 // of the live ones: those that are late
}

func (s *Segment) Encode(b []byte) []byte { return encode(b, s, (*Segment).parts) }

func (s *Segment) parts(c *Codec) {
	version := byte(Version)
	if s.Late != 0 {
		version = segmentVersion
	}
	version = c.version(version, segmentVersion)
	c.Uint(&s.First)
	c.Int(&s.Sent, &s.Live)
	if version == segmentVersion {
		if c.Int(&s.Late); s.Late == 0 {
			c.fail() // it would be written in the version before
		}
	}
}

// segmentVersion is the version of the row of a segment that has late messages. Without one it is
// the version before.
const segmentVersion = 2

func DecodeSegment(value []byte) (s Segment, ok bool) {
	ok = decode(value, &s, (*Segment).parts)
	return s, ok
}
