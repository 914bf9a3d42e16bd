package recordstest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tenaq/internal/testing/proof"
	"tenaq/records"
)

// lists checks what a List returns.
func (e *env) lists(s records.Store, prefix, after string, limit int, want ...*written) {
	e.Helper()
	from := e.now()
	got, err := s.List(e.ctx, prefix, after, limit)
	to := e.now()
	if err != nil {
		e.Fatalf("list %+q after %+q, %d: %v", prefix, after, limit, err)
	}
	var keys, wantKeys []string
	for _, r := range got {
		keys = append(keys, r.Key)
	}
	for _, wr := range want {
		wantKeys = append(wantKeys, wr.key)
	}
	if !slices.Equal(keys, wantKeys) {
		e.Fatalf("list %+.20q after %+.20q, %d = %+q, want %+q", prefix, after, limit, keys,
			wantKeys)
	}
	for i := range got {
		e.is(got[i], want[i], from, to)
	}
}

// selected is what a List should return of all, which are in order.
func selected(all []*written, prefix, after string, limit int) (want []*written) {
	for _, wr := range all {
		if strings.HasPrefix(wr.key, prefix) && wr.key > after && len(want) < limit {
			want = append(want, wr)
		}
	}
	return want
}

func testList(e *env) {
	if !slices.IsSorted(awkward) {
		e.Fatal("the keys are not in order")
	}
	s := e.open()
	e.lists(s, "", "", 0)
	all := make([]*written, len(awkward))
	for _, i := range e.rng.Perm(len(awkward)) {
		w := records.Write{Key: awkward[i], Value: []byte(awkward[i])}
		if i%3 == 0 {
			w.TTL = time.Hour
		}
		all[i] = e.put(s, w)
	}
	e.lists(s, "", "", 0, all...)
	for _, prefix := range []string{"a", "%", "_", "*", `\`, "[", "''", "\U0010ffff", "a\U0010ffff", "\ud7ff", "aab", "nothing"} {
		e.lists(s, prefix, "", 0, selected(all, prefix, "", records.ListMax)...)
	}
	for range proof.Few(150) {
		prefix := []rune(awkward[e.rng.IntN(len(awkward))])
		prefix = prefix[:e.rng.IntN(len(prefix)+1)]
		after := ""
		switch e.rng.IntN(3) {
		case 0:
			after = awkward[e.rng.IntN(len(awkward))]
		case 1:
			after = awkward[e.rng.IntN(len(awkward))] + string(rune('\x01'+e.rng.IntN(200)))
		}
		limit := 1 + e.rng.IntN(len(all)+2)
		e.lists(s, string(prefix), after, limit, selected(all, string(prefix), after, limit)...)
	}

	// Page by page there is everything, once.
	var got []string
	for after := ""; ; {
		page, err := s.List(e.ctx, "a", after, 4)
		if err != nil {
			e.Fatal(err)
		}
		for _, r := range page {
			got = append(got, r.Key)
		}
		if len(page) < 4 {
			break
		}
		after = page[3].Key
	}
	if want := len(selected(all, "a", "", records.ListMax)); len(got) != want ||
		!slices.IsSorted(got) {
		e.Errorf("pages hold %+q, want %d keys in order", got, want)
	}
}

func testListMax(e *env) {
	if !e.virtual && testing.Short() {
		e.Skip("writes a thousand records")
	}
	s := e.open()
	const n = records.ListMax + 5
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for j := i; j < n; j += 8 {
				if _, err := s.Put(e.ctx, records.Write{Key: fmt.Sprintf("k%05d", j)}); err != nil {
					e.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	for _, tt := range []struct {
		after string
		limit int
		want  int
	}{
		{"", 0, records.ListMax},
		{"", -1, records.ListMax},
		{"", records.ListMax, records.ListMax},
		{"", records.ListMax + 1, records.ListMax},
		{"", n * 1000, records.ListMax},
		{"", records.ListMax - 1, records.ListMax - 1},
		{"k00999", 0, 5},
		{"k00003", 0, records.ListMax},
		{"k00004", 0, records.ListMax},
		{"k00005", 0, records.ListMax - 1},
	} {
		got, err := s.List(e.ctx, "k", tt.after, tt.limit)
		if err != nil || len(got) != tt.want {
			e.Errorf("list after %q, %d = %d records, %v, want %d", tt.after, tt.limit, len(got),
				err, tt.want)
		}
	}
}

// A string that cannot be a key cannot be a prefix or the end of a page either.
func testListArguments(e *env) {
	s := e.open()
	e.put(s, records.Write{Key: "a"})
	for _, bad := range []string{"\xff", "a\xc3", "a\x00", strings.Repeat("k", records.KeyMax+1)} {
		if got, err := s.List(e.ctx, bad, "", 0); err == nil {
			e.Errorf("list %+.10q = %d records, want an error", bad, len(got))
		}
		if got, err := s.List(e.ctx, "", bad, 0); err == nil {
			e.Errorf("list after %+.10q = %d records, want an error", bad, len(got))
		}
	}
	e.lists(s, strings.Repeat("k", records.KeyMax), strings.Repeat("k", records.KeyMax), 0)
}
