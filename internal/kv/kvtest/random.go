package kvtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tenaq/internal/kv"
	"tenaq/internal/testing/proof"
)

func testRandom(t *testing.T, s kv.Store) {
	rng := rand.New(rand.NewPCG(proof.Seed(t), 1))
	m := newModel()
	for range proof.Few(800) {
		b := s.NewBatch()
		m.write(rng, b, 1+rng.IntN(12))
		if rng.IntN(20) == 0 {
			b.Force()()
		} else {
			b.Apply()
		}
		lo, hi := m.key(rng), m.key(rng)
		if err := m.compare(s, lo, hi); err != nil {
			t.Fatal(err)
		}
		k := m.key(rng)
		got, ok := s.Get(nil, []byte(k))
		if want, there := m.rows[k]; ok != there || string(got) != want {
			t.Fatalf("Get(%q) = %q, %v, want %q, %v", k, got, ok, want, there)
		}
	}
	if err := m.compare(s, "", ""); err != nil {
		t.Fatal(err)
	}
}

// A model is a store as a map, which also knows what DeleteOnce may be used on.
type model struct {
	rows  map[string]string
	sets  map[string]int  // how often a row was set since it last did not exist
	spent map[string]bool // rows that DeleteOnce removed
	next  int
}

func newModel() *model {
	return &model{map[string]string{}, map[string]int{}, map[string]bool{}, 0}
}

func (m *model) clone() *model {
	return &model{maps.Clone(m.rows), maps.Clone(m.sets), maps.Clone(m.spent), m.next}
}

func (m *model) key(rng *rand.Rand) string {
	return fmt.Sprintf("%c%02d", 'a'+rng.IntN(3), rng.IntN(100))
}

// write puts n random writes into b, and carries them out on the model.
func (m *model) write(rng *rand.Rand, b kv.Batch, n int) {
	for range n {
		k := m.key(rng)
		switch p := rng.IntN(100); {
		case p < 50:
			if m.spent[k] {
				continue
			}
			m.next++
			v := strconv.Itoa(m.next) + strings.Repeat(".", rng.IntN(200))
			if n := m.next % (len(v) + 1); m.next%2 == 0 {
				b.SetJoined([]byte(k), []byte(v[:n]), v[n:])
			} else {
				b.Set([]byte(k), []byte(v))
			}
			m.rows[k] = v
			m.sets[k]++
		case p < 65:
			b.Delete([]byte(k))
			delete(m.rows, k)
			delete(m.sets, k)
		case p < 95:
			if m.sets[k] != 1 {
				continue
			}
			b.DeleteOnce([]byte(k))
			delete(m.rows, k)
			delete(m.sets, k)
			m.spent[k] = true
		default:
			hi := fmt.Sprintf("%c%02d", k[0], rng.IntN(120))
			b.DeleteRange([]byte(k), []byte(hi))
			in := func(x string) bool { return k <= x && x < hi }
			maps.DeleteFunc(m.rows, func(x, _ string) bool { return in(x) })
			maps.DeleteFunc(m.sets, func(x string, _ int) bool { return in(x) })
			maps.DeleteFunc(m.spent, func(x string, _ bool) bool { return in(x) })
		}
	}
}

// compare says how the rows of s in lo <= key < hi differ from the model's. An empty hi is no
// bound.
func (m *model) compare(s kv.Store, lo, hi string) error {
	var bound []byte
	if hi != "" {
		bound = []byte(hi)
	}
	var want []string
	for _, k := range slices.Sorted(maps.Keys(m.rows)) {
		if lo <= k && (hi == "" || k < hi) {
			want = append(want, k)
		}
	}
	i := 0
	for k, v := range s.Scan([]byte(lo), bound) {
		switch {
		case i == len(want):
			return fmt.Errorf("row %q in [%q, %q), want no more", k, lo, hi)
		case string(k) != want[i]:
			return fmt.Errorf("row %q in [%q, %q), want %q", k, lo, hi, want[i])
		case string(v) != m.rows[want[i]]:
			return fmt.Errorf("row %q has value %q, want %q", k, v, m.rows[want[i]])
		}
		i++
	}
	if i < len(want) {
		return fmt.Errorf("no row %q in [%q, %q)", want[i], lo, hi)
	}
	return nil
}
