// Package built has the tenaq program for tests that start it as a process. Linking it takes
// seconds, so make test does that once, and names the program in TENAQ_BINARY.
package built

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Program returns the path of the program that TENAQ_BINARY names, or builds one in dir, as it is
// shipped.
func Program(dir string) (string, error) {
	if name := os.Getenv("TENAQ_BINARY"); name != "" {
		return name, nil
	}
	name := filepath.Join(dir, "tenaq")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", name,
		"tenaq/cmd/tenaq")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return name, nil
}
