package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tenaq/internal/api/v1"
	"tenaq/internal/cli"
	"tenaq/internal/settings"
)

// Bounds of the measurement of forced writes.
const (
	fsyncWrites = 200
	fsyncTime   = 3 * time.Second
	FsyncBlock  = 4 << 10
)

const FsyncPattern = "tenaq-doctor-*.tmp"

// examineMachine checks the disk of the data, and the process that has the data open.
func (d *Doctor) examineMachine(ctx context.Context) {
	dir := d.settings.DataDir
	if !d.Endpoint.IsLoopback() && !d.namesDataDir() {
		return // the data is on another machine
	}
	subject := "machine, data in " + dir
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.find(subject, "data directory",
			unchecked("name the directory of the server with --data-dir or --config",
				"it does not exist"))
		return
	case err != nil:
		d.find(subject, "data directory",
			unchecked("run this as the user of the server", "%v", err))
		return
	case !info.IsDir():
		d.find(subject, "data directory",
			problem("name a directory with --data-dir", "it is not a directory"))
		return
	}
	if fs, err := statFileSystem(dir); err != nil {
		d.find(subject, "file system", unchecked("", "%v", err))
	} else {
		d.find(subject, "file system", checkFileSystem(fs.kind))
		d.find(subject, "free space", checkSpace(fs.free, fs.size, d.settings.DiskReserve))
	}
	d.find(subject, "fsync", checkFsync(measureFsync(ctx, dir)))
	p := serverProcess(dir)
	d.find(subject, "memory", checkMemory(p.memory()))
	d.find(subject, "open files", checkFiles(p.files()))
}

// A fileSystem is what a directory is on: a number that says of which kind, and its bytes.
type fileSystem struct{ kind, free, size int64 }

func (d *Doctor) namesDataDir() bool {
	return slices.ContainsFunc(d.settings.Values, func(v settings.Loaded) bool {
		return v.Name == "data-dir" && v.Origin != "default" && v.Origin != "XDG_STATE_HOME"
	})
}

// A kindOfDisk judges a file system.
type kindOfDisk struct {
	name  string
	state Verdict
	says  string
}

// fileSystems are keyed by their numbers in Linux.
var fileSystems = map[int64]kindOfDisk{
	0xef53:     {"ext4", OK, ""},
	0x58465342: {"XFS", OK, ""},
	0x9123683e: {"Btrfs", OK, ""},
	0x2fc12fc1: {"ZFS", OK, ""},
	0xf2f52010: {"F2FS", OK, ""},
	0xca451a4e: {"bcachefs", OK, ""},
	0x01021994: {"tmpfs", Problem,
		"it is in memory: acknowledged messages are lost when the machine or the container restarts"},
	0x858458f6: {"ramfs", Problem,
		"it is in memory: acknowledged messages are lost when the machine restarts"},
	0x794c7630: {"overlayfs", Warning,
		"it is a container layer, which is deleted with the container"},
	0x6969: {"NFS", Warning,
		"its server and the network decide how durable a forced write is, and how long it takes"},
	0xff534d42: {"CIFS", Warning,
		"its server and the network decide how durable a forced write is, and how long it takes"},
	0xfe534d42: {"SMB", Warning,
		"its server and the network decide how durable a forced write is, and how long it takes"},
	0x517b: {"SMB", Warning,
		"its server and the network decide how durable a forced write is, and how long it takes"},
	0x00c36400: {"Ceph", Warning, "the network decides how long a forced write takes"},
	0x01021997: {"9p", Warning,
		"it is shared with a host, which decides how durable a forced write is"},
	0x65735546: {"FUSE", Warning, "a program decides how durable a forced write is"},
	0x786f4256: {"vboxsf", Warning,
		"it is shared with a host, which decides how durable a forced write is"},
}

func checkFileSystem(magic int64) Finding {
	k, known := fileSystems[magic&0xffffffff]
	switch {
	case !known:
		return unchecked("check that it is on a local disk", "unknown file system 0x%x",
			magic)
	case k.state == OK:
		return fine("%s", k.name)
	}
	return Finding{State: k.state, Says: k.name + ": " + k.says,
		Do: "keep the data on a local disk or a volume: --data-dir"}
}

// checkSpace compares the free space with the reserve, below which sends are refused.
func checkSpace(free, all, reserve int64) Finding {
	figures := map[string]float64{"freeBytes": float64(free),
		"reserveBytes": float64(max(0, reserve))}
	says := fmt.Sprintf("%s free of %s", cli.HumanSize(free), cli.HumanSize(all))
	switch {
	case reserve > 0 && free < reserve:
		return problem("free space on this disk",
			"%s, which is below the reserve of %s: sends are refused", says,
			cli.HumanSize(reserve)).with(figures)
	case v1.IsDiskNear(free, reserve):
		return warning("free some space; tenaq peek shows what the queues hold",
			"%s; below %s sends are refused", says, cli.HumanSize(max(0, reserve))).with(figures)
	}
	return fine("%s", says).with(figures)
}

// measureFsync writes blocks into a file in dir and forces each. It removes the file, and files
// that earlier runs left behind.
func measureFsync(ctx context.Context, dir string) (took []time.Duration, err error) {
	left, _ := filepath.Glob(filepath.Join(dir, FsyncPattern))
	for _, name := range left {
		if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > time.Minute {
			_ = os.Remove(name)
		}
	}
	f, err := os.CreateTemp(dir, FsyncPattern)
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}()
	block := make([]byte, FsyncBlock)
	end := time.Now().Add(fsyncTime)
	for len(took) < fsyncWrites && ctx.Err() == nil {
		start := time.Now()
		if start.After(end) {
			break
		}
		if _, err := f.Write(block); err != nil {
			return took, err
		}
		if err := f.Sync(); err != nil {
			return took, err
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

// Bounds of the time of forced writes: p99 for a warning and a problem, and the least of a real
// disk.
const (
	fsyncWarns = 100 * time.Millisecond
	fsyncHurts = time.Second
	fsyncLeast = 15 * time.Microsecond
)

func checkFsync(took []time.Duration, err error) Finding {
	var denied *fs.PathError
	switch {
	case errors.As(err, &denied) && errors.Is(err, fs.ErrPermission):
		return unchecked("run this as the user of the server", "%v", err)
	case err != nil:
		return problem("check the disk",
			"a forced write of %s fails: %v", cli.HumanSize(FsyncBlock), err)
	case len(took) == 0:
		return unchecked("", "interrupted")
	}
	took = slices.Sorted(slices.Values(took))
	p50, p99 := QuantileOf(took, 0.50), QuantileOf(took, 0.99)
	figures := map[string]float64{"p50Seconds": p50.Seconds(), "p99Seconds": p99.Seconds(),
		"writes": float64(len(took))}
	says := fmt.Sprintf("p50 %s, p99 %s of %d forced writes of %s", cli.ShortDuration(p50),
		cli.ShortDuration(p99), len(took), cli.HumanSize(FsyncBlock))
	const slow = "use a faster disk, or find what else uses this one: every batch of sends waits for a forced write"
	switch {
	case p99 >= fsyncHurts:
		return problem(slow, "%s", says).with(figures)
	case p99 >= fsyncWarns:
		return warning(slow, "%s", says).with(figures)
	case p50 < fsyncLeast:
		return warning("check whether the machine or its host ignores forced writes: a power loss would then lose acknowledged messages", "%s, which is faster than any disk", says).with(figures)
	}
	return fine("%s", says).with(figures)
}

// QuantileOf returns the value below or at which a share of the sorted values lie.
func QuantileOf(sorted []time.Duration, share float64) time.Duration {
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
