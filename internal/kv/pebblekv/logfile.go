package pebblekv

// zerosAhead is how much of a log is written before it is needed. Behind a forced write of more
// than aheadMax bytes there are no zeros: they would cost more than they save.
const (
	zerosAhead = 64 << 10
	aheadMax   = 16 << 10
)

var zeros [zerosAhead]byte

// A logFile is a log as Pebble writes it, with zeros behind its end.
//
// A forced write that makes a file longer also forces its length, which is in another place of the
// disk. A forced write over bytes that are there does not. Pebble gains that when it uses the file
// of an old log again. But a store with little traffic rarely fills a log, and the first logs of
// every run are new. So a logFile writes zeros ahead of small forced writes, room for many of them
// at a time. BenchmarkSmallCommit measures such writes.
//
// Zeros behind the last commit say nothing, like old commits in a file that is used again. Whether
// a log has lost its end is for the witness to tell.
type logFile struct {
	file
	end     int64 // where Pebble writes next
	forced  int64 // where the last forced write ended
	written int64 // up to here a write does not make the file longer
}

// openLog returns a log that Pebble begins to write, in a new file or in that of an old log.
func openLog(f file) (*logFile, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, f.disk.check("look at", f.name, err)
	}
	return &logFile{file: f, written: info.Size()}, nil
}

func (f *logFile) Write(p []byte) (int, error) {
	n, err := f.file.Write(p)
	f.end += int64(n)
	return n, err
}

// SyncData forces what was written.
func (f *logFile) SyncData() error {
	if f.end > f.written {
		f.written = f.end
		if f.end-f.forced <= aheadMax {
			if _, err := f.WriteAt(zeros[:], f.end); err != nil {
				return err
			}
			f.written += zerosAhead
		}
	}
	f.forced = f.end
	return f.file.SyncData()
}
