package main

import "runtime/debug"

// A server's heap is collected when it has grown by gcPercent of what is in use and of the ballast together: by 64 MiB and a
// quarter. By itself the collector waits until it has doubled. A small heap, such as that of a server with few queues, would be
// collected ten times a second under load, with the slowest requests waiting for it, and a large one would take twice the memory
// that it needs.
const (
	gcPercent   = 25
	ballastSize = 256 << 20
)

// paceGC sets when the heap of a server is collected, for as long as the ballast that it returns is kept. That counts as in use and
// is never touched, so that the system has no memory behind it. Who sets GOGC or GOMEMLIMIT decides alone, and there is no ballast.
func paceGC(getenv func(string) string) (ballast []byte) {
	if getenv("GOGC") != "" || getenv("GOMEMLIMIT") != "" {
		return nil
	}
	debug.SetGCPercent(gcPercent)
	return make([]byte, ballastSize)
}
