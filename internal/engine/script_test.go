package engine_test

import (
	"path/filepath"
	"strings"
	"testing"

	"tenaq/internal/engine/enginetest"
	"tenaq/internal/testing/proof"
)

// TestScripts plays every script of testdata in many variants. The scripts are the proof of the
// rules they cite.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := variants(proof.Short())
			if strings.HasSuffix(name, "-large") {
				list = largeVariants(proof.Short())
			}
			enginetest.RunScript(t, path, list)
		})
	}
}

// variants are the ways to run the engine that no answer may depend on. The first is the plain one.
func variants(short bool) []enginetest.Variant {
	list := []enginetest.Variant{
		{Name: "plain", Window: 4096},
		{Name: "window-1", Window: 1},
		{Name: "window-4-turns-of-3", Window: 4, Turn: 3},
		{Name: "restarts", Window: 4096, Restart: true},
	}
	if short {
		return list
	}
	return append(list, []enginetest.Variant{
		{Name: "window-4", Window: 4},
		{Name: "turns-of-3", Window: 4096, Turn: 3},
		{Name: "one-turn", Window: 4096, Turn: 1 << 30},
		{Name: "window-1-one-turn", Window: 1, Turn: 1 << 30},
		{Name: "window-1-turns-of-2-restarts", Window: 1, Turn: 2, Restart: true},
		{Name: "window-4-evictions-restarts", Window: 4, WindowBytes: 1, Restart: true},
		{Name: "evictions", Window: 4096, WindowBytes: 1},
		{Name: "pebble", Window: 4096, Disk: newPebbleDisk},
		{Name: "pebble-window-4-turns-of-3", Window: 4, Turn: 3, Disk: newPebbleDisk},
		{Name: "pebble-window-1-restarts", Window: 1, Restart: true, Disk: newPebbleDisk},
		{Name: "pebble-one-turn", Window: 4096, Turn: 1 << 30, Disk: newPebbleDisk},
	}...)
}

// largeVariants are those that find something in a script of many messages which a small one does
// not show, and no more, because such scripts take long.
func largeVariants(short bool) []enginetest.Variant {
	list := []enginetest.Variant{{Name: "plain", Window: 4096}}
	if short {
		return list
	}
	return append(list, []enginetest.Variant{
		{Name: "window-1", Window: 1},
		{Name: "window-4-turns-of-3", Window: 4, Turn: 3},
		{Name: "one-turn", Window: 4096, Turn: 1 << 30},
		{Name: "pebble", Window: 4096, Disk: newPebbleDisk},
	}...)
}
