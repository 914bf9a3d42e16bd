package cli

import (
	"runtime"
	"runtime/debug"
)

// A server's heap is collected when it has grown by gcPercent of what is in use and of the ballast
// together: by 64 MiB and a quarter. By itself the collector waits until it has doubled. A small
// heap, such as that of a server with few queues, would be collected ten times a second under load,
// with the slowest requests waiting for it, and a large one would take twice the memory that it
// needs.
const (
	gcPercent   = 25
	ballastSize = 256 << 20
)

// PaceGC sets when the heap of a server is collected, for as long as the ballast that it returns is
// kept. That counts as in use and is never touched, so that the system has no memory behind it. Who
// sets GOGC or GOMEMLIMIT decides alone, and there is no ballast.
func PaceGC(getenv func(string) string) (ballast []byte) {
	if getenv("GOGC") != "" || getenv("GOMEMLIMIT") != "" {
		return nil
	}
	debug.SetGCPercent(gcPercent)
	return make([]byte, ballastSize)
}

// spareThreads is how many threads of a server may run Go code beyond one for each processor. With
// no spare one, the thread that comes back from forcing a write finds all places taken and waits
// for up to 10 ms until the scheduler of Go takes one from the flush of a memtable, a compaction or
// a row of handlers; and everybody whose answer is on disk waits with it. With spare ones the
// system decides, which lets those go first that have waited.
const spareThreads = 2

// AddThreads lets spareThreads more threads run Go code, unless GOMAXPROCS is set, or a quota of
// processor time bounds them: who uses that up sooner stands still for longer.
func AddThreads(getenv func(string) string) {
	settled := runtime.GOMAXPROCS(0)
	if n := threads(getenv, runtime.NumCPU(), settled); n != settled {
		runtime.GOMAXPROCS(n)
	}
}

// threads is how many threads may run Go code, given the processors that there are and what Go has
// settled on.
func threads(getenv func(string) string, processors, settled int) int {
	if getenv("GOMAXPROCS") != "" || settled < processors {
		return settled
	}
	return settled + spareThreads
}
