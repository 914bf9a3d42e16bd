package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"tenaq/internal/cli"
	"tenaq/internal/work/group"
)

// stopMax is how long the nodes get to stop. A server needs ten seconds at most.
const stopMax = 20 * time.Second

// A process is one that runs a node.
type process struct {
	node localNode
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // then: how, nil for exit status 0
}

// An event is what happened to a process: it is ready, or it ended.
type event struct {
	of   *process
	over bool
}

// run starts the nodes, reports that they are ready, and stops them when ctx is done. A node that
// ends later stays as it is; the command ends when all have. It leaves no process behind.
func (c *local) run(ctx context.Context, a *cli.App) error {
	events := make(chan event, 2*localNodes) // all that there can be: none waits for a reader
	lines := &prefixed{to: a.Stderr}
	var processes []*process
	defer func() { stop(a, processes) }()
	for _, n := range c.nodes() {
		p, err := c.start(n, lines, events)
		if err != nil {
			return cli.Codedf(cli.ExitFailed, "start %s: %v", n.Name, err)
		}
		processes = append(processes, p)
	}
	for range processes {
		select {
		case <-ctx.Done():
			return nil
		case e := <-events:
			if e.over {
				return cli.Codedf(codeOf(e.of.err), "%s ended (%s) before all nodes were ready; its last lines say why",
					e.of.node.Name, ended(e.of.err))
			}
		}
	}
	if err := c.announce(a, processes); err != nil {
		return err
	}
	for range processes {
		select {
		case <-ctx.Done():
			return nil
		case e := <-events:
			a.Note("%s ended (%s); start it again with:\n  tenaq %s", e.of.node.Name,
				ended(e.of.err), strings.Join(c.serveArgs(e.of.node), " "))
		}
	}
	return cli.Codedf(cli.ExitFailed, "all nodes have ended; run the command again to start them")
}

// start runs a node in a process group of its own: the Ctrl-C of a terminal is for this program,
// which then stops the nodes. A second signal would end them at once.
func (c *local) start(n localNode, lines *prefixed, events chan<- event) (*process, error) {
	p := &process{node: n, cmd: exec.Command(c.program, c.serveArgs(n)...),
		done: make(chan struct{})}
	p.cmd.Env = environment(os.Environ())
	group.Own(p.cmd)
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.node.PID = p.cmd.Process.Pid
	var reading sync.WaitGroup
	reading.Go(func() { lines.copy(n.Name, stderr, func() {}) })
	reading.Go(func() {
		// Its first line on standard output says that it is ready.
		lines.copy(n.Name, stdout, sync.OnceFunc(func() { events <- event{of: p} }))
	})
	go func() {
		reading.Wait()
		p.err = p.cmd.Wait()
		close(p.done)
		events <- event{of: p, over: true}
	}()
	return p, nil
}

// stop ends the processes and waits for them. One that does not stop in time is killed.
func stop(a *cli.App, processes []*process) {
	for _, p := range processes {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it fails when the process has ended
	}
	late, cancel := context.WithTimeout(context.Background(), stopMax)
	defer cancel()
	for _, p := range processes {
		select {
		case <-p.done:
		case <-late.Done():
			if p.cmd.Process.Kill() == nil {
				a.Note("%s did not stop within %v and was killed", p.node.Name, stopMax)
			}
			<-p.done
		}
	}
}

func (c *local) announce(a *cli.App, processes []*process) error {
	var nodes []localNode
	for _, p := range processes {
		nodes = append(nodes, p.node)
	}
	if a.JSON {
		return a.PrintJSONLine(map[string]any{"dir": c.dir, "nodes": nodes})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "cluster ready, data in %s\n", c.dir)
	for _, n := range nodes {
		fmt.Fprintf(&b, "  %s  SQS on %s, admin on %s, process %d\n", n.Name, n.URL, n.Admin, n.PID)
	}
	fmt.Fprintf(&b, "in another terminal:\n  eval \"$(tenaq env --endpoint-url %s)\"\n  tenaq cluster status --endpoint-url %s\n",
		nodes[0].URL, nodes[0].URL)
	return a.PrintText(b.String())
}

// ended says how a process ended.
func ended(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// codeOf is the exit code of a process, if it has one that says what was wrong.
func codeOf(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	return cli.ExitFailed
}

// A prefixed writer writes whole lines of several nodes.
type prefixed struct {
	mu sync.Mutex
	to io.Writer
}

// copy writes the lines of a node, each with its name, until the node ends. It calls each after a
// line.
func (w *prefixed) copy(name string, from io.Reader, each func()) {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			w.mu.Lock()
			fmt.Fprintf(w.to, "%s | %s\n", name, cli.OneLine(strings.TrimSuffix(line, "\n")))
			w.mu.Unlock()
			each()
		}
		if err != nil {
			return
		}
	}
}
