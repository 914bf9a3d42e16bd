package sqsd

// total is how many bytes are held.
func (b *budget) total() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// fill holds all of a budget.
func (b *budget) fill() *holding {
	h := b.hold("nobody")
	h.set(b.max)
	return h
}
