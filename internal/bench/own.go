package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"tenaq/internal/child"
)

// Servers are the processes that a measurement starts: a server with empty queues, a server that
// does nothing, and the nodes of a cluster.
type Servers struct {
	Dir    string // of the data; the temporary directory if empty
	Signed bool
	Args   []string // further flags of serve
	Env    []string // further environment of the server, such as GOMAXPROCS=2

	Temporary string // directory under Dir that Close removes
	Server    *child.Server
	Cluster   *child.Cluster
	noop      *exec.Cmd
}

// The key of a server that demands signatures. Only this process reaches that server.
const benchKey, benchSecret = "TENAQBENCH", "tenaq-bench-secret-of-a-server-that-lives-for-a-minute"

// Start starts the server, with its data in a directory of its own.
func (o *Servers) Start(ctx context.Context) (e Endpoint, err error) {
	program, err := o.prepare()
	if err != nil {
		return e, err
	}
	args := append([]string{"--log-level", "warn"}, o.Args...)
	if o.Signed {
		file := o.Temporary + "/keys.json"
		keys, _ := json.Marshal(map[string]any{"credentials": []map[string]any{{"id": benchKey,
			"secret": benchSecret, "name": "bench", "allow": []string{"*"}}}}) // it is text
		if err := os.WriteFile(file, keys, 0o600); err != nil {
			return e, err
		}
		args = append(args, "--credentials", file)
		e.Credentials = credentials.NewStaticCredentialsProvider(benchKey, benchSecret, "")
	}
	if o.Server, err = child.New(child.Config{Program: program, Dir: o.Temporary,
		Args: args, Env: o.Env}); err != nil {
		return e, err
	}
	if _, err := o.Server.Start(ctx); err != nil {
		return e, err
	}
	e.Region = "us-east-1"
	e.URL, err = url.Parse(o.Server.URL())
	return e, err
}

// StartCluster starts the nodes of a cluster, with their data in directories of their own.
func (o *Servers) StartCluster(ctx context.Context, nodes int) error {
	program, err := o.prepare()
	if err != nil {
		return err
	}
	if o.Cluster, err = child.NewCluster(child.Config{Program: program, Dir: o.Temporary,
		Args: append([]string{"--log-level", "warn"}, o.Args...)}, nodes, nil); err != nil {
		return err
	}
	return o.Cluster.Start(ctx)
}

// prepare makes the directory for the data, and finds this program.
func (o *Servers) prepare() (program string, err error) {
	if o.Temporary == "" {
		if o.Temporary, err = os.MkdirTemp(o.Dir, "tenaq-bench-"); err != nil {
			return "", err
		}
	}
	if program, err = os.Executable(); err != nil {
		err = fmt.Errorf("find this program: %w", err)
	}
	return program, err
}

// Baseline starts a server that does nothing, and returns the contender that does the same work
// there. It ends the one that was started before.
func (o *Servers) Baseline(ctx context.Context, w Work) (Contender, error) {
	o.stopBaseline()
	answers, err := Answers(ctx, w)
	if err != nil {
		return nil, err
	}
	told, err := json.Marshal(answers)
	if err != nil {
		return nil, err
	}
	program, err := o.prepare()
	if err != nil {
		return nil, err
	}
	o.noop = exec.Command(program, "bench", "baseline")
	o.noop.Stdin = bytes.NewReader(told)
	var complaint bytes.Buffer
	o.noop.Stderr = &complaint
	out, err := o.noop.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := o.noop.Start(); err != nil {
		o.noop = nil
		return nil, err
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the baseline server did not start: %s", complaint.String())
	}
	w.Endpoint = Endpoint{URL: &url.URL{Scheme: "http", Host: strings.TrimSpace(address)},
		Region: w.Endpoint.Region, Credentials: w.Endpoint.Credentials}
	w.Depth, w.Polls = min(w.Depth, 1), 0
	return New(w)
}

// BaselinePID is the id of the process of the server that does nothing.
func (o *Servers) BaselinePID() int { return o.noop.Process.Pid }

func (o *Servers) stopBaseline() {
	if o.noop != nil {
		_ = o.noop.Process.Signal(syscall.SIGTERM)
		_ = o.noop.Wait() // ended by a signal
		o.noop = nil
	}
}

// Close stops all servers and removes the data.
func (o *Servers) Close() (err error) {
	o.stopBaseline()
	if o.Server != nil {
		err = o.Server.Stop()
		o.Server.Close()
	}
	if o.Cluster != nil {
		err = errors.Join(err, o.Cluster.Stop())
		o.Cluster.Close()
	}
	if o.Temporary != "" {
		err = errors.Join(err, os.RemoveAll(o.Temporary))
	}
	return err
}
