//go:build unix

package doctor

import (
	"io"
	"syscall"
)

// statFileSystem looks at the file system of a directory.
func statFileSystem(dir string) (fileSystem, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return fileSystem{}, err
	}
	return fileSystem{kind: int64(st.Type), free: int64(st.Bavail) * int64(st.Bsize),
		size: int64(st.Blocks) * int64(st.Bsize)}, nil
}

// lockHolder returns the process that holds the lock of an open file: 0 for none, and for one that
// this process cannot see.
func lockHolder(fd uintptr) int {
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	if syscall.FcntlFlock(fd, syscall.F_GETLK, &lock) != nil || lock.Type == syscall.F_UNLCK {
		return 0
	}
	return max(0, int(lock.Pid))
}
