package pebblekv

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The names of the parts of a store in Options.Dir.
const (
	storeName   = "store"
	witnessName = "witness"
)

// makeDir creates dir and what is missing above it, durably, and for the owner alone: messages are
// private.
func makeDir(fs vfs.FS, dir string) error {
	var parents []string // whose listings change, the deepest first
	for at := dir; ; {
		_, err := fs.Stat(at)
		if err == nil {
			break
		}
		parent := fs.PathDir(at)
		if !errors.Is(err, errNotExist) || parent == at {
			return err
		}
		parents = append(parents, parent)
		at = parent
	}
	if len(parents) == 0 {
		return nil
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, parent := range parents {
		if err := syncDir(fs, parent); err != nil {
			return err
		}
	}
	return nil
}

// syncDir makes the listing of dir durable.
func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// holder returns the process that holds the lock, as refusing it with err has shown; 0 when the
// system does not say.
func (o *opening) holder(err error) int {
	if !errors.Is(err, syscall.EAGAIN) {
		return os.Getpid()
	}
	f, err := o.FS.Open(o.FS.PathJoin(o.store.dir, "LOCK"))
	if err != nil {
		return 0
	}
	// Closing the file would release a lock of this process on it; it has none.
	defer f.Close()
	return lockHolder(f.Fd())
}

// isLocked says whether err, which locking a file returned, means that another process holds the
// lock. Pebble has no error of its own for a lock held by this very process.
func isLocked(err error) bool {
	return errors.Is(err, syscall.EAGAIN) ||
		strings.Contains(err.Error(), "lock held by current process")
}
