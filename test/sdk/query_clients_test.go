package sdk

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"tenaq/internal/testing/faultproxy"
	"tenaq/internal/testing/proof"
)

// Clients of the Query protocol, the only one before 2023, understand the server.
// [XML-1, XML-4, XML-6, XML-7, XML-9, XML-10, XML-13, XML-15, XML-17, XML-21, XML-22, XML-30]

// finished checks that a scenario came to its end.
func finished(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "done\n") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// A botocore from the time before it spoke JSON.
func TestQueryBotocore(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	finished(t, queryBotocore(t, "query.py", "http://"+n.server.Addr()))
}

// A botocore that speaks Query retries a send whose answer was lost: the queue gets the messages
// once, and the client their ids. [AGAIN-1, AGAIN-2, AGAIN-3, AGAIN-7]
func TestRetriedSendsOfQueryBotocore(t *testing.T) {
	t.Parallel()
	n := startWithKey(t)
	url := n.queue("orders")
	var calls atomic.Int64 // of one client, so each second one is a retry
	proxy, err := faultproxy.Start(faultproxy.Config{Target: "http://" + n.server.Addr(), Plan: func(faultproxy.Request) (f faultproxy.Fault) {
		if calls.Add(1)%2 == 1 {
			f.How = faultproxy.Lose
		}
		return f
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	cmd := queryBotocore(t, "query_again.py", proxy.URL(), url, testKey, testSecret)
	out, err := cmd.CombinedOutput()
	ids := strings.Fields(string(out))
	if err != nil || len(ids) != 7 || ids[6] != "done" {
		t.Fatalf("%v:\n%s", err, out)
	}
	var got []string
	for _, m := range n.take(url, 0, 30) {
		got = append(got, *m.MessageId)
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(ids[:6])); !slices.Equal(got, want) {
		t.Errorf("received %v, want each message of the answers once: %v", got, want)
	}
}

// queryBotocore is a script of testdata with arguments, for a botocore that speaks Query.
func queryBotocore(t *testing.T, script string, arguments ...string) *exec.Cmd {
	t.Helper()
	name := filepath.Join(proof.Installed("botocore-query"), "bin", "python")
	if _, err := os.Stat(name); err != nil {
		proof.Missing(t, "no botocore that speaks Query: install it with make emulators")
	}
	text, err := os.ReadFile(filepath.Join("testdata", script))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), name, append([]string{"-I", "-"}, arguments...)...)
	cmd.Stdin = bytes.NewReader(text)
	return cmd
}
