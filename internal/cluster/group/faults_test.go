package group

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tenaq/internal/kv/kvtest/crashdisk"
)

// An evil is a way in which something breaks.
type evil struct {
	name   string
	weight int
	do     func(s *story) (done bool)
}

// evils are all of them. Each counts once, however many links or machines it concerns.
var evils = []evil{
	{"power cut at a write", 12, (*story).cutPowerSoon},
	{"restart", 6, (*story).restart},
	{"pause", 14, (*story).pauseOne},
	{"machine cut off", 10, func(s *story) bool {
		n := s.anyone()
		n.disconnect()
		s.later(1500*time.Millisecond, n.connect)
		return true
	}},
	{"link cut", 12, func(s *story) bool {
		a, b := s.two()
		s.change(a, b, func(l *link) { l.cuts++ }, func(l *link) { l.cuts-- }, true)
		return true
	}},
	{"link cut one way", 14, func(s *story) bool {
		a, b := s.two()
		s.change(a, b, func(l *link) { l.cuts++ }, func(l *link) { l.cuts-- }, false)
		return true
	}},
	{"machine cut off one way", 8, (*story).deafen},
	{"link slow", 12, func(s *story) bool {
		a, b := s.two()
		by := time.Duration(20+s.rng.IntN(600)) * time.Millisecond
		s.change(a, b, func(l *link) { l.delay += by }, func(l *link) { l.delay -= by }, s.rng.IntN(2) == 0)
		return true
	}},
	{"hand over", 8, (*story).handOver},
	{"clock set", 8, (*story).setClock},
}

// breakSomething does one evil.
func (s *story) breakSomething() {
	if !s.flipped && s.rng.IntN(faultsEach/2) == 0 {
		s.flipBit()
		return
	}
	all := 0
	for _, e := range evils {
		all += e.weight
	}
	at := s.rng.IntN(all)
	for _, e := range evils {
		if at -= e.weight; at < 0 {
			if e.do(s) {
				s.faults[e.name]++
			}
			return
		}
	}
}

// later ends a fault after a random time.
func (s *story) later(mean time.Duration, end func()) {
	s.heals = append(s.heals, heal{time.Now().Add(time.Duration(s.rng.ExpFloat64() * float64(mean))), end})
}

// anyone returns a machine: the one that leads in half of the cases.
func (s *story) anyone() *node {
	if s.rng.IntN(2) == 0 {
		for _, n := range s.nodes[:s.voters] {
			if n.running.Load() && n.broker.Load() != nil {
				return n
			}
		}
	}
	return s.nodes[s.rng.IntN(s.voters)]
}

func (s *story) two() (a, b *node) {
	a = s.anyone()
	for b = a; b == a; {
		b = s.nodes[s.rng.IntN(s.voters)]
	}
	if s.rng.IntN(2) == 0 {
		a, b = b, a
	}
	return a, b
}

// change changes a link for a while, in both directions or one.
func (s *story) change(a, b *node, do, undo func(l *link), both bool) {
	each := func(f func(l *link)) {
		s.network.set(a.id, b.id, f)
		if both {
			s.network.set(b.id, a.id, f)
		}
	}
	each(do)
	s.later(1500*time.Millisecond, func() { each(undo) })
}

// deafen cuts all links to a machine, or all links from it.
func (s *story) deafen() bool {
	n, out := s.anyone(), s.rng.IntN(2) == 0
	each := func(by int) {
		for _, o := range s.nodes[:s.voters] {
			from, to := o.id, n.id
			if out {
				from, to = to, from
			}
			if o != n {
				s.network.set(from, to, func(l *link) { l.cuts += by })
			}
		}
	}
	each(1)
	s.later(1500*time.Millisecond, func() { each(-1) })
	return true
}

func (s *story) pauseOne() bool {
	n := s.anyone()
	if n.paused.Load() != nil || !n.running.Load() {
		return false
	}
	n.pause()
	s.later(1500*time.Millisecond, n.resume)
	return true
}

// handOver moves the lead, as before an upgrade.
func (s *story) handOver() bool {
	for _, n := range s.nodes[:s.voters] {
		if n.enter() == nil {
			continue
		}
		go func() {
			defer n.exit()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_ = n.group.HandOver(ctx, "")
		}()
		return true
	}
	return false
}

func (s *story) setClock() bool {
	if !s.skewed {
		return false
	}
	s.nodes[s.rng.IntN(s.voters)].wall.Store(s.rng.Int64N(int64(2*skewMax)) - int64(skewMax))
	return true
}

// cutPowerSoon cuts the power of a machine at one of its next writes.
func (s *story) cutPowerSoon() bool {
	n := s.anyone()
	if !n.running.Load() || s.crashing[n] != nil {
		return false
	}
	c := &crash{by: time.Now().Add(time.Second), disk: n.disk, cfg: vfs.CrashCloneCfg{
		UnsyncedDataPercent: s.rng.IntN(101), RNG: rand.New(rand.NewPCG(s.rng.Uint64(), 3))}}
	s.crashing[n] = c
	var left atomic.Int64
	left.Store(1 + s.rng.Int64N(40))
	hook := func(op errorfs.Op) {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && left.Add(-1) == 0 {
			c.cut(n)
		}
	}
	n.hook.Store(&hook)
	return true
}

// cut cuts the power now, unless it was cut before.
func (c *crash) cut(n *node) {
	c.once.Do(func() {
		n.unplug()
		c.after.Store(c.disk.CrashClone(c.cfg))
	})
}

// restart ends a program in order and starts it soon.
func (s *story) restart() bool {
	n := s.anyone()
	if !n.running.Load() || s.crashing[n] != nil {
		return false
	}
	n.stop()
	s.leaveOff(n)
	return true
}

// A crash is a power cut that is about to come.
type crash struct {
	by    time.Time // at the latest
	after atomic.Pointer[crashdisk.Disk]
	disk  *crashdisk.Disk
	cfg   vfs.CrashCloneCfg
	once  sync.Once
}
