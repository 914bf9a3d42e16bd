package node

import (
	"net"
	"sync"
	"testing"
	"time"
)

// A gate is an address in front of a machine. While it is held, nothing gets through to the
// machine, and its connections stay open, as if its process hung.
type gate struct {
	net.Listener
	held    sync.RWMutex
	running sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

// put gives a machine an address with a gate, before it is started.
func (m *machine) put(g *gate) {
	var err error
	if g.Listener, err = net.Listen("tcp", freeAddress(m.rig.t)); err != nil {
		m.rig.t.Fatal(err)
	}
	m.address = g.Addr().String()
	g.running.Go(func() {
		for {
			from, err := g.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", m.listen)
			if err != nil {
				_ = from.Close()
				continue
			}
			g.mu.Lock()
			g.conns = append(g.conns, from, to)
			g.mu.Unlock()
			g.running.Go(func() { g.carry(from, to) })
			g.running.Go(func() { g.carry(to, from) })
		}
	})
}

func (g *gate) carry(from, to net.Conn) {
	defer to.Close()
	defer from.Close()
	part := make([]byte, 64<<10)
	for {
		n, err := from.Read(part)
		if err != nil {
			return
		}
		g.held.RLock()
		_, err = to.Write(part[:n])
		g.held.RUnlock()
		if err != nil {
			return
		}
	}
}

func (g *gate) remove() {
	_ = g.Close()
	g.mu.Lock()
	for _, c := range g.conns {
		_ = c.Close()
	}
	g.mu.Unlock()
	g.running.Wait()
}

// A leader stops without waiting for its requests to a follower that hangs: these may take ten
// seconds, and a supervisor may allow no more for the whole stop.
func TestStopBesideHungFollower(t *testing.T) {
	r := newRig(t, 3)
	gates := make([]gate, len(r.machines))
	for i, m := range r.machines {
		m.put(&gates[i])
		defer gates[i].remove()
		r.peers[i] = m.address
	}
	r.start(r.machines...)
	r.settle(r.machines...)
	leader := r.leader()
	for i, m := range r.machines {
		if m != leader {
			gates[i].held.Lock()
			defer gates[i].held.Unlock()
			break
		}
	}
	r.write() // the follower is asked to take it too
	begun := time.Now()
	leader.kill()
	if d := time.Since(begun); d > raftTimeout*9/10 { // most of it is for a machine that pauses
		t.Errorf("the stop took %v", d)
	}
}
