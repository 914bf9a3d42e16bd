// Package built provides the tenaq program to tests that start it as a process. Linking it takes
// seconds, so make test does that once, and names the program in TENAQ_BINARY.
package built

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Tests runs the tests of a package, removes what Program has built for them, and returns the exit
// status. It is for TestMain.
func Tests(m *testing.M) int {
	code := m.Run()
	if dir != "" {
		_ = os.RemoveAll(dir)
	}
	return code
}

// Program returns the path of the program that TENAQ_BINARY names. Without that it builds one, as
// it is shipped, when a test first asks.
func Program(t testing.TB) string {
	t.Helper()
	name, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

var dir string

var program = sync.OnceValues(func() (name string, err error) {
	if name := os.Getenv("TENAQ_BINARY"); name != "" {
		return name, nil
	}
	if dir, err = os.MkdirTemp("", "tenaq-built-"); err != nil {
		return "", err
	}
	name = filepath.Join(dir, "tenaq")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", name,
		"tenaq/cmd/tenaq")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return name, nil
})
