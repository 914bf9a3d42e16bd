//go:build unix && !linux

package pipe

import (
	"os/exec"
	"syscall"
)

// groupLeader makes a process the leader of a new group.
func groupLeader() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitEnd waits until a child has ended, and reaps it. If nothing of its group is left, another
// group could get the same id, but not within a moment.
func awaitEnd(cmd *exec.Cmd) { _ = cmd.Wait() }
