package pebblekv

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Flushes and compactions rest while flushes are rare, and only then. In the bubble, only writes
// take time.
func TestRestsWhileFlushesAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writes, rest = 50, 50 * restTimes * workLeast
		slow := errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileWrite {
				time.Sleep(workLeast)
			}
			return nil
		})
		d := &disk{FS: errorfs.Wrap(vfs.NewMem(), slow), fail: func(what string, err error) { t.Error(what, err) }}
		// rested writes to files in turns, and returns how long it rested.
		rested := func(names ...string) time.Duration {
			began := time.Now()
			files := make([]vfs.File, len(names))
			for i, name := range names {
				var err error
				if files[i], err = d.Create(name, vfs.WriteCategoryUnspecified); err != nil {
					t.Fatal(err)
				}
			}
			for i := range writes {
				if _, err := files[i%len(files)].Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range files {
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(began) - writes*workLeast
		}
		check := func(when string, want time.Duration, names ...string) {
			t.Helper()
			if got := rested(names...); got < want*9/10 || got > want {
				t.Errorf("%s: rested for %v, want about %v", when, got, want)
			}
		}

		check("before a flush", 0, "1.sst")
		d.pace.flush()
		check("after the first flush", 0, "2.sst")
		d.pace.flush()
		check("after a flush that follows at once", 0, "3.sst")
		time.Sleep(flushesRare)
		d.pace.flush()
		check("after a late flush", rest, "4.sst")
		check("a blob file", rest, "5.blob")
		check("a table and its blob file", rest, "6.sst", "6.blob")
		check("other files", 0, "OPTIONS-000007", "marker.manifest.000001.MANIFEST-000007")
		d.pace.flush()
		check("when flushes are frequent again", 0, "8.sst")
		time.Sleep(flushesRare)
		d.pace.flush()
		d.pace.closing.Store(true)
		check("while the store closes", 0, "9.sst")
	})
}

// A store tells its pace of flushes and of its end.
func TestPaceOfStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustOpen(t, Options{FS: vfs.NewMem(), Dir: "data", Fatal: mustNotFail(t)})
		for _, rests := range []bool{true, false} {
			if rests {
				time.Sleep(flushesRare)
			}
			set(s, "a")
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
			if got := s.aside.pace.rests.Load(); got != rests {
				t.Errorf("after a flush, rests = %v, want %v", got, rests)
			}
		}
		mustClose(t, s)
		if !s.aside.pace.closing.Load() {
			t.Error("rests while it closes")
		}
	})
}
