package row

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// FIFOSuffix ends the name of every FIFO queue, and of no other.
const FIFOSuffix = ".fifo"

// A QueueName says which queue is meant: queues are known by name within an account.
type QueueName struct{ Account, Name string }

// Clone returns a copy that shares no memory. The strings of a request may be parts of its whole
// body, which whatever outlives the request must not keep alive.
func (n QueueName) Clone() QueueName {
	return QueueName{strings.Clone(n.Account), strings.Clone(n.Name)}
}

// parts are those of a row that says nothing but a name.
func (n *QueueName) parts(c *Codec) {
	c.Version(Version)
	c.string(&n.Account, &n.Name)
}

// A MessageID is the identity SQS shows: it stays with a message through every receive.
type MessageID [16]byte

// String returns the lower-case UUID form.
func (id MessageID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	b[8] = '-'
	hex.Encode(b[9:13], id[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], id[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], id[8:10])
	b[23] = '-'
	hex.Encode(b[24:36], id[10:16])
	return string(b[:])
}

// ParseMessageID reads the UUID form of an id, in letters of either case.
func ParseMessageID(text string) (id MessageID, ok bool) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return id, false
	}
	digits := strings.ReplaceAll(text, "-", "")
	if len(digits) != 2*len(id) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(digits))
	return id, err == nil
}

// A Sequence is the place of a message of a FIFO queue in the order of all messages of the queue.
// Zero is no place: messages of standard queues have none.
type Sequence uint64

// String returns the sequence number as SQS shows it: 20 decimal digits, so that texts compare as
// numbers do. [FIFO-12, FIFO-13]
func (s Sequence) String() string {
	return strconv.FormatUint(10_000_000_000_000_000_000+uint64(s), 10)
}
