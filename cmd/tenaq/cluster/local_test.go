package cluster

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tenaq/internal/cli"
)

// A later start finds the same secret and the same ports, and no two nodes share a port.
func TestOpenLocal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "three")
	first, err := openLocal(dir, 7000)
	if err != nil {
		t.Fatal(err)
	}
	token := readFile(t, first.file("token"))
	again, err := openLocal(dir, 0)
	if err != nil || again.port != 7000 || readFile(t, again.file("token")) != token || len(token) != 65 {
		t.Errorf("the second time: got port %d, token %q, %v, want 7000 and %q", again.port, readFile(t, again.file("token")), err, token)
	}
	if info, err := os.Stat(first.file("token")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token: got %v, %v, want the mode 0600", info, err)
	}
	if _, err := openLocal(dir, 7001); cli.ExitCode(err) != cli.ExitRefused {
		t.Errorf("another port: got %v, want exit code 4", err)
	}
	other, err := openLocal(t.TempDir(), 0)
	if err != nil || other.port != 9324 {
		t.Errorf("without a port: got %v, %v, want 9324", other, err)
	}
	var ports []string
	for _, n := range again.nodes() {
		for _, at := range []string{n.URL, n.Admin, n.Address} {
			ports = append(ports, at[strings.LastIndexByte(at, ':')+1:])
		}
	}
	if want := strings.Fields("7000 7001 7002 7010 7011 7012 7020 7021 7022"); !slices.Equal(ports, want) {
		t.Errorf("got ports %v, want %v", ports, want)
	}
	args := strings.Join(again.serveArgs(again.nodes()[1]), " ")
	for _, want := range []string{"--listen 127.0.0.1:7010", "--cluster-listen 127.0.0.1:7012", "--data-dir " + dir + "/node-2",
		"--cluster-peers 127.0.0.1:7002,127.0.0.1:7012,127.0.0.1:7022"} {
		if !strings.Contains(args, want) {
			t.Errorf("got %s, want %s in it", args, want)
		}
	}
}

// A port that is in use is refused before a node starts, and does not become that of the cluster.
func TestLocalPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	dir := t.TempDir()
	c, err := openLocal(dir, port)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.free(); cli.ExitCode(err) != cli.ExitRefused || !strings.Contains(err.Error(), taken.Addr().String()+" is in use") ||
		!strings.Contains(err.Error(), "--port") {
		t.Errorf("got %v, want exit code 4, the address and --port", err)
	}
	if c, err = openLocal(dir, port+1); err != nil {
		t.Fatalf("another port afterwards: %v", err)
	}
	c.port = port // of a cluster that has nodes
	if err := os.Mkdir(c.nodes()[0].DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.free(); cli.ExitCode(err) != cli.ExitRefused || strings.Contains(err.Error(), "--port") {
		t.Errorf("with nodes: got %v, want exit code 4 without --port", err)
	}
	if _, err := openLocal(dir, port); cli.ExitCode(err) != cli.ExitRefused {
		t.Errorf("the port of a cluster with nodes was forgotten: %v", err)
	}
}

// The nodes get the settings of this shell, but for those of another cluster.
func TestEnvironment(t *testing.T) {
	got := environment([]string{"HOME=/root", "TENAQ_CLUSTER_TOKEN=x", "TENAQ_CLUSTER_PEERS=a:1", "TENAQ_LOG_LEVEL=debug"})
	if want := []string{"HOME=/root", "TENAQ_LOG_LEVEL=debug"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// fake returns a local cluster whose nodes run a script of the shell. $NODE is the name of a node.
func fake(t *testing.T, script string) *local {
	t.Helper()
	c, err := openLocal(t.TempDir(), 7000)
	if err != nil {
		t.Fatal(err)
	}
	c.program = c.file("program")
	text := "#!/bin/sh\nNODE=${3##*/}\n" + script
	if err := os.WriteFile(c.program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return c
}

// A noticer calls each for every line that is written.
type noticer struct {
	mu   sync.Mutex
	text bytes.Buffer
	each func(line string)
}

func (n *noticer) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text.Write(b)
	n.each(string(b))
	return len(b), nil
}

func (n *noticer) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

const obedient = `trap 'echo "$NODE stops" >&2; exit 0' TERM
echo "$NODE is ready"
while :; do sleep 0.01; done
`

// All nodes are stopped in the orderly way, and one that was killed before is reported.
func TestLocalStops(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var nodes []string
	log := &noticer{}
	log.each = func(line string) {
		if strings.Contains(line, "node-2 ended (signal: killed)") {
			cancel()
		}
	}
	out := &noticer{}
	out.each = func(text string) {
		for line := range strings.Lines(text) {
			var name, rest string
			var pid int
			if i := strings.Index(line, "process "); i >= 0 {
				fmt.Sscan(line, &name, &rest)
				fmt.Sscanf(line[i:], "process %d", &pid)
				nodes = append(nodes, name)
				if name == "node-2" {
					if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
	if err := fake(t, obedient).run(ctx, &cli.App{Stdout: out, Stderr: log}); err != nil {
		t.Errorf("got %v, want exit code 0", err)
	}
	if !slices.Equal(nodes, []string{"node-1", "node-2", "node-3"}) {
		t.Errorf("got the nodes %v in:\n%s", nodes, out)
	}
	for _, want := range []string{"node-1 | node-1 is ready\n", "node-1 | node-1 stops\n", "node-3 | node-3 stops\n",
		"node-2 ended (signal: killed); start it again with:\n  tenaq serve --data-dir "} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("got no %q in:\n%s", want, log)
		}
	}
}

// A node that cannot start ends all, with its exit code.
func TestLocalRefuses(t *testing.T) {
	log := &noticer{each: func(string) {}}
	c := fake(t, `if [ $NODE = node-3 ]; then echo "tenaq: the disk is full" >&2; exit 7; fi
`+obedient)
	err := c.run(t.Context(), &cli.App{Stdout: log, Stderr: log})
	if cli.ExitCode(err) != 7 || !strings.Contains(err.Error(), "node-3 ended (exit status 7) before all nodes were ready") {
		t.Errorf("got %v with code %d, want that node-3 ended, with 7", err, cli.ExitCode(err))
	}
	if !strings.Contains(log.String(), "node-3 | tenaq: the disk is full\n") {
		t.Errorf("got no reason in:\n%s", log)
	}
}

// When all nodes have ended, there is nothing left to wait for.
func TestLocalEnds(t *testing.T) {
	c := fake(t, `echo ready; while [ ! -e "${3%/*}/go" ]; do sleep 0.01; done`)
	log := &noticer{each: func(line string) {
		if strings.HasPrefix(line, "cluster ready") {
			if err := os.WriteFile(c.file("go"), nil, 0o600); err != nil {
				t.Error(err)
			}
		}
	}}
	err := c.run(t.Context(), &cli.App{Stdout: log, Stderr: log})
	if err == nil || !strings.Contains(err.Error(), "all nodes have ended") {
		t.Errorf("got %v, want that all have ended", err)
	}
	if n := strings.Count(log.String(), "ended (exit status 0)"); n != 3 {
		t.Errorf("%d nodes were reported to have ended, want 3:\n%s", n, log)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
