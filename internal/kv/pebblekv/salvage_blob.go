package pebblekv

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2/sstable/blob"
	"github.com/cockroachdb/pebble/v2/sstable/block"
)

// An apart says where a value lies that is not in its table.
type apart struct {
	table     uint64
	reference int // to a blob file, as the table numbers them
	length    uint32
	in        blob.HandleSuffix
}

// newApart reads a handle, which begins with a byte that says what it is.
func newApart(table string, handle []byte) (*apart, error) {
	if !block.ValuePrefix(handle[0]).IsBlobValueHandle() {
		return nil, errors.New("it has a value in another place than a blob file")
	}
	preface, rest := blob.DecodeInlineHandlePreface(handle[1:])
	return &apart{fileNumber(table), int(preface.ReferenceID), preface.ValueLen,
		blob.DecodeHandleSuffix(rest)}, nil
}

// A handleCatcher keeps the handle of the value that an iterator is at, and gives the iterator an
// empty value, which is of a type that only Pebble can name.
type handleCatcher[T any] struct{ handle []byte }

func catcher[T any](func(blob.InlineHandlePreface, []byte) T) *handleCatcher[T] {
	return &handleCatcher[T]{}
}

// GetInternalValueForPrefixAndValueHandle is called for a value that is not in its table.
func (c *handleCatcher[T]) GetInternalValueForPrefixAndValueHandle(handle []byte) (none T) {
	c.handle = bytes.Clone(handle)
	return none
}

// take returns the handle of the present value, nil if that is in the table.
func (c *handleCatcher[T]) take() (handle []byte) {
	handle, c.handle = c.handle, nil
	return handle
}

// readManifests learns from the manifest which blob files tables refer to, and what the copy says
// if the manifest says less.
func (s *salvaging) readManifests() {
	s.manifest, s.blobs = newManifest(), blobSet{}
	name := manifestName(s.names)
	for _, n := range []string{copyPrefix + name, name} { // the manifest has the last word
		_ = s.manifest.read(s.fs, s.fs.PathJoin(s.dir, n)) // live reports it
	}
}

// A blobSet has what is known of blob files, by their numbers.
type blobSet map[uint64]*salvagedBlob

// A salvagedBlob is a blob file that a row has its value in.
type salvagedBlob struct {
	reader *blobReader // nil if nothing of it can be read
	err    error       // of opening it
	lost   int         // rows
	first  error       // why
}

// openBlobs is how many blob files are open at a time at most.
const openBlobs = 100

// fetch reads the value of a row, or notes that it is lost.
func (s *salvaging) fetch(v *version) bool {
	var files []blobEntry
	if ids := s.manifest.refers[v.apart.table]; v.apart.reference < len(ids) {
		files = s.manifest.files[ids[v.apart.reference]]
	}
	if len(files) == 0 {
		s.unnamed++
		return false
	}
	// Of a file and what it was rewritten to, commonly only the newer is there.
	for _, f := range slices.Backward(files) {
		b := s.blob(f.number)
		err := b.err
		if err == nil {
			var value []byte
			if value, err = b.reader.value(v.apart.in, v.apart.length); err == nil {
				v.value = bytes.Clone(value)
				return true
			}
		}
		b.first = cmp.Or(b.first, err)
	}
	s.blobs[files[len(files)-1].number].lost++
	return false
}

// blob opens a blob file.
func (s *salvaging) blob(number uint64) *salvagedBlob {
	b := s.blobs[number]
	if b == nil {
		b = &salvagedBlob{}
		s.blobs[number] = b
	}
	if b.reader != nil || b.err != nil {
		return b
	}
	if s.opened++; s.opened > openBlobs {
		s.shutBlobs()
	}
	b.reader, b.err = newBlobReader(s.fs, s.fs.PathJoin(s.dir, blobName(number)),
		s.opts.MakeReaderOptions())
	return b
}

func (s *salvaging) shutBlobs() {
	for _, b := range s.blobs {
		if b.reader != nil {
			_ = b.reader.Close()
			b.reader = nil
		}
	}
	s.opened = 1
}

// closeBlobs says what was lost with blob files.
func (s *salvaging) closeBlobs() {
	s.shutBlobs()
	for _, number := range slices.Sorted(maps.Keys(s.blobs)) {
		if b := s.blobs[number]; b.lost > 0 {
			s.damaged(s.inStore(blobName(number)), "rows whose values cannot be read: %d, as %s",
				b.lost, oneLine(b.first))
		}
	}
	if s.unnamed > 0 {
		s.damaged(s.inStore("MANIFEST"),
			"rows whose values lie in blob files that nothing names any more: %d", s.unnamed)
	}
}
