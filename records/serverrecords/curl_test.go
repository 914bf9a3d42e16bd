package serverrecords_test

import (
	"os/exec"
	"strings"
	"testing"

	"tenaq/claims"
	"tenaq/queuetest"
)

// A shell script with curl alone claims work, sends a heartbeat, and completes work in a way that
// fences the worker before it. A worker that uses package claims then finds the work done.
// [REC-12, REC-13]
func TestClaimWithCurl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	t.Parallel()
	server := queuetest.New(t)
	out, err := exec.CommandContext(t.Context(), "sh", "testdata/claim.sh", server.Endpoint).CombinedOutput()
	const last = "the work is done: charge ch_1\n"
	if err != nil || !strings.HasSuffix(string(out), last) {
		t.Fatalf("%v: %s", err, out)
	}
	l, err := claims.New(claims.Config{Store: open(t, server.Client)})
	if err != nil {
		t.Fatal(err)
	}
	e, err := l.Entry(t.Context(), "order-17")
	if err != nil || e.State != claims.Completed || string(e.Result) != "charge ch_1" || e.Owner != "second" || e.Attempts != 2 {
		t.Errorf("the entry is %+v, %v", e, err)
	}
}
