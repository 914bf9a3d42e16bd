package kvtest

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"tenaq/internal/kv"
	"tenaq/internal/testing/proof"
)

// Every batch writes its number into all rows, so a reader that sees two numbers in one iteration
// saw half a batch, and one that sees them fall saw time run backwards.
func testReaders(t *testing.T, s kv.Store) {
	const rows = 20
	var applied atomic.Int64
	var stop atomic.Bool
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for last := int64(0); !stop.Load(); {
				before := applied.Load()
				seen, n := int64(-1), 0
				for k, v := range s.Scan([]byte("k"), []byte("l")) {
					x, err := strconv.ParseInt(string(v), 10, 64)
					if err != nil || n > 0 && x != seen {
						t.Errorf("row %q is %q in an iteration that saw %d", k, v, seen)
						return
					}
					seen, n = x, n+1
				}
				if before > 0 && (n != rows || seen < before || seen < last) {
					t.Errorf("an iteration saw %d rows of batch %d after batches %d and %d", n,
						seen, before, last)
					return
				}
				last = seen
				if v, ok := s.Get(nil, []byte("k07")); before > 0 && !ok {
					t.Errorf("Get = %q, %v between batches", v, ok)
					return
				}
			}
		})
	}
	for i := range proof.Few(1000) {
		b := s.NewBatch()
		if i%2 == 1 {
			b.DeleteRange([]byte("k"), []byte("l"))
		}
		for j := range rows {
			b.Set(fmt.Appendf(nil, "k%02d", j), strconv.AppendInt(nil, int64(i+1), 10))
		}
		if i%50 == 0 {
			b.Force()()
		} else {
			b.Apply()
		}
		applied.Store(int64(i + 1))
	}
	stop.Store(true)
	readers.Wait()
}
