package engine

import (
	"bytes"
	"testing"

	"tenaq/internal/kv"
)

// A document is the one committed last under its name, even after a restart. One that is too large
// is refused and changes nothing.
func TestDocument(t *testing.T) {
	store := kv.NewMemory()
	cfg := Config{Region: "us-east-1", InFlightMax: 1, Fault: func(sentence string) { t.Fatal(sentence) }}
	e := Open(store, cfg)
	want := func(when, name, want string, there bool) {
		t.Helper()
		if got, ok := ReadDocument(store, name, cfg.Fault); string(got) != want || ok != there {
			t.Errorf("%s: got %q, %v, want %q, %v", when, got, ok, want, there)
		}
	}
	put := func(name string, value []byte) error {
		return e.Apply(Command{Op: &PutDocument{Name: name, Value: value}})
	}
	want("at first", "alarms", "", false)
	for _, text := range []string{"one", "two"} {
		if err := put("alarms", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	want("before the commit", "alarms", "", false)
	if wait := e.Commit(); wait == nil || wait() != nil {
		t.Error("nothing was written")
	}
	want("after the commit", "alarms", "two", true)
	want("after the commit", "other", "", false)
	for name, value := range map[string][]byte{"alarms": make([]byte, DocumentMax+1), "": nil} {
		if err := put(name, value); err == nil {
			t.Errorf("%q with %d bytes was stored", name, len(value))
		}
	}
	large := bytes.Repeat([]byte{'x'}, DocumentMax)
	if err := put("large", large); err != nil {
		t.Fatal(err)
	}
	e.Commit()()
	e = Open(store, cfg)
	want("after a restart", "alarms", "two", true)
	want("after a restart", "large", string(large), true)
}
