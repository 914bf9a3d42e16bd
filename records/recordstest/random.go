package recordstest

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"tenaq/internal/testing/proof"
	"tenaq/records"
)

// A model is a store as a map. It knows the version of a record from the answer to its Put, so that
// one model judges every backend, and two backends that pass differ in times and versions only.
type model struct {
	*env
	s       records.Store
	rng     *rand.Rand
	there   map[string]*written
	largest map[string]records.Version // ever, of each key
	dead    map[string]bool            // keys of expired records that no Sweep has counted
}

// Random sequences of calls are answered as the model says. Time is made to pass between epochs
// only, and then by enough that there is no doubt about what has expired.
func testRandom(e *env) {
	m := &model{env: e, s: e.Open(e.T), rng: e.rng,
		there: map[string]*written{}, largest: map[string]records.Version{},
		dead: map[string]bool{}}
	epochs := proof.Few(10)
	if e.Sleep == nil && !e.virtual {
		epochs = 2
	}
	for range epochs {
		for range proof.Few(200) {
			m.step()
		}
		m.expire()
		m.compare("", "", 0)
	}
	e.close(m.s)
}

func (m *model) key() string { return awkward[m.rng.IntN(len(awkward))/4*4] }

// version is the one that a key has, most of the time.
func (m *model) version(key string) records.Version {
	v := records.Version(0)
	if wr := m.there[key]; wr != nil {
		v = wr.version
	}
	switch m.rng.IntN(8) {
	case 0:
		return m.largest[key]
	case 1:
		return 0
	case 2:
		return v + 1
	default:
		return v
	}
}

func (m *model) step() {
	key := m.key()
	switch p := m.rng.IntN(100); {
	case p < 40:
		w := records.Write{Key: key, If: m.version(key),
			Value: bytes.Repeat([]byte{byte(p)}, m.rng.IntN(300))}
		if m.rng.IntN(3) == 0 {
			w.TTL = time.Hour
		}
		m.write(w)
	case p < 60:
		m.remove(key, m.version(key))
	case p < 80:
		if wr := m.there[key]; wr != nil {
			m.has(m.s, wr)
		} else {
			m.hasNo(m.s, key)
		}
	case p < 95:
		m.compare(string([]rune(key)[:1]), []string{"", m.key()}[m.rng.IntN(2)], m.rng.IntN(6))
	case p < 98:
		m.sweep()
	default:
		m.close(m.s)
		m.s = m.Open(m.T)
	}
}

func (m *model) write(w records.Write) {
	there := m.there[w.Key]
	if there == nil && w.If != 0 || there != nil && w.If != there.version {
		m.putConflicts(m.s, w, there)
		return
	}
	wr := m.put(m.s, w)
	if wr.version <= m.largest[w.Key] {
		m.Fatalf("version %d of %+q after %d", wr.version, w.Key, m.largest[w.Key])
	}
	m.there[w.Key], m.largest[w.Key] = wr, wr.version
	delete(m.dead, w.Key) // its place was taken, and no Sweep counts it
}

func (m *model) remove(key string, v records.Version) {
	there := m.there[key]
	if there == nil || v != there.version {
		m.deleteConflicts(m.s, key, v, there)
		return
	}
	m.delete(m.s, key, v)
	delete(m.there, key)
}

// compare holds a List to the model.
func (m *model) compare(prefix, after string, limit int) {
	var all []*written
	for _, key := range slices.Sorted(maps.Keys(m.there)) {
		all = append(all, m.there[key])
	}
	n := limit
	if n == 0 {
		n = records.ListMax
	}
	m.lists(m.s, prefix, after, limit, selected(all, prefix, after, n)...)
}

// expire lets some records expire.
func (m *model) expire() {
	dying := map[string]bool{}
	for range 4 {
		key := m.key()
		if dying[key] {
			continue
		}
		v := records.Version(0)
		if wr := m.there[key]; wr != nil {
			v = wr.version
		}
		m.write(records.Write{Key: key, If: v, TTL: short})
		dying[key] = true
	}
	m.sleep(over)
	for key := range dying {
		delete(m.there, key)
		m.dead[key] = true
	}
}

func (m *model) sweep() {
	want := len(m.dead)
	if m.SweepsItself {
		want = 0
	}
	if n, err := m.s.Sweep(m.ctx, 1000); err != nil || n != want {
		m.Fatalf("sweep = %d, %v, want %d", n, err, want)
	}
	clear(m.dead)
}
