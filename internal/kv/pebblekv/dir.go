package pebblekv

import (
	"errors"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// makeDir creates dir and what is missing above it, durably, and for the owner alone: messages are
// nobody else's business.
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

// isLocked says whether err, which locking a file returned, means that somebody else holds the lock.
// Pebble has no error of its own for a lock held by this very process.
func isLocked(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || strings.Contains(err.Error(), "lock held by current process")
}
