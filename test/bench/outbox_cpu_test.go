package bench

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A cpuShare is the CPU time of a benchmark with a database and a server, by process: unlike rates
// it hardly depends on what else the machine does.
type cpuShare struct{ program, database, server time.Duration }

func (c cpuShare) total() time.Duration { return c.program + c.database + c.server }

func (c cpuShare) minus(d cpuShare) cpuShare {
	return cpuShare{c.program - d.program, c.database - d.database, c.server - d.server}
}

// clockTick is the unit of times in /proc, on all the systems that Go runs on.
const clockTick = time.Second / 100

// cpuShares is what was used so far by this process, and by PostgreSQL and tenaq among those that
// it has started. Those that have ended count with their parent. Where there is no /proc, only this
// process is known.
func cpuShares(b *testing.B) cpuShare {
	b.Helper()
	type process struct {
		name   string
		parent int
		used   time.Duration
	}
	all := make(map[int]process)
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		head, rest, _ := strings.Cut(string(text), " (")
		at := strings.LastIndex(rest, ") ")
		if at < 0 {
			continue
		}
		pid, _ := strconv.Atoi(head)
		// From the third field on: state, parent, and from the 14th on utime, stime, cutime,
		// cstime.
		fields := strings.Fields(rest[at+2:])
		p := process{name: rest[:at]}
		p.parent, _ = strconv.Atoi(fields[1])
		for _, ticks := range fields[11:15] {
			n, _ := strconv.Atoi(ticks)
			p.used += time.Duration(n) * clockTick
		}
		all[pid] = p
	}
	ours := func(pid int) bool {
		for pid > 1 && pid != os.Getpid() {
			pid = all[pid].parent
		}
		return pid == os.Getpid()
	}
	share := cpuShare{program: cpuTime()}
	for pid, p := range all {
		switch {
		case pid == os.Getpid() || !ours(pid):
		case p.name == "postgres":
			share.database += p.used
		case p.name == "tenaq":
			share.server += p.used
		}
	}
	return share
}
