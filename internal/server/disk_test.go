package server

import (
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// fakeDisk returns a disk with as much room as the variable says.
func fakeDisk(dir string, free *int64, reserve, ballast int64) *disk {
	return &disk{
		dir:     dir,
		room:    func(string) (room, error) { return room{*free, 1 << 41}, nil },
		reserve: reserve,
		ballast: ballast,
		logger:  slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// Sends are refused below the reserve, and accepted again a little above it, so that a disk at the
// edge does not waver. [DUR-20, DUR-22]
func TestDiskReserve(t *testing.T) {
	var free int64
	d := fakeDisk(t.TempDir(), &free, 1000, 1<<40)
	for _, step := range []struct {
		free int64
		low  bool
	}{{1000, false}, {999, true}, {1000, true}, {1049, true}, {1050, false}, {1000, false}, {999, true}, {0, true}, {5000, false}} {
		free = step.free
		d.look()
		if d.low() != step.low {
			t.Errorf("with %d bytes free: refused is %v, want %v", step.free, d.low(), step.low)
		}
	}
}

// A reserve that no disk has refuses sends and continues doing so; none refuses never. [DUR-20]
func TestDiskReserveExtremes(t *testing.T) {
	free := int64(1 << 40)
	d := fakeDisk(t.TempDir(), &free, math.MaxInt64, 1)
	for range 3 {
		d.look()
		if !d.low() {
			t.Error("a reserve that no disk has: sends are accepted")
		}
	}
	free = 0
	d = fakeDisk(t.TempDir(), &free, 0, 1)
	d.look()
	if d.low() {
		t.Error("none of it reserved: sends are refused")
	}
}

// If the free space cannot be read, the last known figure stays.
func TestDiskUnknown(t *testing.T) {
	free := int64(7)
	d := fakeDisk(t.TempDir(), &free, 1000, 1)
	if d.seen.Load() != nil {
		t.Error("the disk is known before the first look")
	}
	d.look()
	d.room = func(string) (room, error) { return room{}, errors.New("not today") }
	seen := *d.seen.Load()
	d.look()
	if !d.low() || *d.seen.Load() != seen {
		t.Errorf("sends are refused: %t, and %+v was seen, before %+v", d.low(), *d.seen.Load(), seen)
	}
}

// The ballast takes up room while there is plenty, is given back when there is next to none, and is
// not taken again before there is plenty. [DUR-23]
func TestBallast(t *testing.T) {
	dir := t.TempDir()
	var free int64
	d := fakeDisk(dir, &free, 1000, 1<<20)
	for i, step := range []struct {
		free int64
		size int64 // of the ballast, 0 for none
	}{
		{1000 + 2<<20, 0},
		{1001 + 2<<20, 1 << 20},
		{1 << 19, 1 << 20},
		{1<<19 - 1, 0},
		{1<<20 + 1<<19, 0},
		{3 << 20, 1 << 20},
	} {
		free = step.free
		d.look()
		var size int64
		if info, err := os.Stat(filepath.Join(dir, ballastName)); err == nil {
			size = info.Size()
		}
		if size != step.size {
			t.Errorf("step %d: with %d bytes free the ballast has %d, want %d", i, step.free, size, step.size)
		}
	}
}

// The room on a real disk is a number that makes sense.
func TestRoom(t *testing.T) {
	if got, err := roomOn(t.TempDir()); err != nil || got.free <= 0 || got.total < got.free {
		t.Errorf("got %+v, %v, want some room", got, err)
	}
	if _, err := roomOn(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a directory that is not there has room")
	}
}
