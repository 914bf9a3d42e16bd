package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/spf13/cobra"

	"tenaq/internal/bench"
	"tenaq/internal/child"
	"tenaq/internal/cli"
	"tenaq/internal/server"
)

// benchServers are the processes that bench starts: a server with empty queues, and one that does nothing.
type benchServers struct {
	dir    string // where the data go; the temporary directory when empty
	signed bool
	args   []string // further flags of serve

	temporary string
	server    *child.Server
	noop      *exec.Cmd
}

// The key of a server that demands signatures. Nobody else can reach that server.
const benchKey, benchSecret = "TENAQBENCH", "tenaq-bench-secret-of-a-server-that-lives-for-a-minute"

// start starts the server.
func (o *benchServers) start(ctx context.Context) (e bench.Endpoint, err error) {
	if o.temporary, err = os.MkdirTemp(o.dir, "tenaq-bench-"); err != nil {
		return e, cli.Usagef("--dir: %v", err)
	}
	program, err := os.Executable()
	if err != nil {
		return e, fmt.Errorf("find this program: %w", err)
	}
	args := append([]string{"--log-level", "warn"}, o.args...)
	if o.signed {
		file := o.temporary + "/keys.json"
		keys, _ := json.Marshal(map[string]any{"credentials": []map[string]any{{"id": benchKey, "secret": benchSecret, "name": "bench", "allow": []string{"*"}}}}) // it is text
		if err := os.WriteFile(file, keys, 0o600); err != nil {
			return e, err
		}
		args = append(args, "--credentials", file)
		e.Credentials = credentials.NewStaticCredentialsProvider(benchKey, benchSecret, "")
	}
	if o.server, err = child.New(child.Config{Program: program, Dir: o.temporary, Args: args}); err != nil {
		return e, err
	}
	if _, err := o.server.Start(ctx); err != nil {
		return e, err
	}
	e.Region = cli.DefaultRegion
	e.URL, err = url.Parse(o.server.URL())
	return e, err
}

// baseline starts the server that does nothing and returns the contender that has the same work there.
func (o *benchServers) baseline(ctx context.Context, w bench.Work) (bench.Contender, error) {
	answers, err := bench.Answers(ctx, w)
	if err != nil {
		return nil, err
	}
	told, err := json.Marshal(answers)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
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
		return nil, err
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the baseline server did not start: %s", complaint.String())
	}
	w.Endpoint = bench.Endpoint{URL: &url.URL{Scheme: "http", Host: strings.TrimSpace(address)}, Region: w.Endpoint.Region, Credentials: w.Endpoint.Credentials}
	w.Depth, w.Polls = min(w.Depth, 1), 0
	return bench.New(w)
}

func (o *benchServers) Close() (err error) {
	if o.noop != nil {
		_ = o.noop.Process.Signal(syscall.SIGTERM)
		_ = o.noop.Wait() // ended by a signal
	}
	if o.server != nil {
		err = o.server.Stop()
		o.server.Close()
	}
	if o.temporary != "" {
		err = errors.Join(err, os.RemoveAll(o.temporary))
	}
	return err
}

// newBenchBaselineCmd makes the command that bench starts the server with that does nothing.
func newBenchBaselineCmd(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:    "baseline",
		Hidden: true,
		Short:  "Be a server that does nothing",
		Long: `Be a server that does nothing on the HTTP stack of "tenaq serve": read the answers to give from standard
input, print the address, and serve until told to stop. "tenaq bench --baseline" starts it; it is of no use to
anybody else.`,
		Example: `  tenaq bench baseline < answers.json`,
		Args:    cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var answers map[string][]byte
			text, err := io.ReadAll(a.Stdin)
			if err == nil {
				err = json.Unmarshal(text, &answers)
			}
			if err != nil {
				return cli.Usagef("standard input: %v", err)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			if err := a.Result(l.Addr().String(), "%s", l.Addr()); err != nil {
				return err
			}
			defer runtime.KeepAlive(cli.PaceGC(os.Getenv)) // as serve does
			cli.AddThreads(os.Getenv)
			return server.Baseline(cmd.Context(), l, answers)
		},
	}
}
