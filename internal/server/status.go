package server

import (
	"runtime"
	"time"

	"tenaq/internal/api/v1"
)

// status fills in what this process knows besides its broker. It waits for no disk. [V1-25]
func (s *Server) status(to *v1.ServerStatus) {
	to.Region, to.Started = s.cfg.Region, s.started.UTC().Truncate(time.Second)
	to.Disk.ReserveBytes = s.disk.reserve
	if seen := s.disk.seen.Load(); seen != nil {
		to.Disk.SetFree(seen.free, seen.total, seen.at)
	}
	if n, ok := resident(); ok {
		to.Memory.ResidentBytes = int64(n)
	}
	to.Memory.LimitBytes = max(s.memoryLimit, 0)
	to.Memory.Goroutines = runtime.NumGoroutine()
	to.Backups = &v1.BackupStatus{Running: s.backups.running.Load()}
	if latest := s.backups.latest.Load(); latest != nil {
		to.Backups.Taken, to.Backups.Bytes = &latest.taken, latest.bytes
	}
}
