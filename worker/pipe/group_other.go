//go:build unix && !linux

package pipe

import (
	"os/exec"
	"syscall"
)

// groupLeader makes a process the leader of a new group.
func groupLeader() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitEnd waits until a child has ended, and reaps it. Then the id of its group is its own only
// for as long as something of the group lives; that it belongs to another group a moment later is
// as unlikely as ids are many.
func awaitEnd(cmd *exec.Cmd) { _ = cmd.Wait() }
