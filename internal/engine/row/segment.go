package row

// SegmentBits says how many messages belong to a segment: 1 << SegmentBits with neighbouring
// numbers.
const SegmentBits = 12

// A Segment row counts neighbours: the messages whose numbers differ in the last 12 bits alone.
type Segment struct {
	First uint64 // no message of the segment before it is live
	Sent  int64  // the latest time from which the retention of one of them counts
	Live  int64
}

func (s *Segment) Encode(b []byte) []byte {
	c := Codec{B: b}
	s.parts(&c)
	return c.B
}

func (s *Segment) parts(c *Codec) {
	c.Version(Version)
	c.Uint(&s.First)
	c.Int(&s.Sent, &s.Live)
}

func DecodeSegment(value []byte) (s Segment, ok bool) {
	c := Codec{B: value, Reading: true}
	s.parts(&c)
	return s, c.Done()
}
