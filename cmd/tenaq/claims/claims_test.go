package claims

import (
	"fmt"
	"testing"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/records"
	"tenaq/records/recordstest"
)

// A ledger is read to its end in several requests, but no further than the caller asks for.
func TestEachReadsAll(t *testing.T) {
	for _, n := range []int{0, 1, cli.ListBatch - 1, cli.ListBatch, cli.ListBatch + 1, 2*cli.ListBatch + 1} {
		store := recordstest.NewMemory()
		for i := range n {
			w := records.Write{Key: fmt.Sprintf("claim/k%06d", i), Value: []byte(`{"v":1,"state":"failed"}`)}
			if _, err := store.Put(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		opened := &cli.RecordStore{Store: store, Place: &cli.SQLitePlace{Path: "memory"}}
		work, err := claims.New(claims.Config{Store: opened})
		if err != nil {
			t.Fatal(err)
		}
		l := &cli.Ledger{Ledger: work, Store: opened}
		last, visits := "", 0
		err = l.Each(t.Context(), "k", func(e claims.Entry) (stop bool) {
			if e.Key <= last {
				t.Errorf("of %d: %s comes behind %s", n, e.Key, last)
			}
			last = e.Key
			visits++
			return false
		})
		if err != nil || visits != n {
			t.Errorf("visited %d, error %v, want %d", visits, err, n)
		}
		visits = 0
		err = l.Each(t.Context(), "k", func(claims.Entry) (stop bool) {
			visits++
			return visits == cli.ListBatch
		})
		if want := min(n, cli.ListBatch); err != nil || visits != want {
			t.Errorf("of %d visited %d until told to stop, error %v, want %d", n, visits, err, want)
		}
	}
}

// --json prints bytes without loss, and says whether they are text.
func TestTextOrBase64(t *testing.T) {
	for _, tt := range []struct {
		bytes  []byte
		text   string
		isText bool
		base64 int
	}{
		{nil, "", false, 0},
		{[]byte{}, "", true, 0},
		{[]byte("é\x1b"), "é\x1b", true, 0},
		{[]byte{0xff}, "", false, 1},
	} {
		text, base64 := textOrBase64(tt.bytes)
		if (text != nil) != tt.isText || text != nil && *text != tt.text || len(base64) != tt.base64 {
			t.Errorf("%q: got text %v and %d bytes, want text %t and %d bytes", tt.bytes, text, len(base64), tt.isText, tt.base64)
		}
	}
}
