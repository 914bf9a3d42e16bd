package serverrecords_test

import (
	"os"
	"os/exec"
	"regexp"
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

// The script of the page about claims does the work once. It neither begins nor completes what
// another worker holds. [REC-12, REC-13]
func TestClaimOfPage(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	t.Parallel()
	page, err := os.ReadFile("../../docs/claims.md")
	if err != nil {
		t.Fatal(err)
	}
	const address = "http://127.0.0.1:9324"
	script := regexp.MustCompile("(?s)```sh\n(.{1,20}claims=" + address + ".*?)```").FindSubmatch(page)
	if script == nil {
		t.Fatal("the page has no script that claims work with curl")
	}
	server := queuetest.New(t)
	l, err := claims.New(claims.Config{Store: open(t, server.Client), Owner: "another"})
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	run := func() (string, error) {
		c := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(string(script[1]), address, server.Endpoint))
		c.Dir = directory
		out, err := c.CombinedOutput()
		return string(out), err
	}
	claim, err := l.Acquire(t.Context(), "order-17")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run(); err == nil || !strings.Contains(out, "409") {
		t.Errorf("while another worker holds the claim: %v: %s", err, out)
	}
	if e, err := l.Entry(t.Context(), "order-17"); err != nil || e.State != claims.Held || e.Owner != "another" {
		t.Errorf("the entry is %+v, %v", e, err)
	}
	if err := claim.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, err := run(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	e, err := l.Entry(t.Context(), "order-17")
	if err != nil || e.State != claims.Completed || string(e.Result) != "ch_1" || e.Owner != "nightly" {
		t.Errorf("the entry is %+v, %v", e, err)
	}
	if out, err := run(); err == nil || !strings.Contains(out, "409") { // it was done; the old answer is not used
		t.Errorf("once the work is done: %v: %s", err, out)
	}
}
