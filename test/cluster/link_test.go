package cluster

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A network is what the nodes of a cluster reach each other through: a proxy in front of each. The
// proxies know which node is at the other end of a connection, so a link can fail in one direction
// alone. Bytes that a link does not carry wait, as in a network that drops packets and sends them
// again.
type network struct {
	mu        sync.Mutex
	changed   chan struct{} // closed with every change, and replaced
	links     map[[2]string]link
	listeners []net.Listener
	pids      func() map[string]int // of the nodes that run, by the addresses of their proxies
}

// A link is one direction between two nodes. The zero link is a good one.
type link struct {
	cut   bool
	delay time.Duration
	rate  int // bytes per second; unlimited when zero
}

func newNetwork(t *testing.T) *network {
	n := &network{changed: make(chan struct{}), links: make(map[[2]string]link)}
	t.Cleanup(n.close)
	return n
}

func (n *network) close() {
	n.heal() // so that what waits on a link that is cut comes to its end
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.listeners {
		_ = l.Close()
	}
}

// set changes what the links from one node to another do; "" is all nodes.
func (n *network) set(from, to string, l link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[[2]string{from, to}] = l
	close(n.changed)
	n.changed = make(chan struct{})
}

// heal makes all links good.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.links)
	close(n.changed)
	n.changed = make(chan struct{})
}

// look returns what a link does, and what is closed when that may have changed.
func (n *network) look(from, to string) (all link, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ends := range [][2]string{{from, to}, {from, ""}, {"", to}, {"", ""}} {
		l := n.links[ends]
		all.cut, all.delay = all.cut || l.cut, max(all.delay, l.delay)
		all.rate = max(all.rate, l.rate)
	}
	return all, n.changed
}

// reach starts the proxy of a node, and returns its address.
func (n *network) reach(target string) (address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners = append(n.listeners, l)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go n.connect(conn, l.Addr().String(), target)
		}
	}()
	return l.Addr().String(), nil
}

// connect carries one connection until one of its ends closes it.
func (n *network) connect(caller net.Conn, to, target string) {
	defer caller.Close()
	from := n.owner(caller.RemoteAddr().(*net.TCPAddr))
	if from == "" {
		return // it was killed meanwhile
	}
	callee, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer callee.Close()
	over := make(chan struct{}, 2)
	go n.carry(callee, caller, from, to, over)
	go n.carry(caller, callee, to, from, over)
	<-over
}

// A piece is some bytes on their way.
type piece struct {
	bytes []byte
	at    time.Time // when they were sent
}

// carry copies one direction of a connection, the way its link does.
func (n *network) carry(w io.Writer, r io.Reader, from, to string, over chan<- struct{}) {
	defer func() { over <- struct{}{} }()
	way, gone := make(chan piece, 64), make(chan struct{})
	defer close(gone)
	go func() {
		defer close(way)
		for {
			buf := make([]byte, 16<<10)
			k, err := r.Read(buf)
			if k > 0 {
				select {
				case way <- piece{buf[:k], time.Now()}:
				case <-gone:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range way {
		for {
			l, changed := n.look(from, to)
			wait := time.Until(p.at.Add(l.delay))
			if l.rate > 0 {
				wait = max(wait, time.Duration(len(p.bytes))*time.Second/time.Duration(l.rate))
			}
			if !l.cut && wait <= 0 {
				break
			}
			if l.cut {
				<-changed
				continue
			}
			time.Sleep(wait)
			if l.rate > 0 {
				break
			}
		}
		if _, err := w.Write(p.bytes); err != nil {
			return
		}
	}
}

// owner returns the node that has the other end of a connection: Linux lists all connections with
// their inodes, and each process with the inodes that it holds.
func (n *network) owner(end *net.TCPAddr) string {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return ""
	}
	ip := end.IP.To4()
	local := fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], end.Port)
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[1] != local {
			continue
		}
		for node, pid := range n.pids() {
			held, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
			for _, name := range held {
				if what, _ := os.Readlink(name); what == "socket:["+fields[9]+"]" {
					return node
				}
			}
		}
	}
	return ""
}

// A link carries everything unless it is cut, in each direction on its own, and what waited while
// it was cut arrives afterwards.
func TestLinks(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				conn.Close()
			}()
		}
	}()
	n := newNetwork(t)
	n.pids = func() map[string]int { return map[string]int{"me": os.Getpid()} }
	you, err := n.reach(server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", you)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	echo := func(text string, within time.Duration) error {
		if _, err := conn.Write([]byte(text)); err != nil {
			return err
		}
		return answered(conn, text, within)
	}
	for _, tt := range []struct {
		name     string
		from, to string
		link     link
	}{
		{"cut there", "me", you, link{cut: true}},
		{"cut back", you, "me", link{cut: true}},
		{"cut from all", "", you, link{cut: true}},
	} {
		n.set(tt.from, tt.to, tt.link)
		if err := echo(tt.name, 50*time.Millisecond); err == nil {
			t.Errorf("%s: got an answer, want none", tt.name)
		}
		n.heal()
		if err := answered(conn, tt.name, 30*time.Second); err != nil {
			t.Errorf("%s, then healed: %v", tt.name, err)
		}
	}
	if err := echo("good", 30*time.Second); err != nil {
		t.Error(err)
	}
	began := time.Now()
	n.set("me", you, link{delay: 100 * time.Millisecond})
	if err := echo("late", 30*time.Second); err != nil || time.Since(began) < 100*time.Millisecond {
		t.Errorf("delayed by 100 ms: got %v after %v", err, time.Since(began))
	}
	began = time.Now()
	n.set("me", you, link{rate: 100})
	if err := echo("ten bytes.", 30*time.Second); err != nil || time.Since(began) < 100*time.Millisecond {
		t.Errorf("ten bytes at 100 a second: got %v after %v", err, time.Since(began))
	}
}

// answered reads what the echo server sends back.
func answered(conn net.Conn, text string, within time.Duration) error {
	_ = conn.SetReadDeadline(time.Now().Add(within))
	got := make([]byte, len(text))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if string(got) != text {
		return fmt.Errorf("got %q, want %q", got, text)
	}
	return nil
}
