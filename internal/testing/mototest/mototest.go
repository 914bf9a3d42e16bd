// Package mototest runs moto, which emulates DynamoDB, S3 and other services of AWS, for tests.
//
// The emulator keeps everything in memory, listens on 127.0.0.1, and one serves the whole test
// binary. It is installed once, by make emulators, into TENAQ_EMULATOR_DIR or the user's cache. It
// ends with the test binary, however that ends, because it is the child of a shell that holds a
// pipe from there.
//
// It carries out one request at a time, see serve.py. So tests show what callers do when their
// requests arrive in any order. That AWS isolates concurrent requests is taken from its
// documentation.
//
// If it is missing, tests are skipped with a message; with TENAQ_REQUIRE_ALL=1 they fail.
package mototest

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"tenaq/internal/child"
	"tenaq/internal/testing/proof"
)

// startMax is how long the emulator may take to start, on a machine that is busy with other things.
const startMax = time.Minute

// The script that serves moto, and the packages that make emulators installs for it.
var (
	//go:embed serve.py
	serve string
	//go:embed requirements.txt
	requirements string
)

var shared struct {
	sync.Mutex
	url  string
	hold io.Closer // the pipe; it would be closed if nothing referred to it
}

// URL returns the address of the emulator, and starts the emulator if needed. It takes any
// credentials.
func URL(t testing.TB) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.url != "" {
		return shared.url
	}
	url, err := run(find(t))
	if err != nil {
		t.Fatalf("start moto: %v", err)
	}
	shared.url = url
	return url
}

// find returns the Python that has the emulator.
func find(t testing.TB) string {
	t.Helper()
	dir := proof.Installed("moto")
	// The last thing that make emulators does.
	if complete, err := os.ReadFile(filepath.Join(dir, "complete")); err == nil &&
		string(complete) == requirements {
		return filepath.Join(dir, "bin", "python")
	}
	proof.Missing(t, "no moto here, or another version: apt-get install python3-venv, and make emulators")
	return ""
}

// keeper runs the emulator until standard input ends.
const keeper = `
exec 3<&0
"$@" </dev/null 3<&- 2>&1 &
emulator=$!
cat <&3 >/dev/null
kill -KILL $emulator
`

func run(python string) (url string, err error) {
	var log bytes.Buffer // read when its writer has ended
	for range 3 {        // another may take the port in between
		addr, err := child.FreeAddr()
		if err != nil {
			return "", err
		}
		_, port, _ := net.SplitHostPort(addr)
		cmd := exec.Command("/bin/sh", "-c", keeper, "keeper", python, "-I", "-c", serve, port)
		cmd.Dir = os.TempDir()
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // not for a terminal's ^C
		cmd.Stdout = &log
		hold, err := cmd.StdinPipe()
		if err != nil {
			return "", err
		}
		if err := cmd.Start(); err != nil {
			return "", err
		}
		for begin := time.Now(); time.Since(begin) < startMax/3; time.Sleep(50 * time.Millisecond) {
			if resp, err := http.Get("http://" + addr); err == nil {
				resp.Body.Close()
				shared.hold = hold
				return "http://" + addr, nil
			}
		}
		hold.Close()
		cmd.Wait()
	}
	return "", fmt.Errorf("it does not answer:\n%s", log.String())
}
