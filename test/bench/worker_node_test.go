package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"tenaq/internal/testing/proof"
)

// A node is a process that runs sqs-consumer. One serves all runs, so that its code is compiled by
// the time it is measured.
type node struct {
	in     io.Writer
	out    *bufio.Reader
	stderr *bytes.Buffer // to be read when it has ended
	cmd    *exec.Cmd
}

// startNode starts one, or says what is missing and returns nil.
func startNode(b *testing.B, a *arena) *node {
	modules, err := nodeModules()
	if err != nil {
		if os.Getenv("TENAQ_REQUIRE_ALL") == "1" {
			b.Fatal(err)
		}
		b.Logf("SKIPPED: %v", err)
		return nil
	}
	n := &node{stderr: new(bytes.Buffer), cmd: exec.Command("node", filepath.Join("consumers", "consume.js"), a.url)}
	n.cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
	n.cmd.Stderr = n.stderr
	in, err := n.cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	n.in, n.out = in, bufio.NewReader(out)
	if err := n.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		if err := n.cmd.Wait(); err != nil {
			b.Errorf("node: %v\n%s", err, n.stderr)
		}
	})
	return n
}

// nodeModules is where make has installed sqs-consumer.
func nodeModules() (string, error) {
	dir := proof.Installed("sqs-consumer")
	want, err := os.ReadFile(filepath.Join("consumers", "package-lock.json"))
	if err != nil {
		return "", err
	}
	// The last thing that make does.
	if complete, err := os.ReadFile(filepath.Join(dir, "complete")); err != nil || !bytes.Equal(complete, want) {
		return "", errors.New("no sqs-consumer here, or another version: install Node with npm, and make bench-worker")
	}
	return filepath.Join(dir, "node_modules"), nil
}

// consumer is a number of Consumers of sqs-consumer in the process, with handleMessage or
// handleMessageBatch. It has no concurrency of its own: a Consumer handles the messages of one
// receive side by side, and then makes the next.
func (n *node) consumer(consumers int, batch bool) consumer {
	name := fmt.Sprintf("sqs-consumer, %d × handleMessage", consumers)
	if batch {
		name += "Batch"
	}
	return consumer{name, nameOfLoop(consumers, deleteBatch), func(ctx context.Context, o *observer, queueURL string) error {
		stop := context.AfterFunc(ctx, func() { _ = n.cmd.Process.Kill() })
		defer stop()
		err := json.NewEncoder(n.in).Encode(map[string]any{
			"queueUrl": queueURL, "messages": o.left, "consumers": consumers, "batch": batch,
		})
		if err != nil {
			return err
		}
		line, err := n.out.ReadBytes('\n')
		if err != nil {
			return err
		}
		var answer struct {
			outcome
			Error string
		}
		if err := json.Unmarshal(line, &answer); err != nil {
			return err
		}
		if answer.Error != "" {
			return errors.New(answer.Error)
		}
		o.outcome = answer.outcome
		return nil
	}}
}
