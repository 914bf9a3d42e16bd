package server

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// A full disk must not end in a crash loop in which not even deletes are possible. Two things guard
// against it. Below the reserve, sends are refused while receives and deletes continue. [DUR-20,
// DUR-21] And a ballast file takes up room that is given back when the disk has run full all the
// same, so that the deletes which make room have room to be written. [DUR-23]
type disk struct {
	dir     string
	room    func(dir string) (room, error)
	reserve int64
	ballast int64
	logger  *slog.Logger

	refusing atomic.Bool
	seen     atomic.Pointer[sight] // nil before the first look that succeeded
}

// A room is the space of a disk in bytes.
type room struct {
	free  int64 // what a write may still take
	total int64
}

// A sight is what a look has found. It is there while the disk does not answer. [V1-25]
type sight struct {
	room
	at time.Time
}

const (
	ballastName = "ballast"
	ballastSize = 64 << 20
	diskEvery   = time.Second
)

// low reports whether sends are refused.
func (d *disk) low() bool { return d.refusing.Load() }

// look acts on how much room there is.
func (d *disk) look() {
	found, err := d.room(d.dir)
	if err != nil {
		d.logger.Warn("cannot read the free disk space", "error", err)
		return
	}
	free := found.free
	d.seen.Store(&sight{found, time.Now()})
	// The differences, unlike the sums, fit for every reserve that can be asked for.
	low := free < d.reserve
	if d.low() {
		low = free-d.reserve < d.reserve/20 // do not waver at the edge [DUR-22]
	}
	if low != d.low() {
		d.refusing.Store(low)
		if low {
			d.logger.Warn("sends refused: free disk space is below the reserve", "free_bytes", free,
				"reserve_bytes", d.reserve)
		} else {
			d.logger.Info("sends accepted again", "free_bytes", free)
		}
	}
	path := filepath.Join(d.dir, ballastName)
	_, err = os.Stat(path)
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case !missing && free < d.ballast/2:
		if err := os.Remove(path); err == nil {
			d.logger.Warn("ballast released: the disk is full", "bytes", d.ballast)
		}
	case missing && free-2*d.ballast > d.reserve:
		if err := writeBallast(path, d.ballast); err != nil {
			d.logger.Warn("ballast not written", "error", err)
		}
	}
}

// writeBallast makes a file of real blocks.
func writeBallast(path string, size int64) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			os.Remove(path)
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if err := allocate(f, size); err == nil {
		return nil
	}
	block := make([]byte, 1<<20)
	for ; size > 0; size -= int64(len(block)) {
		if _, err := f.Write(block[:min(size, int64(len(block)))]); err != nil {
			return err
		}
	}
	return nil
}
