// Package kvtest is the contract of kv.Store as tests. An implementation is complete when Run
// passes, and, if it claims to survive crashes, RunDurable too. A mistake found in one
// implementation becomes a case here for all of them.
package kvtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tenaq/internal/kv"
)

// Run checks what every Store promises. open returns a new empty store, which Run closes.
func Run(t *testing.T, open func(t testing.TB) kv.Store) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, s kv.Store)
	}{
		{"Empty", testEmpty},
		{"Order", testOrder},
		{"Bounds", testBounds},
		{"Get", testGet},
		{"Copies", testCopies},
		{"Joined", testJoined},
		{"LaterWins", testLaterWins},
		{"LastOfBatch", testLastOfBatch},
		{"Invisible", testInvisible},
		{"DeleteOnce", testDeleteOnce},
		{"DeleteRange", testDeleteRange},
		{"DeleteRangeInBatch", testDeleteRangeInBatch},
		{"Len", testLen},
		{"EmptyBatch", testEmptyBatch},
		{"Snapshot", testSnapshot},
		{"Break", testBreak},
		{"Reserved", testReserved},
		{"LargeBatch", testLargeBatch},
		{"WaitElsewhere", testWaitElsewhere},
		{"Readers", testReaders},
		{"Random", testRandom},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			c.test(t, s)
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

// apply fills a batch from a line such as "set a 1, join b 2 3, delete b, once c, range d f" and
// applies it.
func apply(s kv.Store, line string) {
	b := s.NewBatch()
	fill(b, line)
	b.Apply()
}

func fill(b kv.Batch, line string) {
	for op := range strings.SplitSeq(line, ", ") {
		switch f := strings.Fields(op); f[0] {
		case "set":
			b.Set([]byte(f[1]), []byte(f[2]))
		case "join":
			b.SetJoined([]byte(f[1]), []byte(f[2]), f[3])
		case "delete":
			b.Delete([]byte(f[1]))
		case "once":
			b.DeleteOnce([]byte(f[1]))
		case "range":
			b.DeleteRange([]byte(f[1]), []byte(f[2]))
		default:
			panic("unknown write " + op)
		}
	}
}

// scan returns the rows between lo and hi as "a=1 b=2".
func scan(s kv.Store, lo, hi []byte) string {
	var rows []string
	for k, v := range s.Scan(lo, hi) {
		rows = append(rows, fmt.Sprintf("%s=%s", k, v))
	}
	return strings.Join(rows, " ")
}

// expect checks that the store holds rows, by scanning and by asking for each.
func expect(t *testing.T, s kv.Store, rows string) {
	t.Helper()
	if got := scan(s, nil, nil); got != rows {
		t.Errorf("rows %q, want %q", got, rows)
	}
	for row := range strings.FieldsSeq(rows) {
		k, want, _ := strings.Cut(row, "=")
		if got, ok := s.Get(nil, []byte(k)); !ok || string(got) != want {
			t.Errorf("Get(%q) = %q, %v, want %q", k, got, ok, want)
		}
	}
}

func testEmpty(t *testing.T, s kv.Store) {
	// Whatever the implementation keeps for itself is not seen, not even right after creation.
	expect(t, s, "")
	if v, ok := s.Get(nil, []byte("a")); ok {
		t.Errorf("Get on an empty store = %q", v)
	}
}

func testOrder(t *testing.T, s kv.Store) {
	keys := []string{"\x01", "\x01\x00", "\x01\x00\x00", "\x01\x01", "\x01\xFF", "\x02", "a",
		"a\x00", "aa", "b", "\xFE", "\xFF", "\xFF\x00", "\xFF\xFF"}
	shuffled := slices.Clone(keys)
	rand.Shuffle(len(keys), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for _, k := range shuffled {
		b := s.NewBatch()
		b.Set([]byte(k), nil)
		b.Apply()
	}
	var got []string
	for k, v := range s.Scan(nil, nil) {
		got = append(got, string(k))
		if len(v) != 0 {
			t.Errorf("row %q has value %q, want none", k, v)
		}
	}
	if !slices.Equal(got, keys) {
		t.Errorf("keys %q, want %q", got, keys)
	}
	if v, ok := s.Get(nil, []byte("aa")); !ok || len(v) != 0 {
		t.Errorf("Get of a row without value = %q, %v, want it", v, ok)
	}
}

func testBounds(t *testing.T, s kv.Store) {
	apply(s, "set a 1, set b 2, set c 3, set d 4")
	for _, tt := range []struct {
		lo, hi []byte
		want   string
	}{
		{nil, nil, "a=1 b=2 c=3 d=4"},
		{[]byte{}, nil, "a=1 b=2 c=3 d=4"},
		{nil, []byte{}, ""},
		{[]byte("b"), nil, "b=2 c=3 d=4"},
		{nil, []byte("c"), "a=1 b=2"},
		{[]byte("b"), []byte("d"), "b=2 c=3"},
		{[]byte("a\x00"), []byte("c\x00"), "b=2 c=3"},
		{[]byte("b"), []byte("b"), ""},
		{[]byte("c"), []byte("b"), ""},
		{[]byte("e"), nil, ""},
		{[]byte{0}, []byte{0xFF}, "a=1 b=2 c=3 d=4"},
	} {
		if got := scan(s, tt.lo, tt.hi); got != tt.want {
			t.Errorf("Scan(%q, %q) = %q, want %q", tt.lo, tt.hi, got, tt.want)
		}
	}
}

func testGet(t *testing.T, s kv.Store) {
	apply(s, "set a 1")
	dst := append(make([]byte, 0, 10), "dst"...)
	if got, ok := s.Get(dst, []byte("a")); !ok || string(got) != "dst1" || &got[0] != &dst[0] {
		t.Errorf("Get = %q, %v, want dst1 in the memory of dst", got, ok)
	}
	if got, ok := s.Get(dst, []byte("b")); ok || string(got) != "dst" {
		t.Errorf("Get of a missing row = %q, %v, want dst", got, ok)
	}
	got, _ := s.Get(nil, []byte("a"))
	got[0] = 'x'
	expect(t, s, "a=1")
}

func testCopies(t *testing.T, s kv.Store) {
	k, v, c := []byte("a"), []byte("1"), []byte("c")
	apply(s, "set c 3, set d 4, set e 5")
	b := s.NewBatch()
	b.Set(k, v)
	k[0], v[0] = 'b', '2'
	b.Set(k, v)
	k[0], v[0] = 'x', 'x'
	b.Delete(c)
	c[0] = 'd'
	b.DeleteOnce(c)
	c[0] = 'x'
	b.SetJoined(k, v, "3")
	k[0], v[0] = 'y', 'y'
	b.Apply()
	expect(t, s, "a=1 b=2 e=5 x=x3")
}

func testJoined(t *testing.T, s kv.Store) {
	apply(s, "set a 1, join a 2 3, join b 4 5, set b 6, join c 7 8")
	expect(t, s, "a=23 b=6 c=78")
	apply(s, "once c, join d 9 0")
	expect(t, s, "a=23 b=6 d=90")
	b, large := s.NewBatch(), strings.Repeat("v", 8<<10)
	b.SetJoined([]byte("a"), nil, large)
	b.SetJoined([]byte("b"), []byte(large), "")
	b.SetJoined([]byte("d"), nil, "")
	if n := b.Len(); n < 2*len(large) || n > 2*len(large)+100 {
		t.Errorf("two rows of %d bytes make a batch of %d", len(large), n)
	}
	b.Apply()
	for k, want := range map[string]string{"a": large, "b": large, "d": ""} {
		if got, ok := s.Get(nil, []byte(k)); !ok || string(got) != want {
			t.Errorf("row %s has %d bytes, want %d", k, len(got), len(want))
		}
	}
}

func testLaterWins(t *testing.T, s kv.Store) {
	apply(s, "set a 1, set a 2, set b 1, delete b, delete c, set c 1, set d 1, once d, set e 1, delete e, set e 2")
	expect(t, s, "a=2 c=1 e=2")
	apply(s, "delete a, set c 2, delete none")
	expect(t, s, "c=2 e=2")
}

// The last write of a batch counts when it is applied, not when it is made.
func testLastOfBatch(t *testing.T, s kv.Store) {
	first, second := s.NewBatch(), s.NewBatch()
	fill(second, "set a second")
	fill(first, "set a first")
	first.Apply()
	second.Apply()
	expect(t, s, "a=second")
}

func testInvisible(t *testing.T, s kv.Store) {
	b := s.NewBatch()
	fill(b, "set a 1, set b 2")
	expect(t, s, "")
	b.Apply()
	expect(t, s, "a=1 b=2")
	b = s.NewBatch()
	fill(b, "set a 2, delete b, set c 3")
	expect(t, s, "a=1 b=2")
	wait := b.Force()
	expect(t, s, "a=2 c=3")
	wait()
	expect(t, s, "a=2 c=3")
}

func testDeleteOnce(t *testing.T, s kv.Store) {
	apply(s, "set a 1, set b 1, set c 1")
	apply(s, "once a, once b")
	expect(t, s, "c=1")
	apply(s, "set d 1, set d 2, delete d, set e 1")
	apply(s, "set d 3")
	apply(s, "once d, delete e") // d was set once since it last did not exist
	expect(t, s, "c=1")
	apply(s, "set f 1, set f 2, range f g, set f 3")
	expect(t, s, "c=1 f=3")
	apply(s, "once f")
	expect(t, s, "c=1")
	apply(s, "range a z, set a 4") // a range removal separates the row from everything before
	apply(s, "once a")
	expect(t, s, "")
}

func testDeleteRange(t *testing.T, s kv.Store) {
	apply(s, "set a 1, set b 2, set ba 3, set c 4, set d 5")
	apply(s, "range b c")
	expect(t, s, "a=1 c=4 d=5")
	// nothing there, nothing between, the wrong way round
	apply(s, "range b c, range c c, range d a")
	expect(t, s, "a=1 c=4 d=5")
	apply(s, "set b 6")
	expect(t, s, "a=1 b=6 c=4 d=5")
	apply(s, "range a zz")
	expect(t, s, "")
}

// A range removal acts on the rows that its own batch wrote before it, and not on those after.
func testDeleteRangeInBatch(t *testing.T, s kv.Store) {
	apply(s, "set a 1, set b 1, set c 1")
	apply(s, "set b 2, set bb 2, set d 2, range b d, set bc 3, set c 3, delete a")
	expect(t, s, "bc=3 c=3 d=2")
}

func testLen(t *testing.T, s kv.Store) {
	b := s.NewBatch()
	if got := b.Len(); got != 0 {
		t.Errorf("length of an empty batch %d, want 0", got)
	}
	last := 0
	for _, line := range []string{"set a 1", "set a 1", "delete a", "range a b",
		"set a 1, delete b"} {
		fill(b, line)
		if got := b.Len(); got <= last {
			t.Errorf("length after %s is %d, was %d", line, got, last)
		}
		last = b.Len()
	}
	b.Set([]byte("large"), make([]byte, 1000))
	if got := b.Len() - last; got < 1000 || got > 1100 {
		t.Errorf("a row of 1000 bytes adds %d", got)
	}
	b.Apply()
}

func testEmptyBatch(t *testing.T, s kv.Store) {
	s.NewBatch().Apply()
	s.NewBatch().Force()()
	apply(s, "set a 1")
	s.NewBatch().Force()()
	s.NewBatch().Apply()
	expect(t, s, "a=1")
}

func testSnapshot(t *testing.T, s kv.Store) {
	apply(s, "set a 1, set b 2, set c 3, set d 4")
	rows := s.Scan(nil, nil)
	var got []string
	for k, v := range rows {
		got = append(got, string(k)+"="+string(v))
		if string(k) == "a" {
			apply(s, "set b x, once c, set cc x, range d e")
		}
	}
	if want := "a=1 b=2 c=3 d=4"; strings.Join(got, " ") != want {
		t.Errorf("rows of the iteration %q, want %q", got, want)
	}
	// The same sequence iterated again begins again.
	got = nil
	for k, v := range rows {
		got = append(got, string(k)+"="+string(v))
	}
	if want := "a=1 b=x cc=x"; strings.Join(got, " ") != want {
		t.Errorf("rows of the second iteration %q, want %q", got, want)
	}
}

func testBreak(t *testing.T, s kv.Store) {
	for i := range 100 {
		apply(s, fmt.Sprintf("set k%02d %d", i, i))
	}
	for k := range s.Scan([]byte("k10"), nil) {
		if string(k) != "k10" {
			t.Errorf("first key %q, want k10", k)
		}
		break
	}
	apply(s, "range k00 k90")
	n := 0
outer:
	for range s.Scan(nil, nil) {
		for range s.Scan([]byte("k95"), nil) {
			if n++; n == 7 {
				break outer
			}
		}
	}
	if n != 7 {
		t.Errorf("nested iterations made %d steps, want 7", n)
	}
	func() {
		defer func() { _ = recover() }()
		for range s.Scan(nil, nil) {
			panic("in the body")
		}
	}()
	if got, want := scan(s, nil, []byte("k92")), "k90=90 k91=91"; got != want {
		t.Errorf("rows %q, want %q", got, want)
	}
}

// Keys that begin with zero are the implementation's, and so is the empty one.
func testReserved(t *testing.T, s kv.Store) {
	for _, k := range []string{"", "\x00", "\x00a"} {
		for name, write := range map[string]func(b kv.Batch){
			"Set":           func(b kv.Batch) { b.Set([]byte(k), nil) },
			"SetJoined":     func(b kv.Batch) { b.SetJoined([]byte(k), nil, "") },
			"Delete":        func(b kv.Batch) { b.Delete([]byte(k)) },
			"DeleteOnce":    func(b kv.Batch) { b.DeleteOnce([]byte(k)) },
			"DeleteRange":   func(b kv.Batch) { b.DeleteRange([]byte(k), []byte("z")) },
			"DeleteRangeHi": func(b kv.Batch) { b.DeleteRange([]byte("z"), []byte(k)) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s of key %q did not panic", name, k)
					}
				}()
				write(s.NewBatch())
			}()
		}
	}
	apply(s, "set a 1")
	if got := scan(s, []byte{0}, []byte{1}); got != "" {
		t.Errorf("rows that begin with zero: %q", got)
	}
	expect(t, s, "a=1")
}

// One batch may be larger than whatever buffer an implementation collects batches in.
func testLargeBatch(t *testing.T, s kv.Store) {
	value := bytes.Repeat([]byte("v"), 8<<10)
	for round := range 3 {
		b := s.NewBatch()
		for i := range 300 {
			b.Set(fmt.Appendf(nil, "k%03d", i), append(value, byte('0'+round)))
		}
		if round == 1 {
			b.Apply()
		} else {
			b.Force()()
		}
	}
	n := 0
	for k, v := range s.Scan(nil, nil) {
		if string(k) != fmt.Sprintf("k%03d", n) || len(v) != len(value)+1 || v[len(value)] != '2' {
			t.Fatalf("row %d is %q with %d bytes", n, k, len(v))
		}
		n++
	}
	if n != 300 {
		t.Errorf("%d rows, want 300", n)
	}
}

func testWaitElsewhere(t *testing.T, s kv.Store) {
	done := make(chan struct{}, 100)
	for i := range 100 {
		b := s.NewBatch()
		fill(b, fmt.Sprintf("set k%02d 1", i))
		if i%3 == 0 {
			b.Apply()
			done <- struct{}{}
			continue
		}
		wait := b.Force()
		go func() {
			wait()
			done <- struct{}{}
		}()
	}
	for range 100 {
		<-done
	}
	if n := len(strings.Fields(scan(s, nil, nil))); n != 100 {
		t.Errorf("%d rows, want 100", n)
	}
}
