package group

import (
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// A network carries messages between the machines of a rig. They take some milliseconds each way,
// so that some are always under way when something happens. A link can be cut in one direction:
// what was sent on it may still arrive when it is whole again, as from the buffers of TCP.
type network struct {
	mu    sync.Mutex
	rng   *rand.Rand
	links map[[2]raft.ServerID]*link
	under sync.WaitGroup // messages under way

	flip  atomic.Int64 // the bit of a copy that the network changes, from 1 on; 0 for none
	flips atomic.Int64 // that it has changed
}

// A link leads from one machine to another.
type link struct {
	cuts  int           // it is whole when there are none
	delay time.Duration // besides the usual one
}

func newNetwork(rng *rand.Rand) *network {
	return &network{rng: rng, links: make(map[[2]raft.ServerID]*link)}
}

// set changes a link.
func (w *network) set(from, to raft.ServerID, change func(l *link)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.links[[2]raft.ServerID{from, to}]
	if l == nil {
		l = new(link)
		w.links[[2]raft.ServerID{from, to}] = l
	}
	change(l)
}

// look returns how a link is, and a random number below n.
func (w *network) look(from, to raft.ServerID, n int) (l link, random int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x := w.links[[2]raft.ServerID{from, to}]; x != nil {
		l = *x
	}
	return l, w.rng.IntN(n)
}

// Messages that were sent on a cut link are lost after this time, half of them at once.
const lateness = 5 * time.Second

// travel takes a message over a link, and reports whether it arrives.
func (w *network) travel(from, to raft.ServerID) bool {
	l, random := w.look(from, to, 8)
	time.Sleep(l.delay + time.Duration(1+random/2)*time.Millisecond)
	l, random = w.look(from, to, 2)
	for began := time.Now(); l.cuts > 0; l, _ = w.look(from, to, 1) {
		if random == 0 || time.Since(began) > lateness {
			return false
		}
		time.Sleep(lateness / 16)
	}
	return true
}

// A port is the network's end on a machine, from a start of its program until that ends or loses
// power. It is the Transport of the group.
type port struct {
	node  *node
	calls chan raft.RPC
	ended chan struct{}
	end   sync.Once
}

func newPort(n *node) *port {
	return &port{node: n, calls: make(chan raft.RPC, 64), ended: make(chan struct{})}
}

// close ends the program as far as others can see: nothing arrives here or leaves here any more.
func (p *port) close() { p.end.Do(func() { close(p.ended) }) }

func (p *port) isClosed() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// awake returns when the machine is not paused, or when its program has ended.
func (p *port) awake() {
	for {
		paused := p.node.paused.Load()
		if paused == nil {
			return
		}
		select {
		case <-*paused:
		case <-p.ended:
			return
		}
	}
}

var (
	errAway    = errors.New("no such node")
	errTimeout = errors.New("no answer")
)

// ask takes a question to another machine and brings back its answer, as long as patience lasts.
// The question may arrive later.
func (p *port) ask(to raft.ServerID, patience time.Duration,
	answer func(far *port) (any, error),
) (any, error) {
	p.awake()
	type result struct {
		answer any
		err    error
	}
	done := make(chan result, 1)
	p.node.rig.network.under.Go(func() {
		answer, err := p.carry(to, answer)
		if err != errTimeout {
			done <- result{answer, err}
		}
	})
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case r := <-done:
		p.awake()
		return r.answer, r.err
	case <-timer.C:
		p.awake()
		return nil, errTimeout
	case <-p.ended:
		return nil, errAway
	}
}

// carry is the way there and back. It returns errTimeout when something was lost.
func (p *port) carry(to raft.ServerID, answer func(far *port) (any, error)) (any, error) {
	rig := p.node.rig
	if p.isClosed() || !rig.network.travel(p.node.id, to) {
		return nil, errTimeout
	}
	far := rig.node(to).port.Load()
	if far == nil || far.isClosed() {
		return nil, errAway
	}
	far.awake()
	got, err := answer(far)
	far.awake()
	if far.isClosed() || !rig.network.travel(to, p.node.id) {
		return nil, errTimeout
	}
	return got, err
}

// rpc sends a message of Raft and returns the response.
func (p *port) rpc(to raft.ServerID, args any, data io.Reader, patience time.Duration) (any, error) {
	return p.ask(to, patience, func(far *port) (any, error) {
		answer := make(chan raft.RPCResponse, 1)
		select {
		case far.calls <- raft.RPC{Command: args, Reader: data, RespChan: answer}:
		case <-far.ended:
			return nil, errAway
		}
		select {
		case r := <-answer:
			return r.Response, r.Error
		case <-far.ended:
			return nil, errAway
		}
	})
}

func (p *port) AppendEntries(id raft.ServerID, _ raft.ServerAddress,
	args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse,
) error {
	return fill(resp)(p.rpc(id, args, nil, time.Second))
}

func (p *port) RequestVote(id raft.ServerID, _ raft.ServerAddress,
	args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse,
) error {
	return fill(resp)(p.rpc(id, args, nil, time.Second))
}

func (p *port) RequestPreVote(id raft.ServerID, _ raft.ServerAddress,
	args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse,
) error {
	return fill(resp)(p.rpc(id, args, nil, time.Second))
}

func (p *port) TimeoutNow(id raft.ServerID, _ raft.ServerAddress,
	args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse,
) error {
	return fill(resp)(p.rpc(id, args, nil, time.Second))
}

// InstallSnapshot takes its time, as large copies do.
func (p *port) InstallSnapshot(id raft.ServerID, _ raft.ServerAddress,
	args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader,
) error {
	w := p.node.rig.network
	if bit := w.flip.Load(); bit > 0 {
		data = &flipped{data, (bit - 1) % (8 * args.Size), &w.flips}
	}
	return fill(resp)(p.rpc(id, args, data, 10*time.Second))
}

// fill puts a response where Raft wants it.
func fill[R any](resp *R) func(got any, err error) error {
	return func(got any, err error) error {
		if err == nil {
			*resp = *got.(*R)
		}
		return err
	}
}

func (p *port) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

func (p *port) Consumer() <-chan raft.RPC                               { return p.calls }
func (p *port) LocalAddr() raft.ServerAddress                           { return raft.ServerAddress(p.node.id) }
func (p *port) EncodePeer(_ raft.ServerID, a raft.ServerAddress) []byte { return []byte(a) }
func (p *port) DecodePeer(b []byte) raft.ServerAddress                  { return raft.ServerAddress(b) }
func (p *port) SetHeartbeatHandler(func(raft.RPC))                      {}

// A flipped is a stream with one bit changed.
type flipped struct {
	io.Reader
	bit   int64
	flips *atomic.Int64
}

func (f *flipped) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if at := f.bit / 8; f.bit >= 0 && at < int64(n) {
		p[at] ^= 1 << (f.bit % 8)
		f.flips.Add(1)
	}
	f.bit -= 8 * int64(n)
	return n, err
}
