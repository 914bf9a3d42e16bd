package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A machine is a copy of this one that can be thrown away: an overlay over its files, with a
// network of its own, in which a package can be installed and a service can have its usual ports.
type machine struct {
	t        *testing.T
	holder   *exec.Cmd
	in, root string // a folder that both see, here and there as /mnt; the root of the copy
}

// hold makes the copy, then waits for the end of its input, with which all of it goes.
const hold = `set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount --bind "$2" "$1/root/mnt"
mount --rbind /dev "$1/root/dev"
mount -t proc proc "$1/root/proc"
mount -t tmpfs tmpfs "$1/root/tmp"
ip link set lo up
echo up
cat`

func newMachine(t *testing.T) *machine {
	t.Helper()
	needs(t, os.Geteuid() == 0, "root, to mount an overlay")
	needs(t, has("ip") && has("nsenter") && has("setpriv") && has("dpkg"),
		"Debian with iproute2 and util-linux")
	m := &machine{t: t, in: t.TempDir(), root: t.TempDir()}
	open(t, m.in) // the user of the service must get there
	m.holder = exec.Command("unshare", "--mount", "--net", "sh", "-c", hold, "sh", m.root, m.in)
	m.holder.Stderr = os.Stderr
	stdin, err := m.holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := m.holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = m.holder.Wait()
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "up\n" {
		needs(t, false, fmt.Sprintf("the right to mount an overlay: %v", err))
	}
	return m
}

// open lets other users into a folder of this test.
func open(t *testing.T, dir string) {
	t.Helper()
	for ; strings.HasPrefix(dir, folder); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// command runs in the copy, as root.
func (m *machine) command(args ...string) *exec.Cmd {
	pid := fmt.Sprint(m.holder.Process.Pid)
	cmd := exec.Command("nsenter", append([]string{"--target", pid, "--mount", "--net", "chroot",
		filepath.Join(m.root, "root"), "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
		"DEBIAN_FRONTEND=noninteractive"}, args...)...)
	return cmd
}

func (m *machine) run(args ...string) string {
	m.t.Helper()
	out, err := m.command(args...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return string(out)
}

// A manager is the service manager of the copy: it starts the service as its unit says, without the
// sandbox.
type manager struct {
	m      *machine
	socket *net.UnixConn
	cmd    *exec.Cmd
	log    bytes.Buffer
}

func (m *machine) start(unit string) *manager {
	m.t.Helper()
	name := filepath.Join(m.in, "notify")
	os.Remove(name)
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { socket.Close() })
	if err := os.Chmod(name, 0o777); err != nil {
		m.t.Fatal(err)
	}
	setting := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(unit)
		if found == nil {
			m.t.Fatalf("the unit has no %s", name)
		}
		return found[1]
	}
	state := "/var/lib/" + setting("StateDirectory")
	m.run("install", "-d", "-o", setting("User"), "-g", setting("Group"), "-m",
		setting("StateDirectoryMode"), state)
	s := &manager{m: m, socket: socket}
	s.cmd = m.command(append([]string{"NOTIFY_SOCKET=/mnt/notify", "WATCHDOG_USEC=300000",
		"STATE_DIRECTORY=" + state, "setpriv", "--reuid=" + setting("User"),
		"--regid=" + setting("Group"), "--clear-groups", "--no-new-privs", "--bounding-set=-all"},
		strings.Fields(setting("ExecStart"))...)...)
	s.cmd.Stderr = &s.log
	if err := s.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	return s
}

// told waits for a message of the service.
func (s *manager) told(want string) {
	s.m.t.Helper()
	b := make([]byte, 4<<10)
	for {
		if err := s.socket.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			s.m.t.Fatal(err)
		}
		n, err := s.socket.Read(b)
		if err != nil {
			s.m.t.Fatalf("%s: %v\n%s", want, err, s.log.String())
		}
		if strings.HasPrefix(string(b[:n]), want) {
			return
		}
	}
}

// stop stops the service as a service manager does.
func (s *manager) stop() {
	s.m.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.m.t.Fatal(err)
	}
	s.told("STOPPING=1")
	if err := s.cmd.Wait(); err != nil {
		s.m.t.Errorf("the service ended with %v\n%s", err, s.log.String())
	}
}

// The packages give a service that works as it is, keep what an administrator has changed, and
// leave the data when they go. [DUR-41, DUR-42]
func TestInstall(t *testing.T) {
	t.Run("deb", func(t *testing.T) {
		m := testInstall(t, "*.deb", []string{"dpkg", "--install"}, []string{"dpkg", "--install"},
			[]string{"dpkg", "--remove"})
		m.run("grep", "-q", "by the administrator", "/etc/tenaq/tenaq.yaml")
		if got := m.run("dpkg", "--purge", "tenaq"); !strings.Contains(got,
			"tenaq leaves /var/lib/tenaq") || strings.Contains(got, "leaves /etc") {
			t.Errorf("the purge says %q, want what it leaves", got)
		}
		m.leaves("/var/lib/tenaq\n")
	})
	t.Run("rpm", func(t *testing.T) {
		needs(t, has("rpm"), "rpm")
		rpm := func(args ...string) []string { return append([]string{"rpm", "--nodeps"}, args...) }
		m := testInstall(t, "*.rpm", rpm("--install"), rpm("--upgrade", "--replacepkgs"),
			rpm("--erase"))
		m.run("grep", "-q", "by the administrator", "/etc/tenaq/tenaq.yaml.rpmsave")
		m.leaves("/etc/tenaq\n/etc/tenaq/tenaq.yaml.rpmsave\n/var/lib/tenaq\n")
	})
}

// leaves checks which files of tenaq there are after the package has gone.
func (m *machine) leaves(want string) {
	m.t.Helper()
	m.run("test", "-d", "/var/lib/tenaq/store")
	left := m.run("find", "/etc", "/usr", "/var", "-xdev", "-path", "/var/lib/tenaq/*", "-prune",
		"-o", "-name", "*tenaq*", "-print")
	if left != want {
		m.t.Errorf("the package leaves %q, want %q", left, want)
	}
}

func testInstall(t *testing.T, pattern string, install, upgrade, remove []string) *machine {
	t.Helper()
	b := results(t)
	m := newMachine(t)
	name := filepath.Join(m.in, "package")
	if err := os.WriteFile(name, read(t, b.result(t, pattern)), 0o644); err != nil {
		t.Fatal(err)
	}
	m.run(append(install, "/mnt/package")...)
	owned := func() {
		t.Helper()
		for name, want := range map[string]string{
			"/etc/tenaq":            "root tenaq 750",
			"/etc/tenaq/tenaq.yaml": "root tenaq 640",
			"/etc/tenaq/tenaq.env":  "root root 600",
			"/usr/bin/tenaq":        "root root 755",
		} {
			if got := strings.TrimSpace(m.run("stat", "-c", "%U %G %a", name)); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
	}
	owned()
	m.run("test", "-L", "/etc/systemd/system/multi-user.target.wants/tenaq.service")
	if got := m.run("getent", "passwd", "tenaq"); !strings.Contains(got, ":/var/lib/tenaq:") {
		t.Errorf("the user is %q", got)
	}

	unit := m.run("cat", "/usr/lib/systemd/system/tenaq.service")
	service := m.start(unit)
	service.told("READY=1")
	service.told("WATCHDOG=1")
	m.run("tenaq", "health")
	m.run("tenaq", "queue", "create", "orders")
	m.run("tenaq", "send", "orders", "kept")
	if err := service.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err) // a reload: without keys, there is nothing to do, and no reason to end
	}
	service.told("WATCHDOG=1")
	service.stop()

	// An upgrade.
	m.run("sh", "-c", "echo '# by the administrator' >> /etc/tenaq/tenaq.yaml")
	m.run(append(upgrade, "/mnt/package")...)
	owned()
	m.run("grep", "-q", "by the administrator", "/etc/tenaq/tenaq.yaml")
	service = m.start(unit)
	service.told("READY=1")
	if got := m.run("tenaq", "receive", "orders", "--delete"); !strings.Contains(got, "kept") {
		t.Errorf("received %q, want the message that was sent before the upgrade", got)
	}
	service.stop()

	m.run(append(remove, "tenaq")...)
	m.run("test", "!", "-e", "/usr/bin/tenaq")
	return m
}
