package enginetest

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
	"tenaq/internal/observe/tally"
)

// A Variant is a way to run the engine that must not be told from any other by its answers.
type Variant struct {
	Name                string
	Window, WindowBytes int         // as in engine.Config
	Turn                int         // how many commands share a turn; one when zero
	Restart             bool        // before every turn, cleanly, while the store stays open
	Stops               Stops       // now and then, of the store as well
	Peek                bool        // at all queues, after every command
	Disk                func() Disk // memory when nil

	// Audit, if there is one, finds out whether the rows of a store agree with each other.
	Audit func(kv.Store) error
}

// Stops are stops of the whole server at random moments, each followed by a start at once. The zero
// value is none.
//
// After a power cut the server gives messages in flight a grace, and that changes answers. So it is
// cut without one, and not while one that the script has given is under way, which a second cut
// would give again. [CLOCK-10, CLOCK-13]
type Stops struct {
	// before one command in so many, about; the turn ends there, unless the script holds it open
	OneIn int
	Cut   bool   // the power is cut: what no wait function has confirmed is lost
	Seed  uint64 // of the moments
}

// A Disk is what outlives the engine.
type Disk interface {
	// Open returns the store that a server finds when it starts.
	Open() kv.Store

	// Stop ends the use of the store. After a stop that is not a clean one only what was confirmed
	// to be durable is found again.
	Stop(clean bool)
}

type memoryDisk struct{ store *kv.Memory }

// NewMemoryDisk returns a disk that holds a kv.Memory.
func NewMemoryDisk() Disk { return &memoryDisk{store: kv.NewMemory()} }

func (d *memoryDisk) Open() kv.Store { return d.store }

func (d *memoryDisk) Stop(clean bool) {
	if !clean {
		d.store = d.store.Crash(0)
	}
}

// A World is a Machine: an engine, the store below it, and the turns that the broker would make.
type World struct {
	variant Variant
	disk    Disk
	store   kv.Store
	cfg     engine.Config
	engine  *engine.Engine

	now          int64 // of the last command
	expiryPaused bool  // expiry was paused at the last request
	grace        int64
	clean        bool       // the last stop was a clean one
	graced       int64      // no grace that the script has given lasts longer
	inTurn       int        // commands since the last commit
	held         bool       // the script holds the turn open
	stops        *rand.Rand // when to stop
	unread       []engine.Delivery
	entryOf      func(*engine.Delivery) *engine.Entry
	awakened     map[string]bool
	tally        *tally.Queues

	// requests, and how often the one that is under way was to be submitted again
	finished, parts int
	progress        progress
}

// progress is how far a world has come, for observers on other goroutines.
type progress struct {
	begun     atomic.Int64 // requests
	confirmed atomic.Int64 // requests that are durable, times partsMax, and parts of the next one
}

// partsMax is more than the parts of any request.
const partsMax = 1 << 16

// NewWorld returns a world with an empty store.
func NewWorld(v Variant) *World {
	v.Turn = max(v.Turn, 1)
	if v.Disk == nil {
		v.Disk = NewMemoryDisk
	}
	w := &World{variant: v, disk: v.Disk(), awakened: make(map[string]bool),
		tally: new(tally.Queues), clean: true}
	w.stops = rand.New(rand.NewPCG(v.Stops.Seed, 2))
	w.store = w.disk.Open()
	return w
}

// Close gives the store up.
func (w *World) Close() { w.disk.Stop(true) }

// Start implements Machine.
func (w *World) Start(cfg engine.Config, now, grace int64) {
	cfg.Window, cfg.WindowBytes = w.variant.Window, w.variant.WindowBytes
	cfg.Tally = w.tally
	cfg.Fault = func(sentence string) { panic("fault: " + sentence) }
	w.cfg, w.now, w.grace = cfg, now, grace
	if !w.clean {
		w.graced = max(w.graced, now+grace)
	}
	w.open()
}

// Stop implements Machine. What was answered is durable before.
func (w *World) Stop(now int64, clean bool) {
	w.now, w.clean = now, clean
	w.mustCommit()
	if clean {
		w.inform(&engine.Stamp{Clean: true})
		w.mustCommit()
	}
	w.disk.Stop(clean)
	w.store = w.disk.Open()
}

// Tally implements Machine.
func (w *World) Tally() *tally.Queues { return w.tally }

// open opens the engine over the store as a server would.
func (w *World) open() {
	w.engine = engine.Open(w.store, w.cfg)
	w.inform(&engine.Start{Grace: w.grace})
	w.mustCommit()
}

// inform applies a command of the world's own. Expiry is paused if it was at the last request, so
// that it is the requests alone that say since when.
func (w *World) inform(op engine.Op) {
	if err := w.engine.Apply(engine.Command{Now: w.now, ExpiryPaused: w.expiryPaused,
		Op: op}); err != nil {
		panic(err) // these are never refused
	}
}

// restart is a clean stop and a start that keep the store open, which is much faster.
func (w *World) restart() {
	w.inform(&engine.Stamp{Clean: true})
	w.mustCommit()
	w.open()
}

// stop stops the server and starts it again, if it is time to.
func (w *World) stop() {
	s := w.variant.Stops
	switch {
	case s.OneIn == 0 || w.stops.IntN(s.OneIn) > 0:
		return
	case w.held && w.inTurn > 0, s.Cut && w.now < w.graced:
		return
	}
	w.Stop(w.now, !s.Cut)
	grace := w.grace
	if s.Cut {
		w.grace = 0
	}
	w.open()
	w.grace = grace
}

// againMax bounds how often one command may have to be submitted again.
const againMax = 1000

// Do implements Machine.
func (w *World) Do(r Request) error {
	w.progress.begun.Add(1)
	for range againMax {
		if w.variant.Restart && w.inTurn == 0 {
			w.restart()
		}
		w.stop()
		w.now, w.expiryPaused = r.Now, r.ExpiryPaused
		err := w.engine.Apply(r.Command)
		w.engine.TakeStirred(func(n engine.QueueName) { w.awakened[n.Name] = true })
		w.inTurn++
		if err == engine.ErrAgain {
			// What it did so far has to be a turn of its own, as in the broker.
			w.parts++
			if err := w.commit(); err != nil {
				return err
			}
			continue
		}
		if op, ok := r.Op.(*engine.ReceiveMessage); ok {
			w.unread = append(w.unread, op.Messages...)
		}
		w.finished, w.parts = w.finished+1, 0
		if w.variant.Peek {
			if bad := w.peek(); bad != nil {
				return bad
			}
		}
		if w.inTurn >= w.variant.Turn && !w.held {
			if bad := w.commit(); bad != nil {
				return bad
			}
		}
		return err
	}
	return fmt.Errorf("%T was to be submitted again %d times", r.Op, againMax)
}

// hold keeps the turn open until it is called again with false.
func (w *World) hold(on bool) {
	w.held = on
	if !on {
		w.mustCommit()
	}
}

func (w *World) mustCommit() {
	if err := w.commit(); err != nil {
		panic(err)
	}
}

// commit ends the turn, waits for the store, and compares what was delivered with what was sent.
func (w *World) commit() error {
	if wait := w.engine.Commit(); wait != nil {
		wait()
	}
	w.progress.confirmed.Store(int64(w.finished)*partsMax + int64(w.parts))
	alone := w.inTurn <= 1
	w.inTurn = 0
	for _, d := range w.unread {
		if err := w.check(d, alone); err != nil {
			return err
		}
	}
	w.unread = w.unread[:0]
	return nil
}

// check reads the content of a delivered message. Only what shared the turn with the delivery can
// have removed it already.
func (w *World) check(d engine.Delivery, alone bool) error {
	got, ok := engine.ReadContent(w.store, d.Space, d.Seq, w.cfg.Fault)
	if !ok {
		if alone {
			return fmt.Errorf("message %s was delivered and has no content", d.ID)
		}
		return nil
	}
	want := w.entryOf(&d)
	if want == nil {
		return nil // the answer shows it
	}
	if got.Body != want.Body.Value || got.BodyMD5 != want.BodyMD5 {
		return fmt.Errorf("message %s was sent with the body %.50q and received with %.50q", d.ID,
			want.Body.Value, got.Body)
	}
	if got.Sender != want.Sender || got.Trace != traceOf(want) {
		return fmt.Errorf("message %s was sent by %q with trace %q and received from %q with trace %q",
			d.ID, want.Sender, traceOf(want), got.Sender, got.Trace)
	}
	same := slices.EqualFunc(got.Attributes, want.Attributes,
		func(g engine.Attribute, w engine.EntryAttribute) bool {
			return g.Name == w.Name && g.Type == w.Type.Value && g.String == w.String.Value &&
				bytes.Equal(g.Binary, w.Binary)
		})
	if !same {
		return fmt.Errorf("message %s was sent with the attributes %v and received with %v", d.ID,
			want.Attributes, got.Attributes)
	}
	return nil
}

// Content implements Machine.
func (w *World) Content(d *engine.Delivery) (e engine.Entry, ok bool) {
	w.mustCommit()
	c, ok := engine.ReadContent(w.store, d.Space, d.Seq, w.cfg.Fault)
	e = engine.Edited(&c, &engine.TaskEdit{})
	return e, ok && c.BodyMD5 == md5Of(c.Body)
}

// takeStirred returns the names of the stirred queues, in order, and forgets them.
func (w *World) takeStirred() []string {
	names := slices.Sorted(maps.Keys(w.awakened))
	clear(w.awakened)
	return names
}

// rows counts the rows of all spaces by kind, as docs/formats.md names them. The kinds that only
// some queues have are named when there are any.
func (w *World) rows() string {
	w.mustCommit()
	kinds := []string{1: "state", "message", "content", "delivery", "due", "segment", "group",
		"line", "head", "dedup", "origin", "elder", "story", 0x10: "hold", "again"}
	const always = 6
	counts := make([]int, len(kinds))
	const family, kindAt = 0x10, 9
	for k := range w.store.Scan([]byte{family}, []byte{family + 1}) {
		if kind := int(k[kindAt]); kind < len(counts) {
			counts[kind]++
		}
	}
	var shown []string
	for i := 1; i < len(kinds); i++ {
		if i <= always || counts[i] > 0 && kinds[i] != "" { // the space has the others once
			shown = append(shown, fmt.Sprintf("%s=%d", kinds[i], counts[i]))
		}
	}
	return strings.Join(shown, " ")
}
