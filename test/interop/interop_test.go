package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tenaq/internal/door/credentials"
	"tenaq/internal/server"
	"tenaq/internal/testing/proof"
)

var rewrite = flag.Bool("rewrite", false, "write the table in docs/clients.md from what the clients do")

// operations are the columns of the table. Environment is to reach the server with the variables
// that "tenaq env" prints and without an address in code. Extra is what a client is known for,
// where that is more than a call of SQS.
var operations = []string{"create", "attributes", "fifo", "batch", "receive", "visibility", "delete", "error", "paging", "environment", "extra"}

// A client is a program that leads the operations through a client of SQS.
type client struct {
	// name is that of the subtest and of the row: letters, digits, dots and hyphens.
	name string

	// command prepares the program. It skips the test where what it needs is not here, see missing;
	// the environment is added to its own.
	command func(t *testing.T) *exec.Cmd

	// without says for operations that the client cannot do why that is so.
	without map[string]string

	// extra says what the program does under that name, in a few words; empty when nothing.
	extra string

	// ofSystem is set for a client whose version is the machine's affair. Another version than the
	// table names has to do everything too, and is not compared with the table.
	ofSystem bool
}

var clients = slices.Concat(pythonClients, javascriptClients, javaClients, goClients)

// lacks reports why a client does not do an operation.
func (c *client) lacks(operation string) (why string, ok bool) {
	why, ok = c.without[operation]
	if operation == "extra" && c.extra == "" {
		return "", true
	}
	return why, ok
}

// programMax is how long a program may take on a machine that has much else to do; atOnce how many
// run at a time, since some of them are large.
const (
	programMax = 4 * time.Minute
	atOnce     = 2
)

func TestClients(t *testing.T) {
	if testing.Short() {
		t.Skip("other people's clients take a minute")
	}
	addr := start(t)
	var mu sync.Mutex
	var results []result
	t.Cleanup(func() { settle(t, results) }) // when all clients have ended
	places := make(chan struct{}, atOnce)
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			places <- struct{}{}
			defer func() { <-places }()
			cmd := c.command(t)
			w := listen(t, addr)
			report := run(t, cmd, environment(c.name, w.addr))
			if r, ok := judge(t, c, report); ok {
				r.protocol = w.protocol()
				mu.Lock()
				results = append(results, r)
				mu.Unlock()
			}
		})
	}
}

// The keys that the server knows, and a secret that is of neither. The second key is one of three
// parts and may not receive.
const (
	keyID, keySecret         = "TQINTEROP1", "interop/secret+of=everything"
	senderID, senderSecret   = "TQINTEROP2", "interop/secret+of=the-sender"
	senderToken, wrongSecret = "interop//session+token==", "interop/secret+of=nobody"
	keys                     = `{"credentials": [
		{"id": "` + keyID + `", "secret": "` + keySecret + `", "name": "all", "allow": ["*"]},
		{"id": "` + senderID + `", "secret": "` + senderSecret + `", "token": "` + senderToken + `", "name": "sender", "allow": ["sqs:CreateQueue", "sqs:SendMessage"]}]}`
)

// start runs a server that has credentials, until the test ends, and returns its address.
func start(t *testing.T) (addr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(file, []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := credentials.Open(credentials.Config{File: file})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Config{
		Listen:      "127.0.0.1:0",
		AdminListen: "off",
		DataDir:     t.TempDir(),
		Credentials: set,
		Logger:      slog.New(slog.NewTextHandler(io.Discard, nil)),
		Fatal:       func(err error) { panic(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s.Addr()
}

// environment is what a program finds in its environment, whatever is configured on the machine.
func environment(name, addr string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(v), "=")
		return strings.HasPrefix(name, "AWS_") || strings.HasPrefix(name, "TENAQ_") || strings.HasSuffix(name, "_PROXY") || strings.HasPrefix(name, "PYTHON")
	})
	return append(env,
		"AWS_ACCESS_KEY_ID="+keyID,
		"AWS_SECRET_ACCESS_KEY="+keySecret,
		"AWS_REGION=us-east-1",
		"AWS_DEFAULT_REGION=us-east-1",
		"AWS_EC2_METADATA_DISABLED=true",
		"AWS_CONFIG_FILE="+os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE="+os.DevNull,
		"AWS_ENDPOINT_URL_SQS=http://"+addr,
		"TENAQ_ENDPOINT=http://"+addr,
		"TENAQ_PREFIX="+strings.ReplaceAll(name, ".", "-")+"-",
		"TENAQ_WRONG_KEY_ID="+keyID,
		"TENAQ_WRONG_SECRET="+wrongSecret,
	)
}

// run runs a program and returns what it printed. It ends with all processes that it has started.
func run(t *testing.T, cmd *exec.Cmd, env []string) (stdout []byte) {
	t.Helper()
	var out, errors bytes.Buffer
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdout, cmd.Stderr = &out, &errors
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // its group
	late := time.AfterFunc(programMax, kill)
	err := cmd.Wait()
	if !late.Stop() {
		t.Errorf("it did not end within %v", programMax)
	}
	kill()
	t.Logf("%v", time.Since(begin).Round(time.Millisecond))
	if err != nil {
		t.Errorf("%v: %v", cmd, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("standard error:\n%s", &errors)
		}
	})
	return out.Bytes()
}

// judge reads what a program printed. It reports false when something does not hold.
func judge(t *testing.T, c client, stdout []byte) (r result, ok bool) {
	t.Helper()
	ok = true
	wrong := func(format string, args ...any) {
		t.Helper()
		ok = false
		t.Errorf(format, args...)
	}
	r.client = c
	seen := map[string]bool{}
	for line := range bytes.Lines(stdout) {
		var said struct {
			Version   string `json:"version"`
			Operation string `json:"operation"`
			OK        bool   `json:"ok"`
			Detail    string `json:"detail"`
		}
		err := json.Unmarshal(line, &said)
		_, not := c.lacks(said.Operation)
		switch {
		case err != nil:
			wrong("not JSON: %s", line)
		case said.Version != "" && r.version == "" && len(seen) == 0:
			r.version = said.Version
		case !slices.Contains(operations, said.Operation) || not || seen[said.Operation]:
			wrong("not an operation of this client, or once more: %s", line)
		case !said.OK:
			wrong("%s: %s", said.Operation, said.Detail)
			seen[said.Operation] = true
		default:
			seen[said.Operation] = true
		}
	}
	if r.version == "" {
		wrong("no version")
	}
	for _, o := range operations {
		if _, not := c.lacks(o); !not && !seen[o] {
			wrong("%s: got nothing, want it to be reported", o)
		}
	}
	return r, ok && !t.Failed()
}

// installed returns the directory in which make emulators has installed the list, under the name
// that the script install gives it.
func installed(t *testing.T, name, list string) (dir string) {
	t.Helper()
	want, err := os.ReadFile(filepath.FromSlash(list))
	if err != nil {
		t.Fatal(err)
	}
	dir = proof.Installed(name)
	// The last thing that install does.
	if got, err := os.ReadFile(filepath.Join(dir, "complete")); err != nil || !bytes.Equal(got, want) {
		proof.Missing(t, "no "+name+" here as "+path.Join("test/interop", list)+" has it: install it with make emulators")
	}
	return dir
}

// script returns the absolute path of a file below testdata, for programs that run elsewhere.
func script(t *testing.T, name string) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("testdata", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return file
}
