package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"tenaq/internal/api/v1"
	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/server/backup"
)

// alarmsName is the file of the monitor in a data directory.
const alarmsName = "alarms.json"

// backups makes backups of a server, one at a time.
type backups struct {
	checkpoint func() (*pebblekv.Checkpoint, error)
	alarms     func() ([]byte, error) // what the monitor has stored; nil for nothing
	program    string                 // its version
	stopping   func() bool

	running atomic.Bool
	latest  atomic.Pointer[madeBackup] // that was read to its end; nil before
}

// A madeBackup is a backup that a client has read.
type madeBackup struct {
	taken time.Time
	bytes int64
}

func (s *Server) newBackups(
	checkpoint func() (*pebblekv.Checkpoint, error), alarms func() ([]byte, error),
) *backups {
	return &backups{checkpoint: checkpoint, alarms: alarms, program: s.cfg.Version,
		stopping: s.stopping.Load}
}

// A runningBackup is a backup that is being read.
type runningBackup struct {
	backups    *backups
	ctx        context.Context
	manifest   backup.Manifest
	checkpoint *pebblekv.Checkpoint
	alarms     []byte // nil for none
	close      func() error
}

// begin begins a backup. It holds all that was answered before. [DUR-30]
func (s *backups) begin(ctx context.Context) (v1.Backup, error) {
	if !s.running.CompareAndSwap(false, true) {
		return nil, v1.ErrBackupRunning
	}
	b := &runningBackup{backups: s, ctx: ctx}
	b.close = sync.OnceValue(func() error {
		defer s.running.Store(false)
		if b.checkpoint == nil {
			return nil
		}
		return b.checkpoint.Remove()
	})
	var err error
	if b.checkpoint, err = s.checkpoint(); err == nil {
		b.alarms, err = s.alarms()
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	b.manifest = backup.Manifest{
		Store:   b.checkpoint.ID.String(),
		Commit:  b.checkpoint.Commit,
		Taken:   time.Now().UTC(),
		Program: s.program,
	}
	return b, nil
}

// storedAlarms reads the file of the monitor.
func storedAlarms(dir string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(dir, alarmsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// WriteTo writes the backup until the reader leaves or the server stops.
func (b *runningBackup) WriteTo(w io.Writer) (n int64, err error) {
	files, err := b.files()
	if err != nil {
		return 0, err
	}
	counted := &stoppable{w: w, b: b}
	if err = backup.Write(counted, b.manifest, files); err == nil {
		b.backups.latest.Store(&madeBackup{b.manifest.Taken.Truncate(time.Second), counted.n})
	}
	return counted.n, err
}

func (b *runningBackup) Close() error { return b.close() }

func (b *runningBackup) files() ([]backup.File, error) {
	inMemory := func(name string, content []byte) backup.File {
		return backup.File{Name: name, Size: int64(len(content)),
			Open: func() (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader(content)), nil
			}}
	}
	files := []backup.File{inMemory("witness", b.checkpoint.Witness)}
	if b.alarms != nil {
		files = append(files, inMemory(alarmsName, b.alarms))
	}
	names, err := b.checkpoint.Files()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		size, err := b.checkpoint.Size(name)
		if err != nil {
			return nil, err
		}
		files = append(files, backup.File{Name: "store/" + name, Size: size,
			Open: func() (io.ReadCloser, error) { return b.checkpoint.Open(name) }})
	}
	return files, nil
}

// A stoppable writer does not outlive the request or the server, and counts.
type stoppable struct {
	w io.Writer
	b *runningBackup
	n int64
}

func (s *stoppable) Write(p []byte) (int, error) {
	switch {
	case s.b.ctx.Err() != nil:
		return 0, s.b.ctx.Err()
	case s.b.backups.stopping():
		return 0, errors.New("the server is stopping")
	}
	n, err := s.w.Write(p)
	s.n += int64(n)
	return n, err
}
