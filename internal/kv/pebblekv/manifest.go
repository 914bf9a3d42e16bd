package pebblekv

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A manifest is what manifests of Pebble say about blob files, which nothing else says: a table
// numbers the blob files that it refers to, and its line in the manifest has their IDs. The ID of a
// blob file stays when the file is rewritten under another number.
type manifest struct {
	refers map[uint64][]uint64    // IDs by the number of a table, also of one that was removed
	files  map[uint64][]blobEntry // by ID, the newest file last
	live   map[uint64]bool        // IDs that some table refers to
}

// A blobEntry names a blob file.
type blobEntry struct{ number, size uint64 }

func newManifest() *manifest {
	return &manifest{map[uint64][]uint64{}, map[uint64][]blobEntry{}, map[uint64]bool{}}
}

// current returns the blob files that make up the store, in the order of their numbers.
func (m *manifest) current() (all []blobEntry) {
	for id := range m.live {
		all = append(all, m.files[id][len(m.files[id])-1])
	}
	slices.SortFunc(all, func(a, b blobEntry) int { return cmp.Compare(a.number, b.number) })
	return all
}

// manifestOf reads the manifest that a store in dir goes by, as far as it can be read. Pebble too
// takes a record that is damaged for the end of a manifest.
func manifestOf(fs vfs.FS, dir string) (*manifest, error) {
	m := newManifest()
	desc, err := pebble.Peek(dir, fs)
	if err == nil && desc.Exists {
		err = m.read(fs, desc.ManifestFilename)
	}
	return m, err
}

const manifestPrefix = "MANIFEST-"

// manifestName returns the name of the manifest that a store with these files goes by, or went by
// if what says so is lost.
func manifestName(names []string) (name string) {
	marker := ""
	for _, n := range names {
		rest, is := strings.CutPrefix(n, "marker.manifest.")
		if _, named, ok := strings.Cut(rest, "."); is && ok && n > marker {
			marker, name = n, named
		}
	}
	if marker == "" {
		for _, n := range names {
			if n = strings.TrimPrefix(n, copyPrefix); strings.HasPrefix(n, manifestPrefix) {
				name = max(name, n)
			}
		}
	}
	return name
}

// read adds what a manifest says.
func (m *manifest) read(fs vfs.FS, path string) error {
	f, err := fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer f.Close()
	for r := record.NewReader(f, 0); ; {
		edit, err := r.Next()
		if err == nil {
			err = m.add(bufio.NewReader(edit))
		}
		if err == io.EOF || record.IsInvalidRecord(err) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// The tags of the fields of an edit.
const (
	tagComparator     = 1
	tagLogNumber      = 2
	tagNextFile       = 3
	tagLastSequence   = 4
	tagCompactPointer = 5
	tagRemovedTable   = 6
	tagPrevLogNumber  = 9
	tagNewTable       = 103
	tagNewTableRanges = 104 // with range keys
	tagBacking        = 105
	tagRemovedBacking = 106
	tagNewBlob        = 107
	tagRemovedBlob    = 108

	fieldEnd             = 1
	fieldVirtual         = 66
	fieldBlobs           = 69
	hasPointKeys    byte = 1
	fieldsAreNeeded      = 1 << 6 // fields without this bit may be skipped
)

// An edit is a record of a manifest that is being read.
type edit struct {
	*bufio.Reader
	err error
}

func (e *edit) number() (n uint64) {
	if e.err != nil {
		return 0
	}
	if n, e.err = binary.ReadUvarint(e); e.err == io.EOF {
		e.err = io.ErrUnexpectedEOF
	}
	return n
}

func (e *edit) numbers(n int) {
	for range n {
		e.number()
	}
}

func (e *edit) skipBytes() {
	n := e.number()
	if e.err == nil && n > 1<<30 {
		e.err = errMalformed
	}
	if e.err == nil {
		_, e.err = e.Discard(int(n))
	}
}

// add applies an edit. A blob file that is rewritten is removed and new in one edit.
func (m *manifest) add(r *bufio.Reader) error {
	e := &edit{Reader: r}
	var fresh, removed []uint64
	for e.err == nil {
		if _, err := e.Peek(1); err == io.EOF {
			break
		}
		switch tag := e.number(); tag {
		case tagComparator:
			e.skipBytes()
		case tagLogNumber, tagNextFile, tagLastSequence, tagPrevLogNumber, tagRemovedBacking:
			e.number()
		case tagCompactPointer:
			e.number()
			e.skipBytes()
		case tagRemovedTable, tagBacking:
			e.numbers(2)
		case tagNewTable, tagNewTableRanges:
			m.addTable(e, tag)
		case tagNewBlob:
			id, number, size := e.number(), e.number(), e.number()
			e.numbers(2) // the size of its values, and when it was created
			if e.err == nil {
				m.files[id] = append(slices.DeleteFunc(m.files[id], func(f blobEntry) bool {
					return f.number == number
				}), blobEntry{number, size})
				fresh = append(fresh, id)
			}
		case tagRemovedBlob:
			removed = append(removed, e.number())
			e.number()
		default:
			e.err = errMalformed
		}
	}
	if e.err != nil {
		return e.err
	}
	for _, id := range removed {
		delete(m.live, id)
	}
	for _, id := range fresh {
		m.live[id] = true
	}
	return nil
}

// addTable reads the entry of a table.
func (m *manifest) addTable(e *edit, tag uint64) {
	e.number() // level
	table := e.number()
	e.number() // size
	if tag == tagNewTableRanges {
		if e.err == nil {
			var holds byte
			if holds, e.err = e.ReadByte(); holds&hasPointKeys != 0 {
				e.skipBytes()
				e.skipBytes()
			}
		}
	}
	e.skipBytes() // the smallest key
	e.skipBytes() // the largest key
	e.numbers(2)  // the smallest and the largest sequence number
	for e.err == nil {
		switch field := e.number(); {
		case field == fieldEnd:
			return
		case field == fieldVirtual:
			table = e.number() // the one that it is a part of
		case field == fieldBlobs:
			e.number() // depth
			n := e.number()
			var ids []uint64
			for range n {
				ids = append(ids, e.number())
				e.number() // size of the values
				if e.err != nil {
					return
				}
			}
			m.refers[table] = ids
		case field&fieldsAreNeeded != 0:
			e.err = cmp.Or(e.err, errMalformed) // a prefix or a suffix of all keys
		default:
			e.skipBytes()
		}
	}
}
