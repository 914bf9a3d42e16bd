package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"tenaq/internal/engine/row"
)

// A rowSum stands for a set of rows, whatever their order: two sets with the same sum are taken for
// the same.
type rowSum struct {
	rows   int64
	hashes [2]uint64
}

func (s *rowSum) add(k, v []byte) {
	var room [256]byte
	b := binary.AppendUvarint(room[:0], uint64(len(k)))
	b = append(append(b, k...), v...)
	sum := sha256.Sum256(b)
	s.rows++
	s.hashes[0] += binary.BigEndian.Uint64(sum[:8])
	s.hashes[1] += binary.BigEndian.Uint64(sum[8:])
}

// A relation is that between rows of one kind, the owners, and the rows of an index, of which each
// stands for an owner.
type relation struct {
	audit *run
	queue row.QueueName
	name  string // of the rows of the index

	owners, rows row.Span
	// the row in the index that an owner must have, if it can be read and must
	wants func(k, v []byte) (wantKey, wantValue []byte, ok bool)
	// whose a row of the index is
	owner func(k, v []byte) (ownerKey []byte, ok bool)
	// an owner may be without its row; nil for none
	excused func(k, v []byte) bool

	want, have rowSum
}

// all notes every row of the index, after check has looked at it.
func (r *relation) all(check func(k, v []byte)) {
	for k, v := range r.audit.rows(r.rows) {
		r.have.add(k, v)
		check(k, v)
	}
}

// settle compares the two, once all that is wanted has been noted, and all that is there. If they
// differ, it names the rows that make the difference.
func (r *relation) settle() {
	if r.want == r.have {
		return
	}
	before, excused := r.audit.found, false
	for k, v := range r.audit.Store.Scan(r.owners.Lo, r.owners.Hi) {
		wantKey, wantValue, ok := r.wants(k, v)
		if !ok {
			continue
		}
		switch have, found := r.audit.get(wantKey); {
		case !found && r.excused != nil && r.excused(k, v):
			excused = true
		case !found:
			r.audit.report(r.queue, k, "it has no %s row, which would have the key %x", r.name,
				wantKey)
		case !bytes.Equal(have, wantValue):
			r.audit.report(r.queue, wantKey,
				"this %s row says %x and, by the row %x, should say %x", r.name, have, k, wantValue)
		}
	}
	for k, v := range r.audit.Store.Scan(r.rows.Lo, r.rows.Hi) {
		if ownerKey, ok := r.owner(k, v); ok {
			if value, ok := r.audit.get(ownerKey); ok {
				if wantKey, _, ok := r.wants(ownerKey, value); ok && bytes.Equal(wantKey, k) {
					continue
				}
			}
		}
		r.audit.report(r.queue, k, "this %s row stands for nothing that is there", r.name)
	}
	if r.audit.found == before && !excused {
		r.audit.report(r.queue, nil, "there are %d %s rows where %d should be", r.have.rows, r.name,
			r.want.rows)
	}
}

// expect notes the row that an owner wants, if it wants one.
func (r *relation) expect(wantKey, wantValue []byte, ok bool) {
	if ok {
		r.want.add(wantKey, wantValue)
	}
}
