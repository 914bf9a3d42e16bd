//go:build unix

package group

import (
	"os/exec"
	"syscall"
)

// Own gives a command that has not started a process group of its own: signals of the terminal do
// not reach it.
func Own(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Lead does the same, and has the context of the command kill the group as a whole.
func Lead(cmd *exec.Cmd) {
	Own(cmd)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
