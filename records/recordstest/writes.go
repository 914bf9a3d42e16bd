package recordstest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"tenaq/internal/testing/proof"
	"tenaq/records"
)

func testPut(e *env) {
	s := e.open()
	e.hasNo(s, "a")
	a := e.put(s, records.Write{Key: "a", Value: []byte("1")})
	b := e.put(s, records.Write{Key: "b", Value: []byte("2")})
	e.has(s, a)
	e.has(s, b)
	a = e.put(s, records.Write{Key: "a", Value: []byte("3"), If: a.version})
	e.has(s, a)
	a = e.put(s, records.Write{Key: "a", If: a.version})
	e.has(s, a)
	e.delete(s, "a", a.version)
	e.hasNo(s, "a")
	e.has(s, b)
}

// wrong are versions that a record of that version does not have.
func wrong(v records.Version) []records.Version {
	return []records.Version{1, v - 1, v + 1, v | 1<<63, math.MaxInt64, math.MaxUint64}
}

func testConflicts(e *env) {
	s := e.open()
	old := e.put(s, records.Write{Key: "a", Value: []byte("old")})
	there := e.put(s, records.Write{Key: "a", Value: []byte("there"), If: old.version,
		TTL: time.Hour})
	for _, v := range append(wrong(there.version), old.version, 0) {
		e.putConflicts(s, records.Write{Key: "a", Value: []byte("new"), If: v}, there)
		e.deleteConflicts(s, "a", v, there)
		e.has(s, there)
	}
	e.delete(s, "a", there.version)
	e.hasNo(s, "a")
}

func testConflictsOfNothing(e *env) {
	s := e.open()
	refused := func(versions ...records.Version) {
		e.Helper()
		for _, v := range versions {
			if v != 0 {
				e.putConflicts(s, records.Write{Key: "a", If: v}, nil)
			}
			e.deleteConflicts(s, "a", v, nil)
		}
		e.hasNo(s, "a")
	}
	refused(0, 1, math.MaxInt64, math.MaxUint64)
	gone := e.put(s, records.Write{Key: "a"})
	e.delete(s, "a", gone.version)
	refused(append(wrong(gone.version), gone.version, 0)...)
}

// Values are any bytes, and no caller shares their memory.
func testValues(e *env) {
	s := e.open()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for i, value := range [][]byte{nil, {}, {0}, []byte(" "), []byte("null"), all,
		bytes.Repeat(all, 40)} {
		wr := e.put(s, records.Write{Key: fmt.Sprint(i), Value: value})
		e.has(s, wr)
		e.putConflicts(s, records.Write{Key: wr.key}, wr)
	}

	value := []byte("mine")
	wr := e.put(s, records.Write{Key: "a", Value: value})
	value[0] = 'f'
	e.has(s, wr)
	scribble := func(r records.Record) {
		for i := range r.Value {
			r.Value[i] = '!'
		}
	}
	got, err := s.Put(e.ctx, records.Write{Key: "a", Value: []byte("mine"), If: wr.version})
	if err != nil {
		e.Fatal(err)
	}
	wr.version, wr.to = got.Version, e.now()
	scribble(got)
	got, _ = s.Get(e.ctx, "a")
	scribble(got)
	var c *records.Conflict
	if errors.As(s.Delete(e.ctx, "a", 1), &c) {
		scribble(c.Current)
	}
	if listed, _ := s.List(e.ctx, "a", "", 1); len(listed) == 1 {
		scribble(listed[0])
	}
	e.has(s, wr)
}

// awkward are keys that something between here and a disk may take for another or for a pattern.
// They are in the order of their bytes.
var awkward = []string{
	"\x01", "\t", "\n", " ", "  ", "!", `"`, "#", "%", "%%", "%41", "&", "'", "''", "*", "..", "/", "//", "?",
	"A", "AA", "NULL", "Z", "[a]", `\`, `\%`, "_", "__", "a", "a\x01", "a ", "a%", "a%b", "a*", "a.b", "a/", "a/b", "aA", "a[", `a\`, "a_", "aa",
	"ab", "a{", "a\u007f", "a\u0080", "a\u00ff", "a\ud7ff", "a\ue000", "a\uffff", "a\U00010000",
	"a\U0010ffff", "a\U0010ffff\U0010ffff",
	"b", "c/d", "e\u0301", "null", "z", "~", "\u007f", "\u00c4", "\u00df", "\u00e9", "\u00ff",
	"\u0130", "\u0131",
	"\u2028", "\ufeff", "\ufffd", "\uffff", "\U0001f600", "\U0010ffff",
}

func testKeys(e *env) {
	s := e.open()
	var all []*written
	for _, key := range awkward {
		all = append(all, e.put(s, records.Write{Key: key, Value: []byte(key)}))
	}
	for i, wr := range all {
		e.has(s, wr)
		e.putConflicts(s, records.Write{Key: wr.key}, wr)
		if i%2 == 0 {
			e.delete(s, wr.key, wr.version)
		}
	}
	for i, wr := range all {
		if i%2 == 0 {
			e.hasNo(s, wr.key)
		} else {
			e.has(s, wr)
		}
	}
}

// A write beyond the limits returns an error that does not look like an answer, and writes nothing.
func testLimits(e *env) {
	s := e.open()
	value := make([]byte, records.ValueMax)
	for i := range value {
		value[i] = byte(e.rng.Uint32())
	}
	for _, key := range []string{"k", strings.Repeat("k", records.KeyMax),
		strings.Repeat("\U0010ffff", records.KeyMax/4)} {
		wr := e.put(s, records.Write{Key: key, Value: value})
		e.has(s, wr)
		e.delete(s, key, wr.version)
	}

	refused := func(what string, err error) {
		e.Helper()
		var c *records.Conflict
		if err == nil || errors.Is(err, records.ErrNotFound) || errors.As(err, &c) {
			e.Errorf("%s: %v, want another error", what, err)
		}
	}
	for _, key := range []string{"", strings.Repeat("k", records.KeyMax+1), "a\x00", "\xff",
		"a\xed\xa0\x80"} {
		_, err := s.Get(e.ctx, key)
		refused(fmt.Sprintf("get %+.10q", key), err)
		_, err = s.Put(e.ctx, records.Write{Key: key})
		refused(fmt.Sprintf("put %+.10q", key), err)
		refused(fmt.Sprintf("delete %+.10q", key), s.Delete(e.ctx, key, 1))
	}
	_, err := s.Put(e.ctx, records.Write{Key: "k", Value: make([]byte, records.ValueMax+1)})
	refused("put too large a value", err)
	_, err = s.Put(e.ctx, records.Write{Key: "k", TTL: -1})
	refused("put with a TTL below zero", err)
	if got, err := s.List(e.ctx, "", "", 0); err != nil || len(got) != 0 {
		e.Errorf("list = %d records, %v, want none", len(got), err)
	}
}

func testVersionsRise(e *env) {
	s := e.Open(e.T)
	now := time.Now()
	first := e.put(s, records.Write{Key: "a"})
	if d := time.UnixMicro(int64(first.version)).Sub(now).Abs(); d > time.Hour {
		e.Errorf("version %d is %v from the time in microseconds, %d", first.version, d,
			now.UnixMicro())
	}
	last := first.version
	risen := func(wr *written) *written {
		e.Helper()
		if wr.version <= last {
			e.Fatalf("version %d after %d", wr.version, last)
		}
		last = wr.version
		return wr
	}
	e.delete(s, "a", last)
	for i := range proof.Few(20) {
		wr := risen(e.put(s, records.Write{Key: "a"}))
		for range i % 3 {
			wr = risen(e.put(s, records.Write{Key: "a", If: wr.version}))
		}
		e.delete(s, "a", wr.version)
	}
	e.close(s)
	s = e.Open(e.T)
	wr := risen(e.put(s, records.Write{Key: "a"}))
	e.close(s)
	s = e.open()
	risen(e.put(s, records.Write{Key: "a", If: wr.version, TTL: time.Millisecond}))
	e.sleep(time.Millisecond + granule + slack)
	risen(e.put(s, records.Write{Key: "a", TTL: time.Millisecond}))
	e.sleep(time.Millisecond + granule + slack)
	if _, err := s.Sweep(e.ctx, 10); err != nil {
		e.Fatal(err)
	}
	risen(e.put(s, records.Write{Key: "a"}))
}

// Processes whose clocks are wrong take turns, and no version falls and no age is below zero.
func testVersionsRiseOverSkew(e *env) {
	if e.Skewed == nil {
		e.Skip("no skewed clocks")
	}
	behind, ahead := e.Skewed(e.T, -time.Minute), e.Skewed(e.T, time.Minute)
	defer e.close(behind)
	defer e.close(ahead)
	last := records.Version(0)
	put := func(s records.Store, w records.Write) records.Version {
		e.Helper()
		got, err := s.Put(e.ctx, w)
		if err != nil {
			e.Fatalf("put %q: %v", w.Key, err)
		}
		if got.Version <= last {
			e.Fatalf("version %d of %q after %d", got.Version, w.Key, last)
		}
		last = got.Version
		for _, s := range []records.Store{behind, ahead} {
			r, err := s.Get(e.ctx, w.Key)
			if w.TTL > 0 && errors.Is(err, records.ErrNotFound) {
				continue // its time is up, by this clock
			}
			if err != nil {
				e.Fatalf("get %q: %v", w.Key, err)
			}
			e.is(r, &written{key: w.Key, value: w.Value, version: last, ttl: w.TTL}, 0, 0)
		}
		return last
	}

	small := put(behind, records.Write{Key: "small"})
	last = 0
	v := put(ahead, records.Write{Key: "replaced"})
	v = put(behind, records.Write{Key: "replaced", If: v})
	put(behind, records.Write{Key: "replaced", If: v})

	last = 0
	v = put(ahead, records.Write{Key: "deleted"})
	e.delete(behind, "deleted", v)
	put(behind, records.Write{Key: "deleted"})

	last = 0
	put(ahead, records.Write{Key: "expired", TTL: time.Millisecond})
	e.sleep(time.Millisecond + granule + slack)
	if _, err := ahead.Sweep(e.ctx, 10); err != nil {
		e.Fatal(err)
	}
	// for this one it may still be there, where Sweep did nothing
	r, err := behind.Get(e.ctx, "expired")
	if err != nil && !errors.Is(err, records.ErrNotFound) {
		e.Fatal(err)
	}
	put(behind, records.Write{Key: "expired", If: r.Version})

	// The record that goes last was not written last.
	last = 0
	v = put(ahead, records.Write{Key: "large"})
	e.delete(ahead, "large", v)
	e.delete(behind, "small", small)
	put(behind, records.Write{Key: "large"})
}

func testAge(e *env) {
	s, other := e.open(), e.open()
	a := e.put(s, records.Write{Key: "a"})
	e.sleep(200 * time.Millisecond)
	e.has(s, a)
	e.has(other, a)
	b := e.put(other, records.Write{Key: "b"})
	// which makes it young again
	a = e.put(s, records.Write{Key: "a", If: a.version, TTL: time.Hour})
	e.has(other, a)
	e.sleep(100 * time.Millisecond)
	e.has(s, a)
	e.has(s, b)
	e.putConflicts(other, records.Write{Key: "a"}, a)
	e.deleteConflicts(other, "a", 1, a)
}

func testReopen(e *env) {
	s := e.Open(e.T)
	a := e.put(s, records.Write{Key: "a", Value: []byte("1")})
	b := e.put(s, records.Write{Key: "b", Value: []byte("2"), TTL: time.Hour})
	c := e.put(s, records.Write{Key: "c"})
	e.delete(s, "c", c.version)
	e.close(s)
	s = e.Open(e.T)
	e.has(s, a)
	e.has(s, b)
	e.hasNo(s, "c")
	a = e.put(s, records.Write{Key: "a", Value: []byte("3"), If: a.version})
	e.delete(s, "b", b.version)
	e.close(s)
	s = e.Open(e.T) // nothing is written this time
	e.close(s)
	s = e.open()
	e.has(s, a)
	e.hasNo(s, "b")
}

// A store sees what was answered to another as soon as it was answered.
func testTwoStores(e *env) {
	s, other := e.open(), e.open()
	var wr *written
	for i := range proof.Few(20) {
		wr = e.put(s, records.Write{Key: "a", Value: fmt.Append(nil, i)})
		e.has(other, wr)
		e.putConflicts(other, records.Write{Key: "a"}, wr)
		wr = e.put(other, records.Write{Key: "a", If: wr.version})
		e.has(s, wr)
		e.deleteConflicts(s, "a", wr.version-1, wr)
		e.delete(s, "a", wr.version)
		e.hasNo(other, "a")
		e.deleteConflicts(other, "a", wr.version, nil)
	}
	e.close(e.Open(e.T)) // one that closes takes nothing from the others
	wr = e.put(s, records.Write{Key: "a"})
	e.has(other, wr)
}
