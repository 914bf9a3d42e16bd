package pebblekv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/blob"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const blobSuffix = ".blob"

func blobName(number uint64) string { return fmt.Sprintf("%06d%s", number, blobSuffix) }

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

// A blob file is a sequence of blocks, each with a type (1 byte) and a checksum (4 bytes) behind
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

// A blobReader reads the values of a blob file.
type blobReader struct {
	reader *blob.FileReader
	index  block.BufferHandle
	// a file that was rewritten has fewer blocks than handles name; these say where they are
	moved      colblk.UnsafeUints
	movedCount int
	offsets    colblk.UnsafeUints
	blocks     int

	at     int // the block in hand, or -1
	block  block.BufferHandle
	values colblk.RawBytes
	rows   int
}

func newBlobReader(fs vfs.FS, path string, o sstable.ReaderOptions) (r *blobReader, err error) {
	f, err := openBlob(fs, path, vfs.RandomReadsOption)
	if err != nil {
		return nil, err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r = &blobReader{at: -1}
	err = guardOpen(func() (err error) {
		ctx := context.Background()
		r.reader, err = blob.NewFileReader(ctx, readable,
			blob.FileReaderOptions{ReaderOptions: o.ReaderOptions})
		if err != nil {
			return errors.Join(err, readable.Close())
		}
		if r.index, err = r.reader.ReadIndexBlock(ctx, block.NoReadEnv, nil); err != nil {
			return errors.Join(err, r.reader.Close())
		}
		const header, columnMoved, columnOffsets = 4, 0, 1
		data := r.index.BlockData()
		r.movedCount = int(binary.LittleEndian.Uint32(data))
		var d colblk.BlockDecoder
		d.Init(data, header)
		r.blocks = d.Rows()
		r.moved = colblk.DecodeColumn(&d, columnMoved, r.movedCount, colblk.DataTypeUint,
			colblk.DecodeUnsafeUints)
		r.offsets = colblk.DecodeColumn(&d, columnOffsets, r.blocks+1, colblk.DataTypeUint,
			colblk.DecodeUnsafeUints)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// load reads a block.
func (r *blobReader) load(i int) error {
	if i == r.at {
		return nil
	}
	r.drop()
	from, to := r.offsets.At(i), r.offsets.At(i+1)
	if end := r.reader.IndexHandle().Offset; to > end || from+blockTrailer > to {
		return fmt.Errorf("it has no block from byte %d to byte %d", from, to)
	}
	h, err := r.reader.ReadValueBlock(context.Background(), block.NoReadEnv, nil,
		block.Handle{Offset: from, Length: to - from - blockTrailer})
	if err != nil {
		return err
	}
	var d colblk.BlockDecoder
	d.Init(h.BlockData(), 0)
	r.at, r.block, r.values, r.rows = i, h, d.RawBytes(0), d.Rows()
	return nil
}

func (r *blobReader) drop() {
	if r.at >= 0 {
		r.block.Release()
		r.at = -1
	}
}

// value returns a value, which is valid until the next call. A value of another length than the
// handle says is not the one.
func (r *blobReader) value(in blob.HandleSuffix, length uint32) (v []byte, err error) {
	err = guardOpen(func() error {
		at, value := uint64(in.BlockID), uint64(in.ValueID)
		if r.movedCount > 0 {
			if at >= uint64(r.movedCount) {
				return fmt.Errorf("it has no block %d", at)
			}
			m := r.moved.At(int(at))
			at, value = m&math.MaxUint32, value+m>>32
		}
		if at >= uint64(r.blocks) {
			return fmt.Errorf("it has no block %d", at)
		}
		if err := r.load(int(at)); err != nil {
			return err
		}
		if value >= uint64(r.rows) {
			return fmt.Errorf("its block %d has no value %d", at, value)
		}
		if v = r.values.At(int(value)); len(v) != int(length) {
			return fmt.Errorf("its value %d in block %d has %d bytes where it should have %d", value,
				at, len(v), length)
		}
		return nil
	})
	return v, err
}

// checkAll reads every block, whether a row still needs it or not.
func (r *blobReader) checkAll() error {
	return guardOpen(func() error {
		for i := range r.blocks {
			if err := r.load(i); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *blobReader) Close() error {
	r.drop()
	r.index.Release()
	return r.reader.Close()
}

// isBlob reports whether a name is that of a blob file.
func isBlob(name string) bool { return strings.HasSuffix(name, blobSuffix) }
