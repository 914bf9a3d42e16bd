package cluster

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"tenaq/internal/cli"
	"tenaq/internal/cluster"
)

// serve answers GET /v1/cluster with a status and posts with an error, if that is not empty, and
// records the posts.
func serve(t *testing.T, s *cluster.Status, status int, refusal string) (url string, posts *[]string) {
	t.Helper()
	posts = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(cli.V1Header, "1")
		if r.Method == http.MethodGet {
			json.NewEncoder(w).Encode(s)
			return
		}
		body, _ := io.ReadAll(r.Body)
		*posts = append(*posts, r.URL.Path+" "+string(body))
		w.WriteHeader(status)
		io.WriteString(w, cmp.Or(refusal, "{}"))
	}))
	t.Cleanup(server.Close)
	return server.URL, posts
}

func run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, log bytes.Buffer
	a := &cli.App{Stdout: &out, Stderr: &log}
	cmd := NewCmd(a)
	cmd.PersistentFlags().BoolVar(&a.JSON, "json", false, "")
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), log.String(), err
}

func threeNodes() *cluster.Status {
	node := func(id, address string, role cluster.Role, clock float64) cluster.Member {
		return cluster.Member{ID: strings.Repeat(id, 16), Address: address, Role: role, Voter: true, Applied: 9,
			Commit: 81207, Hash: "9d1f00aa", Clock: clock, Version: "v1.4.0", FreeBytes: 112 << 30}
	}
	return &cluster.Status{Group: "ff", Node: strings.Repeat("0a", 16), Leader: strings.Repeat("0a", 16), Term: 3,
		Members: []cluster.Member{node("0b", "10.0.0.2:9326", cluster.Follower, 0.002), node("0a", "10.0.0.1:9326", cluster.Leader, 0),
			node("0c", "10.0.0.3:9326", cluster.Follower, -0.0001)}}
}

// A cluster that is well has a table and exit code 0. A lost node has a line with what to do, and
// exit code 1, also as JSON.
func TestStatus(t *testing.T) {
	s := threeNodes()
	url, _ := serve(t, s, 0, "")
	stdout, stderr, err := run(t, "status", "--endpoint-url", url)
	const well = `NODE      ADDRESS        ROLE      COMMIT      LAG  CLOCK   FREE     VERSION
0a0a0a0a  10.0.0.1:9326  leader    81207 9d1f  0    0       112 GiB  v1.4.0
0b0b0b0b  10.0.0.2:9326  follower  81207 9d1f  0    +0.002  112 GiB  v1.4.0
0c0c0c0c  10.0.0.3:9326  follower  81207 9d1f  0    0       112 GiB  v1.4.0
`
	if stdout != well || stderr != "" || err != nil {
		t.Errorf("well: got\n%s%s%v, want\n%s", stdout, stderr, err, well)
	}

	s.Members[2] = cluster.Member{ID: s.Members[2].ID, Address: s.Members[2].Address, Role: cluster.Unreachable, Voter: true}
	s.Waiting = []cluster.Waiting{{ID: "0d0d0d0d0d", Address: "10.0.0.4:9326", Version: "v1.4.0"}}
	stdout, stderr, err = run(t, "status", "--endpoint-url", url)
	if cli.ExitCode(err) != cli.ExitFailed || err.Error() != "2 problems" {
		t.Errorf("a lost node: got %v, want 2 problems with exit code 1", err)
	}
	for _, want := range []string{"0c0c0c0c  10.0.0.3:9326  unreachable\n", "0d0d0d0d  10.0.0.4:9326  waiting "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("got no %q in:\n%s", want, stdout)
		}
	}
	const troubles = `
cluster: 2 of 3 voters are reachable, and 2 are needed: the loss of another one stops the cluster
  -> start the others, or replace what is lost: tenaq cluster replace OLD NEW

cluster: waiting to be admitted: 10.0.0.4:9326 (0d0d0d0d)
  -> admit it: tenaq cluster join 0d0d0d0d; in the place of a lost node: tenaq cluster replace OLD 0d0d0d0d

node 10.0.0.3:9326, 0c0c0c0c: it does not answer other nodes
  -> start it, or check the network between the nodes; if it is lost, replace it: tenaq cluster replace 0c0c0c0c NEW
`
	if stderr != troubles {
		t.Errorf("got\n%s, want\n%s", stderr, troubles)
	}
	stdout, _, err = run(t, "status", "--json", "--endpoint-url", url)
	var got cluster.Status
	if json.Unmarshal([]byte(stdout), &got) != nil || len(got.Members) != 3 || cli.ExitCode(err) != cli.ExitFailed {
		t.Errorf("as JSON: got %s, %v", stdout, err)
	}

	f := &cli.ClientFlags{EndpointURL: url, Timeout: 15 * time.Second}
	members, waiting, err := Nodes(t.Context(), f)
	if err != nil || len(members) != 3 || !slices.Equal(waiting, []string{"10.0.0.4:9326"}) {
		t.Errorf("nodes: got %v, %v, %v", members, waiting, err)
	}
}

// Each command posts its change. A refusal by the cluster has exit code 4, and an unknown node 3.
func TestChanges(t *testing.T) {
	for _, tt := range []struct {
		args    []string
		status  int
		refusal string
		post    string
		says    string // the result, or the error
		code    int
	}{
		{[]string{"join", "n4:9326"}, 200, "", `/v1/cluster/join {"node":"n4:9326"}`, "n4:9326 is admitted: it gets a vote when it has caught up", 0},
		{[]string{"remove", "3f"}, 200, "", `/v1/cluster/remove {"node":"3f"}`, "3f is removed\n", 0},
		{[]string{"replace", "3f", "77"}, 200, "", `/v1/cluster/replace {"new":"77","old":"3f"}`, "3f is removed and 77 admitted", 0},
		{[]string{"transfer"}, 200, "", `/v1/cluster/transfer {}`, "another node leads", 0},
		{[]string{"transfer", "3f"}, 200, "", `/v1/cluster/transfer {"node":"3f"}`, "3f leads;", 0},
		{[]string{"remove", "3f"}, 409, `{"code":"Refused","message":"start n2 first"}`, `/v1/cluster/remove {"node":"3f"}`,
			"remove 3f: start n2 first (Refused)", cli.ExitRefused},
		{[]string{"join", "3f"}, 404, `{"code":"NodeNotFound","message":"unknown node 3f"}`, `/v1/cluster/join {"node":"3f"}`,
			"admit 3f: unknown node 3f (NodeNotFound)", cli.ExitNotFound},
		{[]string{"join", "3f"}, 404, `{"code":"NotFound","message":"Unknown path."}`, `/v1/cluster/join {"node":"3f"}`,
			"is not a node of a cluster", cli.ExitUsage},
		{[]string{"transfer"}, 503, `{"code":"ServiceUnavailable","message":"no leader"}`, `/v1/cluster/transfer {}`,
			"transfer the lead: no leader (ServiceUnavailable)", cli.ExitFailed},
	} {
		url, posts := serve(t, nil, tt.status, tt.refusal)
		stdout, _, err := run(t, append(tt.args, "--endpoint-url", url)...)
		says := stdout
		if err != nil {
			says = err.Error()
		}
		if !strings.Contains(says, tt.says) || cli.ExitCode(err) != tt.code || !slices.Equal(*posts, []string{tt.post}) {
			t.Errorf("%v: got %q with code %d after %q, want %q with %d after %q", tt.args, says, cli.ExitCode(err), *posts, tt.says, tt.code, tt.post)
		}
	}
}
