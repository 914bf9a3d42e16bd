package child

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tenaq/internal/cluster"
)

// beNode makes this program pass for a node: its status is what is in a file of its directory, and
// it acknowledges messages if it leads.
func beNode() {
	arg := func(name string) string { return os.Args[slices.Index(os.Args, name)+1] }
	file := filepath.Join(filepath.Dir(arg("--data-dir")), "status.json")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/cluster", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		var s cluster.Status
		if text, err := os.ReadFile(file); err != nil || json.Unmarshal(text, &s) != nil || s.Leader != s.Node {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	os.Stdout.WriteString("ready\n")
	_ = http.ListenAndServe(arg("--listen"), mux)
}

// say sets what a node reports.
func (n *Node) say(t *testing.T, s cluster.Status) {
	t.Helper()
	s.Node = n.Name
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.cfg.Dir, "status.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// All nodes get the same list of addresses at which they reach each other, and each its own
// directory. The leader is the node that says so of itself.
func TestCluster(t *testing.T) {
	reached := func(listen string) (string, error) { return strings.Replace(listen, "127.0.0.1", "localhost", 1), nil }
	c, err := NewCluster(Config{Program: os.Args[0], Dir: t.TempDir()}, 3, reached)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	fourth, err := c.Add()
	if err != nil {
		t.Fatal(err)
	}
	c.Nodes = c.Nodes[:3]
	peers := strings.Join([]string{c.Nodes[0].Address, c.Nodes[1].Address, c.Nodes[2].Address}, ",")
	for _, n := range append(slices.Clone(c.Nodes), fourth) {
		if args := strings.Join(n.cfg.Args, " "); !strings.Contains(args, "--cluster-peers "+peers+" ") ||
			!strings.Contains(args, "--cluster-advertise "+n.Address) || !strings.HasPrefix(n.Address, "localhost:") {
			t.Errorf("%s: got %s, want the addresses %s", n.Name, args, peers)
		}
	}
	members := []cluster.Member{{Role: cluster.Leader, Voter: true, Commit: 7, Hash: "ab"},
		{Role: cluster.Follower, Voter: true, Commit: 7, Hash: "ab"}}
	for _, n := range c.Nodes {
		n.say(t, cluster.Status{Leader: "node-2", Members: members})
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if leader, err := c.Leader(t.Context()); err != nil || leader != c.Nodes[1] {
		t.Errorf("got leader %v, %v, want node-2", leader, err)
	}
	if _, err := c.FirstAnswer(t.Context(), "queue"); err != nil {
		t.Error(err)
	}
	if s, err := c.Settled(t.Context(), 2); err != nil || s.Node != "node-2" {
		t.Errorf("got %+v, %v, want the status of node-2", s, err)
	}
	if err := c.Nodes[1].Kill(); err != nil {
		t.Fatal(err)
	}
	c.Nodes[0].say(t, cluster.Status{Leader: "node-1"})
	if leader, err := c.Leader(t.Context()); err != nil || leader != c.Nodes[0] {
		t.Errorf("got leader %v, %v, want node-1", leader, err)
	}
}

// Rows are the same if all that vote say so.
func TestSame(t *testing.T) {
	well := cluster.Member{Role: cluster.Follower, Voter: true, Commit: 7, Hash: "ab"}
	for name, change := range map[string]func(*cluster.Member){
		"":           func(*cluster.Member) {},
		"commit":     func(m *cluster.Member) { m.Commit = 6 },
		"hash":       func(m *cluster.Member) { m.Hash = "cd" },
		"no hash":    func(m *cluster.Member) { m.Hash = "" },
		"stopped":    func(m *cluster.Member) { m.Role = cluster.Stopped },
		"not voting": func(m *cluster.Member) { m.Voter = false },
	} {
		other := well
		change(&other)
		if got := Same(cluster.Status{Members: []cluster.Member{well, other}}); got != (name == "") {
			t.Errorf("another %s: got %v", name, got)
		}
	}
	if Same(cluster.Status{}) {
		t.Error("without members: got true, want false")
	}
}
