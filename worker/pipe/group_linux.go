package pipe

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// groupLeader makes a process the leader of a new group, and kills it when the thread that started
// it dies. The kernel does that for the leader only; what it started in turn has to see for itself.
func groupLeader() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd waits until a child has ended, and leaves it to be reaped.
func awaitEnd(cmd *exec.Cmd) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return // any other error means that there is nothing to wait for
		}
	}
}
