package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// unfinishedName is the file that marks a data directory while a restore is in progress.
const unfinishedName = "restoring"

// refuseUnfinished refuses a directory in which a restore was interrupted: it holds a part of
// something. [DUR-33]
func refuseUnfinished(dir string) error {
	switch _, err := os.Lstat(filepath.Join(dir, unfinishedName)); {
	case err == nil:
		return &Error{ErrDamaged,
			fmt.Errorf("a restore into %s is in progress or was interrupted: if none is in progress, remove the directory and start again", dir)}
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return &Error{ErrStorage,
			fmt.Errorf("cannot read %s: %w: check the disk and the permissions, and start again", dir,
				err)}
	}
}
