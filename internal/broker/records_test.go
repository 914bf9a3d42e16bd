package broker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

func putOp(key string, version uint64, ttl time.Duration) *engine.PutRecord {
	return &engine.PutRecord{Account: named("").Account, Key: key, Value: []byte("v"), If: version, TTL: ttl.Milliseconds()}
}

func getOp(key string) *engine.GetRecord {
	return &engine.GetRecord{Account: named("").Account, Key: key}
}

// countRecords returns how many records and expiry rows a store has.
func countRecords(store kv.Store) (records, expiries int) {
	count := func(kind byte) (n int) {
		for range store.Scan([]byte{0x09, kind}, []byte{0x09, kind + 1}) {
			n++
		}
		return n
	}
	return count(0x02), count(0x03)
}

// Expired records are removed without a request, however many expire at once, and while requests
// come in. [REC-5]
func TestRecordsAreSwept(t *testing.T) {
	for _, busy := range []bool{false, true} {
		bubble(t, func(t *testing.T, r *rig) {
			store := r.cfg.Store.(*kv.Memory)
			r.do(putOp("stays", 0, 0))
			r.do(putOp("later", 0, time.Hour))
			const many = 5 * recordsMax
			for i := range many {
				r.do(putOp(fmt.Sprint("short", i), 0, 10*time.Second))
			}
			if n, m := countRecords(store); n != many+2 || m != many+1 {
				t.Fatalf("%d records and %d expiry rows", n, m)
			}
			for range 30 {
				time.Sleep(time.Second / 2)
				if busy {
					r.do(getOp("stays"))
				}
			}
			if n, m := countRecords(store); n != 2 || m != 1 {
				t.Errorf("busy %v: %d records and %d expiry rows are left, want 2 and 1", busy, n, m)
			}
			time.Sleep(time.Hour)
			if n, m := countRecords(store); n != 1 || m != 0 {
				t.Errorf("busy %v: %d records and %d expiry rows are left, want 1 and 0", busy, n, m)
			}
		})
	}
}

// While expiry is paused because the clock is in doubt, no record expires. [REC-4]
func TestPausedRecords(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(putOp("claim", 0, time.Hour))
		store := r.cfg.Store.(*kv.Memory)
		r.stop()
		time.Sleep(2 * time.Hour)
		r = start(t, newConfig(t, store))
		got := do(r, getOp("claim")).Record
		if got.Version == 0 || got.TTL != 1 || got.Age < 2*time.Hour.Milliseconds() {
			t.Errorf("got %+v, want the record, two hours old", got)
		}
		time.Sleep(9 * time.Minute)
		if n, _ := countRecords(store); n != 1 {
			t.Error("the record was removed while expiry is paused")
		}
		time.Sleep(2 * time.Minute)
		if got := do(r, getOp("claim")).Record; got.Version != 0 {
			t.Errorf("got %+v after the pause, want nothing", got)
		}
		if n, _ := countRecords(store); n != 0 {
			t.Error("the record was not removed after the pause")
		}
	})
}

// On a disk that is nearly full a new record is refused like a send, while claims that exist can be
// renewed and ended. [REC-9]
func TestRecordsOnFullDisk(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		claim := do(r, putOp("claim", 0, time.Hour)).Record
		r.RefuseSends(true)
		if err := r.Do(t.Context(), putOp("new", 0, 0)); !errors.Is(err, ErrNoSpace) {
			t.Errorf("a new record: got %v, want %v", err, ErrNoSpace)
		}
		claim = do(r, putOp("claim", claim.Version, time.Hour)).Record
		r.do(&engine.DeleteRecord{Account: named("").Account, Key: "claim", If: claim.Version})
	})
}

// Versions rise over a power cut, including those that were never answered. [REC-2, REC-3]
func TestVersionsRiseOverPowerCuts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		last := uint64(0)
		for i := range 20 {
			for range 10 * i {
				got := do(r, putOp("a", do(r, getOp("a")).Record.Version, 0)).Record
				if got.Version <= last {
					t.Fatalf("version %d after %d", got.Version, last)
				}
				last = got.Version
			}
			store := r.crash()
			if i%2 == 0 {
				time.Sleep(time.Millisecond)
			}
			r = start(t, newConfig(t, store))
			if got := do(r, getOp("a")).Record; got.Version != last {
				t.Fatalf("version %d after the cut, want %d", got.Version, last)
			}
		}
	})
}
