package row

import "slices"

// State is the row of a space that nearly every command changes. It is written once per turn.
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

	// Of a queue with a rate: what its bucket of tokens held when a message was last delivered, and
	// when that was; zero for a bucket that was not used.
	Tokens, Tokened int64

	// Of a queue that has had a deduplication window of its own: how many minutes the last bucket
	// covers beyond its first one, and the last send that is forgotten whatever the window is now.
	Wide, Forgot int64

	// LevelLow are the low-water keys of the levels from 1 on; none until a message has one.
	LevelLow []Pos

	// Of a queue that remembers answers to sends: the minutes of their rows, from AgainFrom up to
	// but not including AgainTo, and when a later attempt was last carried out before a first one;
	// all zero for none. [AGAIN-1, AGAIN-3]
	AgainFrom, AgainTo, AgainLate int64
}

// BucketOf returns the bucket of the dedup rows of a time.
func (s *State) BucketOf(at int64) (bucket int64, ok bool) {
	for i, b := range slices.Backward(s.Buckets) {
		if b <= at/DedupBucket {
			return b, at < s.BucketEnd(i)
		}
	}
	return 0, false
}

// BucketEnd is the first millisecond after a bucket, given by its index. A bucket ends where the
// next one begins.
func (s *State) BucketEnd(i int) int64 {
	if i+1 < len(s.Buckets) {
		return s.Buckets[i+1] * DedupBucket
	}
	return (s.Buckets[i] + 1 + s.Wide) * DedupBucket
}

func (s *State) Encode(b []byte) []byte { return encode(b, s, (*State).parts) }

func (s *State) parts(c *Codec) {
	version := byte(stateElder)
	switch {
	case s.AgainTo != 0:
		version = stateVersion
	case len(s.LevelLow) > 0:
		version = stateLevels
	case s.Wide != 0 || s.Forgot != 0:
		version = stateWindow
	case s.Tokened != 0:
		version = stateTokens
	}
	version = c.version(version, stateVersion)
	c.Uint(&s.NextSeq, &s.LastFresh, &s.Cursor, &s.Mixed, &s.Segment)
	c.pos(&s.DueLow, &s.Settled)
	c.Uint(&s.Boot)
	c.Int(&s.Live, &s.Delayed, &s.InFlight)
	if version > 1 {
		c.pos(&s.OriginLow, &s.HeadLow[HeadFresh], &s.HeadLow[HeadPlaced])
		c.Uint(&s.Counted.Lo, &s.Counted.Hi)
		list(c, &s.Buckets, func(bucket *int64) { c.Int(bucket) })
	}
	if version > 2 {
		c.pos(&s.ElderLow)
	}
	if version > 3 {
		if c.Int(&s.Tokens, &s.Tokened); s.Tokened == 0 && version == stateTokens {
			c.fail() // it would be written in the version before
		}
	}
	if version > 4 {
		if c.Int(&s.Wide, &s.Forgot); s.Wide == 0 && s.Forgot == 0 && version == stateWindow {
			c.fail()
		}
	}
	if version > 5 {
		levels := len(s.LevelLow) > 0 || version == stateLevels
		if version > 6 {
			c.bool(&levels)
		}
		if c.Reading && levels {
			s.LevelLow = make([]Pos, LevelMax)
		}
		for i := range s.LevelLow {
			c.pos(&s.LevelLow[i])
		}
	}
	if version > 6 {
		if c.Int(&s.AgainFrom, &s.AgainTo, &s.AgainLate); s.AgainTo == 0 {
			c.fail()
		}
	}
}

// Unchanging reports whether time changes nothing about the queue.
func (s *State) Unchanging() bool {
	return s.Live == 0 && len(s.Buckets) == 0 && s.AgainTo == 0
}

// NewState is the state of an empty space whose first message has the number next, so that sequence
// numbers grow across purges. [FIFO-38]
func NewState(next uint64) State {
	return State{NextSeq: next, Cursor: next, Segment: next >> SegmentBits,
		Counted: SeqRange{next, next}}
}

// Versions of state rows. A row is of the first version that has what there is to be said.
const (
	stateElder   = 3 // of most queues: ends where the tokens begin
	stateTokens  = 4 // of a queue with a rate
	stateWindow  = 5 // of a queue whose deduplication window was changed
	stateLevels  = 6 // of a queue that has had messages with a level
	stateVersion = 7 // of a queue that remembers answers to sends
)

func DecodeState(value []byte) (s State, ok bool) {
	ok = decode(value, &s, (*State).parts)
	return s, ok
}
