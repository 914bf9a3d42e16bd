package pebblekv

import (
	"bytes"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A writeList is what was read from logs.
type writeList struct{ rest []version }

func (l *writeList) next() (v version, ok bool) {
	if len(l.rest) == 0 {
		return v, false
	}
	v, l.rest = l.rest[0], l.rest[1:]
	return v, true
}

// logBlock is the size of the blocks of a log. Each begins with a chunk of its own.
const logBlock = 32 << 10

// readLog reads the batches of a log. Behind a chunk that is damaged it goes on with the next
// block.
//
// The last log ends in the middle of a commit after a crash, or in what an earlier use of the file
// has left. The log alone does not tell that from damage, but the witness does.
func (s *salvaging) readLog(name string, writes []version, last bool) []version {
	content, unread, err := readBlocks(s.fs, s.fs.PathJoin(s.dir, name))
	if err != nil {
		s.damaged(s.inStore(name), "it cannot be read: %s", oneLine(err))
		return writes
	}
	if unread != nil {
		s.damaged(s.inStore(name), "parts of it cannot be read: %s", oneLine(unread))
	}
	damagedAt := int64(-1) // where what cannot be read begins
	ended := false         // there the log says that it ends, which a flipped bit can make it say
	for at := int64(0); at < int64(len(content)); {
		r := record.NewReader(bytes.NewReader(content[at:]),
			numbered(pebble.SSTableInfo{}.BackingSSTNum, fileNumber(name)))
		for {
			begin := r.Offset()
			batch, err := r.Next()
			var repr []byte
			if err == nil {
				repr, err = io.ReadAll(batch)
			}
			if err != nil {
				if damagedAt < 0 {
					damagedAt, ended = at+begin, err == io.EOF
				}
				at += (begin/logBlock + 1) * logBlock
				break
			}
			if damagedAt >= 0 {
				s.damaged(s.inStore(name),
					"commits are missing from byte %d on, up to one before byte %d", damagedAt, at+
						r.Offset())
				damagedAt = -1
			}
			b, err := readBatch(repr)
			if err != nil {
				s.damaged(s.inStore(name), "the commit at byte %d cannot be read: %s", at+begin,
					oneLine(err))
				continue
			}
			writes, s.ranges = append(writes, b.rows...), append(s.ranges, b.ranges...)
		}
	}
	if damagedAt >= 0 && !ended && !last {
		s.damaged(s.inStore(name), "commits are missing from byte %d on, up to its end", damagedAt)
	}
	return writes
}

// readBlocks reads a log block by block. Blocks that the disk does not give are zero, and unread is
// why.
func readBlocks(fs vfs.FS, path string) (content []byte, unread, err error) {
	f, err := fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	content = make([]byte, info.Size())
	for at := 0; at < len(content); at += logBlock {
		part := content[at:min(at+logBlock, len(content))]
		if _, err := f.ReadAt(part, int64(at)); err != nil && err != io.EOF {
			clear(part)
			unread = err
		}
	}
	return content, unread, nil
}

// A writeBatch is what one batch writes.
type writeBatch struct {
	rows   []version
	ranges []rangeDelete
}

// readBatch reads a batch, all of it or nothing.
func readBatch(repr []byte) (b writeBatch, err error) {
	h, ok := batchrepr.ReadHeader(repr)
	if !ok || h.SeqNum == 0 {
		return b, errMalformed
	}
	err = guardOpen(func() error {
		seq := uint64(h.SeqNum)
		for r := batchrepr.Read(repr); ; {
			kind, key, value, ok, err := r.Next()
			switch {
			case err != nil:
				return err
			case !ok && seq != uint64(h.SeqNum)+uint64(h.Count):
				return errMalformed
			case !ok:
				return nil
			}
			switch kind {
			case pebble.InternalKeyKindLogData:
				continue // takes no number
			case pebble.InternalKeyKindRangeDelete:
				b.ranges = append(b.ranges, rangeDelete{key, value, seq})
			case pebble.InternalKeyKindSet, pebble.InternalKeyKindDelete,
				pebble.InternalKeyKindSingleDelete:
				b.rows = append(b.rows, version{key: key, seq: seq,
					set: kind == pebble.InternalKeyKindSet, value: value})
			default:
				return errMalformed
			}
			seq++
		}
	})
	return b, err
}
