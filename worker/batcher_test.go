package worker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/work/sqslimits"
)

// requests are those of a batcher in a bubble. Each takes ten milliseconds, or as long as slow says
// for the entry that it begins with.
type requests struct {
	batcher[string]
	slow map[string]time.Duration
	at   time.Time
	log  []string // when each began, and with how many entries
	mu   sync.Mutex
}

func newRequests() *requests {
	r := &requests{at: time.Now(), slow: make(map[string]time.Duration)}
	r.send = func(entries []string) []error {
		r.mu.Lock()
		r.log = append(r.log, fmt.Sprintf("%v %d", time.Since(r.at), len(entries)))
		r.mu.Unlock()
		took, ok := r.slow[entries[0]]
		if !ok {
			took = 10 * time.Millisecond
		}
		time.Sleep(took)
		errs := make([]error, len(entries))
		for i, e := range entries {
			if strings.HasPrefix(e, "bad") {
				errs[i] = errors.New(e)
			}
		}
		return errs
	}
	return r
}

// all carries out entries side by side and waits.
func (r *requests) all(t *testing.T, name string, n int) {
	var doing sync.WaitGroup
	for i := range n {
		entry := fmt.Sprint(name, i)
		doing.Go(func() {
			err := r.do(entry)
			if bad := strings.HasPrefix(entry, "bad"); bad != (err != nil) || bad && err.Error() != entry {
				t.Errorf("%s: got error %v", entry, err)
			}
		})
	}
	doing.Wait()
}

// total is how many entries were sent, and the largest request.
func (r *requests) total() (entries, largest int) {
	for _, l := range r.log {
		var n int
		fmt.Sscan(l[strings.IndexByte(l, ' '):], &n)
		entries += n
		largest = max(largest, n)
	}
	return entries, largest
}

// Ten messages that end together take a request or two, and not one each.
func TestBatcherGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRequests()
		const rounds = 20
		for i := range rounds {
			name := "a"
			if i%2 > 0 {
				name = "bad"
			}
			r.all(t, name, 10)
		}
		entries, largest := r.total()
		if entries != 10*rounds || largest > sqslimits.BatchMax || len(r.log) > 2*rounds {
			t.Errorf("%d entries in %d requests of at most %d, want %d in at most %d: %q", entries, len(r.log), largest, 10*rounds, 2*rounds, r.log)
		}
	})
}

// A full batch does not wait for the request in progress; a smaller one waits until that has ended,
// or for gatherMax.
func TestBatcherWaits(t *testing.T) {
	for _, test := range []struct {
		name  string
		slow  time.Duration // the first request
		count int           // of entries that come while it is under way
		want  []string
	}{
		{"no more than a request", 30 * time.Millisecond, 9, []string{"0s 1", "30ms 9"}},
		{"a whole request", 30 * time.Millisecond, 10, []string{"0s 1", "1ms 10"}},
		{"a request that hangs", 10 * time.Second, 9, []string{"0s 1", "51ms 9"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRequests()
				r.slow["first0"] = test.slow
				var first sync.WaitGroup
				first.Go(func() { r.all(t, "first", 1) })
				time.Sleep(time.Millisecond)
				r.all(t, "then", test.count)
				first.Wait()
				if !slices.Equal(r.log, test.want) {
					t.Errorf("got %q, want %q", r.log, test.want)
				}
			})
		})
	}
}

// However much there is to do, only so many requests are under way at once, and whole ones.
func TestBatcherBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRequests()
		r.all(t, "a", 400)
		entries, largest := r.total()
		running := make(map[string]int)
		for _, l := range r.log {
			at, _, _ := strings.Cut(l, " ")
			running[at]++
		}
		for at, n := range running { // all take equally long
			if n > batchersMax {
				t.Errorf("%d requests began at %s, want at most %d", n, at, batchersMax)
			}
		}
		if entries != 400 || largest > sqslimits.BatchMax || len(r.log) > 45 {
			t.Errorf("%d entries in %d requests of at most %d, want 400 in 40 to 45", entries, len(r.log), largest)
		}
	})
}
