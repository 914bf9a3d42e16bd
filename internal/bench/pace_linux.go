package bench

import (
	"syscall"
	"time"
)

// sleepPrecisely sleeps a few microseconds longer than d, or less if a signal arrives.
func sleepPrecisely(d time.Duration) {
	t := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&t, nil)
}
