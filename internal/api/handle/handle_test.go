package handle

import (
	"bytes"
	"encoding/base64"
	"flag"
	"os"
	"strings"
	"sync"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/golden.txt anew")

// testKey is 0, 1, 2 ... 31.
func testKey() []byte {
	key := make([]byte, KeySize)
	for i := range key {
		key[i] = byte(i)
	}
	return key
}

var sample = Handle{
	Incarnation: [16]byte{0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff},
	Space:       0x0102030405060708,
	Seq:         0x1112131415161718,
	Generation:  0x21222324,
}

// timed is sample with the time of its delivery.
var timed = func() Handle {
	h := sample
	h.Received = 0x0000019f00000001
	return h
}()

func sizeOf(h Handle) int {
	if h.Received != 0 {
		return TimedSize
	}
	return Size
}

func seal(s *Sealer, h Handle) string { return string(s.AppendSeal(nil, h)) }

func TestRoundTrip(t *testing.T) {
	s := New(testKey())
	for _, h := range []Handle{
		{},
		sample,
		timed,
		{Received: 1},
		{Received: -1},
		{Generation: 1},
		{Seq: 1},
		{Space: 1},
		{Incarnation: [16]byte{15: 1}},
		{Incarnation: [16]byte(bytes.Repeat([]byte{0xff}, 16)), Space: 1<<64 - 1, Seq: 1<<64 - 1, Generation: 1<<32 - 1},
	} {
		text := seal(s, h)
		if len(text) != sizeOf(h) || !strings.HasPrefix(text, "AQEB") {
			t.Errorf("sealed %+v: got %q, want %d characters that begin with AQEB", h, text, sizeOf(h))
		}
		got, ok := s.Open(text)
		if got != h || !ok {
			t.Errorf("open %q: got %+v, %v, want %+v", text, got, ok, h)
		}
	}
}

func TestAppendSealAppends(t *testing.T) {
	s := New(testKey())
	got := string(s.AppendSeal([]byte("receipt="), sample))
	if want := "receipt=" + seal(s, sample); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Clients keep handles across a restart and an upgrade, so the text of a delivery never changes.
func TestGolden(t *testing.T) {
	const file = "testdata/golden.txt"
	got := seal(New(testKey()), sample) + "\n" + seal(New(testKey()), timed) + "\n"
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEveryMutationIsRefused(t *testing.T) {
	s := New(testKey())
	for _, text := range []string{seal(s, sample), seal(s, timed)} {
		for i := range text {
			for c := range 256 {
				if byte(c) == text[i] {
					continue
				}
				mutant := text[:i] + string([]byte{byte(c)}) + text[i+1:]
				if h, ok := s.Open(mutant); ok || h != (Handle{}) {
					t.Errorf("character %d set to %#x: got %+v, %v, want nothing", i, c, h, ok)
				}
			}
		}
	}
}

// A handle with the time 0 would be a second text of the one without.
func TestTimeZeroIsRefused(t *testing.T) {
	s := New(testKey())
	st := s.states.Get().(*state)
	fields := append([]byte(version), make([]byte, fieldsLen-len(version)+timeLen)...)
	if h, ok := s.Open(base64.StdEncoding.EncodeToString(append(fields, st.seal(fields)...))); ok || h != (Handle{}) {
		t.Errorf("got %+v, %v, want nothing", h, ok)
	}
}

func TestOtherTextsAreRefused(t *testing.T) {
	s := New(testKey())
	text := seal(s, sample)
	bare := strings.TrimRight(text, "=")
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		if _, ok := s.Open(text[:i]); ok {
			t.Errorf("the first %d characters opened", i)
		}
		if _, ok := s.Open(text[:i] + "\n" + text[i:]); ok {
			t.Errorf("opened with a line break before character %d", i)
		}
	}
	for name, other := range map[string]string{
		"one more character":       text + "A",
		"one more group":           text + "AAAA",
		"a space after":            text + " ",
		"a line break after":       text + "\n",
		"a line break for padding": bare + "=\n",
		"no padding":               bare,
		"the URL alphabet":         base64.URLEncoding.EncodeToString(raw),
		"no padding needed":        bare + "AA",
		"a handle of SQS's length": strings.Repeat("AQEB", 256),
	} {
		if _, ok := s.Open(other); ok {
			t.Errorf("%s: %q opened", name, other)
		}
	}
}

// A version that this program does not know may mean other fields at the same places.
func TestOtherVersionIsRefused(t *testing.T) {
	s := New(testKey())
	st := s.states.Get().(*state)
	fields := append([]byte{1, 1, 2}, make([]byte, fieldsLen-len(version))...)
	text := base64.StdEncoding.EncodeToString(append(fields, st.seal(fields)...))
	if h, ok := s.Open(text); ok {
		t.Errorf("a handle of version 1 1 2 with the right seal opened: %+v", h)
	}
}

func TestOtherKeyIsRefused(t *testing.T) {
	text := seal(New(testKey()), sample)
	for i := range KeySize {
		key := testKey()
		key[i] ^= 1
		if _, ok := New(key).Open(text); ok {
			t.Errorf("opened with a key that differs in byte %d", i)
		}
	}
}

func TestNewKeepsACopyOfTheKey(t *testing.T) {
	key := testKey()
	s := New(key)
	clear(key)
	if got, want := seal(s, sample), seal(New(testKey()), sample); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNewPanicsOnAShortKey(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("New accepted a key of 31 bytes")
		}
	}()
	New(make([]byte, KeySize-1))
}

func TestConcurrentUse(t *testing.T) {
	s := New(testKey())
	var wg sync.WaitGroup
	for g := range uint32(8) {
		wg.Go(func() {
			for i := range uint64(200) {
				h := Handle{Seq: i, Generation: g}
				if got, ok := s.Open(seal(s, h)); got != h || !ok {
					t.Errorf("got %+v, %v, want %+v", got, ok, h)
				}
			}
		})
	}
	wg.Wait()
}

// FuzzOpen checks that any text that opens is the one text of its handle.
func FuzzOpen(f *testing.F) {
	s := New(testKey())
	f.Add("")
	f.Add(seal(s, sample))
	f.Add(seal(s, timed))
	f.Add(seal(s, Handle{}))
	f.Add(seal(New(make([]byte, KeySize)), sample))
	f.Fuzz(func(t *testing.T, text string) {
		if h, ok := s.Open(text); ok && seal(s, h) != text {
			t.Errorf("%q opened to %+v, whose text is %q", text, h, seal(s, h))
		}
	})
}

func BenchmarkAppendSeal(b *testing.B) {
	b.ReportAllocs()
	s := New(testKey())
	var dst []byte
	for b.Loop() {
		dst = s.AppendSeal(dst[:0], sample)
	}
}

func BenchmarkOpen(b *testing.B) {
	b.ReportAllocs()
	s := New(testKey())
	text := seal(s, sample)
	for b.Loop() {
		if _, ok := s.Open(text); !ok {
			b.Fatal("did not open")
		}
	}
}
