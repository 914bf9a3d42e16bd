package recordstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tenaq/internal/testing/proof"
	"tenaq/records"
)

// A call whose context has ended does nothing and says why.
func testEnded(e *env) {
	s := e.open()
	a := e.put(s, records.Write{Key: "a"})
	expired := e.put(s, records.Write{Key: "expired", TTL: time.Millisecond})
	e.sleep(time.Millisecond + granule + slack)
	cancelled, cancel := context.WithCancel(e.ctx)
	cancel()
	late, cancel := context.WithDeadline(e.ctx, time.Now().Add(-time.Second))
	defer cancel()
	for _, ctx := range []context.Context{cancelled, late} {
		refused := func(what string, err error) {
			e.Helper()
			if !errors.Is(err, ctx.Err()) {
				e.Errorf("%s: %v, want %v", what, err, ctx.Err())
			}
		}
		_, err := s.Get(ctx, "a")
		refused("get", err)
		_, err = s.Put(ctx, records.Write{Key: "b"})
		refused("create", err)
		_, err = s.Put(ctx, records.Write{Key: "a", Value: []byte("new"), If: a.version})
		refused("replace", err)
		refused("delete", s.Delete(ctx, "a", a.version))
		_, err = s.List(ctx, "", "", 0)
		refused("list", err)
		_, err = s.Sweep(ctx, 10)
		refused("sweep", err)
	}
	e.has(s, a)
	e.hasNo(s, "b")
	e.hasNo(s, expired.key)
}

// A call whose context ends meanwhile has succeeded or says why not, and whatever it was, the store
// remains in order.
func testEnding(e *env) {
	stores := []records.Store{e.open(), e.open()}
	var callers sync.WaitGroup
	for i := range 4 {
		waits := make([]time.Duration, proof.Few(25))
		for j := range waits {
			waits[j] = time.Duration(e.rng.Int64N(int64(3 * time.Millisecond)))
		}
		s := stores[i%2]
		callers.Go(func() {
			for j, wait := range waits {
				ctx, cancel := context.WithCancel(e.ctx)
				stop := time.AfterFunc(wait, cancel)
				key := fmt.Sprintf("%d-%d", i, j)
				r, err := s.Put(ctx, records.Write{Key: key, Value: []byte(key)})
				switch {
				case err != nil && !errors.Is(err, context.Canceled):
					e.Errorf("put: %v, want success or %v", err, context.Canceled)
				case err == nil:
					got, err := s.Get(e.ctx, key)
					if err != nil || got.Version != r.Version {
						e.Errorf("get %s = version %d, %v, and version %d was answered", key,
							got.Version, err, r.Version)
					}
				}
				_, err = s.List(ctx, "", "", 0)
				if err != nil && !errors.Is(err, context.Canceled) {
					e.Errorf("list: %v, want success or %v", err, context.Canceled)
				}
				stop.Stop()
				cancel()
			}
		})
	}
	callers.Wait()
	for _, s := range stores {
		ctx, cancel := context.WithTimeout(e.ctx, 20*time.Second)
		r, err := s.Put(ctx, records.Write{Key: "last"})
		if err == nil {
			err = s.Delete(ctx, "last", r.Version)
		}
		if err != nil {
			e.Errorf("a write after others were cancelled: %v", err)
		}
		cancel()
	}
}
