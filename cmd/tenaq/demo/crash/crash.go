// Package crash sends messages through a server that is killed again and again. In the end, package
// audit accounts for each message from what the clients saw.
package crash

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"tenaq/cmd/tenaq/demo/stage"
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
	*stage.Crew
	load            *load.Load
	messages, kills int // wanted
	killed          atomic.Int64
	restarts        []time.Duration // how long each took
}

// run lets producers send messages and consumers handle them, some too slowly, while the server
// dies and comes back; then every message is accounted for.
func run(crew *stage.Crew) (rows []stage.Row) {
	c := &crash{Crew: crew, messages: crew.Scale(400, 1000), kills: crew.Scale(4, 8)}
	c.load = load.New(load.Config{
		AWS: c.AWS, Endpoint: c.Endpoint, QueueURL: c.CreateQueue("crash", nil), Seed: c.Seed,
		Bodies: c.messages,
		Body:   func(n int) string { return fmt.Sprintf(`{"message": %d, "demo": %d}`, n+1, c.Seed) },
		Pause:  80 * time.Millisecond, Work: 15 * time.Millisecond,
		Visibility: 2 * time.Second,
		Overruns:   c.messages * 3 / 100, Changes: c.messages * 4 / 100,
		Canaries:          c.messages * 3 / 100,
		RefusesOldHandles: c.Server == nil,
	})
	c.Play(func() {
		c.play()
		report := audit.Check(c.load.History(), audit.Options{})
		if len(report.Violations) > 0 {
			c.Must(c.KeepHistory(c.load.History(), report))
		}
		left, err := c.load.Left(c.Ctx)
		c.Must(err)
		rows = append(auditRows(report, c.messages),
			stage.Want("left in the queue, by its own counters", 0, left))
		rows = append(rows, c.serverRows()...)
	})
	return append(rows, c.killRows()...)
}

// play runs the load, and beside it the kills and the progress.
func (c *crash) play() {
	ctx, end := context.WithCancel(c.Ctx)
	go func() {
		for ; ctx.Err() == nil; stage.Pause(ctx, 200*time.Millisecond) {
			p := c.load.Progress()
			c.Progress.Line("%s %d of %d sent, %d delivered, %s",
				cli.Bar(p.Acknowledged, c.messages), p.Acknowledged, c.messages, p.Received,
				cli.Counted(int(c.killed.Load()), "kill", "kills"))
		}
	}()
	defer end()
	c.Must(c.load.Run(ctx, c.kill))
}

// kill kills the server at random moments and starts it again at once.
func (c *crash) kill(ctx context.Context) error {
	if c.Server == nil {
		return nil
	}
	rng := c.RNG(1)
	var earlier rollback
	for n := range c.kills {
		stage.Pause(ctx, 300*time.Millisecond+time.Duration(rng.Int64N(int64(1200*time.Millisecond))))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := c.Server.Kill(); err != nil {
			return err
		}
		if c.Broken == "disk" {
			if err := earlier.at(n, c.Server.DataDir()); err != nil {
				return err
			}
		}
		took, err := c.Server.Start(ctx)
		if err != nil {
			return err
		}
		c.restarts = append(c.restarts, took)
		c.killed.Add(1)
		c.Say("kill %d of %d", n+1, c.kills)
	}
	return nil
}

// A rollback returns the data of a stopped server to an earlier state, like a disk that only
// pretends to write.
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
	sorted := slices.Sorted(slices.Values(append(c.restarts, 0)))
	n := len(c.restarts)
	return stage.Unless(c.Server == nil, stage.NotOurs,
		stage.AtLeast("server kills (kill -9)", 3, n),
		stage.Show("time to ready after a kill", fmt.Sprintf("%d ms, at most %d ms",
			sorted[(n+1)/2].Milliseconds(), sorted[n].Milliseconds())))
}

// serverRows judges what only a server of our own promises. Amazon accepts a delete with an old
// handle, and some emulators do not.
func (c *crash) serverRows() []stage.Row {
	const old, stop = "old handles refused", "exit status after SIGTERM"
	if c.Server == nil {
		return []stage.Row{stage.Show(old, c.load.OldHandlesRefused()),
			stage.Skip(stop, stage.NotOurs)}
	}
	ended := "0"
	if err := c.Server.Stop(); err != nil {
		ended = err.Error()
	}
	return []stage.Row{stage.Want(old, 0, c.load.OldHandlesRefused()), stage.Want(stop, 0, ended)}
}
