package recordstest

import (
	"math"
	"time"

	"tenaq/records"
)

// short is a TTL that a case can wait for, and over is when a record that had it is gone for
// certain.
const (
	short = 300 * time.Millisecond
	over  = short + granule + slack
)

// A record that has expired does not exist, for any caller and any method.
func testExpiry(e *env) {
	s, other := e.open(), e.open()
	stays := e.put(s, records.Write{Key: "stays"})
	long := e.put(s, records.Write{Key: "long", TTL: time.Hour})
	kept := e.put(s, records.Write{Key: "kept", TTL: short})
	kept = e.put(s, records.Write{Key: "kept", If: kept.version}) // its TTL is zero from now on
	longer := e.put(s, records.Write{Key: "longer", TTL: short})
	longer = e.put(s, records.Write{Key: "longer", If: longer.version, TTL: time.Minute})
	var gone []*written
	for _, key := range []string{"gone", "gone create", "gone delete", "gone replace"} {
		gone = append(gone, e.put(s, records.Write{Key: key, Value: []byte("v"), TTL: short}))
	}
	shortened := e.put(s, records.Write{Key: "shortened"})
	e.put(s, records.Write{Key: "shortened", If: shortened.version, TTL: short})

	e.sleep(over)
	for _, s := range []records.Store{s, other} {
		for _, wr := range gone {
			e.hasNo(s, wr.key)
		}
		e.hasNo(s, "shortened")
		e.lists(s, "", "", 0, kept, long, longer, stays)
		e.lists(s, "", "gone", 1, kept)
	}
	create, remove, replace := gone[1], gone[2], gone[3]
	e.deleteConflicts(s, remove.key, remove.version, nil)
	e.deleteConflicts(s, remove.key, remove.version+1, nil)
	e.putConflicts(s, records.Write{Key: replace.key, If: replace.version}, nil)
	created := e.put(s, records.Write{Key: create.key})
	if created.version <= create.version {
		e.Errorf("version %d after %d has expired", created.version, create.version)
	}
	e.has(other, created)
	e.putConflicts(other, records.Write{Key: create.key}, created)
	e.hasNo(s, remove.key)
	e.hasNo(s, replace.key)
}

func testTTL(e *env) {
	s := e.open()
	for _, ttl := range []time.Duration{time.Minute, 90*time.Second + 1, 24 * time.Hour,
		200 * 365 * 24 * time.Hour} {
		wr := e.put(s, records.Write{Key: ttl.String(), TTL: ttl})
		e.has(s, wr)
		e.putConflicts(s, records.Write{Key: wr.key}, wr)
	}
	// The least that one can ask for is rounded up, and no TTL is taken for none.
	if r, err := s.Put(e.ctx, records.Write{Key: "least", TTL: 1}); err != nil || r.TTL <= 0 ||
		r.TTL > granule {
		e.Errorf("put for a nanosecond = TTL %v, %v, want more than 0 and at most %v", r.TTL, err,
			granule)
	}
	wr := e.put(s, records.Write{Key: "a", TTL: time.Minute})
	e.sleep(granule + slack)
	e.has(s, wr)
	e.hasNo(s, "least")
}

func testSweep(e *env) {
	s := e.open()
	sweep := func(limit, want int) {
		e.Helper()
		if e.SweepsItself {
			want = 0
		}
		if n, err := s.Sweep(e.ctx, limit); n != want || err != nil {
			e.Errorf("sweep %d = %d, %v, want %d", limit, n, err, want)
		}
	}
	sweep(10, 0)
	a := e.put(s, records.Write{Key: "a"})
	z := e.put(s, records.Write{Key: "z", TTL: time.Hour})
	for _, key := range []string{"m", "k", "l", "b", "y", "replaced"} {
		e.put(s, records.Write{Key: key, TTL: short})
	}
	e.sleep(over)
	replaced := e.put(s, records.Write{Key: "replaced"})
	sweep(3, 3)
	sweep(3, 2)
	sweep(math.MaxInt32, 0)
	e.lists(s, "", "", 0, a, replaced, z)
}
