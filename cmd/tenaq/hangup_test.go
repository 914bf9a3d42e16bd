package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// SIGHUP during the start is served after it. The certificate is a named pipe at first, so that the
// start waits for it for as long as the test likes. [AUTH-39]
func TestHangupDuringStart(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	program, err := exec.LookPath("tenaq")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfifo", path("cert.pem")).CombinedOutput(); err != nil {
		t.Skipf("there are no named pipes here: %v: %s", err, out)
	}
	cert, key, err := newCertificate()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"file.pem": cert, "key.pem": key} {
		if err := os.WriteFile(path(name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "off",
		"--data-dir", path("data"), "--tls-cert", path("cert.pem"), "--tls-key", path("key.pem"))
	cmd.Env = []string{raceEnv}
	log, err := os.Create(path("log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	logged := func() string {
		data, _ := os.ReadFile(path("log"))
		return string(data)
	}
	opened := make(chan *os.File, 1)
	go func() {
		pipe, _ := os.OpenFile(path("cert.pem"), os.O_WRONLY, 0) // waits for the server to read
		opened <- pipe
	}()
	var pipe *os.File
	select {
	case pipe = <-opened:
	case err := <-exited:
		t.Fatalf("the server ended with %v:\n%s", err, logged())
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path("file.pem"), path("cert.pem")); err != nil {
		t.Fatal(err)
	}
	_, _ = pipe.Write(cert) // a server that has gone is noticed below
	pipe.Close()
	for !strings.Contains(logged(), "certificate reloaded") {
		select {
		case err := <-exited:
			t.Fatalf("SIGHUP during the start: the server ended with %v, want the certificate reloaded:\n%s", err, logged())
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-exited; err != nil {
		t.Errorf("the server ended with %v:\n%s", err, logged())
	}
}
