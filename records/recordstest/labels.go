package recordstest

import (
	"maps"
	"slices"
	"strings"
	"time"

	"tenaq/internal/testing/proof"
	"tenaq/records"
)

// Labels change nothing about a record. A backend that keeps them keeps those of the last write.
func testLabels(e *env) {
	s := e.open()
	labels := map[string]string{"State": "held", "Owner": "größer", "Name": "",
		"Status": "a reserved word of DynamoDB"}
	check := func(key string, want map[string]string) {
		e.Helper()
		if e.Labels == nil {
			return
		}
		want = maps.Clone(want)
		maps.DeleteFunc(want, func(_, value string) bool { return value == "" })
		if got := e.Labels(e.T, key); !maps.Equal(got, want) {
			e.Errorf("the labels of %q are %q, want %q", key, got, want)
		}
	}
	a := e.put(s, records.Write{Key: "a", Value: []byte("1"), TTL: time.Hour, Labels: labels,
		Due: time.Now()})
	e.has(s, a)
	check("a", labels)
	e.putConflicts(s, records.Write{Key: "a", Value: []byte("2"),
		Labels: map[string]string{"State": "other"}}, a)
	check("a", labels)
	a = e.put(s, records.Write{Key: "a", If: a.version,
		Labels: map[string]string{"State": "failed"}})
	e.has(s, a)
	check("a", map[string]string{"State": "failed"})
	a = e.put(s, records.Write{Key: "a", Value: []byte("3"), If: a.version})
	e.has(s, a)
	check("a", nil)

	// The largest of all: what a backend allows an item has to have room for it.
	large := map[string]string{"Result": strings.Repeat("x", records.LabelsBytes-len("Result"))}
	b := e.put(s, records.Write{Key: strings.Repeat("k", records.KeyMax),
		Value: make([]byte, records.ValueMax), Labels: large, Due: time.Now()})
	e.has(s, b)
	check(b.key, large)
	e.delete(s, b.key, b.version)
	e.hasNo(s, b.key)

	many := make(map[string]string)
	for i := range records.LabelsMax + 1 {
		many["L"+strings.Repeat("x", i)] = "v"
	}
	for name, bad := range map[string]map[string]string{
		"too long":   {"Result": strings.Repeat("x", records.LabelsBytes)},
		"too many":   many,
		"no name":    {"": "v"},
		"lower case": {"state": "v"},
		"punctuated": {"Lease-end": "v"},
		"long name":  {"L" + strings.Repeat("x", 40): "v"},
		"taken":      {"Value": "v"},
		"not UTF-8":  {"State": "\xff"},
	} {
		if r, err := s.Put(e.ctx, records.Write{Key: "bad", Labels: bad}); err == nil {
			e.Errorf("%s: labels %.100q were written as version %d", name, bad, r.Version)
		}
	}
	e.hasNo(s, "bad")
}

// A due record is found by its latest Due, and not by one that a later write has changed.
func testDue(e *env) {
	s := e.open()
	lister, ok := s.(records.DueLister)
	if !ok {
		e.Skip("the store has no index")
	}
	now := time.Now().Truncate(time.Second)
	at := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	want := func(prefix string, until time.Time, limit int, want ...string) {
		e.Helper()
		found, err := lister.ListDue(e.ctx, prefix, until, limit)
		if err != nil {
			e.Fatal(err)
		}
		var got []string
		for _, r := range found {
			got = append(got, r.Key)
		}
		if !slices.Equal(got, want) {
			e.Fatalf("due under %q until %v are %q, want %q", prefix, until, got, want)
		}
	}
	want("", at(100), 0)
	put := func(key string, due time.Time, ttl time.Duration) *written {
		e.Helper()
		return e.put(s, records.Write{Key: key, Value: []byte("v " + key), Due: due, TTL: ttl})
	}
	first := put("p/first", at(-20), 0)
	put("p/second", at(-10), time.Hour)
	put("p/third", at(5), 0)
	put("p/never", time.Time{}, 0)
	put("q/other", at(-15), 0)
	put("p/short", at(-12), time.Second)
	deleted := put("p/deleted", at(-11), 0)
	e.delete(s, deleted.key, deleted.version)
	e.sleep(time.Second + granule + slack)
	want("p/", at(0), 0, "p/first", "p/second")
	want("p/", at(-10), 0, "p/first", "p/second")
	want("p/", at(-11), 0, "p/first")
	want("p/", at(5), 0, "p/first", "p/second", "p/third")
	want("p/", at(5), 1, "p/first")
	want("", at(0), 0, "p/first", "q/other", "p/second")
	want("p/t", at(100), 0, "p/third")
	found, err := lister.ListDue(e.ctx, "p/f", at(0), 10)
	if err != nil || len(found) != 1 {
		e.Fatalf("due are %v, %v", found, err)
	}
	e.is(found[0], first, 0, 0)

	// A later write counts.
	first = e.put(s, records.Write{Key: first.key, If: first.version, Due: at(7)})
	want("p/", at(0), 0, "p/second")
	want("p/", at(7), 0, "p/second", "p/third", "p/first")
	e.put(s, records.Write{Key: first.key, If: first.version})
	want("p/", at(100), 0, "p/second", "p/third")

	// More than any request returns.
	var many []string
	for i := range proof.Few(250) {
		key := "many/" + string(rune('a'+i/26%26)) + string(rune('a'+i%26))
		many = append(many, key)
		put(key, at(i), 0)
	}
	want("many/", at(1000), 0, many...)
}
