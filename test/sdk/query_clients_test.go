package sdk

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What clients that speak the Query protocol make of the server. They are those that everybody had
// before 2023.
// [XML-1, XML-4, XML-6, XML-7, XML-9, XML-10, XML-13, XML-15, XML-17, XML-21, XML-22, XML-30]

// missing skips a test whose client is not here, or fails it where everything must be.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("TENAQ_REQUIRE_ALL") == "1" {
		t.Fatal(what)
	}
	t.Skip("SKIPPED: " + what)
}

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
	dir := os.Getenv("TENAQ_EMULATOR_DIR")
	if cache, err := os.UserCacheDir(); dir == "" && err == nil {
		dir = filepath.Join(cache, "tenaq", "emulators")
	}
	dir = filepath.Join(dir, "botocore-query")
	name := filepath.Join(dir, "bin", "python")
	if _, err := os.Stat(name); err != nil {
		missing(t, "no botocore that speaks Query: install it with make emulators")
	}
	script, err := os.ReadFile(filepath.Join("testdata", "query.py"))
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, nil)
	cmd := exec.CommandContext(t.Context(), name, "-I", "-", "http://"+n.server.Addr())
	cmd.Stdin = bytes.NewReader(script)
	finished(t, cmd)
}
