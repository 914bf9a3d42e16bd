package offloadtest

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"tenaq/offload"
)

// A Memory is a Store in memory, for tests of what is built on offload.
type Memory struct {
	bucket string

	mu     sync.Mutex
	bodies map[string][]byte
	fault  func(ctx context.Context, operation, key string) error
	calls  map[string]int
}

var _ offload.Store = (*Memory)(nil)

// NewMemory returns a store without bodies.
func NewMemory(bucket string) *Memory {
	return &Memory{bucket: bucket, bodies: make(map[string][]byte), calls: make(map[string]int)}
}

// SetFault sets the function that decides about every operation (put, get, delete) from now on. An
// operation for which it returns an error is not carried out. Many goroutines call the function,
// and it may wait. Nil means no faults.
func (m *Memory) SetFault(f func(ctx context.Context, operation, key string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

// Calls returns how often an operation was requested.
func (m *Memory) Calls(operation string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[operation]
}

// Len returns the number of bodies.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.bodies)
}

// begin counts an operation, and returns its fault.
func (m *Memory) begin(ctx context.Context, operation, key string) error {
	m.mu.Lock()
	m.calls[operation]++
	fault := m.fault
	m.mu.Unlock()
	if fault != nil {
		if err := fault(ctx, operation, key); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Bucket returns the name of the store.
func (m *Memory) Bucket() string { return m.bucket }

// Put stores a body.
func (m *Memory) Put(ctx context.Context, key string, body []byte) error {
	if err := m.begin(ctx, "put", key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bodies[key] = bytes.Clone(body)
	return nil
}

// Get returns a body.
func (m *Memory) Get(ctx context.Context, key string, most int) ([]byte, error) {
	if err := m.begin(ctx, "get", key); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	body, ok := m.bodies[key]
	switch {
	case !ok:
		return nil, offload.ErrNotFound
	case len(body) > most:
		return nil, fmt.Errorf("%w: %d bytes, %d are allowed", offload.ErrTooLarge, len(body), most)
	}
	return bytes.Clone(body), nil
}

// Delete removes a body.
func (m *Memory) Delete(ctx context.Context, key string) error {
	if err := m.begin(ctx, "delete", key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.bodies, key)
	return nil
}
