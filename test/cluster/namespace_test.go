package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tenaq/internal/child"
	"tenaq/internal/testing/built"
	"tenaq/internal/testing/proof"
)

// A cable that is pulled loses packets and closes no connection, and nothing answers for what is
// gone. Proxies cannot do that, the network of the kernel can: each node is in a network namespace
// of its own, with a cable to its clients and one to the other nodes.
func TestCables(t *testing.T) {
	pulls := proof.Count(0, 0, 0, 60)
	if pulls == 0 {
		t.Skip("SKIPPED: it changes the network of the machine; make cluster runs it")
	}
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: only root may make network namespaces")
	}
	seed := proof.Seed(t)
	c := newCables(t)
	r := startRig(t, c.program, c.reach, "--allow-unauthenticated")
	c.connect(r.Nodes)
	r.begin()
	r.fifo(seed)
	r.judge(func(ctx context.Context) error {
		rng := rand.New(rand.NewPCG(seed, 0))
		for range pulls {
			n, err := r.Leader(ctx)
			if err != nil {
				return err
			}
			what := "a pulled cable of the leader"
			if rng.IntN(4) == 0 {
				n, what = r.follower(n, rng), "a pulled cable of a follower"
			}
			c.ip("link", "set", c.cable(n), "down")
			err = r.answered(ctx, what)
			wait(ctx, rng, 3*time.Second)
			c.ip("link", "set", c.cable(n), "up")
			if err != nil {
				return err
			}
			wait(ctx, rng, 3*time.Second)
		}
		return nil
	})
	r.equal(3)
}

// cables are the networks of three nodes. Node i is 198.18.0.i for clients, which are on the host,
// and 198.18.1.i for other nodes.
type cables struct {
	t       *testing.T
	mark    string // in names of this process
	program string // runs the real one in the namespace of a node
	nodes   int    // that reach has named
}

func newCables(t *testing.T) *cables {
	name := built.Program(t)
	dir := t.TempDir()
	c := &cables{t: t, mark: fmt.Sprint("tq", os.Getpid()%100_000), program: filepath.Join(dir, "tenaq")}
	for _, args := range []string{"new " + dir + "/ca", "node " + dir + "/ca " + dir + "/node"} {
		out, err := exec.Command(name, append([]string{"cluster", "ca"}, strings.Fields(args)...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("certificates: %v: %s", err, out)
		}
	}
	// The nodes are started with addresses and the token of one machine.
	script := fmt.Sprintf(`#!/bin/sh
for a; do
	shift
	case $a in
	*/node-[0-9]/data) node=${a%%/data} ;;
	127.0.0.1:*) a=0.0.0.0:${a#127.0.0.1:} ;;
	--cluster-token-file) a=--cluster-identity ;;
	*/token) a=%s/node ;;
	esac
	set -- "$@" "$a"
done
exec ip netns exec %s-${node##*-} %s "$@"
`, dir, c.mark, name)
	if err := os.WriteFile(c.program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.remove)
	for i, bridge := range []string{c.mark + "c", c.mark + "n"} {
		c.ip("link", "add", bridge, "type", "bridge")
		c.ip("link", "set", bridge, "up")
		if i == 0 {
			c.ip("address", "add", "198.18.0.254/24", "dev", bridge)
		}
	}
	for i := range 3 {
		space := fmt.Sprint(c.mark, "-", i+1)
		c.ip("netns", "add", space)
		c.ip("-n", space, "link", "set", "lo", "up")
		for k, bridge := range []string{c.mark + "c", c.mark + "n"} {
			end := fmt.Sprint(bridge, i+1)
			c.ip("link", "add", end, "type", "veth", "peer", "name", fmt.Sprint("eth", k), "netns", space)
			c.ip("link", "set", end, "master", bridge, "up")
			c.ip("-n", space, "address", "add", fmt.Sprintf("198.18.%d.%d/24", k, i+1), "dev", fmt.Sprint("eth", k))
			c.ip("-n", space, "link", "set", fmt.Sprint("eth", k), "up")
		}
	}
	return c
}

func (c *cables) ip(args ...string) {
	c.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		c.t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
}

// remove removes what there is, which may not be all.
func (c *cables) remove() {
	for i := range 3 {
		_ = exec.Command("ip", "netns", "del", fmt.Sprint(c.mark, "-", i+1)).Run() // with its cables
	}
	for _, bridge := range []string{c.mark + "c", c.mark + "n"} {
		_ = exec.Command("ip", "link", "del", bridge).Run()
	}
}

// reach returns where other nodes reach the next one.
func (c *cables) reach(listen string) (string, error) {
	c.nodes++
	_, port, err := net.SplitHostPort(listen)
	return fmt.Sprintf("198.18.1.%d:%s", c.nodes, port), err
}

// cable is the end of the cable between a node and the others that is not at the node.
func (c *cables) cable(n *child.Node) string {
	return c.mark + "n" + strings.TrimPrefix(n.Name, "node-")
}

// connect lets clients use the nodes under their addresses on loopback.
func (c *cables) connect(nodes []*child.Node) {
	for i, n := range nodes {
		u, err := url.Parse(n.URL())
		if err != nil {
			c.t.Fatal(err)
		}
		l, err := net.Listen("tcp", u.Host)
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if err == nil {
					go pipe(conn, fmt.Sprintf("198.18.0.%d:%s", i+1, u.Port()))
				}
			}
		}()
	}
}

// pipe joins a client to a node until one of them closes.
func pipe(client net.Conn, address string) {
	defer client.Close()
	node, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return
	}
	defer node.Close()
	done := make(chan struct{}, 2)
	for _, ends := range [][2]net.Conn{{client, node}, {node, client}} {
		go func() {
			_, _ = io.Copy(ends[0], ends[1])
			done <- struct{}{}
		}()
	}
	<-done
}
