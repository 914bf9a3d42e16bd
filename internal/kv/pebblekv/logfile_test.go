package pebblekv

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tenaq/internal/kv/kvtest/crashdisk"
)

// A sizedLog is a log whose length is looked at.
type sizedLog struct {
	*logFile
	t *testing.T
}

func newSizedLog(t *testing.T, f vfs.File, err error) sizedLog {
	if err == nil {
		var l *logFile
		if l, err = openLog(file{f, "log", &disk{}}); err == nil {
			return sizedLog{l, t}
		}
	}
	t.Fatal(err)
	panic("unreachable")
}

// force forces n bytes and returns by how many the file became longer.
func (l sizedLog) force(n int) (longer int64) {
	l.t.Helper()
	before := l.size()
	for _, part := range []int{n / 2, n - n/2} { // as Pebble writes blocks
		if _, err := l.Write(make([]byte, part)); err != nil {
			l.t.Fatal(err)
		}
	}
	if err := l.SyncData(); err != nil {
		l.t.Fatal(err)
	}
	return l.size() - before
}

func (l sizedLog) size() int64 {
	l.t.Helper()
	info, err := l.Stat()
	if err != nil {
		l.t.Fatal(err)
	}
	return info.Size()
}

func TestLogFile(t *testing.T) {
	fs := crashdisk.New()
	f, err := fs.Create("log", vfs.WriteCategoryUnspecified)
	l := newSizedLog(t, f, err)
	for round := range 2 {
		if got, want := l.force(1024), int64(1024+zerosAhead); got != want {
			t.Fatalf("round %d: the first small write makes the log longer by %d, want %d", round, got, want)
		}
		for i := range zerosAhead / 1024 {
			if got := l.force(1024); got != 0 {
				t.Fatalf("round %d: small write %d makes the log longer by %d", round, i, got)
			}
		}
	}
	end := l.end.Load()
	for l.end.Load() < l.written {
		l.force(aheadMax + 2)
	}
	if got := l.force(aheadMax + 2); got != aheadMax+2 {
		t.Errorf("a large write makes the log longer by %d, want %d", got, aheadMax+2)
	}
	if got, want := l.size(), l.end.Load(); got != want {
		t.Errorf("after large writes from %d on the log has %d bytes, want %d", end, got, want)
	}
	length := l.size()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	f, err = fs.ReuseForWrite("log", "again", vfs.WriteCategoryUnspecified)
	l = newSizedLog(t, f, err)
	for l.end.Load()+1024 <= length {
		if got := l.force(1024); got != 0 {
			t.Fatalf("a write at %d of %d bytes of an earlier use makes the log longer by %d", l.end.Load(), length, got)
		}
	}
}

// The zeros after the last commit are nothing after a crash.
func TestLogFileCrash(t *testing.T) {
	o := Options{FS: crashdisk.New(), Dir: "data", Fatal: mustNotFail(t)}
	for range 3 {
		s := mustOpen(t, o)
		for range 20 {
			set(s, "a")
		}
		want := s.CommitNumber()
		o.FS = o.FS.(*crashdisk.Disk).CrashClone(vfs.CrashCloneCfg{})
		mustClose(t, s)
		s = mustOpen(t, o)
		if got := s.CommitNumber(); got != want {
			t.Errorf("the store ends with commit %d, want %d", got, want)
		}
		mustClose(t, s)
	}
}
