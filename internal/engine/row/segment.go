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

func (s *Segment) Encode(b Enc) []byte {
	b.byte(Version)
	b.uint(s.First)
	b.int(s.Sent)
	b.int(s.Live)
	return b
}

func DecodeSegment(value []byte) (s Segment, ok bool) {
	d := Dec{B: value}
	d.Version(Version)
	s.First, s.Sent, s.Live = d.Uint(), d.Int(), d.Int()
	return s, d.Done()
}
