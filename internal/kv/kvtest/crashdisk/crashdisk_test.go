package crashdisk

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A disk can be cloned while a file on it is reused. On a bare MemFS this test never ends: see
// Disk.reuse.
func TestCloneBesideReuse(t *testing.T) {
	d := New()
	f, err := d.Create("0.log", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()

	reused := make(chan error)
	go func() {
		for i := range 5000 {
			f, err := d.ReuseForWrite(fmt.Sprintf("%d.log", i), fmt.Sprintf("%d.log", i+1), vfs.WriteCategoryUnspecified)
			if err != nil {
				reused <- err
				return
			}
			f.Close()
		}
		reused <- nil
	}()
	for {
		select {
		case err := <-reused:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
			d.CrashClone(vfs.CrashCloneCfg{})
		}
	}
}
