package pebblekv_test

import (
	"testing"

	"tenaq/internal/kv/pebblekv"
)

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	open := func() *pebblekv.Store {
		s, err := pebblekv.Open(pebblekv.Options{Dir: dir, Fatal: func(s string) { panic(s) }})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	b := s.NewBatch()
	b.Set([]byte("a"), []byte("1"))
	b.Apply()
	b = s.NewBatch()
	b.Set([]byte("b"), []byte("2"))
	b.Force()()
	id := s.ID()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	defer s.Close()
	if got, want := s.CommitNumber(), uint64(2); got != want {
		t.Errorf("commit number %d, want %d", got, want)
	}
	if s.ID() != id {
		t.Errorf("id %v, want %v", s.ID(), id)
	}
	got := ""
	for k, v := range s.Scan(nil, nil) {
		got += string(k) + "=" + string(v) + " "
	}
	if want := "a=1 b=2 "; got != want {
		t.Errorf("rows %q, want %q", got, want)
	}
}
