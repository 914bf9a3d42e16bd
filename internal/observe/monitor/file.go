package monitor

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

const fileName = "alarms.json"

// A file keeps the document in a file beside the store. The file is always complete, because a new
// one is forced to disk before it replaces the old one.
type file struct{ path string }

// File returns the Keeper of a server that has its store for itself: alarms.json in its data
// directory.
func File(dir string) Keeper { return file{filepath.Join(dir, fileName)} }

func (f file) Load() ([]byte, error) {
	b, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the alarms file; check the permissions of the data directory: %w", err)
	}
	return b, nil
}

func (f file) Store(document []byte) error {
	if err := replace(f.path, document); err != nil {
		return fmt.Errorf("check the disk of the server: %w", err)
	}
	return nil
}

func (f file) SetAside(logger *slog.Logger) error {
	aside := f.path + ".unreadable"
	logger.Error("cannot read the alarms file: it is damaged or from another version, and was renamed; create the alarms again, or restore the file", "file", aside)
	return os.Rename(f.path, aside)
}

// replace replaces a file, or leaves it as it was. Only one call runs at a time.
func replace(path string, b []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
