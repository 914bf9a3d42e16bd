package doctor

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tenaq/internal/cli"
	"tenaq/internal/cluster"
	"tenaq/internal/cluster/wire"
	"tenaq/internal/settings"
)

func threeNodes() *cluster.Status {
	node := func(id, address string, role cluster.Role) cluster.Member {
		return cluster.Member{ID: strings.Repeat(id, 16), Address: address, Role: role, Voter: true,
			Applied: 7, Commit: 5, Hash: "ab", Version: "v2", FreeBytes: 10 << 30}
	}
	return &cluster.Status{Group: "ff", Node: strings.Repeat("0a", 16), Leader: strings.Repeat("0a", 16), Term: 3,
		Members: []cluster.Member{node("0a", "n1:9326", cluster.Leader), node("0b", "n2:9326", cluster.Follower),
			node("0c", "n3:9326", cluster.Follower)}}
}

// Each fault of a cluster is found, in the check that is named, and nothing else is.
func TestCheckCluster(t *testing.T) {
	lose := func(s *cluster.Status, i int) {
		m := &s.Members[i]
		*m = cluster.Member{ID: m.ID, Address: m.Address, Role: cluster.Unreachable, Voter: true}
	}
	for _, tt := range []struct {
		name   string
		change func(s *cluster.Status)
		want   map[string]string // by subject and check: the state and a part of the text
	}{
		{"well", func(*cluster.Status) {}, nil},
		{"a node is lost", func(s *cluster.Status) { lose(s, 1) }, map[string]string{
			"cluster/quorum":               "problem 2 of 3 voters are reachable, and 2 are needed: the loss of another one",
			"node n2:9326, 0b0b0b0b/state": "problem it does not answer"}},
		{"two nodes are lost", func(s *cluster.Status) { s.Leader = ""; lose(s, 1); lose(s, 2) }, map[string]string{
			"cluster/leader":               "problem no node leads",
			"cluster/quorum":               "problem 1 of 3 voters are reachable, and 2 are needed",
			"node n2:9326, 0b0b0b0b/state": "problem it does not answer",
			"node n3:9326, 0c0c0c0c/state": "problem it does not answer"}},
		{"one node", func(s *cluster.Status) { s.Members = s.Members[:1]; s.Members[0].Role = cluster.Leader }, map[string]string{
			"cluster/quorum": "problem 1 of 1 voter is reachable: the loss of one stops a cluster of fewer than three"}},
		{"two voters and a learner", func(s *cluster.Status) { s.Members[2].Voter = false; s.Members[2].Role = cluster.Learner }, map[string]string{
			"cluster/quorum": "problem 2 of 2 voters are reachable: the loss of one stops"}},
		{"a learner", func(s *cluster.Status) {
			s.Members = append(s.Members, cluster.Member{ID: "0d", Address: "n4:9326", Role: cluster.Learner, Lag: 20_000, Version: "v2", FreeBytes: 1 << 40})
		}, map[string]string{"node n4:9326, 0d/lag": "warning 20000 entries behind the leader"}},
		{"a voter that is behind", func(s *cluster.Status) { s.Members[1].Lag = 1001 }, map[string]string{
			"node n2:9326, 0b0b0b0b/lag": "problem 1001 entries behind the leader: the loss of another"}},
		{"stopped", func(s *cluster.Status) { s.Members[2].Role = cluster.Stopped }, map[string]string{
			"cluster/quorum":               "problem 2 of 3 voters are reachable",
			"node n3:9326, 0c0c0c0c/state": "problem its rows did not match"}},
		{"trouble", func(s *cluster.Status) { s.Members[2].Trouble = "it is broken: repair it." }, map[string]string{
			"node n3:9326, 0c0c0c0c/state": "problem it is broken: repair it."}},
		{"other rows", func(s *cluster.Status) { s.Members[1].Hash = "cd" }, map[string]string{
			"cluster/same rows": "problem n1:9326 and n2:9326 have different rows at commit 5"}},
		{"other rows of another commit", func(s *cluster.Status) { s.Members[1].Hash = "cd"; s.Members[1].Commit = 4 }, nil},
		{"versions", func(s *cluster.Status) { s.Members[0].Version = "v1" }, map[string]string{
			"cluster/versions": "warning v1 on n1:9326; v2 on n2:9326, n3:9326"}},
		{"waiting", func(s *cluster.Status) { s.Waiting = []cluster.Waiting{{ID: "0d", Address: "n4:9326"}} }, map[string]string{
			"cluster/waiting nodes": "warning waiting to be admitted: n4:9326 (0d)"}},
		{"waiting for others", func(s *cluster.Status) {
			*s = cluster.Status{Node: "0d", Waiting: []cluster.Waiting{{ID: "0d", Trouble: "n2 does not answer: start it"}}}
		}, map[string]string{
			"cluster/leader": "problem this node belongs to no cluster yet: n2 does not answer: start it"}},
		{"removed", func(s *cluster.Status) { s.Node = "0d" }, map[string]string{
			"cluster/membership": "problem the node that answers was removed"}},
		{"clocks", func(s *cluster.Status) { s.Members[1].Clock = -0.7; s.Members[2].Clock = 90 }, map[string]string{
			"node n2:9326, 0b0b0b0b/clock": "warning its clock is 700 ms behind",
			"node n3:9326, 0c0c0c0c/clock": "warning its clock is 1 min ahead"}},
		{"disks", func(s *cluster.Status) { s.Members[1].FreeBytes = 1; s.Members[2].FreeBytes = 700 << 20 }, map[string]string{
			"node n2:9326, 0b0b0b0b/disk": "problem 1 B free, which is below the reserve of 512 MiB: the cluster refuses sends",
			"node n3:9326, 0c0c0c0c/disk": "warning 700 MiB free"}},
		{"no cluster yet", func(s *cluster.Status) { *s = cluster.Status{Node: "0d"} }, map[string]string{
			"cluster/leader": "problem this node belongs to no cluster yet"}},
	} {
		s := threeNodes()
		tt.change(s)
		for _, f := range CheckCluster(s, 512<<20) {
			if f.State == OK {
				continue
			}
			at := f.Subject + "/" + f.Check
			if got := string(f.State) + " " + f.Says; tt.want[at] == "" || !strings.HasPrefix(got, tt.want[at]) {
				t.Errorf("%s: %s: got %q, want %q", tt.name, at, got, tt.want[at])
			}
			if f.Do == "" && !strings.Contains(f.Says, ": ") {
				t.Errorf("%s: %s says nothing to do", tt.name, at)
			}
			delete(tt.want, at)
		}
		for at := range tt.want { // order does not matter: each is an error of its own
			t.Errorf("%s: %s found nothing", tt.name, at)
		}
	}
}

func TestCheckIdentity(t *testing.T) {
	authority, dir := t.TempDir(), t.TempDir()
	if err := errors.Join(wire.NewAuthority(authority), wire.NewCertificate(authority, dir)); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if got := checkIdentity("", now); got.State != "" {
		t.Errorf("no node: got %+v, want nothing", got)
	}
	expect(t, "new", checkIdentity(dir, now), OK, "valid until 20")
	expect(t, "soon", checkIdentity(dir, now.AddDate(2, 0, -10)), Warning, "it expires in ")
	expect(t, "nowhere", checkIdentity(t.TempDir(), now), Problem, "ca.pem: no such file")
}

// A server without a cluster has no findings about one; a key that may not see it is a gap.
func TestExamineCluster(t *testing.T) {
	for _, tt := range []struct {
		answer string
		status int
		want   string
	}{
		{`{"code":"NotFound","message":"x"}`, http.StatusNotFound, ""},
		{`{"code":"AccessDenied","message":"x"}`, http.StatusForbidden, "not checked it cannot be read: AccessDenied"},
		{`{"group":"","node":"0d"}`, http.StatusOK, "problem this node belongs to no cluster yet"},
		{`{`, http.StatusOK, "not checked it cannot be read: "},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/cluster" {
				t.Errorf("asked for %s", r.URL)
			}
			w.Header().Set(cli.V1Header, "1")
			w.WriteHeader(tt.status)
			w.Write([]byte(tt.answer))
		}))
		d, err := New(Config{Connect: cli.ClientFlags{EndpointURL: s.URL, Timeout: 15e9}, Settings: &settings.Configuration{}})
		if err != nil {
			t.Fatal(err)
		}
		d.examineCluster(context.Background())
		var got string
		if len(d.seen) > 0 {
			got = string(d.seen[0].State) + " " + d.seen[0].Says
		}
		if (got == "") != (tt.want == "") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.answer, got, tt.want)
		}
		s.Close()
	}
}
