package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"tenaq/internal/cluster"
	"tenaq/internal/cluster/group"
	"tenaq/internal/cluster/wire"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil { // the tests wait most of the time
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// A rig is some machines on loopback addresses that no other test has.
type rig struct {
	t        *testing.T
	machines []*machine
	peers    []string // of the machines that are started without a list of their own
}

// A machine is a directory and an address. It survives restarts of its node.
type machine struct {
	rig      *rig
	name     string
	dir      string
	listen   string
	address  string // advertised
	peers    []string
	token    string
	identity *wire.Identity
	change   func(*Config)
	log      lines

	node   *Node
	cancel context.CancelFunc
	done   chan error

	mu   sync.Mutex // of what Lead has
	term *group.Term
	fail error // what Lead returns when it yields
}

func newRig(t *testing.T, machines int) *rig {
	t.Parallel()
	r := &rig{t: t}
	for range machines {
		m := r.newMachine()
		r.machines = append(r.machines, m)
		r.peers = append(r.peers, m.address)
	}
	t.Cleanup(func() {
		for _, m := range r.machines {
			if m.node != nil {
				m.kill()
			}
		}
	})
	return r
}

func (r *rig) newMachine() *machine {
	m := &machine{rig: r, name: fmt.Sprintf("n%d", len(r.machines)+1), dir: r.t.TempDir(),
		listen: freeAddress(r.t), token: "secret"}
	m.address = m.listen
	m.log.t, m.log.name = r.t, m.name
	return m
}

// freeAddress returns an address that nothing listens on, and nothing else will: the host is drawn
// from all of 127.0.0.0/8.
func freeAddress(t *testing.T) string {
	t.Helper()
	host := fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
	l, err := net.Listen("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

const beat = 500 * time.Millisecond

func (m *machine) open() error {
	cfg := Config{Dir: m.dir, Listen: m.listen, Advertise: m.address, Peers: m.peers,
		Token: m.token, Identity: m.identity, Version: "test", Heartbeat: beat,
		Lead: m.lead, Free: func() (uint64, error) { return 1 << 40, nil },
		Low:      func() bool { return false },
		Requests: http.HandlerFunc(m.serve), Logger: slog.New(slog.NewTextHandler(&m.log, nil)),
		Fatal: m.fatal, steady: beat,
	}
	if cfg.Peers == nil {
		cfg.Peers = m.rig.peers
	}
	if m.change != nil {
		m.change(&cfg)
	}
	var err error
	m.node, err = Open(cfg)
	return err
}

func (m *machine) start() {
	m.rig.t.Helper()
	if err := m.open(); err != nil {
		m.rig.t.Fatal(err)
	}
	var ctx context.Context
	ctx, m.cancel = context.WithCancel(context.Background())
	m.done = make(chan error, 1)
	go func(n *Node) { m.done <- n.Run(ctx) }(m.node)
}

func (m *machine) fatal(err error) { panic(err) }

// kill ends the node without a handover.
func (m *machine) kill() {
	m.rig.t.Helper()
	m.cancel()
	if err := <-m.done; err != nil {
		m.rig.t.Errorf("%s: %v", m.name, err)
	}
	m.node = nil
}

// wipe removes everything that the node has on its disk.
func (m *machine) wipe() {
	if err := os.RemoveAll(m.dir); err != nil {
		m.rig.t.Fatal(err)
	}
}

func (m *machine) lead(t group.Term) error {
	m.mu.Lock()
	m.term = &t
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.term = nil
		m.mu.Unlock()
	}()
	select {
	case <-t.Over:
		return nil
	case <-t.Yield:
		return m.fail
	}
}

func (m *machine) serve(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s", m.name, r.URL.Path)
}

var errNoTerm = errors.New("not leading")

// write writes a row, if this node leads.
func (m *machine) write(key string) error {
	m.mu.Lock()
	if m.term == nil {
		m.mu.Unlock()
		return errNoTerm
	}
	b := m.term.Store.NewBatch()
	b.Set([]byte("\x10"+key), []byte("value"))
	wait := b.Force()
	m.mu.Unlock()
	return wait()
}

func (m *machine) id() raft.ServerID { return m.node.id }

// await waits until something is so.
func (r *rig) await(what string, is func() bool) {
	r.t.Helper()
	for begun := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > 2*time.Minute {
			r.t.Fatalf("after two minutes it is still not so that %s", what)
		}
	}
}

// leader waits until some node leads, and returns it.
func (r *rig) leader() (leader *machine) {
	r.t.Helper()
	r.await("a node leads", func() bool {
		i := slices.IndexFunc(r.machines, func(m *machine) bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.node != nil && m.term != nil && m.node.Leads()
		})
		if i >= 0 {
			leader = r.machines[i]
		}
		return i >= 0
	})
	return leader
}

func (r *rig) start(machines ...*machine) {
	r.t.Helper()
	for _, m := range machines {
		m.start()
	}
}

var rows atomic.Int64

// write writes a row, whichever node leads.
func (r *rig) write() {
	r.t.Helper()
	key := fmt.Sprint(rows.Add(1))
	r.await("a write is confirmed", func() bool { return r.leader().write(key) == nil })
}

// settle writes, and waits until the given nodes have the same rows.
func (r *rig) settle(machines ...*machine) {
	r.t.Helper()
	r.write()
	r.await("all nodes have the same rows", func() bool {
		want := r.leader().node.part.Load().group.Position().Mark
		return !slices.ContainsFunc(machines, func(m *machine) bool {
			p := m.node.part.Load()
			return p == nil || p.group.Position().Mark != want
		})
	})
}

func (r *rig) awaitLog(m *machine, text string) {
	r.t.Helper()
	r.await(m.name+" logs "+text, func() bool { return m.log.has(text) })
}

// member returns what a node says of a member.
func (m *machine) member(id raft.ServerID) (cluster.Member, bool) {
	for _, member := range m.node.Status(context.Background()).Members {
		if member.ID == string(id) {
			return member, true
		}
	}
	return cluster.Member{}, false
}

// lines is a log that can be searched.
type lines struct {
	t    *testing.T
	name string
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t.Logf("%s: %s", l.name, strings.TrimSpace(string(p)))
	return l.text.Write(p)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}
