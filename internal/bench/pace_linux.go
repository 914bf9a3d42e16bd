package bench

import (
	"syscall"
	"time"
)

// sleepPrecisely sleeps some microseconds longer than it is told, or less, when a signal comes.
func sleepPrecisely(d time.Duration) {
	t := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&t, nil)
}
