package pebblekv

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

var rewrite = flag.Bool("rewrite", false, "write the testdata of a new format version; never over an old one")

// golden returns the bytes of a file in testdata, which is hex with spaces and with comments after
// #. Files of old versions stay forever, and stay readable.
func golden(t *testing.T, name string, now []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name)
	if _, err := os.Stat(path); *rewrite && errors.Is(err, os.ErrNotExist) {
		text := hex.Dump(now)
		var b strings.Builder
		for line := range strings.Lines(text) {
			b.WriteString(strings.TrimSpace(line[10:58]) + "\n")
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var testID = ID{0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f}

func TestGenesisFormat(t *testing.T) {
	old := golden(t, "genesis.1.hex", encodeGenesis(testID))
	id, err := decodeGenesis(old)
	if err != nil || id != testID {
		t.Errorf("decoded %v, %v, want %v", id, err, testID)
	}
	if got := encodeGenesis(testID); !bytes.Equal(got, old) {
		t.Errorf("encoded %x, want %x: a new version needs a new file", got, old)
	}
	for i := range old {
		bad := bytes.Clone(old)
		bad[i] ^= 0x40
		if id, err := decodeGenesis(bad); err == nil {
			t.Errorf("byte %d changed: decoded %v, want an error", i, id)
		}
		if id, err := decodeGenesis(old[:i]); err == nil {
			t.Errorf("first %d bytes: decoded %v, want an error", i, id)
		}
	}
}

func TestChainFormat(t *testing.T) {
	m := mark{0x0102030405060708, 0xa0a1a2a3a4a5a6a7}
	now := append(appendChainKey(nil, m), chainValue...)
	for _, v := range []struct {
		file string
		key  int // bytes of it
	}{{"chain.1.hex", 10}, {"chain.2.hex", 18}} {
		b := golden(t, v.file, now)
		got, err := decodeChain(b[:v.key], b[v.key:])
		if err != nil || got != m {
			t.Errorf("%s: decoded %+v, %v, want %+v", v.file, got, err, m)
		}
		for i := range b {
			if m, err := decodeChain(b[:min(i, v.key)], b[min(i, v.key):i]); err == nil {
				t.Errorf("%s, first %d bytes: decoded %+v, want an error", v.file, i, m)
			}
		}
		if m, err := decodeChain(append(b[:v.key:v.key], 0), b[v.key:]); err == nil {
			t.Errorf("%s, a byte more in the key: decoded %+v, want an error", v.file, m)
		}
	}
	if old := golden(t, "chain.2.hex", now); !bytes.Equal(now, old) {
		t.Errorf("encoded %x, want %x: a new version needs a new file", now, old)
	}
}

// appendChainKey1 is appendChainKey in version 1, which had the hash in the value.
func appendChainKey1(dst []byte, m mark) []byte {
	return binary.BigEndian.AppendUint64(append(dst, chainPrefix...), m.number)
}

// A store whose last commit has a row of version 1 continues with rows of the newest version.
func TestChainOfVersion1(t *testing.T) {
	o := withCommits(t, "a")
	s := mustOpen(t, o)
	m, row := s.chain.mark, bytes.Clone(s.chain.row)
	mustClose(t, s)
	alter(t, o, func(b *pebble.Batch) {
		_ = b.SingleDelete(row, nil)
		_ = b.Set(appendChainKey1(nil, m), binary.BigEndian.AppendUint64([]byte{1}, m.hash), nil)
	})
	for _, k := range []string{"b", "c"} {
		s = mustOpen(t, o)
		set(s, k)
		mustClose(t, s)
	}
	s = mustOpen(t, o)
	if got, want := keys(s), "a b c"; got != want {
		t.Errorf("keys %q, want %q", got, want)
	}
	if m, err := decodeChain(s.chain.row, chainValue); err != nil || m != s.chain.mark || m.number != 3 {
		t.Errorf("the row says %+v, %v, want %+v, commit 3", m, err, s.chain.mark)
	}
	mustClose(t, s)
}

// The hashes are part of the format: a store that continues under a new version must continue
// hashing alike, or say so by a new version.
func TestChainHash(t *testing.T) {
	c := chain{mark: genesisMark(encodeGenesis(testID))}
	var b []byte
	for _, writes := range []string{"", "a", "the writes of a batch"} {
		c.mark = c.next([]byte(writes))
		b = append(appendChainKey1(b, c.mark), 1)
		b = binary.BigEndian.AppendUint64(b, c.hash)
	}
	if old := golden(t, "hashes.1.hex", b); !bytes.Equal(b, old) {
		t.Errorf("chain of three commits %x, want %x", b, old)
	}
}

func TestWitnessFormat(t *testing.T) {
	s := slot{testID, 7, mark{0x0102030405060708, 0xa0a1a2a3a4a5a6a7}}
	old := golden(t, "witness.1.hex", encodeSlot(s))
	got, err := decodeSlot(old)
	if err != nil || got != s {
		t.Errorf("decoded %+v, %v, want %+v", got, err, s)
	}
	if got := encodeSlot(s); !bytes.Equal(got, old) {
		t.Errorf("encoded %x, want %x: a new version needs a new file", got, old)
	}
	for i := range old {
		bad := bytes.Clone(old)
		bad[i] ^= 0x40
		if s, err := decodeSlot(bad); err == nil {
			t.Errorf("byte %d changed: decoded %+v, want an error", i, s)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encodeGenesis(testID))
	f.Add(encodeSlot(slot{testID, 7, mark{8, 9}}))
	f.Add(append(appendChainKey(nil, mark{8, 9}), chainValue...))
	f.Add(append(appendChainKey1(nil, mark{8, 9}), 1, 0, 0, 0, 0, 0, 0, 0, 9))
	f.Fuzz(func(t *testing.T, b []byte) {
		if id, err := decodeGenesis(b); err == nil && !bytes.Equal(encodeGenesis(id), b) {
			t.Errorf("%x is a genesis record that encodes as %x", b, encodeGenesis(id))
		}
		_, _ = decodeSlot(b)
		_, _ = decodeChain(b[:len(b)/2], b[len(b)/2:])
	})
}
