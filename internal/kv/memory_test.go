package kv_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"tenaq/internal/kv"
	"tenaq/internal/kv/kvtest"
)

func TestMemory(t *testing.T) {
	kvtest.Run(t, func(testing.TB) kv.Store { return kv.NewMemory() })
}

func TestMemoryDurable(t *testing.T) {
	kvtest.RunDurable(t, func(testing.TB) kvtest.Machine { return &machine{after: kv.NewMemory()} })
}

// A machine runs memory stores.
type machine struct {
	now, after *kv.Memory // the open one, and the one to open next
	broken     *bool      // whether the next force persists, if it is to fail
	noticed    chan struct{}
}

func (m *machine) Open(testing.TB) kv.Store {
	m.now, m.broken = m.after, nil
	// A store that is closed in order keeps everything.
	return &machineStore{m.now, m}
}

func (m *machine) Crash(_ testing.TB, rng *rand.Rand) {
	m.after = m.now.Crash(rng.IntN(m.now.Unconfirmed() + 1))
	m.now = nil
}

func (m *machine) Break(_ testing.TB, persisted bool) (noticed <-chan struct{}) {
	m.broken, m.noticed = &persisted, make(chan struct{})
	return m.noticed
}

type machineStore struct {
	*kv.Memory
	machine *machine
}

func (s *machineStore) NewBatch() kv.Batch { return &machineBatch{s.Memory.NewBatch(), s.machine} }

func (s *machineStore) Close() error {
	if s.machine.now == s.Memory {
		s.machine.after = s.Crash(s.Unconfirmed())
	}
	return s.Memory.Close()
}

type machineBatch struct {
	kv.Batch
	machine *machine
}

func (b *machineBatch) Force() (wait func() error) {
	confirm := b.Batch.Force()
	if b.machine.broken == nil {
		return confirm
	}
	return func() error {
		if *b.machine.broken {
			confirm()
		}
		close(b.machine.noticed)
		runtime.Goexit()
		return nil
	}
}

func TestMemoryCrash(t *testing.T) {
	m := kv.NewMemory()
	var waits []func() error
	for i := range 5 {
		b := m.NewBatch()
		b.Set([]byte{'a' + byte(i)}, nil)
		waits = append(waits, b.Force())
	}
	check := func(keep int, want string) {
		t.Helper()
		got := ""
		for k := range m.Crash(keep).Scan(nil, nil) {
			got += string(k)
		}
		if got != want {
			t.Errorf("after a crash that keeps %d: %q, want %q", keep, got, want)
		}
	}
	check(0, "")
	check(2, "ab")
	check(9, "abcde")
	waits[2]() // confirms what was applied before, too
	if got := m.Unconfirmed(); got != 2 {
		t.Errorf("%d batches unconfirmed, want 2", got)
	}
	check(0, "abc")
	check(1, "abcd")
	waits[0]()
	check(0, "abc")
	waits[4]()
	check(0, "abcde")

	after := m.Crash(0)
	b := after.NewBatch()
	b.Set([]byte("z"), nil)
	b.Force()()
	check(0, "abcde") // what happens after the crash does not happen before it
}

func TestMemoryMisuse(t *testing.T) {
	set := func(k string) func(kv.Batch) { return func(b kv.Batch) { b.Set([]byte(k), nil) } }
	del := func(k string) func(kv.Batch) { return func(b kv.Batch) { b.Delete([]byte(k)) } }
	once := func(k string) func(kv.Batch) { return func(b kv.Batch) { b.DeleteOnce([]byte(k)) } }
	span := func(lo, hi string) func(kv.Batch) {
		return func(b kv.Batch) { b.DeleteRange([]byte(lo), []byte(hi)) }
	}
	for _, tt := range []struct {
		name   string
		writes []func(kv.Batch)
		want   string // in the panic; empty means none
	}{
		{"set once", []func(kv.Batch){set("a"), once("a")}, ""},
		{"set twice", []func(kv.Batch){set("a"), set("a"), once("a")}, "set 2 times"},
		{"never set", []func(kv.Batch){once("a")}, "set 0 times"},
		{"twice", []func(kv.Batch){set("a"), once("a"), once("a")}, "set 0 times"},
		{"set again", []func(kv.Batch){set("a"), once("a"), set("a")}, "set again after DeleteOnce"},
		{"set again after a delete", []func(kv.Batch){set("a"), once("a"), del("a"), set("a")}, "set again after DeleteOnce"},
		{"set after a delete", []func(kv.Batch){set("a"), set("a"), del("a"), set("a"), once("a")}, ""},
		{"set after a range", []func(kv.Batch){set("a"), set("a"), span("a", "b"), set("a"), once("a")}, ""},
		{"set after another range", []func(kv.Batch){set("a"), set("a"), span("b", "c"), once("a")}, "set 2 times"},
		{"removed by a range", []func(kv.Batch){set("a"), span("a", "b"), once("a")}, "set 0 times"},
		{"set again after a range", []func(kv.Batch){set("a"), once("a"), span("a", "b"), set("a"), once("a")}, ""},
	} {
		for _, together := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/together=%v", tt.name, together), func(t *testing.T) {
				defer func() {
					got := ""
					if r := recover(); r != nil {
						got = fmt.Sprint(r)
					}
					if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
						t.Errorf("panic %q, want %q", got, tt.want)
					}
				}()
				m := kv.NewMemory()
				b := m.NewBatch()
				for _, w := range tt.writes {
					w(b)
					if !together {
						b.Apply()
						b = m.NewBatch()
					}
				}
				b.Apply()
			})
		}
	}
}

// A batch must not be used after it was applied, and a closed store takes none.
func TestMemoryUsedUp(t *testing.T) {
	for name, f := range map[string]func(m *kv.Memory, b kv.Batch){
		"set after apply":   func(_ *kv.Memory, b kv.Batch) { b.Apply(); b.Set([]byte("a"), nil) },
		"apply after force": func(_ *kv.Memory, b kv.Batch) { b.Force(); b.Apply() },
		"apply after close": func(m *kv.Memory, b kv.Batch) { b.Set([]byte("a"), nil); m.Close(); b.Apply() },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			m := kv.NewMemory()
			f(m, m.NewBatch())
		}()
	}
}

// A slice that is kept past its step must not go unnoticed.
func TestMemoryScanReusesSlices(t *testing.T) {
	m := kv.NewMemory()
	b := m.NewBatch()
	b.Set([]byte("a"), []byte("1"))
	b.Set([]byte("b"), []byte("2"))
	b.Apply()
	var kept []byte
	for k := range m.Scan(nil, nil) {
		if kept == nil {
			kept = k
		}
	}
	if string(kept) == "a" {
		t.Error("the key of the first step is still there after the last")
	}
}

func BenchmarkMemorySet(b *testing.B) {
	m := kv.NewMemory()
	rng := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		batch := m.NewBatch()
		for range 100 {
			batch.Set(fmt.Appendf(nil, "k%08d", rng.IntN(200_000)), []byte("value"))
		}
		batch.Force()()
	}
	b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkMemoryScan(b *testing.B) {
	m := kv.NewMemory()
	batch := m.NewBatch()
	for i := range 100_000 {
		batch.Set(fmt.Appendf(nil, "k%08d", i), []byte("value"))
	}
	batch.Apply()
	for b.Loop() {
		for range m.Scan(nil, nil) {
		}
	}
	b.ReportMetric(float64(b.N)*100_000/b.Elapsed().Seconds(), "rows/s")
}
