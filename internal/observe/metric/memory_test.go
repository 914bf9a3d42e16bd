package metric

import (
	"os"
	"path/filepath"
	"testing"
)

// The limit of a group is the least of those above it, in both versions of control groups, and in a
// container that sees its own group as the root.
func TestGroupMemory(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("system.slice/memory.max", "1000\n")
	write("system.slice/tenaq.service/memory.max", "max\n")
	write("memory/pod/memory.limit_in_bytes", "9223372036854771712\n")
	write("memory/pod/server/memory.limit_in_bytes", "2000\n")
	write("memory/memory.limit_in_bytes", "3000\n")
	for groups, want := range map[string]int64{
		"0::/system.slice/tenaq.service\n":   1000,
		"0::/user.slice\n":                   -1,
		"4:memory:/pod/server\n1:cpu:/pod\n": 2000,
		"4:memory:/pod\n":                    3000,
		"4:memory:/of/the/host\n":            3000,
		"nonsense\n":                         -1,
	} {
		if got := GroupMemory(root, groups); got != want {
			t.Errorf("%q: got %d, want %d", groups, got, want)
		}
	}
	if err := os.Remove(filepath.Join(root, "memory/memory.limit_in_bytes")); err != nil {
		t.Fatal(err)
	}
	if got := GroupMemory(root, "4:memory:/pod\n"); got != -1 {
		t.Errorf("of a number that means none: got %d, want -1", got)
	}
}
