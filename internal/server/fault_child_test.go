package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

	"tenaq/internal/kv/kvtest/crashdisk"
	"tenaq/internal/kv/pebblekv"
)

// faultEnv names the variable that makes the test binary a server whose disk fails.
const faultEnv = "TENAQ_FAULT_CHILD"

// A faultChild is the configuration of the process.
type faultChild struct {
	Dir   string
	Fault fault

	// Limit is how large a file of the real disk may become in bytes, for what does not go through
	// a file system that can be replaced; none when zero.
	Limit uint64

	// Room is the size in bytes of a file system of its own that the directory is on, which ends
	// with the process; none when zero. Its files are copied into the directory Left.
	Room uint64
	Left string
}

// faultConfig is the configuration of every server of the sweep. Its store is so small that a short
// script flushes, compacts and reads from tables.
func faultConfig(dir string, fs vfs.FS) Config {
	return Config{
		Listen:        "127.0.0.1:0",
		AdminListen:   "off",
		DataDir:       dir,
		DiskReserve:   -1,
		PurgeInterval: -1,
		RecreateDelay: -1,
		store: func(o *pebblekv.Options) {
			o.FS, o.MemTableBytes, o.CacheBytes, o.SeparateBytes = fs, 64<<10, 64<<10, 64
		},
	}
}

// run is the process: two servers over one disk, one after the other, each until SIGTERM. It ends
// as tenaq serve does.
//
// When the power is to fail, the store is in memory, where what was forced is known from what was
// not, and is written to the real directory when the process ends, whatever ends it.
func (c faultChild) run() {
	disk := &faultyDisk{FS: vfs.Default, fault: c.Fault, dir: c.Dir, counts: make(map[string]int)}
	if c.Fault.Power {
		disk.FS = memoryUnder(c.Dir)
	}
	disk.hit = func(path string) { fmt.Println("hit", path) }
	end := disk.end
	if c.Limit > 0 {
		lift := limitFiles(c.Limit)
		end = func() { lift(); disk.end() }
	}
	if c.Room > 0 {
		if err := unix.Mount("none", c.Dir, "tmpfs", 0, fmt.Sprintf("size=%d", c.Room)); err != nil {
			fmt.Println("no mount", err)
			os.Exit(0)
		}
		end = func() {
			disk.end()
			if _, err := vfs.Clone(vfs.Default, vfs.Default, c.Dir, c.Left); err != nil {
				panic(err)
			}
		}
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM)

	cfg := faultConfig(c.Dir, disk)
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	cfg.Fatal = func(err error) {
		end()
		exitOnFault(err)
	}
	fail := func(err error) {
		end()
		fmt.Fprintf(os.Stderr, "tenaq: %v\n", err)
		os.Exit(exitStatus(err))
	}
	for range 2 {
		s, err := New(cfg)
		if err != nil {
			fail(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-signals
			cancel()
		}()
		fmt.Println("url", s.URL())
		if err := s.Run(ctx); err != nil {
			fail(err)
		}
		cancel()
	}
	end()
	counts, _ := json.Marshal(disk.total())
	fmt.Println("counts", string(counts))
	os.Exit(0)
}

// limitFiles limits the size of files until lift is called.
func limitFiles(bytes uint64) (lift func()) {
	var was syscall.Rlimit
	set := func(l syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
			panic(err)
		}
	}
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		panic(err)
	}
	set(syscall.Rlimit{Cur: bytes, Max: was.Max})
	return func() { set(was) }
}

// exitStatus is the status of a server that could not start or continue, as tenaq serve has it.
func exitStatus(err error) int {
	switch {
	case errors.Is(err, ErrConfig):
		return 2
	case errors.Is(err, ErrInUse):
		return 4
	case errors.Is(err, ErrDamaged):
		return 6
	case errors.Is(err, ErrStorage):
		return 7
	}
	return 1
}

// memoryUnder returns an empty file system in memory that has the directory above dir. Files that
// are opened outside it need dir itself, on the real disk.
func memoryUnder(dir string) *crashdisk.Disk {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		panic(err)
	}
	fs := crashdisk.New()
	above := filepath.Dir(dir)
	if err := fs.MkdirAll(above, 0o700); err != nil {
		panic(err)
	}
	for {
		d, err := fs.OpenDir(above)
		if err != nil {
			panic(err)
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			panic(err)
		}
		if above == filepath.Dir(above) {
			return fs
		}
		above = filepath.Dir(above)
	}
}

// becomeFaultChild does not return when the process was started to be one.
func becomeFaultChild() {
	spec := os.Getenv(faultEnv)
	if spec == "" {
		return
	}
	var c faultChild
	if err := json.NewDecoder(strings.NewReader(spec)).Decode(&c); err != nil {
		panic(err)
	}
	c.run()
}
