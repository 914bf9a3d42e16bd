// Package cluster sends messages through a cluster of three nodes whose leader is killed again and
// again. In the end, package audit accounts for each message from what the clients saw, and the
// nodes compare their rows.
package cluster

import (
	"context"
	"fmt"
	"os"
	"time"

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/internal/child"
	"tenaq/internal/testing/audit"
	"tenaq/internal/testing/audit/load"
)

// Scenario is this scenario.
var Scenario = stage.Scenario{
	Name:  "cluster",
	Text:  "three nodes, of which the leader is killed again and again",
	Run:   run,
	Nodes: 3,
	Breaks: []stage.Break{{Name: "disks",
		Text: "two disks forget what was written between two deaths", Ours: true}},
}

// visibility is the timeout of receives. Tolerance is how much earlier a message may become visible
// again: after a failover, broker time can be behind the wall clock, and is a twentieth faster.
const (
	visibility = time.Second
	tolerance  = visibility/20 + 20*time.Millisecond
)

// settleMax is how long the nodes may take to have the same rows once no client is there.
const settleMax = 30 * time.Second

// A play is a run of the scenario.
type play struct {
	*stage.Crew
	load  *load.Load
	kills int // wanted
	out   outcome
}

// run lets clients use a FIFO queue through all nodes while leaders die.
func run(crew *stage.Crew) (rows []stage.Row) {
	p := &play{Crew: crew, kills: crew.Scale(3, 10)}
	url := p.CreateQueue("cluster.fifo", map[string]string{"FifoQueue": "true"})
	cfg := load.Config{
		AWS: p.AWS, Endpoint: p.Endpoint, QueueURL: url, Seed: p.Seed, Groups: 20,
		Body:  func(n int) string { return fmt.Sprintf(`{"message": %d, "demo": %d}`, n+1, p.Seed) },
		Pause: 40 * time.Millisecond, Work: 10 * time.Millisecond,
		Producers: 3, Workers: 8, Visibility: visibility,
		Overruns: 20, Changes: 30, Canaries: 30,
		RefusesOldHandles: p.Cluster == nil,
	}
	if p.Cluster != nil {
		cfg.Nodes = p.Cluster.URLs()
	}
	p.load, p.out.Ours = load.New(cfg), p.Cluster != nil
	p.Play(func() {
		p.play()
		p.collect()
	})
	return p.out.rows()
}

// play runs the load, and beside it the kills and the progress.
func (p *play) play() {
	ctx, end := context.WithCancel(p.Ctx)
	defer end()
	go func() {
		for ; ctx.Err() == nil; stage.Pause(ctx, 200*time.Millisecond) {
			done := p.load.Progress()
			p.Progress.Line("%d sent, %d delivered, %d deleted", done.Acknowledged, done.Received,
				done.Deleted)
		}
	}()
	p.Must(p.load.Run(ctx, p.disturb))
}

// disturb kills the leader again and again. Each time it waits until another node serves, and
// starts the dead one.
func (p *play) disturb(ctx context.Context) error {
	if p.Cluster == nil {
		stage.Pause(ctx, 5*time.Second)
		return nil
	}
	rng := p.RNG(1)
	for n := range p.kills {
		stage.Pause(ctx, 200*time.Millisecond+time.Duration(rng.Int64N(int64(400*time.Millisecond))))
		leader, err := p.Cluster.Leader(ctx)
		if err != nil {
			return err
		}
		if p.Broken == "disks" {
			err = p.cutPower(ctx, n)
		} else {
			err = p.kill(ctx, leader)
		}
		if err != nil {
			return err
		}
		p.out.Kills++
		p.Say("kill %d of %d: %s led", n+1, p.kills, leader.Name)
	}
	return p.acknowledged(ctx)
}

func (p *play) kill(ctx context.Context, leader *child.Node) error {
	if err := leader.Kill(); err != nil {
		return err
	}
	if err := p.acknowledged(ctx); err != nil {
		return err
	}
	_, err := leader.Start(ctx)
	return err
}

// acknowledged waits until some more messages are acknowledged.
func (p *play) acknowledged(ctx context.Context) error {
	for had := p.load.Progress().Acknowledged; p.load.Progress().Acknowledged < had+10; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		stage.Pause(ctx, 10*time.Millisecond)
	}
	return nil
}

// cutPower kills all nodes. At the first death it saves the data of two, and at the last it returns
// them to that state, like disks that only pretend to write. The third stays dead then: it would
// notice, and stop the others.
func (p *play) cutPower(ctx context.Context, death int) error {
	p.Cluster.Close()
	for _, n := range p.Cluster.Nodes[:2] {
		dir := n.DataDir()
		switch death {
		case 0:
			if err := os.CopyFS(dir+".earlier", os.DirFS(dir)); err != nil {
				return err
			}
		case p.kills - 1:
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			if err := os.Rename(dir+".earlier", dir); err != nil {
				return err
			}
		}
	}
	if death == p.kills-1 {
		p.Cluster.Nodes = p.Cluster.Nodes[:2]
	}
	return p.Cluster.Start(ctx)
}

// collect finds out what became of the messages and of the nodes.
func (p *play) collect() {
	h := p.load.History()
	report := audit.Check(h, audit.Options{Tolerance: tolerance})
	if len(report.Violations) > 0 {
		p.Must(p.KeepHistory(h, report))
	}
	o := &p.out
	o.Report, o.Silence = report, silence(h)
	var err error
	o.Left, err = p.load.Left(p.Ctx)
	p.Must(err)
	if !o.Ours {
		return
	}
	ctx, cancel := context.WithTimeout(p.Ctx, settleMax)
	defer cancel()
	if p.Broken != "" {
		o.Differ = "the third node is dead"
	} else if _, err := p.Cluster.Settled(ctx, len(p.Cluster.Nodes)); err != nil {
		o.Differ = err.Error()
	}
	o.Ended = "0"
	if err := p.Cluster.Stop(); err != nil {
		o.Ended = err.Error()
	}
}
