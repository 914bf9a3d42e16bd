package replica

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"
)

// The encoding of entries does not change: other nodes have written them.
func TestEntryBytes(t *testing.T) {
	session := Session([]byte("session-of-16-by"))
	first := Mark{7, 0x1122334455667788}
	for file, e := range map[string]*Entry{
		"begin.1.hex": FirstEntry(session, first),
		"turn.1.hex": {Kind: Turn, Session: session, Before: first.Hash,
			Mark: first.Next([]byte("the writes")), Writes: []byte("the writes")},
	} {
		name := "testdata/" + file
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Encode(); !bytes.Equal(got, want) {
			t.Errorf("%s: encoded as %x, want %x", name, got, want)
		}
		got, err := Decode(want)
		if err != nil || got.Kind != e.Kind || got.Session != e.Session || got.Before != e.Before ||
			got.Mark != e.Mark || !bytes.Equal(got.Writes, e.Writes) {
			t.Errorf("%s: read as %+v, %v, want %+v", name, got, err, *e)
		}
		if !got.Follows(first) {
			t.Errorf("%s: does not follow %+v", name, first)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := FirstEntry(Session{1}, Mark{1, 2}).Encode()
	change := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	for name, b := range map[string][]byte{
		"empty": nil, "short": good[:HeaderSize-1], "version 0": change(0, 0),
		"kind 0": change(1, 0), "kind 3": change(1, 3),
	} {
		if _, err := Decode(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: error %v, want ErrMalformed", name, err)
		}
	}
	_, err := Decode(change(0, 2))
	if newer, ok := errors.AsType[*NewerError](err); !ok || newer.Version != 2 {
		t.Errorf("version 2: error %v, want a NewerError", err)
	}
}

// Any flipped bit after the session breaks the chain.
func TestFollowsNoticesFlips(t *testing.T) {
	before := Mark{41, 0xABCDEF}
	writes := []byte("some writes")
	for name, e := range map[string]*Entry{
		"turn":  {Kind: Turn, Before: before.Hash, Mark: before.Next(writes), Writes: writes},
		"begin": FirstEntry(Session{9}, before),
	} {
		b := e.Encode()
		for at := 18; at < len(b); at++ {
			for bit := range 8 {
				b[at] ^= 1 << bit
				if got, err := Decode(b); err == nil && got.Follows(before) {
					t.Fatalf("%s: follows with bit %d of byte %d flipped", name, bit, at)
				}
				b[at] ^= 1 << bit
			}
		}
		if e.Follows(Mark{before.Number, before.Hash + 1}) || e.Follows(Mark{before.Number + 1, before.Hash}) {
			t.Errorf("%s: follows another mark", name)
		}
	}
}
