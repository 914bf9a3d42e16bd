package pebblekv

import (
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A keeper is the file system of a store that is not yet known to be whole. Pebble replays its logs,
// writes what it could read of them into tables and removes them, all before anyone can compare the
// outcome with the witness. The keeper puts the removal of logs off until the store is released, so a
// store that is refused still has every log, and perhaps more in it than Pebble made of it.
type keeper struct {
	vfs.FS

	mu       sync.Mutex
	released bool
	kept     []string // logs that Pebble believes it has removed
}

func (k *keeper) Remove(name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.released && strings.HasSuffix(name, ".log") {
		k.kept = append(k.kept, name)
		return nil
	}
	return k.FS.Remove(name)
}

// release removes what was kept, now that the store is whole without it. A log that cannot be removed
// now is found again at the next start.
func (k *keeper) release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.released = true
	for _, name := range k.kept {
		_ = k.FS.Remove(name)
	}
	k.kept = nil
}

// Unwrap lets Pebble find the file system beneath.
func (k *keeper) Unwrap() vfs.FS { return k.FS }
