package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	// Scripts wait most of the time. There can be more of them at once than processors.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"tenaq": main})
}

// TestScripts runs the scripts that need no server.
func TestScripts(t *testing.T) { runScripts(t, "testdata", nil) }

// TestServerScripts runs the scripts that start servers and speak to them. They find the pages of
// docs, whose examples some of them run, in $DOCS.
func TestServerScripts(t *testing.T) {
	docs, err := filepath.Abs(filepath.Join("..", "..", "docs"))
	if err != nil {
		t.Fatal(err)
	}
	runScripts(t, "testdata/server", func(env *testscript.Env) error {
		env.Vars = append(env.Vars, "DOCS="+docs)
		return nil
	})
}

// runScripts runs the scripts of a folder, each in a working directory of its own, which prepare
// may fill. A server that a script started is killed when it ends.
func runScripts(t *testing.T, dir string, prepare func(*testscript.Env) error) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		Cmds:                scriptCmds,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values[running{}] = &running{}
			env.Vars = append(env.Vars, raceEnv)
			if prepare == nil {
				return nil
			}
			return prepare(env)
		},
	})
}

// raceEnv keeps the race detector from sleeping for a second at the end of each of hundreds of
// processes.
const raceEnv = "GORACE=atexit_sleep_ms=0"

type scriptCmd = func(ts *testscript.TestScript, neg bool, args []string)

var scriptCmds = map[string]scriptCmd{
	"serve": startServer, "halt": halt, "crash": crash, "hangup": hangup, "endpoint": serveEndpoint,
	"exits": exits, "capture": capture, "record": record, "register": register, "scrape": scrape,
	"certificate": certificate, "addresses": addresses,
}

// exits runs a command and checks its exit code: exits 2 tenaq send.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG]...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// running is the server that a script runs; as a key it finds it.
type running struct {
	cmd    *exec.Cmd
	exited chan error
}

// startServer starts a server on free loopback ports, with its data in $WORK/data and the flags
// given, waits until it says that it is ready, and points TENAQ_ENDPOINT_URL at it.
func startServer(ts *testscript.TestScript, neg bool, args []string) {
	r := ts.Value(running{}).(*running)
	if neg || r.cmd != nil {
		ts.Fatalf("usage: serve [FLAG]..., with no server running")
	}
	program, err := exec.LookPath("tenaq")
	ts.Check(err)
	args = append([]string{"serve", "--json", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", ts.MkAbs("data")}, args...)
	cmd := exec.Command(program, args...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = []string{"HOME=" + ts.Getenv("HOME"), "PATH=" + ts.Getenv("PATH"), raceEnv} // without TENAQ_ variables
	log, err := os.Create(filepath.Join(cmd.Dir, "server.log"))
	ts.Check(err)
	defer log.Close()
	cmd.Stderr = log
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	r.cmd, r.exited = cmd, make(chan error, 1)

	lines := bufio.NewReader(stdout)
	line, readErr := lines.ReadString('\n')
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		r.exited <- cmd.Wait()
	}()
	ts.Defer(func() {
		if r.cmd == cmd {
			_ = cmd.Process.Kill()
			<-r.exited
		}
	})
	var ready struct{ URL, AdminURL string }
	if readErr != nil || json.Unmarshal([]byte(line), &ready) != nil {
		ts.Fatalf("the server did not say that it is ready but %q; its log:\n%s", line, ts.ReadFile("server.log"))
	}
	ts.Setenv("TENAQ_ENDPOINT_URL", ready.URL)
	ts.Setenv("ADMIN_URL", ready.AdminURL)
	ts.Setenv("ADDRESS", strings.TrimPrefix(ready.URL, "http://"))
}

// halt ends the server as an operator does and checks that it exits with 0.
func halt(ts *testscript.TestScript, neg bool, args []string) {
	if err := end(ts, syscall.SIGTERM); err != nil {
		ts.Fatalf("the server ended with %v; its log:\n%s", err, ts.ReadFile("server.log"))
	}
}

// crash ends the server as the loss of power ends a process.
func crash(ts *testscript.TestScript, neg bool, args []string) {
	_ = end(ts, syscall.SIGKILL)
}

// hangup tells the server to read its files again.
func hangup(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(ts.Value(running{}).(*running).cmd.Process.Signal(syscall.SIGHUP))
}

// addresses sets variables to free loopback addresses: addresses VARIABLE... Their ports lie below
// those that systems give to outgoing connections, so that a server can come back to its own.
func addresses(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: addresses VARIABLE...")
	}
	var taken []net.Listener
	for tries := 0; len(taken) < len(args); tries++ {
		if tries == 100 {
			ts.Fatalf("no free ports between 20000 and 29999")
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+mathrand.IntN(10_000)))
		if err == nil {
			taken = append(taken, l)
		}
	}
	for i, l := range taken {
		ts.Setenv(args[i], l.Addr().String())
		ts.Check(l.Close())
	}
}

// certificate makes a certificate for localhost and 127.0.0.1 that signs itself: certificate
// CERT.pem KEY.pem.
func certificate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: certificate CERT KEY")
	}
	cert, key, err := newCertificate()
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), cert, 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), key, 0o600))
}

// newCertificate makes a certificate for localhost and 127.0.0.1 that signs itself, and its key, in
// PEM.
func newCertificate() (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "localhost"},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), nil
}

func end(ts *testscript.TestScript, signal os.Signal) error {
	r := ts.Value(running{}).(*running)
	if r.cmd == nil {
		ts.Fatalf("no server is running")
	}
	ts.Check(r.cmd.Process.Signal(signal))
	r.cmd = nil
	return <-r.exited
}

// capture sets a variable to a member of the JSON object that the last command printed: capture
// HANDLE receiptHandle.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture VARIABLE MEMBER")
	}
	var v map[string]any
	ts.Check(json.Unmarshal([]byte(strings.TrimSpace(ts.ReadFile("stdout"))), &v))
	text, ok := v[args[1]].(string)
	if !ok {
		ts.Fatalf("%s is no text in %v", args[1], v)
	}
	ts.Setenv(args[0], text)
}

// TestRedriveExample tells the story of examples/redrive, with its own files.
func TestRedriveExample(t *testing.T) {
	runScripts(t, "testdata/redrive", func(env *testscript.Env) error {
		for _, name := range []string{"tenaq.yaml", "charge.sh"} {
			text, err := os.ReadFile(filepath.Join("..", "..", "examples", "redrive", name))
			if err == nil {
				err = os.WriteFile(filepath.Join(env.WorkDir, name), text, 0o700)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

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
