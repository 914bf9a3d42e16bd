package recordstest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"tenaq/internal/testing/proof"
	"tenaq/records"
)

// If any number of writers name the same version, one succeeds, and the others get its record.
func testOneWinner(e *env) {
	stores := []records.Store{e.open(), e.open()}
	there := records.Version(0)
	for round := range proof.Few(30) {
		type outcome struct {
			record   records.Record
			deleted  bool
			conflict *records.Conflict
		}
		outcomes := make([]outcome, 8)
		start := make(chan struct{})
		var writers sync.WaitGroup
		for i := range outcomes {
			remove := there != 0 && (round+i)%4 == 0
			writers.Go(func() {
				<-start
				o, s := &outcomes[i], stores[i%2]
				var err error
				if remove {
					err = s.Delete(e.ctx, "a", there)
					o.deleted = err == nil
				} else {
					o.record, err = s.Put(e.ctx,
						records.Write{Key: "a", Value: fmt.Append(nil, i), If: there})
				}
				if err != nil && !errors.As(err, &o.conflict) {
					e.Errorf("writer %d: %v", i, err)
				}
			})
		}
		close(start)
		writers.Wait()
		if e.Failed() {
			return
		}
		var winner *outcome
		for i := range outcomes {
			if o := &outcomes[i]; o.conflict == nil {
				if winner != nil {
					e.Fatalf("round %d: two writers of version %d won, with %d and %d", round,
						there, winner.record.Version, o.record.Version)
				}
				winner = o
			}
		}
		if winner == nil {
			e.Fatalf("round %d: no writer of version %d won", round, there)
		}
		for i, o := range outcomes {
			if o.conflict == nil {
				continue
			}
			c := o.conflict.Current
			if c.Version != winner.record.Version ||
				string(c.Value) != string(winner.record.Value) {
				e.Fatalf("round %d: writer %d was told of version %d, %q, and version %d, %q had won",
					round, i, c.Version, c.Value, winner.record.Version, winner.record.Value)
			}
		}
		there = winner.record.Version // zero after a delete
	}
}

// Each writer adds one, by reading and writing what was read plus one. Nothing is lost, and readers
// never see time run backwards.
func testIncrements(e *env) {
	stores := []records.Store{e.open(), e.open()}
	e.put(stores[0], records.Write{Key: "n", Value: []byte("0")})
	const writers = 6
	each := proof.Few(25)
	var group, readers sync.WaitGroup
	done := make(chan struct{})
	for i := range writers {
		group.Go(func() {
			for range each {
				if err := increment(e, stores[i%2], "n"); err != nil {
					e.Errorf("writer %d: %v", i, err)
					return
				}
			}
		})
	}
	for i := range 2 {
		readers.Go(func() {
			var last records.Record
			for lastN := 0; ; {
				r, err := stores[i].Get(e.ctx, "n")
				n, _ := strconv.Atoi(string(r.Value))
				rose := r.Version > last.Version
				if err != nil || r.Version < last.Version || rose && last.Version != 0 &&
					n <= lastN || !rose && n != lastN {
					e.Errorf("reader: %q in version %d after %q in version %d, %v", r.Value,
						r.Version, last.Value, last.Version, err)
					return
				}
				last, lastN = r, n
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
	group.Wait()
	close(done)
	readers.Wait()
	r, err := stores[0].Get(e.ctx, "n")
	if want := strconv.Itoa(writers * each); err != nil || string(r.Value) != want {
		e.Errorf("the sum is %q, %v, want %s", r.Value, err, want)
	}
}

// increment adds one to the number in a record, from whatever the store says is there.
func increment(e *env, s records.Store, key string) error {
	r, err := s.Get(e.ctx, key)
	if err != nil {
		return err
	}
	for {
		n, err := strconv.Atoi(string(r.Value))
		if err != nil {
			return err
		}
		_, err = s.Put(e.ctx, records.Write{Key: key, Value: strconv.AppendInt(nil, int64(n)+1, 10),
			If: r.Version})
		var c *records.Conflict
		if !errors.As(err, &c) {
			return err
		}
		if c.Current.Version <= r.Version {
			return fmt.Errorf("a conflict of version %d with version %d", r.Version,
				c.Current.Version)
		}
		r = c.Current
	}
}

// Creates, replaces and deletes of one key form a chain, however they interleave: each version is
// created once and ended at most once, and each is larger than all that ended before it began.
func testHistory(e *env) {
	stores := []records.Store{e.open(), e.open()}
	var mu sync.Mutex
	began := map[records.Version]bool{}
	ended := map[records.Version]bool{}
	end := func(v records.Version) {
		if v != 0 && ended[v] {
			e.Errorf("version %d was replaced or deleted twice", v)
		}
		ended[v] = true
	}
	var writers sync.WaitGroup
	for i := range 6 {
		rng := rand.New(rand.NewPCG(e.rng.Uint64(), uint64(i)))
		s := stores[i%2]
		writers.Go(func() {
			known, largest := records.Version(0), records.Version(0)
			for range proof.Few(40) {
				remove := known != 0 && rng.IntN(3) == 0
				var got records.Record
				var err error
				if remove {
					err = s.Delete(e.ctx, "a", known)
				} else {
					got, err = s.Put(e.ctx, records.Write{Key: "a", If: known})
				}
				var c *records.Conflict
				switch {
				case errors.As(err, &c):
					known = c.Current.Version
					if known != 0 && known < largest {
						e.Errorf("told of version %d after %d", known, largest)
					}
				case err != nil:
					e.Error(err)
					return
				default:
					mu.Lock()
					if !remove && (began[got.Version] || got.Version <= largest) {
						e.Errorf("version %d was written after version %d, or twice", got.Version,
							largest)
					}
					began[got.Version] = true
					end(known)
					mu.Unlock()
					known = got.Version // zero after a delete
				}
				largest = max(largest, known)
			}
		})
	}
	writers.Wait()
	alive := 0
	for v := range began {
		if v != 0 && !ended[v] {
			alive++
		}
	}
	r, err := stores[0].Get(e.ctx, "a")
	if there := err == nil; (there && (alive != 1 || ended[r.Version] || !began[r.Version])) ||
		(!there && alive != 0) {
		e.Errorf("%d versions never ended, and version %d is there (%v)", alive, r.Version, err)
	}
}
