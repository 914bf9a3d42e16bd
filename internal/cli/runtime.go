package cli

import (
	"runtime"
	"runtime/debug"
)

// The heap of a server is collected when it has grown by gcPercent of the memory in use and the
// ballast together: by 64 MiB and a quarter. By default, Go waits until the heap has doubled. It
// would collect the small heap of a server with few queues ten times a second under load, and let a
// large heap take twice the memory that it needs.
const (
	gcPercent   = 25
	ballastSize = 256 << 20
)

// PaceGC sets when the heap of a server is collected. The caller keeps the returned ballast alive.
// It counts as memory in use but is never touched, so the system reserves no memory for it. If GOGC
// or GOMEMLIMIT is set, PaceGC changes nothing and returns nil.
func PaceGC(getenv func(string) string) (ballast []byte) {
	if getenv("GOGC") != "" || getenv("GOMEMLIMIT") != "" {
		return nil
	}
	debug.SetGCPercent(gcPercent)
	return make([]byte, ballastSize)
}

// spareThreads is how many threads of a server may run Go code beyond one per processor. Without a
// spare thread, the thread that returns from an fsync may find all processors taken by a flush, a
// compaction or handlers. It then waits up to 10 ms for the Go scheduler, and so do all requests
// whose answer is on disk. With spare threads, the scheduler of the system decides, and prefers
// threads that have waited.
const spareThreads = 2

// AddThreads lets spareThreads more threads run Go code, unless GOMAXPROCS is set or a quota of
// processor time applies: a process that uses up its quota sooner is paused for longer.
func AddThreads(getenv func(string) string) {
	settled := runtime.GOMAXPROCS(0)
	if n := threads(getenv, runtime.NumCPU(), settled); n != settled {
		runtime.GOMAXPROCS(n)
	}
}

// threads returns how many threads may run Go code. settled is the default of Go.
func threads(getenv func(string) string, processors, settled int) int {
	if getenv("GOMAXPROCS") != "" || settled < processors {
		return settled
	}
	return settled + spareThreads
}
