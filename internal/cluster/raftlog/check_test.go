package raftlog

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"tenaq/internal/kv"
)

// Check finds nothing in a log that is whole, and gaps and rows of another form in one that is not.
func TestCheck(t *testing.T) {
	log := openLog(t, vfs.NewMem())
	defer closeLog(t, log)
	s := Open(log, 1)
	var texts []string
	check := func(wantFirst, wantLast uint64, want ...string) {
		t.Helper()
		texts = nil
		first, last := Check(log.Scan(nil, nil), func(_ []byte, text string) {
			texts = append(texts, text)
		})
		if first != wantFirst || last != wantLast || !slices.Equal(texts, want) {
			t.Errorf("entries %d to %d and %q, want %d to %d and %q", first, last, texts, wantFirst,
				wantLast, want)
		}
	}
	check(0, 0)
	for i := uint64(5); i < 10; i++ {
		if err := s.StoreLog(&raft.Log{Index: i, Term: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SetUint64([]byte("CurrentTerm"), 1); err != nil {
		t.Fatal(err)
	}
	check(5, 9)
	log.Write(func(b kv.Batch) {
		b.Delete(s.entryKey(7))
		b.Set([]byte{9}, []byte{rowFormat})
		b.Set(s.entryKey(10), []byte{rowFormat, 1})
		b.Set(s.stableKey([]byte("newer")), []byte{rowFormat + 1})
	})
	const form = "the row is not in the expected form, or is of a newer version of this program"
	check(5, 9, "entry 8 of the log follows entry 6, and those between are missing", form, form, form)
}
