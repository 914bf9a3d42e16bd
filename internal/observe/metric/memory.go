package metric

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MemoryLimit returns the memory that the control groups of this process allow; -1 if they set no
// limit or cannot be read.
func MemoryLimit() int64 {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return -1
	}
	return GroupMemory("/sys/fs/cgroup", string(groups))
}

// GroupMemory returns the lowest limit of the control groups of a process and their parents; -1 for
// none. groups is the text of /proc/PID/cgroup. In a container, the path of a group may be that of
// the host. The group itself is then mounted at the root.
func GroupMemory(root, groups string) int64 {
	least := int64(-1)
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		base, file := root, "memory.max"
		switch {
		case fields[1] == "memory":
			base, file = filepath.Join(root, "memory"), "memory.limit_in_bytes"
		case fields[1] != "":
			continue
		}
		for path := filepath.Clean("/" + fields[2]); ; path = filepath.Dir(path) {
			text, err := os.ReadFile(filepath.Join(base, path, file))
			// In version 1, a number close to the largest means no limit.
			if n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil &&
				bad == nil && n < 1<<60 && (least < 0 || n < least) {
				least = n
			}
			if path == "/" {
				break
			}
		}
	}
	return least
}
