package pipe

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// groupLeader makes a process the leader of a new group, and makes the kernel kill it when the
// thread that started it dies. The kernel does not kill the rest of the group.
func groupLeader() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd waits until a child has ended, without reaping it.
func awaitEnd(cmd *exec.Cmd) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return // any other error means that there is nothing to wait for
		}
	}
}
