package pebblekv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/blob"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/vfs"
)

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
