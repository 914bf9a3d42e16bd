package main

import (
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A podman runs containers with images, volumes and state of its own, which go with the test.
type podman struct {
	t    *testing.T
	args []string
}

func newPodman(t *testing.T) *podman {
	t.Helper()
	needs(t, os.Geteuid() == 0, "root, to run containers")
	needs(t, has("podman") && has("runc"), "podman and runc")
	dir, err := os.MkdirTemp("/tmp", "tenaq-") // podman refuses long names
	if err != nil {
		t.Fatal(err)
	}
	p := &podman{t, []string{"--root", dir + "/root", "--runroot", dir + "/run",
		"--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--events-backend", "file",
		"--runtime", "runc"}}
	t.Cleanup(func() {
		p.run("rm", "--all", "--force", "--time", "0")
		p.run("rmi", "--all", "--force")
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *podman) run(args ...string) string {
	p.t.Helper()
	out, err := exec.Command("podman", append(p.args, args...)...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("podman %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// The image runs in a container that may write nothing but its volume and has no rights. It is
// healthy, serves, stops in order, and has its messages when it starts again.
func TestContainer(t *testing.T) {
	b := results(t)
	p := newPodman(t)
	_, name, _ := strings.Cut(p.run("load", "--quiet", "--input", b.result(t, "*_image.tar")), ": ")
	p.run("run", "--detach", "--name", "server", "--network", "host", "--read-only",
		"--cap-drop", "all", "--security-opt", "no-new-privileges", "--log-driver", "k8s-file",
		"--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024",
		"--env", "TENAQ_LISTEN=127.0.0.1:0", "--env", "TENAQ_ADMIN_LISTEN=127.0.0.1:0", name)

	// serve waits for the server's n-th start and returns what runs a command against it.
	ready := regexp.MustCompile(`SQS on (http://\S+),.* admin on http://(\S+),`)
	serve := func(n int) func(args ...string) string {
		var found [][]string
		for end := time.Now().Add(time.Minute); len(found) < n; time.Sleep(50 * time.Millisecond) {
			log := p.run("logs", "server")
			if found = ready.FindAllStringSubmatch(log, -1); time.Now().After(end) {
				t.Fatalf("the server does not start:\n%s", log)
			}
		}
		at := found[n-1]
		p.run("exec", "--env", "TENAQ_ADMIN_LISTEN="+at[2], "server", "/tenaq", "health")
		return func(args ...string) string {
			cmd := exec.Command(b.programs[platform{"linux", runtime.GOARCH}], args...)
			cmd.Env = []string{"AWS_ENDPOINT_URL_SQS=" + at[1], "AWS_REGION=us-east-1",
				"AWS_ACCESS_KEY_ID=any", "AWS_SECRET_ACCESS_KEY=any"}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%q: %v\n%s", args, err, out)
			}
			return string(out)
		}
	}
	tenaq := serve(1)
	tenaq("queue", "create", "orders")
	tenaq("send", "orders", "kept")
	p.run("stop", "--time", "30", "server")
	if got := p.run("inspect", "--format", "{{.State.ExitCode}}", "server"); got != "0" {
		t.Errorf("the container ended with %s\n%s", got, p.run("logs", "server"))
	}
	p.run("start", "server")
	if got := serve(2)("receive", "orders", "--delete"); !strings.Contains(got, "kept") {
		t.Errorf("received %q after a restart, want the message", got)
	}
}
