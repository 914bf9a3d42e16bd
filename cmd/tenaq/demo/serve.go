package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/internal/child"
	"tenaq/internal/cli"
)

// A shop is a server with queues that are in use, for a look around. What is in it comes from
// commands that anyone could type: each is a step of fill, work or sell.
type shop struct {
	program string
	dir     string
	server  *child.Server
	verbose bool
	app     *cli.App
}

// packing is what a worker of the shop does with an order. Some orders fail, each with a reason.
const packing = `case $TENAQ_KEY in
order-*7) echo "warehouse: no answer after $((TENAQ_ATTEMPT * 3)) s" >&2; exit 1 ;;
order-*9) echo "no such article: $TENAQ_KEY" >&2; exit 65 ;;
esac
sleep 0.2; echo "packed $TENAQ_KEY"`

// fill leaves messages in every state, dead letters with two reasons, a group that waits, a
// history, a finished task and one that runs.
var fill = []string{
	"queue create orders-dlq",
	"queue create orders --dead-letter orders-dlq --tag tenaq:history=7d --tag team=shop",
	"queue create mails --tag tenaq:rate=30/m",
	"queue create invoices.fifo --attribute ContentBasedDeduplication=true --attribute DeduplicationScope=messageGroup",
	"queue create reports",
	"send orders --lines --attribute source=shop < orders",
	"pipe orders --key body.id --attempts 2 --pause 1s --until-empty --no-output -- sh -c PACKING",
	"dead redrive orders-dlq --text order-17 --yes",
	"dead redrive orders-dlq --delay 15m --limit 2 --rate 1 --background --yes",
	"send mails --lines < orders",
	"receive mails --max 5 --visibility 10m --wait 1s",
	"send mails later --delay 15m",
	"send invoices.fifo --lines --group customer-1 < orders",
	"send invoices.fifo --lines --group customer-2 < orders",
	"receive invoices.fifo --visibility 1h",
	"queue tag reports tenaq:paused=true",
	"send reports monthly",
}

// openShop starts the server and fills it.
func openShop(ctx context.Context, a *cli.App, dir string, verbose bool) (s *shop, err error) {
	s = &shop{dir: dir, verbose: verbose, app: a}
	if s.program, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	s.server, err = child.New(child.Config{Program: s.program, Dir: dir,
		Args: []string{"--log-level", "warn", "--alarm-minute", "5s"}})
	if err != nil {
		return nil, err
	}
	if _, err := s.server.Start(ctx); err != nil {
		return nil, err
	}
	for _, line := range fill {
		if err := s.tenaq(ctx, line); err != nil {
			return s, err
		}
	}
	return s, nil
}

// orders are the bodies that steps read.
func orders(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, `{"id":"order-%d","articles":%d,"eur":%d.95}`+"\n", i, 1+i%4, 10+i*7%90)
	}
	return b.String()
}

func (s *shop) command(ctx context.Context, line string) *exec.Cmd {
	line, in, _ := strings.Cut(line, " < ")
	args := strings.Fields(line)
	for i, arg := range args {
		if arg == "PACKING" {
			args[i] = packing
		}
	}
	cmd := exec.CommandContext(ctx, s.program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	// The environment may name another server, and the demo must not write to it.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "TENAQ_")
	})
	cmd.Env = append(cmd.Env, "AWS_ENDPOINT_URL_SQS="+s.server.URL(), "TENAQ_RECORDS=server",
		"AWS_ACCESS_KEY_ID="+cli.OpenID, "AWS_SECRET_ACCESS_KEY="+cli.OpenSecret,
		"AWS_REGION="+cli.DefaultRegion)
	if in != "" {
		cmd.Stdin = strings.NewReader(orders(1, 40))
	}
	return cmd
}

// tenaq carries out a step.
func (s *shop) tenaq(ctx context.Context, line string) error {
	if s.verbose {
		s.app.Note("tenaq %s", line)
	}
	var stderr bytes.Buffer
	cmd := s.command(ctx, line)
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("tenaq %s: %w: %s", line, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}

// trade runs a worker that packs orders, and sends a new order every 1.5 seconds, until ctx ends.
func (s *shop) trade(ctx context.Context) error {
	worker := s.command(ctx, "pipe orders --key body.id --attempts 2 --no-output -- sh -c PACKING")
	if err := worker.Start(); err != nil {
		return err
	}
	for i := 41; ctx.Err() == nil; i++ {
		body := strings.TrimSpace(orders(i, i))
		if err := s.tenaq(ctx, "send orders "+body); err != nil {
			stage.Pause(ctx, time.Second) // Ctrl-C of a terminal may reach the command first
			if ctx.Err() == nil {
				s.app.Note("%v", err)
			}
		}
		stage.Pause(ctx, 1500*time.Millisecond)
	}
	_ = worker.Wait() // it was told to stop
	return nil
}

// serve is the demo with --serve: a server to look at, until the command is interrupted.
func (f *flags) serve(ctx context.Context, a *cli.App) (err error) {
	dir, err := os.MkdirTemp("", "tenaq-demo-")
	if err != nil {
		return err
	}
	defer func() {
		if f.keep {
			a.Note("the data is in %s", dir)
		} else {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	a.Note("starting a server and filling it")
	s, err := openShop(ctx, a, dir, f.verbose)
	if s != nil {
		defer s.server.Close()
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	url := s.server.URL()
	document := map[string]string{"console": url + "/console/", "endpoint": url, "dir": dir}
	err = a.Result(document, `console    %[1]s/console/
commands   export AWS_ENDPOINT_URL_SQS=%[1]s, then for instance:
           tenaq peek
           tenaq dead list orders-dlq
           tenaq trace order-17
data       %[2]s

Orders arrive and are packed until you press Ctrl-C, which stops the server and
removes its data.`, url, dir)
	if err == nil {
		err = s.trade(ctx)
	}
	_ = s.server.Stop() // Ctrl-C of a terminal has told it already
	return err
}
