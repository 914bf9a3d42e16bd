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
	"time"

	v1 "tenaq/internal/api/v1"
	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/server/backup"
)

// alarmsName is the file of the monitor in a data directory.
const alarmsName = "alarms.json"

// A runningBackup is a backup that is being read.
type runningBackup struct {
	server     *Server
	ctx        context.Context
	manifest   backup.Manifest
	checkpoint *pebblekv.Checkpoint
	alarms     []byte // nil for none
	close      func() error
}

// backup begins a backup. It holds all that was answered before. [DUR-30]
func (s *Server) backup(ctx context.Context) (v1.Backup, error) {
	if !s.backingUp.CompareAndSwap(false, true) {
		return nil, v1.ErrBackupRunning
	}
	b := &runningBackup{server: s, ctx: ctx}
	b.close = sync.OnceValue(func() error {
		defer s.backingUp.Store(false)
		if b.checkpoint == nil {
			return nil
		}
		return b.checkpoint.Remove()
	})
	var err error
	if b.checkpoint, err = s.store.Checkpoint(); err == nil {
		b.alarms, err = os.ReadFile(filepath.Join(s.cfg.DataDir, alarmsName))
	}
	if errors.Is(err, fs.ErrNotExist) && b.checkpoint != nil {
		err = nil
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	b.manifest = backup.Manifest{
		Store:   b.checkpoint.ID.String(),
		Commit:  b.checkpoint.Commit,
		Taken:   time.Now().UTC(),
		Program: s.cfg.Version,
	}
	return b, nil
}

// WriteTo writes the backup until the reader leaves or the server stops.
func (b *runningBackup) WriteTo(w io.Writer) (n int64, err error) {
	files, err := b.files()
	if err != nil {
		return 0, err
	}
	counted := &stoppable{w: w, b: b}
	err = backup.Write(counted, b.manifest, files)
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
	case s.b.server.stopping.Load():
		return 0, errors.New("the server is stopping")
	}
	n, err := s.w.Write(p)
	s.n += int64(n)
	return n, err
}
