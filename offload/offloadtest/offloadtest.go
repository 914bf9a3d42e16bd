// Package offloadtest is the contract of offload.Store as tests, and a store in memory that passes
// them and fails on demand.
package offloadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"tenaq/internal/testing/proof"
	"tenaq/offload"
)

// Run checks what every Store promises. Open is called for each case, and returns an empty store;
// called again in the same case it returns the same one as another process would have it.
func Run(t *testing.T, open func(t *testing.T) func() offload.Store) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, open func() offload.Store)
	}{
		{"round trip", roundTrip},
		{"keys", keys},
		{"missing", missing},
		{"too large", tooLarge},
		{"delete", remove},
		{"context", ended},
		{"concurrent", concurrent},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

const most = 8 << 20

func put(t *testing.T, s offload.Store, key string, body []byte) {
	t.Helper()
	if err := s.Put(t.Context(), key, body); err != nil {
		t.Fatalf("put %q: %v", key, err)
	}
}

func want(t *testing.T, s offload.Store, key string, want []byte) {
	t.Helper()
	got, err := s.Get(t.Context(), key, most)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("get %q: %d bytes and error %v, want the %d bytes that were put", key, len(got),
			err, len(want))
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

// Bodies come back as they were, to the byte, after they were stored again, and in another process.
func roundTrip(t *testing.T, open func() offload.Store) {
	s := open()
	seed := proof.Seed(t)
	noise := make([]byte, 1<<20+1)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	for name, body := range map[string][]byte{
		"text": []byte("hello"), "empty": {}, "noise": noise,
		"newlines": []byte("\r\n\x00\xff\r\n"),
	} {
		for range 2 {
			put(t, s, name, body)
			want(t, s, name, body)
		}
		want(t, open(), name, body)
	}
	if got, want := open().Bucket(), s.Bucket(); got != want || got == "" {
		t.Errorf("the same store is named %q and %q", got, want)
	}
}

// Keys that differ are different, and none leads anywhere else.
func keys(t *testing.T, open func() offload.Store) {
	s := open()
	odd := []string{
		"a", "A", "a/b", "a%2Fb", "a b", "a+b", "a%20b", "ä", "a\u0308", "日本/本", "a?b#c&d=e", `a\b`, `a"b'c`, "~a", "a.", ".a", "a..b", "...",
		"bucket", ".new-x", "c:d", strings.Repeat("k", 1024),
	}
	for _, key := range odd {
		put(t, s, key, []byte(key))
	}
	for _, key := range odd {
		want(t, s, key, []byte(key))
	}
}

func missing(t *testing.T, open func() offload.Store) {
	s := open()
	put(t, s, "there/x", nil)
	for _, key := range []string{"not", "there", "there/", "there/x/y"} {
		_, err := s.Get(t.Context(), key, most)
		wantError(t, err, offload.ErrNotFound)
	}
}

func tooLarge(t *testing.T, open func() offload.Store) {
	s := open()
	put(t, s, "a", []byte("12345"))
	if got, err := s.Get(t.Context(), "a", 5); err != nil || string(got) != "12345" {
		t.Errorf("five bytes of five: %q, error %v", got, err)
	}
	got, err := s.Get(t.Context(), "a", 4)
	wantError(t, err, offload.ErrTooLarge)
	if got != nil {
		t.Errorf("and %q", got)
	}
}

func remove(t *testing.T, open func() offload.Store) {
	s := open()
	put(t, s, "a", []byte("a"))
	put(t, s, "b", []byte("b"))
	for range 2 { // the second time of nothing
		if err := s.Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		_, err := s.Get(t.Context(), "a", most)
		wantError(t, err, offload.ErrNotFound)
	}
	want(t, s, "b", []byte("b"))
	put(t, s, "a", []byte("again"))
	want(t, s, "a", []byte("again"))
}

// A caller that has no time left gets that error, and not that there is no body.
func ended(t *testing.T, open func() offload.Store) {
	s := open()
	put(t, s, "a", []byte("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Get(ctx, "a", most)
	wantError(t, err, context.Canceled)
	wantError(t, s.Put(ctx, "b", []byte("b")), context.Canceled)
	wantError(t, s.Delete(ctx, "a"), context.Canceled)
	want(t, s, "a", []byte("a"))
}

// Many store the same body under the same key while others read it. A reader that finds it finds
// all of it.
func concurrent(t *testing.T, open func() offload.Store) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 8<<10)
	var all sync.WaitGroup
	for i := range 8 {
		s := open()
		all.Go(func() {
			for j := range 8 {
				key := fmt.Sprintf("key%d", j%2)
				var err error
				if i%2 == 0 {
					err = s.Put(t.Context(), key, body)
				} else {
					var got []byte
					got, err = s.Get(t.Context(), key, most)
					if errors.Is(err, offload.ErrNotFound) {
						err = nil
					} else if err == nil && !bytes.Equal(got, body) {
						err = fmt.Errorf("%s has %d bytes, want %d", key, len(got), len(body))
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	want(t, open(), "key0", body)
	want(t, open(), "key1", body)
}
