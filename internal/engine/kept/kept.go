// Package kept holds contents of messages that moved to another queue, for receives that handed
// them out before and have not read them yet. Without it a message received with a visibility
// timeout of zero could move to its dead-letter queue before its content was read, and the receive
// would count and show nothing. [RCV-23]
//
// A receive that took a Contents when it handed out a message finds the content of that message in
// it, however often the message has moved since. Contents are garbage when the last receive that
// may need them is answered. They are in memory only and change no decision, because the engine
// never reads them.
package kept

import "sync"

// Contents are the contents of the messages that moved in one turn, linked to those of later turns.
// The writer holds only the last one, and a receive holds the one of its own turn.
type Contents struct {
	mu   sync.Mutex
	of   map[Place][]byte
	next *Contents
}

// A Place is where a message was before it moved.
type Place struct{ Space, Seq uint64 }

// Put adds the content of a message that leaves its place. The slice must not change afterwards.
func (c *Contents) Put(p Place, content []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[Place][]byte)
	}
	c.of[p] = content
}

// Next returns the Contents of the turn after that of c, which must be the last one.
func (c *Contents) Next() *Contents {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		return c
	}
	c.next = new(Contents)
	return c.next
}

// Find returns the content of the message that was at p, if it moved in the turn of c or later.
func (c *Contents) Find(p Place) (content []byte, ok bool) {
	for c != nil && !ok {
		c.mu.Lock()
		content, ok = c.of[p]
		next := c.next
		c.mu.Unlock()
		c = next
	}
	return content, ok
}
