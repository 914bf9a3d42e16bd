package engine

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"tenaq/internal/engine/row"
	"tenaq/internal/invariant"
	"tenaq/internal/kv"
)

var (
	testQueue = QueueName{Account: "000000000000", Name: "orders"}
	testTime  = int64(1767225600123)
)

// A rig is an engine over a memory store, for what no script can say.
type rig struct {
	*Engine
	t     *testing.T
	store *kv.Memory
	cfg   Config
	now   int64
	seed  byte
}

func newRig(t *testing.T, cfg Config) *rig {
	cfg.InFlightMax = 120000
	cfg.Fault = func(sentence string) { panic(fault(sentence)) }
	r := &rig{t: t, store: kv.NewMemory(), cfg: cfg, now: testTime}
	r.Engine = Open(r.store, cfg)
	return r
}

type fault string

// reopen opens a new engine over what a crash leaves.
func (r *rig) reopen() {
	r.store = r.store.Crash(0)
	r.Engine = Open(r.store, r.cfg)
}

// do applies an operation in a turn of its own.
func (r *rig) do(op Op) {
	r.t.Helper()
	if err := r.apply(op); err != nil && err != ErrAgain {
		r.t.Fatalf("%T: %v", op, err)
	}
}

// do is rig.do and returns the operation with its answer.
func do[O Op](r *rig, op O) O {
	r.t.Helper()
	r.do(op)
	return op
}

func (r *rig) apply(op Op) error {
	r.seed++
	err := r.Apply(Command{Now: r.now, Seed: [16]byte{r.seed}, Op: op})
	if wait := r.Commit(); wait != nil {
		wait()
	}
	return err
}

func (r *rig) send(q QueueName, body string) {
	r.t.Helper()
	r.do(&SendMessage{Queue: q, Draft: NewDraft(Entry{Body: Text{Value: body, Set: true}})})
}

func (r *rig) receive(q QueueName, seconds int64) (Delivery, Handle) {
	r.t.Helper()
	res := do(r, &ReceiveMessage{Queue: q, Visibility: Int{Value: seconds, Set: true}}).Received
	if len(res.Messages) != 1 {
		r.t.Fatalf("received %d messages, want 1", len(res.Messages))
	}
	d := res.Messages[0]
	return d, Handle{Text: "h", Valid: true, Incarnation: res.Incarnation, Space: d.Space, Seq: d.Seq, Generation: d.Generation}
}

// panicked returns what f panicked with, nil when it returned.
func panicked(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

// Time that goes back is a bug of the caller that stamps commands, and stops the server. The stamps
// are stored, so "back" has a meaning after a restart. [CLOCK-1, CLOCK-9]
func TestTimeNeverDecreases(t *testing.T) {
	r := newRig(t, Config{})
	r.do(&CreateQueue{Queue: testQueue, NameSet: true})
	r.do(&Stamp{})
	r.now-- // equal is fine, earlier is not
	if _, ok := panicked(func() { r.do(&Stamp{}) }).(*invariant.Violation); !ok {
		t.Error("a command of an earlier time was carried out")
	}
	r.reopen()
	if got := r.LastStamp(); got != r.now+1 {
		t.Errorf("last stamp %d, want %d", got, r.now+1)
	}
	if _, ok := panicked(func() { r.do(&Stamp{}) }).(*invariant.Violation); !ok {
		t.Error("a command from before the last stamp was carried out after a restart")
	}
}

// The caller that decides about stamps learns until when messages are in flight, even if the server
// died before it could store a stamp. [CLOCK-11]
func TestHiddenUntil(t *testing.T) {
	r := newRig(t, Config{})
	r.do(&Start{Grace: 60_000})
	r.do(&CreateQueue{Queue: testQueue, NameSet: true})
	for i := range 3 {
		r.send(testQueue, "x")
		r.receive(testQueue, 600)
		want := r.now + 600_000
		r.reopen()
		if got := r.HiddenUntil(); got < want || got > want+hiddenSlack {
			t.Errorf("round %d: hidden until %d after a crash, want %d or up to a minute later", i, got, want)
		}
		r.now += 1000
	}
}

// The content of a message can be read from the commit of its delivery on, until it is removed.
func TestReadContent(t *testing.T) {
	small, large := "hello", strings.Repeat("x", row.InlineMax+1)
	for _, body := range []string{small, large} {
		for _, tt := range []struct {
			name   string
			remove func(r *rig, h Handle)
		}{
			{"deleted", func(r *rig, h Handle) { r.do(&DeleteMessage{Queue: testQueue, Handle: h}) }},
			{"purged", func(r *rig, _ Handle) { r.do(&PurgeQueue{Queue: testQueue}) }},
			{"queue deleted", func(r *rig, _ Handle) { r.do(&DeleteQueue{Queue: testQueue}) }},
			{"expired", func(r *rig, _ Handle) {
				r.now += 345600_000
				r.do(&Sweep{Max: 10})
			}},
		} {
			r := newRig(t, Config{})
			r.do(&CreateQueue{Queue: testQueue, NameSet: true})
			r.send(testQueue, body)
			d, h := r.receive(testQueue, 30)
			if c, ok := ReadContent(r.store, d.Space, d.Seq, r.cfg.Fault); !ok || c.Body != body {
				t.Errorf("%s: read %.20q, %v before, want %.20q", tt.name, c.Body, ok, body)
			}
			tt.remove(r, h)
			if c, ok := ReadContent(r.store, d.Space, d.Seq, r.cfg.Fault); ok {
				t.Errorf("%s: read %.20q after", tt.name, c.Body)
			}
		}
	}
}

// A row that cannot be read is a fault of the disk: nothing is answered, and the sentence says
// which.
func TestDamagedRows(t *testing.T) {
	large := strings.Repeat("x", row.InlineMax+1)
	space := uint64(1)
	receive := func(r *rig) { r.do(&ReceiveMessage{Queue: testQueue, Max: Int{Value: 10, Set: true}}) }
	counters := func(r *rig) { r.do(&GetQueueAttributes{Queue: testQueue, Names: []string{"All"}}) }
	for _, tt := range []struct {
		kind string
		key  []byte
		use  func(r *rig)
	}{
		{"system", row.SystemKey(), func(*rig) {}},
		{"queue", row.QueueKey(testQueue), receive},
		{"queue", row.QueueKey(testQueue), func(r *rig) { r.do(&ListQueues{Account: testQueue.Account}) }},
		{"queue", row.QueueKey(testQueue), func(r *rig) { r.do(&Sweep{Max: 1}) }},
		{"state", row.StateKey(space), receive},
		{"message", row.SeqKey(space, row.KindMessage, 2), receive},
		{"segment", row.SeqKey(space, row.KindSegment, 0), counters},
		{"due", row.DueRows.Key(space, row.Pos{At: testTime, Seq: 1}), receive},
		{"due", row.DueRows.Key(space, row.Pos{At: testTime + 60_000, Seq: 1}), func(r *rig) {
			r.do(&ChangeMessageVisibility{Queue: testQueue, Timeout: Int{Value: 60, Set: true}, Handle: Handle{
				Text: "h", Valid: true, Incarnation: identity([16]byte{2}, 0), Space: space, Seq: 1, Generation: 1}})
			damage(r, row.DueRows.Key(space, row.Pos{At: testTime + 60_000, Seq: 1}))
			r.now += 60_000
			r.Engine = Open(r.store, r.cfg)
			counters(r)
		}},
		{"delivery", row.SeqKey(space, row.KindDelivery, 1), receive},
		{"message", row.SeqKey(space, row.KindMessage, 1), func(r *rig) { ReadContent(r.store, space, 1, r.cfg.Fault) }},
		{"content", row.SeqKey(space, row.KindContent, 1), func(r *rig) { ReadContent(r.store, space, 1, r.cfg.Fault) }},
	} {
		r := newRig(t, Config{})
		r.do(&Start{})
		r.do(&CreateQueue{Queue: testQueue, NameSet: true})
		r.send(testQueue, large)
		r.receive(testQueue, 0)
		r.send(testQueue, "x")
		damage(r, tt.key)
		got, _ := panicked(func() {
			r.Engine = Open(r.store, r.cfg)
			tt.use(r)
		}).(fault)
		if !strings.Contains(string(got), "a "+tt.kind+" row") || !strings.Contains(string(got), fmt.Sprintf("%x", tt.key)) {
			t.Errorf("a damaged %s row (key %x) ended in %q", tt.kind, tt.key, got)
		}
	}
}

// damage makes a row unreadable.
func damage(r *rig, key []byte) {
	b := r.store.NewBatch()
	b.Set(key, []byte{0xff, 0xff})
	b.Apply()
}

// However many queues are used, their windows stay within their budget, and what was dropped is
// read again when it is needed.
func TestWindowBytes(t *testing.T) {
	const queues, budget = 300, 100_000
	r := newRig(t, Config{WindowBytes: budget})
	name := func(i int) QueueName { return QueueName{Account: "a", Name: fmt.Sprintf("q%d", i)} }
	for i := range queues {
		r.do(&CreateQueue{Queue: name(i), NameSet: true})
		for range 5 {
			r.send(name(i), "hello")
		}
	}
	for round := range 3 {
		for i := range queues {
			r.receive(name(i), 3600)
			bytes, n := 0, 0
			for at := r.recent.Front(); at != nil; at = at.Next() {
				bytes, n = bytes+at.Value.(*queue).bytes, n+1
			}
			if bytes != r.bytes || n != len(r.queues) {
				t.Fatalf("%d queues of %d bytes in the list, %d queues and %d bytes counted", n, bytes, len(r.queues), r.bytes)
			}
			if bytes > budget {
				t.Fatalf("windows take %d bytes, want at most %d", bytes, budget)
			}
		}
		if n := len(r.queues); n == 0 || n == queues {
			t.Errorf("round %d: %d queues in memory, want some", round, n)
		}
	}
}

// The same commands over the same rows give the same rows, byte by byte.
func TestSameRows(t *testing.T) {
	dump := func() []byte {
		r := newRig(t, Config{Window: 4})
		r.do(&Start{})
		attributes := map[string]string{"VisibilityTimeout": "7", "DelaySeconds": "0", "MaximumMessageSize": "2048", "KmsMasterKeyId": "k"}
		r.do(&CreateQueue{Queue: testQueue, NameSet: true, Attributes: attributes, Tags: []Tag{{Key: "b", Value: "1"}, {Key: "a", Value: "2"}, {Key: "c", Value: "3"}}})
		for i := range 5000 {
			r.send(testQueue, "hello")
			if i%3 == 0 {
				_, h := r.receive(testQueue, int64(i%5))
				if i%2 == 0 {
					r.do(&DeleteMessage{Queue: testQueue, Handle: h})
				}
			}
			r.now += int64(i % 7)
		}
		r.do(&SetQueueAttributes{Queue: testQueue, Values: attributes})
		var all []byte
		for k, v := range r.store.Scan([]byte{1}, nil) {
			all = append(append(all, k...), v...)
		}
		return all
	}
	if first, second := dump(), dump(); !bytes.Equal(first, second) {
		t.Error("two runs left different rows")
	}
}

// Identities of one command differ from each other and from those of the next command, and are
// UUIDs of version 4. [SEND-5]
func TestIdentity(t *testing.T) {
	seen := make(map[MessageID]bool)
	for s := range 256 {
		for i := range 10 {
			id := identity([16]byte{0: byte(s), 15: byte(s)}, i)
			if seen[id] {
				t.Fatalf("identity %d of seed %d was given out before", i, s)
			}
			seen[id] = true
			if text := id.String(); len(text) != 36 || text[14] != '4' || !strings.ContainsRune("89ab", rune(text[19])) {
				t.Fatalf("%s is no UUID of version 4", text)
			}
		}
	}
	got := MessageID{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x46, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}.String()
	if want := "00112233-4455-4677-8899-aabbccddeeff"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
