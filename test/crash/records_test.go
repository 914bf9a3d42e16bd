package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tenaq/internal/testing/proof"
	"tenaq/records"
	"tenaq/records/serverrecords"
)

// A ledger is what clients were answered about one record.
type ledger struct {
	mu       sync.Mutex
	latest   records.Version                     // that was answered
	replaced map[records.Version]records.Version // the version that an answered write replaced, and its own
}

func (l *ledger) known() records.Version {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.latest
}

// saw notes a version that was answered to a call which began when least was known.
func (l *ledger) saw(v, least records.Version) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v < least {
		return fmt.Errorf("version %d was answered after %d: a write is lost", v, least)
	}
	l.latest = max(l.latest, v)
	return nil
}

// wrote notes a write that was answered.
func (l *ledger) wrote(before, v records.Version) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other, ok := l.replaced[before]; ok {
		return fmt.Errorf("version %d was replaced twice, by %d and %d", before, other, v)
	}
	l.replaced[before] = v
	return nil
}

// Records that were written stay written, each version is replaced once, and versions rise,
// whenever the server is killed. [REC-1, REC-2, REC-3]
func TestKillRecords(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	rng := rand.New(rand.NewPCG(proof.Seed(t), 3))
	ledgers := make([]*ledger, 3)
	for i := range ledgers {
		ledgers[i] = &ledger{replaced: make(map[records.Version]records.Version)}
	}
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	var written, unknown atomic.Int64
	for i := range 8 {
		store, err := serverrecords.New(serverrecords.Config{Client: r.api})
		r.must(err)
		keys := rand.New(rand.NewPCG(rng.Uint64(), uint64(i)))
		writers.Go(func() {
			defer store.Close()
			for n := 0; ctx.Err() == nil; n++ {
				k := keys.IntN(len(ledgers))
				l := ledgers[k]
				before := l.known()
				call, cancel := context.WithTimeout(ctx, 2*time.Second)
				got, err := store.Put(call, records.Write{Key: fmt.Sprint("key", k), If: before,
					Value: fmt.Appendf(nil, "%d of %d", n, i), TTL: time.Hour})
				cancel()
				conflict, conflicted := errors.AsType[*records.Conflict](err)
				switch {
				case conflicted:
					err = l.saw(conflict.Current.Version, before)
				case err != nil:
					unknown.Add(1)
					continue
				default:
					written.Add(1)
					if err = l.wrote(before, got.Version); err == nil {
						err = l.saw(got.Version, before+1)
					}
				}
				if err != nil {
					t.Errorf("key%d: %v", k, err)
					return
				}
			}
		})
	}
	for range max(2, kills()/4) {
		time.Sleep(time.Duration(100+rng.IntN(400)) * time.Millisecond)
		r.must(r.Kill())
		r.must(r.start(t.Context()))
	}
	stop()
	writers.Wait()
	store, err := serverrecords.New(serverrecords.Config{Client: r.api})
	r.must(err)
	for k, l := range ledgers {
		if got, err := store.Get(t.Context(), fmt.Sprint("key", k)); err != nil || got.Version < l.latest {
			t.Errorf("key%d: got version %d, %v, and %d was answered", k, got.Version, err, l.latest)
		}
	}
	t.Logf("%d writes were answered, and of %d the outcome is unknown", written.Load(), unknown.Load())
	if written.Load() == 0 {
		t.Error("nothing was written")
	}
}
