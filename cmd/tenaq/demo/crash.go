package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tenaq/internal/audit"
	"tenaq/internal/audit/load"
	"tenaq/internal/child"
	"tenaq/internal/cli"
)

var crashScenario = scenario{
	name:   "crash",
	text:   "1,000 messages through a server that is killed again and again",
	run:    runCrash,
	breaks: []breakage{{name: "disk", text: "the server's disk forgets what was written between two deaths", ours: true}},
}

const (
	crashMessages = 1000
	crashKills    = 8
	crashHide     = 2 * time.Second // visibility timeout
)

// runCrash lets producers send messages and consumers handle them, some too slowly, while the server dies
// and comes back; then every message is accounted for.
func runCrash(ctx context.Context, env *demoEnv) ([]demoRow, error) {
	s, err := env.openSQS(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	url, err := s.createQueue(ctx, "crash", nil)
	if err != nil {
		return nil, err
	}
	c := &crashRun{env: env, server: s.server}
	c.load = load.New(load.Config{
		AWS: s.aws, Endpoint: s.endpoint, QueueURL: url, Seed: env.seed,
		Bodies: crashMessages,
		Body:   func(n int) string { return fmt.Sprintf(`{"message": %d, "demo": %d}`, n+1, env.seed) },
		Pause:  80 * time.Millisecond, Work: 15 * time.Millisecond,
		Visibility: crashHide,
		Overruns:   30, Changes: 40, Canaries: 30,
		RefusesOldHandles: s.server == nil,
	})
	if err := c.run(ctx); err != nil {
		return c.killRows(), err
	}
	report := audit.Check(c.load.History(), audit.Options{})
	rows := slices.Concat(auditRows(report), []demoRow{c.oldHandlesRow()}, c.killRows())
	if len(report.Violations) > 0 {
		if err := c.keepHistory(report); err != nil {
			return rows, err
		}
	}
	left, err := c.load.Left(ctx)
	if err != nil {
		return rows, err
	}
	return append(rows, wantRow("left in the queue, by its own counters", 0, left), s.alarmRow(ctx), c.stopRow()), nil
}

// A crashRun is a run of the scenario.
type crashRun struct {
	env    *demoEnv
	server *child.Server // nil when it is not ours
	load   *load.Load

	kills []time.Duration // how long each restart took
}

// run runs the load, and beside it what kills the server and what shows the progress.
func (c *crashRun) run(ctx context.Context) error {
	killed := make(chan struct{}, crashKills)
	ended := make(chan error, 1)
	go func() {
		ended <- c.load.Run(ctx, func(ctx context.Context) error { return c.kill(ctx, killed) })
	}()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for kills, draining := 0, false; ; {
		select {
		case err := <-ended:
			return err
		case <-killed:
			kills++
			c.env.progress.Say("kill %d of %d, %s acknowledged", kills, crashKills, cli.Counted(c.load.Progress().Acknowledged, "message", "messages"))
		case <-tick.C:
		}
		p := c.load.Progress()
		if p.Acknowledged < crashMessages || kills < crashKills && c.server != nil {
			c.env.progress.Line("%s %d of %d sent, %d delivered, %s", cli.Bar(p.Acknowledged, crashMessages),
				p.Acknowledged, crashMessages, p.Received, cli.Counted(kills, "kill", "kills"))
			continue
		}
		if !draining {
			draining = true
			c.env.progress.Say("all sent; waiting until nothing is left and nothing comes back")
		}
		c.env.progress.Line("%s all sent, %d delivered, %s; draining", cli.Bar(1, 1), p.Received, cli.Counted(kills, "kill", "kills"))
	}
}

// kill kills the server at random moments and starts it again at once.
func (c *crashRun) kill(ctx context.Context, killed chan<- struct{}) error {
	if c.server == nil {
		return nil
	}
	rng := c.env.rng(1)
	var earlier rollback
	for n := range crashKills {
		cli.Pause(ctx, 300*time.Millisecond+time.Duration(rng.Int64N(int64(1500*time.Millisecond))))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := c.server.Kill(); err != nil {
			return err
		}
		if err := c.forget(&earlier, n); err != nil {
			return err
		}
		took, err := c.server.Start(ctx)
		if err != nil {
			return err
		}
		c.kills = append(c.kills, took)
		killed <- struct{}{}
	}
	return nil
}

// forget makes the server forget what happened between its second and its third death, if it is to.
func (c *crashRun) forget(earlier *rollback, n int) error {
	switch {
	case c.env.broken != "disk":
		return nil
	case n == 1:
		return earlier.save(c.server.DataDir())
	case n == 2:
		return earlier.restore(c.server.DataDir())
	}
	return nil
}

// notOurs is why rows are skipped with --endpoint-url.
const notOurs = "not our server"

// auditRows shows what became of the messages.
func auditRows(r *audit.Report) []demoRow {
	return []demoRow{
		wantRow("messages sent and acknowledged", crashMessages, r.Acknowledged),
		wantRow("lost", 0, r.Count(audit.Lost)),
		wantRow("delivered while surely in flight elsewhere", 0, r.Count(audit.InFlight)),
		wantRow("delivered after an acknowledged delete", 0, r.Count(audit.Deleted)),
		wantRow("receive counts going backwards", 0, r.Count(audit.Counts)),
		wantRow("invented, multiplied or altered", 0, r.Count(audit.Invented, audit.Multiplied, audit.Fixed)),
		shownRow("deliveries in all", r.Deliveries),
		shownRow("deliveries of what had been delivered before", r.Repeated),
		shownRow("stored twice by a retry of the SDK", r.Copies),
	}
}

// oldHandlesRow shows how often a delete with a handle of an earlier receive was refused. Amazon accepts it;
// some emulators do not.
func (c *crashRun) oldHandlesRow() demoRow {
	const check = "old handles refused"
	if c.server == nil {
		return shownRow(check, c.load.OldHandlesRefused())
	}
	return wantRow(check, 0, c.load.OldHandlesRefused())
}

// killRows shows the deaths.
func (c *crashRun) killRows() []demoRow {
	const deaths, ready = "server kills (kill -9)", "time to ready after a kill"
	if c.server == nil {
		return []demoRow{skippedRow(deaths, notOurs), skippedRow(ready, notOurs)}
	}
	rows := []demoRow{atLeastRow(deaths, 3, len(c.kills))}
	if len(c.kills) > 0 {
		sorted := slices.Sorted(slices.Values(c.kills))
		rows = append(rows, shownRow(ready, fmt.Sprintf("%d ms, at most %d ms",
			sorted[len(sorted)/2].Milliseconds(), sorted[len(sorted)-1].Milliseconds())))
	}
	return rows
}

// stopRow ends the server as an operator would.
func (c *crashRun) stopRow() demoRow {
	const check = "exit status after SIGTERM"
	if c.server == nil {
		return skippedRow(check, notOurs)
	}
	if err := c.server.Stop(); err != nil {
		return wantRow(check, 0, err)
	}
	return wantRow(check, 0, 0)
}

// keepHistory writes down what happened, for whoever looks into a failure.
func (c *crashRun) keepHistory(r *audit.Report) error {
	text, err := json.Marshal(c.load.History())
	if err != nil {
		return err
	}
	var findings []byte
	for _, v := range r.Violations {
		findings = fmt.Appendln(findings, v)
	}
	if err := os.WriteFile(filepath.Join(c.env.dir, "violations.txt"), findings, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.env.dir, "history.json"), text, 0o600)
}
