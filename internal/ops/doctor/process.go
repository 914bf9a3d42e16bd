package doctor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"tenaq/internal/cli"
	"tenaq/internal/observe/metric"
)

// A processLook reads /proc about the server that has the data open, or about this process in place
// of a server that would be started here.
type processLook struct {
	pid  int // 0 for this process
	proc string
	root string // of the control groups
}

func (p processLook) whose() string {
	if p.pid == 0 {
		return "a server started here"
	}
	return fmt.Sprintf("the server, process %d,", p.pid)
}

// serverProcess finds the process that holds the lock of the store in dir, or of the log of a node
// of a cluster. It takes no lock.
func serverProcess(dir string) processLook {
	p := processLook{proc: "/proc/self", root: "/sys/fs/cgroup"}
	f, err := os.Open(filepath.Join(dir, "store", "LOCK"))
	if err != nil {
		f, err = os.Open(filepath.Join(dir, "raft", "store", "LOCK"))
	}
	if err != nil {
		return p
	}
	defer f.Close()
	if pid := lockHolder(f.Fd()); pid > 0 {
		p.pid, p.proc = pid, "/proc/"+strconv.Itoa(pid)
	}
	return p
}

// A memoryLook is the memory of a process and its limit: 0 is unknown, a negative limit is none.
type memoryLook struct {
	whose       string
	used, limit int64
	err         error
}

func (p processLook) memory() memoryLook {
	m := memoryLook{whose: p.whose()}
	groups, err := os.ReadFile(filepath.Join(p.proc, "cgroup"))
	if err != nil {
		m.err = err
		return m
	}
	m.limit = metric.GroupMemory(p.root, string(groups))
	if p.pid != 0 {
		m.used = StatusBytes(filepath.Join(p.proc, "status"), "VmRSS:")
	}
	return m
}

// StatusBytes reads a line such as "VmRSS: 12 kB"; 0 when there is none.
func StatusBytes(file, name string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10
		}
	}
	return 0
}

// Memory that a server needs for its caches and requests.
const (
	memoryLeast = 256 << 20
	memoryWell  = 512 << 20
)

func checkMemory(m memoryLook) Finding {
	figures := map[string]float64{"limitBytes": float64(m.limit), "usedBytes": float64(m.used)}
	const more = "raise the limit: MemoryMax= of the unit, --memory of the container, limits of the pod"
	switch {
	case m.err != nil:
		return unchecked("", "the control group of %s cannot be read: %v",
			strings.TrimSuffix(m.whose, ","), m.err)
	case m.limit < 0:
		return fine("%s has no limit", m.whose).with(figures)
	case m.used > m.limit/10*9:
		return problem(more, "%s uses %s of %s: beyond that it is killed", m.whose,
			cli.HumanSize(m.used), cli.HumanSize(m.limit)).with(figures)
	case m.limit < memoryLeast:
		return problem(more+"; "+cli.HumanSize(memoryWell)+" are enough for most",
			"%s may use %s, which its caches fill", m.whose, cli.HumanSize(m.limit)).with(figures)
	case m.limit < memoryWell:
		return warning(more+"; "+cli.HumanSize(memoryWell)+" are enough for most", "%s may use %s",
			m.whose, cli.HumanSize(m.limit)).with(figures)
	}
	return fine("%s may use %s", m.whose, cli.HumanSize(m.limit)).with(figures)
}

// A filesLook is the open files of a process and their limit: 0 is unknown.
type filesLook struct {
	whose      string
	open, most int64
	err        error
}

func (p processLook) files() filesLook {
	l := filesLook{whose: p.whose()}
	f, err := os.Open(filepath.Join(p.proc, "limits"))
	if err != nil {
		l.err = err
		return l
	}
	defer f.Close()
	l.most, l.err = openFilesLimit(f)
	if p.pid != 0 {
		names, err := os.ReadDir(filepath.Join(p.proc, "fd"))
		if err == nil {
			l.open = int64(len(names))
		}
	}
	return l
}

// openFilesLimit finds the soft limit in the text of /proc/PID/limits. Go programs raise theirs to
// the hard one when they start.
func openFilesLimit(r io.Reader) (int64, error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "Max open files")
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) > 0 && fields[0] == "unlimited" {
			return 1 << 40, nil
		}
		if len(fields) > 0 {
			return strconv.ParseInt(fields[0], 10, 64)
		}
	}
	return 0, errors.New("no limit of open files in it")
}

// Open files that a server needs: one per connection, and hundreds for its store.
const (
	filesLeast = 1024
	filesWell  = 4096
)

func checkFiles(l filesLook) Finding {
	figures := map[string]float64{"limit": float64(l.most), "open": float64(l.open)}
	const more = "raise the limit: LimitNOFILE= of the unit, --ulimit nofile= of the container, ulimit -n of the shell"
	switch {
	case l.err != nil:
		return unchecked("run this as the user of the server",
			"the limits of %s cannot be read: %v", strings.TrimSuffix(l.whose, ","), l.err)
	case l.open > l.most/10*8:
		return problem(more, "%s has %d of %d open: with the last one new connections fail",
			l.whose, l.open, l.most).with(figures)
	case l.most < filesLeast:
		return problem(more, "%s may have %d open, one for each connection and file of the store",
			l.whose, l.most).with(figures)
	case l.most < filesWell:
		return warning(more, "%s may have %d open, one for each connection and file of the store",
			l.whose, l.most).with(figures)
	case l.most >= 1<<40:
		return fine("%s has no limit", l.whose).with(figures)
	case l.open > 0:
		return fine("%s has %d of %d open", l.whose, l.open, l.most).with(figures)
	}
	return fine("%s may have %d open", l.whose, l.most).with(figures)
}
