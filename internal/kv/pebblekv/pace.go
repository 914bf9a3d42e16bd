package pebblekv

import (
	"sync/atomic"
	"time"
)

// A pace lets Pebble rest while it writes tables. A compaction takes a processor for up to a
// second, and on a machine with few processors, requests wait for it. So a flush or compaction
// rests for restTimes as long as it has worked, about once in a millisecond.
//
// Flushes and compactions do not fall behind: they do not rest while memtables fill up more often
// than once in flushesRare, nor when the store is opened or closed.
type pace struct {
	rests   atomic.Bool
	closing atomic.Bool
	flushed atomic.Int64 // when the last flush ended, in nanoseconds of the Unix time
	rested  atomic.Int64 // when the last rest ended
}

const (
	flushesRare = time.Second
	workLeast   = time.Millisecond
	restTimes   = 3
	restMost    = 10 * time.Millisecond // a slow disk is no reason for more
)

// flush notes that a memtable has become a table.
func (p *pace) flush() {
	now := time.Now().UnixNano()
	before := p.flushed.Swap(now)
	p.rests.Store(before != 0 && now-before >= int64(flushesRare))
}

// rest sleeps if the goroutine that writes a file has worked for workLeast since the file was
// created or the last rest ended. A table and its blob file are written in turns, so a rest counts
// for all files. When several compactions run at once, on more processors, each rests less.
func (p *pace) rest(created int64) {
	if !p.rests.Load() || p.closing.Load() {
		return
	}
	worked := time.Duration(time.Now().UnixNano() - max(created, p.rested.Load()))
	if worked >= workLeast {
		time.Sleep(min(restTimes*worked, restMost))
		p.rested.Store(time.Now().UnixNano())
	}
}

// A paced file is a table or a blob file that Pebble writes.
type paced struct {
	file
	created int64
}

func (f paced) Write(b []byte) (int, error) {
	n, err := f.file.Write(b)
	f.disk.pace.rest(f.created)
	return n, err
}
