package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/server/backup"
)

// Restored describes a restored store.
type Restored struct {
	Backup   backup.Manifest `json:"backup"`
	Store    string          `json:"store"` // its new identity
	Verified Verified        `json:"verified"`
}

// Restore makes a data directory from the backup in r. The directory must be empty or not exist.
// The new store has an identity of its own, and receipt handles of the original server are not
// valid in it. Errors are of type *Error: ErrInUse for a directory that is not empty, ErrDamaged
// for an incomplete backup, ErrStorage. A restore that fails leaves nothing. One that is
// interrupted leaves a directory that no server opens. [DUR-31 to DUR-33]
func Restore(
	ctx context.Context, r io.Reader, dir string, progress func(bytes int64),
) (restored Restored, err error) {
	t, err := newTarget(dir, "--data-dir")
	if err != nil {
		return restored, err
	}
	defer func() {
		if err != nil {
			t.undo()
		}
	}()
	in := &told{ctx: ctx, r: r, progress: progress}
	if restored.Backup, err = backup.Read(in, t.file); err != nil {
		return restored, restoreError(dir, err)
	}
	if err := t.sync(); err != nil {
		return restored, restoreError(dir, err)
	}
	var first *Finding
	if restored.Verified, first, err = firstFinding(dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = restoreError(dir, fmt.Errorf("%w: it has no store", backup.ErrNotBackup))
		}
		return restored, err
	}
	switch v := &restored.Verified; {
	case first != nil:
		return restored, restoreError(dir,
			fmt.Errorf("%w: its store has findings: %d, the first: %s", backup.ErrNotBackup,
				v.Findings, first))
	case v.Store != restored.Backup.Store || v.Commit < restored.Backup.Commit:
		return restored, restoreError(dir,
			fmt.Errorf("%w: its manifest names commit %d of store %s, but it holds commit %d of store %s",
				backup.ErrNotBackup, restored.Backup.Commit, restored.Backup.Store, v.Commit,
				v.Store))
	}
	if restored.Store, err = renew(dir); err != nil {
		return restored, err
	}
	if err := t.finish(); err != nil {
		return restored, restoreError(dir, err)
	}
	return restored, nil
}

var errInterrupted = errors.New("interrupted")

// renew gives the restored store an identity and a key for receipt handles of its own.
func renew(dir string) (store string, err error) {
	fatal := oneSentence(nil)
	id, err := pebblekv.Renew(pebblekv.Options{
		Dir:   dir,
		Fatal: func(err error) { fatal(storeError(dir, err)) },
	}, func(s *pebblekv.Store, b kv.Batch) {
		engine.NoteInterrupted(s, b)
		engine.DropDocuments(b)
		b.Set(secretKey, newSecret())
	})
	if err != nil {
		return "", storeError(dir, err)
	}
	return id.String(), nil
}

// restoreError classifies the error that ended a restore.
func restoreError(dir string, err error) error {
	switch {
	case errors.Is(err, backup.ErrNewer):
		return &Error{ErrDamaged, err}
	case errors.Is(err, backup.ErrCut), errors.Is(err, backup.ErrNotBackup):
		return &Error{ErrDamaged, fmt.Errorf("%w: use another backup", err)}
	}
	if errors.Is(err, errInterrupted) {
		return err
	}
	if errors.Is(err, fs.ErrPermission) {
		return permissionError(dir, err)
	}
	return &Error{ErrStorage,
		fmt.Errorf("restore: %w: check the disk and the permissions, and start again", err)}
}

// A told reader reports how much was read.
type told struct {
	ctx      context.Context
	r        io.Reader
	n        int64
	progress func(int64)
}

func (t *told) Read(p []byte) (int, error) {
	if t.ctx.Err() != nil {
		return 0, errInterrupted
	}
	n, err := t.r.Read(p)
	if t.n += int64(n); t.progress != nil && n > 0 {
		t.progress(t.n)
	}
	return n, err
}

// A target is a directory into which something is being restored.
type target struct {
	dir  string
	made bool // by this restore
}

// newTarget takes a directory that is empty or does not exist, and first marks it as unfinished.
func newTarget(dir, flag string) (*target, error) {
	t := &target{dir: filepath.Clean(dir)}
	if err := checkDir(dir, flag); err != nil && !errors.Is(err, ErrDamaged) {
		return nil, err
	}
	entries, err := os.ReadDir(t.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.made = true
	case err != nil:
		return nil, restoreError(dir, err)
	case len(entries) > 0:
		var unfinished *Error
		if errors.As(refuseUnfinished(t.dir), &unfinished) && unfinished.Kind == ErrDamaged {
			return nil, &Error{ErrInUse, unfinished.Err}
		}
		return nil, &Error{ErrInUse,
			fmt.Errorf("cannot write a store into %s: it is not empty; pass an empty directory",
				dir)}
	}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return nil, restoreError(dir, err)
	}
	text := "A restore or salvage into this directory is in progress, or was interrupted. Process " + strconv.Itoa(os.Getpid()) + ".\n"
	if err := t.write(unfinishedName, bytes.NewReader([]byte(text))); err != nil {
		t.undo()
		return nil, restoreError(dir, err)
	}
	if err := errors.Join(syncDir(t.dir), syncDir(filepath.Dir(t.dir)),
		os.Mkdir(filepath.Join(t.dir, "store"), 0o700)); err != nil {
		t.undo()
		return nil, restoreError(dir, err)
	}
	return t, nil
}

// file writes a file of the backup.
func (t *target) file(_ backup.Manifest, name string, _ int64, r io.Reader) error {
	return t.write(name, r)
}

func (t *target) write(name string, r io.Reader) error {
	f, err := os.OpenFile(filepath.Join(t.dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// sync makes the listings of the directories durable.
func (t *target) sync() error {
	return errors.Join(syncDir(filepath.Join(t.dir, "store")), syncDir(t.dir))
}

// finish removes the mark of an unfinished directory.
func (t *target) finish() error {
	if err := t.sync(); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(t.dir, unfinishedName)); err != nil {
		return err
	}
	return syncDir(t.dir)
}

// undo removes what was restored, and the mark of an unfinished directory last.
func (t *target) undo() {
	for _, name := range []string{"store", "witness", "witness.new", alarmsName, unfinishedName} {
		if os.RemoveAll(filepath.Join(t.dir, name)) != nil {
			return
		}
	}
	if t.made {
		_ = os.Remove(t.dir)
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
