package broker

import (
	"slices"

	"tenaq/internal/engine"
)

// A Room is the memory for the answer to one receive. The writer asks for it in the moment in which
// it picks messages, so that no message is hidden or counted whose answer has no room. Its methods
// do not block.
type Room interface {
	// Reserve takes room and returns for how many bytes of messages it is, 0 when there is none.
	Reserve() int64

	// Keep gives back what is not needed for so many bytes of messages.
	Keep(size int64)

	// Owner names the client that shares the room: when there is none for one receive of an owner,
	// there is none for the others.
	Owner() string
}

// roomWait is how long a short poll waits for room before it is refused; a long poll waits as long
// as it asked to. Every roomRetry it tries again. Both are milliseconds of broker time. [RCV-24]
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

// ReadDelivered reads the content of one of the messages of a receive; false when the message has
// been removed since.
func (b *Broker) ReadDelivered(from *engine.Received, d engine.Delivery) (engine.Content, bool) {
	return engine.ReadDelivered(b.cfg.Store, d, from.Kept, b.cfg.Engine.Fault)
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
