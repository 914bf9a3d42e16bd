package row

import "slices"

// AttemptsMax is how many attempts a story has at most.
const AttemptsMax = 5

// A Story is what consumers said about a message when they gave it back. A message has a story row
// only after a consumer said something. The row follows the message to other queues. [NACK-13]
type Story struct {
	// Generation is that of the receive which the last attempt ended, 0 after the message has moved
	// to another queue.
	Generation uint32
	Attempts   []Attempt // in the order in which they ended
}

// An Attempt is one receive and what the consumer said at its end.
type Attempt struct {
	How      Ending
	Receive  uint32 // the receive count of the message at that time
	Received int64
	Ended    int64
	Class    string // of the error; may be empty
	Text     string
}

// An Ending says how a consumer gave a message back.
type Ending byte

const (
	EndRetried  Ending = 1 // it failed and is to be tried again
	EndPoison   Ending = 2 // no attempt will ever succeed
	EndReleased Ending = 3 // it was not tried, and the receive does not count
	EndReturned Ending = 4 // by ChangeMessageVisibility, which takes no reason
)

var endingNames = [...]string{EndRetried: "retry", EndPoison: "poison", EndReleased: "release",
	EndReturned: "returned"}

// String returns the verdict of the consumer, or returned.
func (h Ending) String() string { return endingNames[h] }

func (h Ending) known() bool { return h >= EndRetried && h <= EndReturned }

// Last returns the latest attempt, nil if there is none.
func (s *Story) Last() *Attempt {
	if s == nil || len(s.Attempts) == 0 {
		return nil
	}
	return &s.Attempts[len(s.Attempts)-1]
}

// Reason returns the latest attempt that failed for a reason, nil if there is none. That a message
// was given back untried is no reason of a failure. [NACK-14]
func (s *Story) Reason() *Attempt {
	for i := len(s.Attempts) - 1; i >= 0; i-- {
		a := &s.Attempts[i]
		if (a.How == EndRetried || a.How == EndPoison) && (a.Class != "" || a.Text != "") {
			return a
		}
	}
	return nil
}

// Reason returns the class and the text in one line.
func (a *Attempt) Reason() string {
	if a.Class == "" || a.Text == "" {
		return a.Class + a.Text
	}
	return a.Class + ": " + a.Text
}

// Clone returns a copy that shares no memory with s.
func (s *Story) Clone() *Story {
	return &Story{Generation: s.Generation, Attempts: slices.Clone(s.Attempts)}
}

// Add adds an attempt that ended the receive with a generation. It replaces an earlier one of the
// same receive. When the story is full, the earliest attempt without a reason makes room, or else
// the earliest of all: looks at a message must not make it forget why it failed. [NACK-11]
func (s *Story) Add(generation uint32, a Attempt) {
	if last := s.Last(); last != nil && s.Generation == generation {
		*last = a
		return
	}
	s.Generation = generation
	if len(s.Attempts) == AttemptsMax {
		i := slices.IndexFunc(s.Attempts, func(a Attempt) bool { return a.Reason() == "" })
		s.Attempts = slices.Delete(s.Attempts, max(0, i), max(0, i)+1)
	}
	s.Attempts = append(s.Attempts, a)
}

func (s *Story) Encode(b []byte) []byte { return encode(b, s, (*Story).parts) }

func (s *Story) parts(c *Codec) {
	c.Version(Version)
	c.uint32(&s.Generation)
	list(c, &s.Attempts, func(a *Attempt) {
		c.Byte((*byte)(&a.How))
		c.uint32(&a.Receive)
		c.Int(&a.Received, &a.Ended)
		c.string(&a.Class, &a.Text)
		c.bad = c.bad || !a.How.known()
	})
}

func DecodeStory(value []byte) (s Story, ok bool) {
	ok = decode(value, &s, (*Story).parts)
	return s, ok && len(s.Attempts) > 0 && len(s.Attempts) <= AttemptsMax
}
