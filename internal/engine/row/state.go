package row

// State is the row of a space that changes with nearly every command. It is written once per turn.
type State struct {
	NextSeq   uint64 // of the next message; the first is 1
	LastFresh uint64 // the newest message that entered without a delay
	Cursor    uint64 // no message before it is fresh
	Mixed     uint64 // from the cursor up to here, what has a delivery row is not fresh
	Segment   uint64 // low-water key of the segments
	DueLow    Pos    // low-water key of due
	Settled   Pos    // up to here the counters have followed the due index
	Boot      uint64 // the last start whose grace was given

	Live, Delayed, InFlight int64

	OriginLow Pos      // low-water key of origin
	HeadLow   [2]Pos   // low-water keys of the heads, by class
	Counted   SeqRange // FIFO: the fresh messages in here are counted as delayed
	Buckets   []int64  // of the dedup rows, in ascending order
	ElderLow  Pos      // low-water key of elder
}

func (s *State) Encode(b Enc) []byte {
	b.byte(stateVersion)
	b.uint(s.NextSeq)
	b.uint(s.LastFresh)
	b.uint(s.Cursor)
	b.uint(s.Mixed)
	b.uint(s.Segment)
	b.pos(s.DueLow)
	b.pos(s.Settled)
	b.uint(s.Boot)
	b.int(s.Live)
	b.int(s.Delayed)
	b.int(s.InFlight)
	b.pos(s.OriginLow)
	b.pos(s.HeadLow[HeadFresh])
	b.pos(s.HeadLow[HeadPlaced])
	b.uint(s.Counted.Lo)
	b.uint(s.Counted.Hi)
	b.uint(uint64(len(s.Buckets)))
	for _, bucket := range s.Buckets {
		b.int(bucket)
	}
	b.pos(s.ElderLow)
	return b
}

func (s *State) Unchanging() bool { return s.Live == 0 && len(s.Buckets) == 0 }

// NewState is the state of an empty space. Messages are numbered on from next, so that sequence
// numbers grow across purges. [FIFO-38]
func NewState(next uint64) State {
	return State{NextSeq: next, Cursor: next, Segment: next >> SegmentBits,
		Counted: SeqRange{next, next}}
}

// stateVersion is that of the state row since it knows about elders.
const stateVersion = 3

func DecodeState(value []byte) (s State, ok bool) {
	d := Dec{B: value}
	version := d.Version(stateVersion)
	s.NextSeq, s.LastFresh, s.Cursor, s.Mixed, s.Segment = d.Uint(), d.Uint(), d.Uint(), d.Uint(),
		d.Uint()
	s.DueLow, s.Settled = d.pos(), d.pos()
	s.Boot = d.Uint()
	s.Live, s.Delayed, s.InFlight = d.Int(), d.Int(), d.Int()
	if version > 1 {
		s.OriginLow = d.pos()
		s.HeadLow[HeadFresh], s.HeadLow[HeadPlaced] = d.pos(), d.pos()
		s.Counted = SeqRange{d.Uint(), d.Uint()}
		for n := d.Uint(); n > 0 && !d.Bad; n-- {
			s.Buckets = append(s.Buckets, d.Int())
		}
	}
	if version > 2 {
		s.ElderLow = d.pos()
	}
	return s, d.Done()
}
