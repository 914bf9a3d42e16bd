package pebblekv

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/block/blockkind"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A damagedTable is a table of which some blocks may not be readable.
type damagedTable struct {
	s      *salvaging
	name   string
	reader *sstable.Reader
	schema *colblk.KeySchema
	blocks []block.HandleWithProperties

	rows []version // of the block that was read last
	lost int       // blocks
}

// openTable opens a table. Without its index nothing of it is read.
func (s *salvaging) openTable(name string) *damagedTable {
	t := &damagedTable{s: s, name: name}
	if err := guardOpen(func() error { return t.open(s.fs.PathJoin(s.dir, name)) }); err != nil {
		s.damaged(s.inStore(name), "nothing in it can be read: %s", oneLine(err))
		return nil
	}
	if err := guardOpen(t.readRanges); err != nil {
		s.damaged(s.inStore(name), "removals of whole ranges, as by a purge, cannot be read: %s",
			oneLine(err))
	}
	return t
}

func (t *damagedTable) open(path string) error {
	f, err := t.s.fs.Open(path, vfs.RandomReadsOption)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	options := t.s.opts.MakeReaderOptions()
	t.schema = options.KeySchemas[t.s.opts.KeySchema]
	if t.reader, err = sstable.NewReader(context.Background(), readable, options); err != nil {
		return errors.Join(err, readable.Close())
	}
	layout, err := t.reader.Layout()
	if err == nil && !layout.Format.BlockColumnar() {
		err = fmt.Errorf("it has the format %v", layout.Format)
	}
	if err != nil {
		return errors.Join(err, t.reader.Close())
	}
	t.blocks = layout.Data
	return nil
}

func (t *damagedTable) readRanges() error {
	it, err := t.reader.NewRawRangeDelIter(context.Background(), sstable.NoFragmentTransforms,
		sstable.NoReadEnv)
	if err != nil || it == nil {
		return err
	}
	defer it.Close()
	span, err := it.First()
	for ; span != nil && err == nil; span, err = it.Next() {
		for _, k := range span.Keys {
			t.s.ranges = append(t.s.ranges,
				rangeDelete{bytes.Clone(span.Start), bytes.Clone(span.End), uint64(k.SeqNum())})
		}
	}
	return err
}

func (t *damagedTable) next() (v version, ok bool) {
	for len(t.rows) == 0 {
		if len(t.blocks) == 0 {
			if t.lost > 0 {
				t.s.damaged(t.s.inStore(t.name), "blocks that cannot be read: %d", t.lost)
				t.lost = 0
			}
			if t.reader != nil {
				_ = t.reader.Close()
				t.reader = nil
			}
			return v, false
		}
		if err := guardOpen(t.readBlock); err != nil {
			t.rows, t.lost = nil, t.lost+1
		}
		t.blocks = t.blocks[1:]
	}
	v, t.rows = t.rows[0], t.rows[1:]
	return v, true
}

// readBlock reads the next block, after its checksum was compared.
func (t *damagedTable) readBlock() error {
	h, err := t.reader.BlockReader().Read(context.Background(), block.NoReadEnv, nil,
		t.blocks[0].Handle, blockkind.SSTableData,
		func(m *block.Metadata, data []byte) error {
			return colblk.InitDataBlockMetadata(t.schema, m, data)
		})
	if err != nil {
		return err
	}
	defer h.Release()
	var decoder colblk.DataBlockDecoder
	decoder.Init(t.schema, h.BlockData())
	var it colblk.DataBlockIter
	handles := catcher(sstable.DebugHandlesBlobContext.BlobHandleFn)
	it.InitOnce(t.schema, t.s.opts.Comparer, handles)
	if err := it.Init(&decoder, block.IterTransforms{}); err != nil {
		return err
	}
	defer it.Close()
	for kv := it.First(); kv != nil; kv = it.Next() {
		kind := kv.K.Kind()
		v := version{key: bytes.Clone(kv.K.UserKey), seq: uint64(kv.K.SeqNum()),
			set: kind == pebble.InternalKeyKindSet || kind == pebble.InternalKeyKindSetWithDelete}
		if handle := handles.take(); handle == nil {
			v.value = bytes.Clone(kv.InPlaceValue())
		} else if v.apart, err = newApart(t.name, handle); err != nil {
			return err
		}
		t.rows = append(t.rows, v)
	}
	return nil
}
