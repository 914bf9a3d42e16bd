package kv_test

import (
	"math/rand/v2"
	"testing"

	"tenaq/internal/kv"
	"tenaq/internal/kv/kvtest"
)

func TestMemoryLost(t *testing.T) {
	kvtest.RunLost(t, func(testing.TB) kvtest.Group { return &memoryGroup{rows: kv.NewMemory()} })
}

// A memoryGroup is the simplest group: nodes that share one memory.
type memoryGroup struct {
	rows   *kv.Memory
	leader *memoryLeader
}

func (g *memoryGroup) Lead(testing.TB) kv.Store {
	g.leader = &memoryLeader{Memory: g.rows}
	return g.leader
}

func (g *memoryGroup) Depose(_ testing.TB, rng *rand.Rand) {
	l := g.leader
	keep := rng.IntN(l.Unconfirmed() + 1)
	l.deposed, l.survived = true, l.applied-l.Unconfirmed()+keep
	g.rows = l.Crash(keep)
}

// A memoryLeader is a store whose writer can be replaced. Every batch applied to it is not empty.
type memoryLeader struct {
	*kv.Memory
	applied  int // batches
	deposed  bool
	survived int // how many batches the next leader has
}

func (l *memoryLeader) NewBatch() kv.Batch { return &leaderBatch{l.Memory.NewBatch(), l} }

type leaderBatch struct {
	kv.Batch
	leader *memoryLeader
}

func (b *leaderBatch) Apply() {
	b.leader.applied++
	b.Batch.Apply()
}

func (b *leaderBatch) Force() (wait func() error) {
	b.leader.applied++
	n, confirm := b.leader.applied, b.Batch.Force()
	return func() error {
		if b.leader.deposed && n > b.leader.survived {
			return kv.ErrLost
		}
		return confirm()
	}
}
