package worker

import "sync"

// A crew runs functions on goroutines that it keeps. A new goroutine begins with a small stack,
// which every request of an SDK makes grow several times.
type crew struct {
	mu   sync.Mutex
	idle []chan func() // of goroutines that wait; the last one ran most recently
	over bool
}

// run runs f, which may end its goroutine. Without a crew, each function has a goroutine of its
// own.
func (c *crew) run(f func()) {
	if c == nil {
		go f()
		return
	}
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		next := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		next <- f
		return
	}
	c.mu.Unlock()
	go c.serve(f)
}

func (c *crew) serve(f func()) {
	next := make(chan func(), 1)
	for ok := true; ok; f, ok = <-next {
		f()
		c.mu.Lock()
		over := c.over
		if !over {
			c.idle = append(c.idle, next)
		}
		c.mu.Unlock()
		if over {
			return
		}
	}
}

// end ends the goroutines that wait, and later those that still run something.
func (c *crew) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for _, next := range c.idle {
		close(next)
	}
	c.idle = nil
}
