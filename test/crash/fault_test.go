package crash

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tenaq/internal/testing/built"
)

// A server whose disk refuses a write says one sentence and exits with status 7 [DUR-12]. It
// answers nothing after that [DUR-13], and what it answered before is there when the disk is well
// again.
//
// The disk is a limit on the size of files, which the shell sets before it becomes the server: the
// log of the store grows until a write fails, in the middle of whatever the server is doing.
func TestDiskRefusesWrites(t *testing.T) {
	name := built.Program(t)
	data := filepath.Join(t.TempDir(), "data")
	sick := serve(t, exec.Command("sh", "-c", `ulimit -f 4096; exec "$0" "$@"`, name), data)
	sick.call(t, "CreateQueue", `{"QueueName":"orders"}`)
	sent := 0
	body := strings.Repeat("x", 10_000)
	for {
		if _, err := sick.post("SendMessage", fmt.Sprintf(`{"QueueUrl":"orders","MessageBody":"%d %s"}`, sent, body)); err != nil {
			break
		}
		if sent++; sent > 10_000 {
			t.Fatal("the disk has taken 100 MB in files of at most 2 MiB")
		}
	}
	var exit *exec.ExitError
	if err := sick.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("the server ended with %v, want exit status 7", err)
	}
	said := strings.TrimSpace(sick.stderr.String())
	last := said[strings.LastIndexByte(said, '\n')+1:]
	if !strings.HasPrefix(last, "tenaq: ") || !strings.Contains(last, "start again") {
		t.Errorf("the last words are %q, want a sentence that ends with what to do", last)
	}

	well := serve(t, exec.Command(name), data)
	var got struct{ Attributes map[string]string }
	answer := well.call(t, "GetQueueAttributes", `{"QueueUrl":"orders","AttributeNames":["ApproximateNumberOfMessages"]}`)
	if err := json.Unmarshal(answer, &got); err != nil {
		t.Fatal(err)
	}
	there, _ := strconv.Atoi(got.Attributes["ApproximateNumberOfMessages"])
	// The send that failed may have been stored: no answer promised anything about it.
	if sent == 0 || there < sent || there > sent+1 {
		t.Errorf("%d messages are there, %d were acknowledged", there, sent)
	}
	t.Logf("%d messages acknowledged before the disk refused, %d there afterwards", sent, there)
}

// A server that a watchdog aborts writes what it was doing and ends by the signal, which no service
// manager takes for a wrong configuration. [DUR-43]
func TestAbort(t *testing.T) {
	s := serve(t, exec.Command("sh", "-c", `ulimit -c 0; exec "$0" "$@"`, built.Program(t)),
		filepath.Join(t.TempDir(), "data"))
	if err := s.cmd.Process.Signal(syscall.SIGABRT); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait()
	if status := s.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGABRT {
		t.Errorf("the server ended with %v, want SIGABRT", s.cmd.ProcessState)
	}
	if said := s.stderr.String(); !strings.Contains(said, "server.(*Server).Run") {
		t.Errorf("the server does not say what it was doing:\n%s", said)
	}
}

// A served is a server process that a test started by itself, with its output.
type served struct {
	cmd    *exec.Cmd
	url    string
	stderr *bytes.Buffer
}

// serve starts a server and waits until it is ready.
func serve(t *testing.T, cmd *exec.Cmd, data string) *served {
	s := &served{cmd: cmd, stderr: new(bytes.Buffer)}
	cmd.Args = append(cmd.Args, "serve", "--json", "--listen", "127.0.0.1:0", "--admin-listen", "off",
		"--disk-reserve", "0", "--data-dir", data)
	cmd.Stderr = s.stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Signal(syscall.SIGKILL); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var ready struct{ URL string }
	if err := errors.Join(err, json.Unmarshal(line, &ready)); err != nil {
		t.Fatalf("%v: %s", err, s.stderr)
	}
	s.url = ready.URL
	return s
}

// post sends one request and returns the body of its answer.
func (s *served) post(action, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("X-Amz-Target", "AmazonSQS."+action)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, answer)
	}
	return answer, err
}

func (s *served) call(t *testing.T, action, body string) []byte {
	answer, err := s.post(action, body)
	if err != nil {
		t.Fatalf("%s: %v: %s", action, err, s.stderr)
	}
	return answer
}
