//go:build unix

package pebblekv

import "golang.org/x/sys/unix"

// lockHolder returns the process that holds the lock of an open file; 0 when there is none.
func lockHolder(fd uintptr) int {
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if unix.FcntlFlock(fd, unix.F_GETLK, &lock) != nil || lock.Type == unix.F_UNLCK {
		return 0
	}
	return int(lock.Pid)
}
