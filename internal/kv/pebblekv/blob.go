package pebblekv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const blobSuffix = ".blob"

func blobName(number uint64) string { return fmt.Sprintf("%06d%s", number, blobSuffix) }

// isBlob reports whether a name is that of a blob file.
func isBlob(name string) bool { return strings.HasSuffix(name, blobSuffix) }

// checkBlobs refuses a store of which a blob file is missing or has another length than the
// manifest says. Pebble checks only tables when it opens a store. What is in the files is checked
// when they are read: there may be tens of thousands.
func checkBlobs(fs vfs.FS, dir string) error {
	m, err := manifestOf(fs, dir)
	if err != nil {
		return err
	}
	for _, want := range m.current() {
		name := blobName(want.number)
		info, err := fs.Stat(fs.PathJoin(dir, name))
		switch {
		case errors.Is(err, errNotExist):
			return damaged(dir, "the file %s is missing", name)
		case err != nil:
			return err
		case uint64(info.Size()) != want.size:
			return damaged(dir, "the file %s has %d bytes where it should have %d", name, info.Size(),
				want.size)
		}
	}
	return nil
}

// A blobFile is a blob file of which nothing is read that was not compared with its checksum. What
// does not agree is ErrDamaged. Pebble itself answers damage to a blob file with a panic without a
// sentence, and takes one blob file for another of the same number.
type blobFile struct {
	vfs.File
	name string
	size int64
}

func openBlob(fs vfs.FS, path string, opts ...vfs.OpenOption) (*blobFile, error) {
	f, err := fs.Open(path, opts...)
	if errors.Is(err, errNotExist) {
		return nil, &blobError{path, "it is missing"}
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	b := &blobFile{f, path, info.Size()}
	if b.size < blobFooter {
		return nil, errors.Join(b.damaged("it has only %d bytes", b.size), f.Close())
	}
	return b, nil
}

// A blob file is a sequence of blocks, each with a type (1 byte) and a checksum (4 bytes) after
// it, and a footer:
//
//	offset  size  field
//	     0     4  checksum of what follows
//	     4    16  offset and length of the index block, the last one
//	    20     1  kind of the checksums
//	    21     1  format
//	    22     8  the number of the file
//	    30     8  magic
const (
	blobFooter   = 38
	footerNumber = 22
	blockTrailer = block.TrailerLen
)

// ReadAt reads a block with its trailer, or the footer. Pebble reads nothing else.
func (f *blobFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	if err == nil || err == io.EOF && n == len(p) {
		err = f.check(p, at)
	}
	return n, err
}

func (f *blobFile) check(p []byte, at int64) error {
	if len(p) == blobFooter && at == f.size-blobFooter {
		if binary.LittleEndian.Uint32(p) != maskedSum(p[4:]) {
			return f.damaged("its last %d bytes do not match their checksum", blobFooter)
		}
		n := binary.LittleEndian.Uint64(p[footerNumber:])
		if n != fileNumber(filepath.Base(f.name)) {
			return f.damaged("it is the file %s under another name", blobName(n))
		}
		return nil
	}
	body := len(p) - 4
	if body < 0 || binary.LittleEndian.Uint32(p[body:]) != maskedSum(p[:body]) {
		return f.damaged("its block at byte %d does not match its checksum", at)
	}
	return nil
}

func (f *blobFile) damaged(format string, args ...any) error {
	return &blobError{f.name, fmt.Sprintf(format, args...)}
}

// A blobError says what is wrong with a blob file. It counts as ErrDamaged.
type blobError struct{ path, text string }

func (e *blobError) Error() string        { return e.path + ": " + e.text }
func (e *blobError) Is(target error) bool { return target == ErrDamaged }

// maskedSum is the checksum that Pebble writes.
func maskedSum(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}
