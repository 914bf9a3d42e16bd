package outboxtest

import (
	"context"
	"testing"

	"tenaq/outbox"
)

// inMemory is an outbox in memory, whose box goes through wrap if that is not nil.
func inMemory(wrap func(outbox.Box) outbox.Box) func(t testing.TB) Harness {
	return func(testing.TB) Harness {
		m := NewMemory()
		return Harness{
			Open: func(testing.TB) outbox.Box {
				if wrap == nil {
					return m
				}
				return wrap(m)
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

func TestMemory(t *testing.T) { RunVirtual(t, inMemory(nil)) }
