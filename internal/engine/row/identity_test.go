package row

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// randomID returns a UUID of version 4.
func randomID(r *rand.Rand) (id MessageID) {
	binary.BigEndian.PutUint64(id[:8], r.Uint64())
	binary.BigEndian.PutUint64(id[8:], r.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// An id carries its place, and is a UUID of version 4 all the same. [ID-8]
func TestIDs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ids, other := IDKey{1}, IDKey{2}
	seen := make(map[MessageID]bool)
	for range 10_000 {
		at := Place{r.Uint64() >> (64 - r.IntN(placeSpaceBits+1)), r.Uint64() >> (64 - r.IntN(placeSeqBits+1))}
		id, ok := ids.New(randomID(r), at)
		if got := ids.Place(id); !ok || got != at {
			t.Fatalf("the id %s of %+v, %v, carries %+v", id, at, ok, got)
		}
		if id[6]>>4 != 4 || id[8]>>6 != 2 {
			t.Fatalf("%s is no UUID of version 4", id)
		}
		if at.Space != 0 && other.Place(id) == at {
			t.Fatalf("%s shows its place to another key", id)
		}
		if seen[id] {
			t.Fatalf("%s was made twice", id)
		}
		seen[id] = true
		if back, ok := ParseMessageID(id.String()); !ok || back != id {
			t.Fatalf("%s reads as %s, %v", id, back, ok)
		}
	}
}

// Every bit that may differ between ids does, also between those of neighbours.
func TestIDsLookRandom(t *testing.T) {
	const many = 4096
	r := rand.New(rand.NewPCG(3, 4))
	ids := IDKey{3}
	var ones [128]int
	for seq := range uint64(many) {
		id, _ := ids.New(randomID(r), Place{1, seq + 1})
		for bit := range ones {
			ones[bit] += int(id[bit/8] >> (7 - bit%8) & 1)
		}
	}
	for bit, n := range ones {
		// Eight standard deviations of a fair coin; the seed is fixed.
		if fixed := bit/4 == 12 || bit/2 == 32; !fixed && (n < many/2-256 || n > many/2+256) {
			t.Errorf("bit %d is set in %d of %d ids", bit, n, many)
		}
	}
}

// A place that is too large for an id leaves the id random.
func TestIDsWithoutRoom(t *testing.T) {
	ids, random := IDKey{1}, randomID(rand.New(rand.NewPCG(1, 2)))
	for _, at := range []Place{{1 << placeSpaceBits, 1}, {1, 1 << placeSeqBits}} {
		if id, ok := ids.New(random, at); ok || id != random {
			t.Errorf("the id of %+v is %s, %v, want %s as it was", at, id, ok, random)
		}
	}
}

// Making an id takes no memory.
func TestIDsAllocate(t *testing.T) {
	ids, random := IDKey{1}, MessageID{6: 0x40, 8: 0x80}
	if n := testing.AllocsPerRun(100, func() {
		random, _ = ids.New(random, Place{1, 2})
	}); n != 0 {
		t.Errorf("an id takes %v allocations", n)
	}
}

func TestParseMessageID(t *testing.T) {
	const good = "00112233-4455-4677-8899-aabbccddeeff"
	if id, ok := ParseMessageID("00112233-4455-4677-8899-AABBCCDDEEFF"); !ok || id.String() != good {
		t.Errorf("got %s, %v", id, ok)
	}
	for _, bad := range []string{"", "m1", good + "0", good[:35], "00112233-4455-4677-8899-aabbccddeefg",
		"001122334-455-4677-8899-aabbccddeeff", "0011223-44455-4677-8899-aabbccddeeff", "00112233-4455-4677-8899--abbccddeeff"} {
		if id, ok := ParseMessageID(bad); ok {
			t.Errorf("%q reads as %s", bad, id)
		}
	}
}
