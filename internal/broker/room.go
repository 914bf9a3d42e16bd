package broker

import (
	"iter"
	"slices"

	"tenaq/internal/engine"
)

// A Room is the memory for the answer to one receive. The writer reserves it when it picks
// messages, so no message is hidden or counted that the answer has no room for. Its methods do not
// block.
type Room interface {
	// Reserve takes room and returns how many bytes of messages fit in, 0 if none.
	Reserve() int64

	// Keep gives back the room that size bytes of messages do not need.
	Keep(size int64)

	// Owner names the client whose receives share room: if one of them finds none, neither do the
	// others.
	Owner() string
}

// roomWait is how long a short poll waits for room before it is refused. A long poll waits for its
// own wait time. Both try again every roomRetry. In milliseconds of broker time. [RCV-24]
const (
	roomWait  = 10_000
	roomRetry = 50
)

// SubmitReceive is Submit for a receive whose answer takes room.
func (b *Broker) SubmitReceive(op *engine.ReceiveMessage, room Room) (Pending, error) {
	r := b.requests.get(op)
	r.room = room
	return b.enqueue(r)
}

// ReadDelivered yields the messages of a receive with their contents, except those that have been
// removed since.
func (b *Broker) ReadDelivered(
	from *engine.Received,
) iter.Seq2[*engine.Delivery, engine.Content] {
	return engine.ReadDelivered(b.cfg.Store, from, b.cfg.Engine.Fault)
}

// applyOp applies the operation of a request, within its room if it has one.
func (b *Broker) applyOp(r *request) error {
	op, ok := r.op.(*engine.ReceiveMessage)
	if !ok || r.room == nil {
		return b.apply(r.op)
	}
	op.Room = engine.Int{Value: r.room.Reserve(), Set: true}
	err := b.apply(op)
	size := int64(0)
	for i := range op.Messages {
		size += op.Messages[i].Size
	}
	r.room.Keep(size)
	return err
}

// A roomless set is the owners that have no room.
type roomless []string

func (o *roomless) add(r *request) {
	if !o.has(r) {
		*o = append(*o, r.room.Owner())
	}
}

func (o roomless) has(r *request) bool {
	return len(o) > 0 && r.room != nil && slices.Contains(o, r.room.Owner())
}
