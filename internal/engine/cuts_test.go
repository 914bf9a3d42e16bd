package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tenaq/internal/engine/enginetest"
	"tenaq/internal/kv/kvtest/crashdisk"
	"tenaq/internal/testing/proof"
)

// TestCuts cuts the power before every operation on a file that writes, in scripts that make each
// kind of change to several rows. The store that is left must answer like a model that was told all
// requests that were answered and, of those in the turn under way, the first few; and its rows have
// to agree with each other. A part of the recoveries is cut as well, before every one of their
// writes.
//
// Pebble writes in the background too, so that the same seed and number of cuts repeat a failure
// nearly and not always.
// [DUR-1, DUR-2, DUR-6, DUR-8, DUR-9, DUR-10, DLQ-34, MOVE-14, TASK-9, FIFO-38, DEDUP-12]
func TestCuts(t *testing.T) {
	seed, began := proof.Seed(t), time.Now()
	runs := cutRuns(t, seed)
	writes, requests := 0, 0
	for i, r := range runs {
		if i > 0 && runs[i-1].story == r.story && runs[i-1].turn == r.turn {
			r.writes = runs[i-1].writes
		} else if err := r.count(); err != nil {
			t.Fatalf("%s: %v", r, err)
		}
		r.before = writes
		writes += r.writes
		requests += r.story.Requests()
	}
	wanted := min(proof.Count(60, 300, 2_000, writes), writes)
	cuts, chained := 0, 0
	for _, r := range runs {
		r.chosen = evenly(wanted, writes, seed)
		j := newJudges(r.story, cuts)
		err := r.play(j.submit)
		if wrong := j.finish(); wrong != nil {
			err = wrong
		}
		if err != nil {
			t.Fatalf("%d cuts: %s: %v", wanted, r, err)
		}
		cuts, chained = j.cuts, chained+int(j.chained.Load())
	}
	t.Logf("%d scripts, %d requests and %d writes to files in %d ways; %d cuts and %d chained cuts in %.1f s",
		len(runs)/len(waysToCut()), requests, writes, len(waysToCut()), cuts, chained, time.Since(began).Seconds())
	if cuts < wanted/2 { // Pebble and the witness write more when they have more time
		t.Errorf("%d cuts, want about %d", cuts, wanted)
	}
}

// evenly returns a function that chooses n of a number, spread evenly.
func evenly(n, of int, seed uint64) func(i int) bool {
	phase := int(seed % uint64(of))
	return func(i int) bool { return ((i+1)*n+phase)/of > (i*n+phase)/of }
}

// A cutRun is one way to play a story on a disk that loses power.
type cutRun struct {
	name   string
	story  *enginetest.Story
	turn   int // requests
	keep   int // percent of the blocks and names that were not forced to disk are found nevertheless
	seed   uint64
	writes int // about, since Pebble does some of its work in the background

	before int              // writes of the runs before this one
	chosen func(i int) bool // whether the power is cut before a write, by its number among those of all runs
}

func (r *cutRun) String() string { return fmt.Sprintf("%s-turn-%d-keep-%d", r.name, r.turn, r.keep) }

// A wayToCut is a length of turns, and how much is kept of what was not forced to disk.
type wayToCut struct{ turn, keep int }

func waysToCut() []wayToCut {
	if proof.Short() {
		return []wayToCut{{7, 50}} // playing the stories takes longer there than looking at a few cuts
	}
	return []wayToCut{{1, 0}, {1, 50}, {1, 100}, {7, 0}, {7, 50}, {7, 100}}
}

// cutRuns are the stories in testdata, in every way.
func cutRuns(t *testing.T, seed uint64) (runs []*cutRun) {
	paths, err := filepath.Glob("testdata/cuts/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		story, err := enginetest.ReadStory(string(text))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		for _, way := range waysToCut() {
			runs = append(runs, &cutRun{name: name, story: story, turn: way.turn, keep: way.keep, seed: seed})
		}
	}
	return runs
}

// count plays the story without cuts, to find out how many there can be.
func (r *cutRun) count() error {
	r.chosen = func(int) bool { return false }
	return r.play(nil)
}

// play plays the story and gives what each chosen cut leaves to take, while the story does not
// continue.
func (r *cutRun) play(take func(outage)) error {
	disk := &cutDisk{fs: crashdisk.New()}
	var (
		telling atomic.Pointer[enginetest.Telling]
		armed   atomic.Bool
		n       atomic.Int64
	)
	armed.Store(r.story.FromTheStart())
	disk.before = func(op string) {
		if !armed.Load() {
			return
		}
		i := r.before + int(n.Add(1)) - 1
		if !r.chosen(i) {
			return
		}
		o := outage{number: i, op: op}
		if t := telling.Load(); t != nil {
			o.From = t.Confirmed()
		}
		o.fs = disk.clone(r.keep, rand.New(rand.NewPCG(r.seed, uint64(i))))
		if t := telling.Load(); t != nil {
			o.To = t.Begun()
		}
		take(o)
	}
	v := enginetest.Variant{Window: 16, Turn: r.turn, Disk: func() enginetest.Disk { return disk }}
	t, err := r.story.Tell(v)
	if err != nil {
		return err
	}
	defer t.Close()
	telling.Store(t)
	armed.Store(true)
	err = t.Finish()
	armed.Store(false)
	r.writes = int(n.Load())
	return err
}

// An outage is what a power cut has left.
type outage struct {
	enginetest.Cut
	number int
	op     string // what was not done any more
	fs     *crashdisk.Disk

	chained bool // the recovery is to be cut as well
}

// outages are how long the server is away and which grace it gives, in turn.
var outages = []enginetest.Outage{
	{Down: time.Second},
	{Down: time.Second, Grace: time.Minute},
	{Down: 0, Grace: time.Minute},
	{Down: 2 * time.Minute, Grace: 10 * time.Second},
}

// judges look at outages, as many at once as there are processors.
type judges struct {
	story   *enginetest.Story
	queue   chan outage
	cuts    int // those before included
	chained atomic.Int64
	wait    sync.WaitGroup
	failed  atomic.Bool

	mu  sync.Mutex
	err error // of the first cut that is judged wrong
}

func newJudges(story *enginetest.Story, cuts int) *judges {
	j := &judges{story: story, cuts: cuts, queue: make(chan outage)}
	for range runtime.GOMAXPROCS(0) {
		j.wait.Go(func() {
			for o := range j.queue {
				if j.failed.Load() {
					continue
				}
				if err := j.judge(o); err != nil {
					j.fail(fmt.Errorf("cut %d, before %s: %w", o.number, o.op, err))
				}
			}
		})
	}
	return j
}

func (j *judges) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.failed.Swap(true) {
		j.err = err
	}
}

// submit hands over an outage. It may be called from several goroutines, one after the other or at
// once.
func (j *judges) submit(o outage) {
	o.Outage, o.Second = outages[o.number%len(outages)], outages[(o.number+1)%len(outages)]
	j.mu.Lock()
	j.cuts++
	o.chained = j.cuts%chainedEach == 0
	j.mu.Unlock()
	j.queue <- o
}

func (j *judges) finish() error {
	close(j.queue)
	j.wait.Wait()
	return j.err
}

// chainedEach is how many cuts there are to one whose recovery is cut as well.
const chainedEach = 32

func (j *judges) judge(o outage) error {
	if o.chained {
		for _, again := range j.recoveries(o) {
			j.chained.Add(1)
			if err := j.check(again); err != nil {
				return fmt.Errorf("and again before %s of the recovery: %w", again.op, err)
			}
		}
	}
	return j.check(o)
}

// recoveries starts a server over what a cut has left, and returns what further cuts leave, one
// before each write of this recovery.
func (j *judges) recoveries(o outage) (list []outage) {
	disk := &cutDisk{fs: exactly(o.fs)}
	var mu sync.Mutex
	over := false
	disk.before = func(op string) {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		again := o
		again.Twice, again.op = true, op
		again.fs = disk.clone(50, rand.New(rand.NewPCG(uint64(o.number), uint64(len(list)))))
		list = append(list, again)
	}
	defer disk.Stop(true)
	j.story.Recover(disk.Open(), o.Cut)
	mu.Lock()
	defer mu.Unlock()
	over = true
	return list
}

// check judges what is found after an outage.
func (j *judges) check(o outage) error {
	verdict := make(chan error, 2)
	disk := &cutDisk{fs: o.fs, memTable: 256 << 10, fatal: func(err error) {
		verdict <- err
		select {} // it must not return, and may be anywhere
	}}
	go func() {
		verdict <- func() error {
			store, err := disk.open()
			if err != nil {
				return err
			}
			if err := enginetest.Audit(store); err != nil {
				return fmt.Errorf("audit: %w", err)
			}
			err = j.story.Check(store, o.Cut)
			if wrong := enginetest.Audit(store); wrong != nil && err == nil {
				err = fmt.Errorf("audit after everything was asked: %w", wrong)
			}
			return errors.Join(err, disk.store.Close())
		}()
	}()
	return <-verdict
}
