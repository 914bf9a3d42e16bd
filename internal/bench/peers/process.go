package peers

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"tenaq/internal/child"
	"tenaq/internal/cli"
)

// startMax is how long a peer may take to start, readyEvery how often it is asked, and endMax how
// long its end may take.
const (
	startMax   = 2 * time.Minute
	endMax     = 20 * time.Second
	readyEvery = 50 * time.Millisecond
)

// keeper runs a command until it ends, or until standard input does: then nothing is left of the
// process group after two seconds. The signal that ends the command is the first argument.
const keeper = `
signal=$1; shift
exec 3<&0
"$@" </dev/null 3<&- >>log 2>&1 &
peer=$!
(cat <&3; kill -s $signal $peer; sleep 2; kill -s KILL -- -$$) >/dev/null 2>&1 &
exec 3<&-
wait $peer
kill -s KILL -- -$$
`

// A process is a peer that was started.
type process struct {
	dir   string
	cmd   *exec.Cmd
	hold  io.Closer     // keeper watches it
	ended chan struct{} // closed when keeper has ended
}

// start starts a command in the directory of a peer.
func start(at *place, env []string, command ...string) (*process, error) {
	return startAs(at, nil, "TERM", env, command...)
}

// startAs does so as another user, and with another signal that ends the command.
func startAs(
	at *place, as *syscall.Credential, signal string, env []string, command ...string,
) (*process, error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", keeper, "keeper", signal}, command...)...)
	cmd.Dir, cmd.Env = at.dir, append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Setpgid: true}
	hold, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{at.dir, cmd, hold, make(chan struct{})}
	go func() {
		_ = cmd.Wait() // keeper kills itself
		close(p.ended)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// close ends the peer. Its process group is killed if keeper fails to end it.
func (p *process) close() {
	_ = p.hold.Close() // keeper has ended if it fails
	select {
	case <-p.ended:
	case <-time.After(endMax):
		_ = syscall.Kill(-p.pid(), syscall.SIGKILL)
		<-p.ended
	}
}

// ready waits until a question is answered. It ends the peer if that takes too long.
func (p *process) ready(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("it ended instead of answering: %s", p.log())
		case <-ctx.Done():
			p.close()
			return fmt.Errorf("no answer within %s: %w: %s", cli.ShortDuration(startMax), err,
				p.log())
		case <-time.After(readyEvery):
		}
	}
}

// log returns the end of what the peer has printed.
func (p *process) log() string {
	const most = 2000
	text, _ := os.ReadFile(filepath.Join(p.dir, "log"))
	return string(text[max(0, len(text)-most):])
}

// program finds an installed program.
func program(names ...string) (path string, err error) {
	for _, name := range names {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errMissing
}

// fetched finds a file or folder that "make bench-peers" has fetched.
func fetched(peer, file string) (string, error) {
	root := os.Getenv("TENAQ_EMULATOR_DIR")
	if root == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", errMissing
		}
		root = filepath.Join(cache, "tenaq", "emulators")
	}
	path := filepath.Join(root, peer, file)
	if _, err := os.Stat(path); err != nil {
		return "", errMissing
	}
	return path, nil
}

// freePort finds a port of loopback that no program uses.
func freePort() (string, error) {
	addr, err := child.FreeAddr()
	return strings.TrimPrefix(addr, "127.0.0.1:"), err
}
