// Package crash sends messages through a server that is killed again and again. In the end package
// audit accounts for each of them, from what the clients saw.
package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/internal/child"
	"tenaq/internal/cli"
	"tenaq/internal/testing/audit"
	"tenaq/internal/testing/audit/load"
)

// Scenario is this scenario.
var Scenario = stage.Scenario{
	Name: "crash",
	Text: "messages through a server that is killed again and again",
	Run:  run,
	Breaks: []stage.Break{{Name: "disk",
		Text: "the disk forgets what was written between two deaths", Ours: true}},
}

// A crash is a run of the scenario.
type crash struct {
	env    *stage.Env
	server *child.Server // nil if it is not ours
	load   *load.Load

	messages, kills int // wanted

	restarts []time.Duration // how long each took
}

// run lets producers send messages and consumers handle them, some too slowly, while the server
// dies and comes back; then every message is accounted for.
func run(ctx context.Context, env *stage.Env) ([]stage.Row, error) {
	s, err := env.OpenSQS(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	url, err := s.CreateQueue(ctx, "crash", nil)
	if err != nil {
		return nil, err
	}
	c := &crash{env: env, server: s.Server, messages: env.Scale(400, 1000), kills: env.Scale(4, 8)}
	c.load = load.New(load.Config{
		AWS: s.AWS, Endpoint: s.Endpoint, QueueURL: url, Seed: env.Seed,
		Bodies: c.messages,
		Body:   func(n int) string { return fmt.Sprintf(`{"message": %d, "demo": %d}`, n+1, env.Seed) },
		Pause:  80 * time.Millisecond, Work: 15 * time.Millisecond,
		Visibility: 2 * time.Second,
		Overruns:   c.messages * 3 / 100, Changes: c.messages * 4 / 100,
		Canaries:          c.messages * 3 / 100,
		RefusesOldHandles: s.Server == nil,
	})
	if err := c.run(ctx); err != nil {
		return c.killRows(), err
	}
	report := audit.Check(c.load.History(), audit.Options{})
	if len(report.Violations) > 0 {
		if err := c.keepHistory(report); err != nil {
			return nil, err
		}
	}
	left, err := c.load.Left(ctx)
	rows := append(auditRows(report, c.messages),
		stage.Want("left in the queue, by its own counters", 0, left))
	return slices.Concat(rows, c.killRows(), c.serverRows()), err
}

// run runs the load, and beside it the kills and the progress.
func (c *crash) run(ctx context.Context) error {
	killed := make(chan int, c.kills)
	ended := make(chan error, 1)
	go func() {
		ended <- c.load.Run(ctx, func(ctx context.Context) error { return c.kill(ctx, killed) })
	}()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for kills := 0; ; {
		select {
		case err := <-ended:
			return err
		case kills = <-killed:
			c.env.Say("kill %d of %d", kills, c.kills)
		case <-tick.C:
		}
		p := c.load.Progress()
		c.env.Progress.Line("%s %d of %d sent, %d delivered, %s",
			cli.Bar(p.Acknowledged, c.messages),
			p.Acknowledged, c.messages, p.Received, cli.Counted(kills, "kill", "kills"))
	}
}

// kill kills the server at random moments and starts it again at once.
func (c *crash) kill(ctx context.Context, killed chan<- int) error {
	if c.server == nil {
		return nil
	}
	rng := c.env.RNG(1)
	var earlier rollback
	for n := range c.kills {
		stage.Pause(ctx, 300*time.Millisecond+time.Duration(rng.Int64N(int64(1200*time.Millisecond))))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := c.server.Kill(); err != nil {
			return err
		}
		if c.env.Broken == "disk" {
			if err := earlier.at(n, c.server.DataDir()); err != nil {
				return err
			}
		}
		took, err := c.server.Start(ctx)
		if err != nil {
			return err
		}
		c.restarts = append(c.restarts, took)
		killed <- n + 1
	}
	return nil
}

// A rollback puts the data of a server that is not running back to an earlier state, as a disk does
// that only pretends to write.
type rollback struct{ saved string }

// at saves at the second death and restores at the third.
func (r *rollback) at(death int, dataDir string) error {
	switch death {
	case 1:
		r.saved = strings.TrimSuffix(dataDir, "/") + ".earlier"
		return os.CopyFS(r.saved, os.DirFS(dataDir))
	case 2:
		if err := os.RemoveAll(dataDir); err != nil {
			return err
		}
		return os.Rename(r.saved, dataDir)
	}
	return nil
}

// auditRows judges what became of the messages.
func auditRows(r *audit.Report, messages int) []stage.Row {
	return []stage.Row{
		stage.Want("messages sent and acknowledged", messages, r.Acknowledged),
		stage.Want("lost", 0, r.Count(audit.Lost)),
		stage.Want("delivered while surely in flight elsewhere", 0, r.Count(audit.InFlight)),
		stage.Want("delivered after an acknowledged delete", 0, r.Count(audit.Deleted)),
		stage.Want("receive counts going backwards", 0, r.Count(audit.Counts)),
		stage.Want("invented, multiplied or altered", 0,
			r.Count(audit.Invented, audit.Multiplied, audit.Fixed)),
		stage.Show("deliveries in all", r.Deliveries),
		stage.Show("deliveries of what had been delivered before", r.Repeated),
		stage.Show("stored twice by a retry of the SDK", r.Copies),
	}
}

// killRows judges the deaths.
func (c *crash) killRows() []stage.Row {
	const deaths, ready = "server kills (kill -9)", "time to ready after a kill"
	if c.server == nil {
		return []stage.Row{stage.Skip(deaths, stage.NotOurs), stage.Skip(ready, stage.NotOurs)}
	}
	rows := []stage.Row{stage.AtLeast(deaths, 3, len(c.restarts))}
	if len(c.restarts) > 0 {
		sorted := slices.Sorted(slices.Values(c.restarts))
		rows = append(rows, stage.Show(ready, fmt.Sprintf("%d ms, at most %d ms",
			sorted[len(sorted)/2].Milliseconds(), sorted[len(sorted)-1].Milliseconds())))
	}
	return rows
}

// serverRows judges what only a server of our own promises. Amazon accepts a delete with an old
// handle, and some emulators do not.
func (c *crash) serverRows() []stage.Row {
	const old, stop = "old handles refused", "exit status after SIGTERM"
	if c.server == nil {
		return []stage.Row{stage.Show(old, c.load.OldHandlesRefused()),
			stage.Skip(stop, stage.NotOurs)}
	}
	ended := "0"
	if err := c.server.Stop(); err != nil {
		ended = err.Error()
	}
	return []stage.Row{stage.Want(old, 0, c.load.OldHandlesRefused()), stage.Want(stop, 0, ended)}
}

// keepHistory writes down what happened, for a person who looks into a failure.
func (c *crash) keepHistory(r *audit.Report) error {
	text, err := json.Marshal(c.load.History())
	if err != nil {
		return err
	}
	var findings []byte
	for _, v := range r.Violations {
		findings = fmt.Appendln(findings, v)
	}
	if err := os.WriteFile(filepath.Join(c.env.Dir, "violations.txt"), findings,
		0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.env.Dir, "history.json"), text, 0o600)
}
