package pebblekv

import (
	"io"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// zerosAhead is how much of a log is written before it is needed. Behind a forced write of more
// than aheadMax bytes there are no zeros: they would cost more than they save.
const (
	zerosAhead = 64 << 10
	aheadMax   = 16 << 10
)

var zeros [zerosAhead]byte

// A logFile is a log as Pebble writes it, with zeros after its end.
//
// A forced write that makes a file longer also forces its length, which is in another place of the
// disk. A forced write over bytes that are there does not. Pebble gains that when it uses the file
// of an old log again. But a store with little traffic rarely fills a log, and the first logs of
// every run are new. So a logFile writes zeros ahead of small forced writes, room for many of them
// at a time. BenchmarkSmallCommit measures such writes.
//
// Zeros after the last commit say nothing, like old commits in a file that is used again. Whether
// a log has lost its end is for the witness to tell.
type logFile struct {
	file
	end     atomic.Int64 // where Pebble writes next
	forced  int64        // where the last forced write ended
	written int64        // up to here a write does not make the file longer
}

// openLog returns a log that Pebble begins to write, in a new file or in that of an old log.
func openLog(f file) (*logFile, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, f.disk.check("look at", f.name, err)
	}
	log := &logFile{file: f, written: info.Size()}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.writing == nil {
		f.disk.writing = make(map[string]*logFile)
	}
	f.disk.writing[f.name] = log
	return log, nil
}

func (f *logFile) Close() error {
	f.disk.mu.Lock()
	delete(f.disk.writing, f.name)
	f.disk.mu.Unlock()
	return f.file.Close()
}

func (f *logFile) Write(p []byte) (int, error) {
	n, err := f.file.Write(p)
	f.end.Add(int64(n))
	return n, err
}

// SyncData forces what was written.
func (f *logFile) SyncData() error {
	end := f.end.Load()
	if end > f.written {
		f.written = end
		if end-f.forced <= aheadMax {
			if _, err := f.WriteAt(zeros[:], end); err != nil {
				return err
			}
			f.written += zerosAhead
		}
	}
	f.forced = end
	return f.file.SyncData()
}

// A beginning is a log up to where it had been written when it was opened. Pebble copies a log into
// a checkpoint while it writes to it. A block from before a commit, followed by one from after it,
// would make the copy look damaged.
type beginning struct {
	vfs.File
	left int64
}

func (b *beginning) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.File.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
