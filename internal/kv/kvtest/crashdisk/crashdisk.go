// Package crashdisk is a file system in memory that can lose power.
//
// It is Pebble's crashable MemFS, which keeps for each file what was synced apart from what was
// only written, and can be cloned as a power cut would leave it. Unlike a bare MemFS, a Disk may be
// cloned while a store that is open on it reuses its log files.
package crashdisk

import (
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A Disk is a file system that can be cloned as a power cut at this moment would leave it. Its
// methods may be called from several goroutines at once.
type Disk struct {
	*vfs.MemFS

	// reuse keeps ReuseForWrite and CrashClone apart. In Pebble v2.1.7 MemFS.ReuseForWrite takes
	// the read lock that clones write-lock, and takes it again in Rename; a clone that asks for its
	// lock in between waits for the first, and the second waits for the clone.
	reuse sync.Mutex
}

// New returns an empty disk.
func New() *Disk { return &Disk{MemFS: vfs.NewCrashableMem()} }

// CrashClone returns the disk after a power cut at this moment: what was synced, and of the rest as
// much as cfg says.
func (d *Disk) CrashClone(cfg vfs.CrashCloneCfg) *Disk {
	d.reuse.Lock()
	defer d.reuse.Unlock()
	return &Disk{MemFS: d.MemFS.CrashClone(cfg)}
}

// ReuseForWrite implements vfs.FS.
func (d *Disk) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	d.reuse.Lock()
	defer d.reuse.Unlock()
	return d.MemFS.ReuseForWrite(oldname, newname, c)
}
