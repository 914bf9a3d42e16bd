package outboxtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"tenaq/outbox"
)

// inMemory is an outbox in memory, whose box goes through wrap if that is not nil.
func inMemory(wrap func(outbox.Box) outbox.Box) func(t testing.TB) Harness {
	return func(testing.TB) Harness {
		m := NewMemory()
		return Harness{
			Open: func(testing.TB) outbox.Box {
				if wrap == nil {
					return &heard{decider: m, m: m}
				}
				return &heard{decider: wrap(m).(decider), m: m}
			},
			Enqueue: func(ctx context.Context, commit bool, messages ...outbox.Message) error {
				if !commit {
					return nil
				}
				return m.Enqueue(messages...)
			},
		}
	}
}

type decider interface {
	outbox.Box
	outbox.Decider
}

// A heard box knows in Wait what was written since the last Claim. A Memory wakes only those who
// wait already.
type heard struct {
	decider
	m *Memory

	mu    sync.Mutex
	wakes <-chan struct{}
}

func (h *heard) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Row, time.Duration, error) {
	h.m.mu.Lock()
	wakes := h.m.wakes
	h.m.mu.Unlock()
	h.mu.Lock()
	h.wakes = wakes
	h.mu.Unlock()
	return h.decider.Claim(ctx, c)
}

func (h *heard) Wait(ctx context.Context, most time.Duration) error {
	h.mu.Lock()
	wakes := h.wakes
	h.mu.Unlock()
	select {
	case <-wakes:
		return nil
	default:
		return h.decider.Wait(ctx, most)
	}
}

func TestMemory(t *testing.T) {
	RunVirtual(t, inMemory(nil))
	t.Run("History", func(t *testing.T) {
		RunHistory(t, func(t testing.TB) Harness {
			m := NewMemory()
			return Harness{
				Open:    func(testing.TB) outbox.Box { return m },
				Enqueue: func(_ context.Context, _ bool, messages ...outbox.Message) error { return m.Enqueue(messages...) },
			}
		})
	})
}
