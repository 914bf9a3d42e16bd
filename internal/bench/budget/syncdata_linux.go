package budget

import (
	"os"
	"syscall"
)

// syncData forces the data of a file to disk, and its length.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
