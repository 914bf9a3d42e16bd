package main

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
)

var ordersScenario = scenario{
	name: "orders",
	text: "1,000 orders through a server that is killed again and again",
	run:  runOrders,
}

const (
	ordersCount = 1000
	ordersKills = 8
	ordersHide  = 2 * time.Second // visibility timeout
)

// runOrders lets producers send orders and workers handle them, some too slowly, while the server dies
// and comes back; then every order is accounted for.
func runOrders(ctx context.Context, env *demoEnv) ([]demoRow, error) {
	q, err := env.openQueue(ctx, "orders")
	if err != nil {
		return nil, err
	}
	defer q.close(env)
	o := &orders{env: env, queue: q}
	o.load = load.New(load.Config{
		AWS: q.aws, Endpoint: q.endpoint, QueueURL: q.url, Seed: env.seed,
		Bodies: ordersCount,
		Body:   func(n int) string { return fmt.Sprintf(`{"order": %d, "demo": %d}`, n+1, env.seed) },
		Pause:  80 * time.Millisecond, Work: 15 * time.Millisecond,
		Visibility: ordersHide,
		Overruns:   30, Changes: 40, Canaries: 30,
	})
	if err := o.run(ctx); err != nil {
		return o.killRows(), err
	}
	report := audit.Check(o.load.History(), audit.Options{})
	rows := append(auditRows(report), o.killRows()...)
	if len(report.Violations) > 0 {
		if err := o.keepHistory(report); err != nil {
			return rows, err
		}
	}
	left, err := o.load.Left(ctx)
	if err != nil {
		return rows, err
	}
	return append(rows, wantRow("left in the queue, by its own counters", 0, left), o.stopRow()), nil
}

// orders is a run of the scenario.
type orders struct {
	env   *demoEnv
	queue *demoQueue
	load  *load.Load

	kills []time.Duration // how long each restart took
}

// run runs the load, and beside it what kills the server and what shows the progress.
func (o *orders) run(ctx context.Context) error {
	killed := make(chan struct{}, ordersKills)
	ended := make(chan error, 1)
	go func() {
		ended <- o.load.Run(ctx, func(ctx context.Context) error { return o.kill(ctx, killed) })
	}()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for kills, draining := 0, false; ; {
		select {
		case err := <-ended:
			return err
		case <-killed:
			kills++
			o.env.progress.say("kill %d of %d, %d orders acknowledged", kills, ordersKills, o.load.Progress().Acknowledged)
		case <-tick.C:
		}
		p := o.load.Progress()
		if p.Acknowledged < ordersCount || kills < ordersKills && o.queue.server != nil {
			o.env.progress.line("%s %d of %d sent, %d delivered, %d kills", bar(p.Acknowledged, ordersCount),
				p.Acknowledged, ordersCount, p.Received, kills)
			continue
		}
		if !draining {
			draining = true
			o.env.progress.say("all sent; waiting until nothing is left and nothing comes back")
		}
		o.env.progress.line("%s all sent, %d delivered, %d kills; draining", bar(1, 1), p.Received, kills)
	}
}

// kill kills the server at random moments and starts it again at once.
func (o *orders) kill(ctx context.Context, killed chan<- struct{}) error {
	server := o.queue.server
	if server == nil {
		return nil
	}
	rng := o.env.rng(1)
	var earlier rollback
	for n := range ordersKills {
		pause(ctx, 300*time.Millisecond+time.Duration(rng.Int64N(int64(1500*time.Millisecond))))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := server.Kill(); err != nil {
			return err
		}
		if err := o.sabotage(&earlier, n); err != nil {
			return err
		}
		took, err := server.Start(ctx)
		if err != nil {
			return err
		}
		o.kills = append(o.kills, took)
		killed <- struct{}{}
	}
	return nil
}

// sabotage makes the server forget what happened between its second and its third death.
func (o *orders) sabotage(earlier *rollback, n int) error {
	switch {
	case !o.env.sabotage:
		return nil
	case n == 1:
		return earlier.save(o.queue.server.DataDir())
	case n == 2:
		return earlier.restore(o.queue.server.DataDir())
	}
	return nil
}

// notOurs is why rows are skipped with --endpoint-url.
const notOurs = "not our server"

// auditRows shows what became of the messages.
func auditRows(r *audit.Report) []demoRow {
	return []demoRow{
		wantRow("orders sent and acknowledged", ordersCount, r.Acknowledged),
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

// killRows shows the deaths.
func (o *orders) killRows() []demoRow {
	const deaths, ready = "server kills (kill -9)", "time to ready after a kill"
	if o.queue.server == nil {
		return []demoRow{skippedRow(deaths, notOurs), skippedRow(ready, notOurs)}
	}
	rows := []demoRow{atLeastRow(deaths, 3, len(o.kills))}
	if len(o.kills) > 0 {
		sorted := slices.Sorted(slices.Values(o.kills))
		rows = append(rows, shownRow(ready, fmt.Sprintf("%d ms, at most %d ms",
			sorted[len(sorted)/2].Milliseconds(), sorted[len(sorted)-1].Milliseconds())))
	}
	return rows
}

// stopRow ends the server as an operator would.
func (o *orders) stopRow() demoRow {
	const check = "exit status after SIGTERM"
	if o.queue.server == nil {
		return skippedRow(check, notOurs)
	}
	if err := o.queue.server.Stop(); err != nil {
		return wantRow(check, 0, err)
	}
	return wantRow(check, 0, 0)
}

// keepHistory writes down what happened, for whoever looks into a failure.
func (o *orders) keepHistory(r *audit.Report) error {
	text, err := json.Marshal(o.load.History())
	if err != nil {
		return err
	}
	var findings []byte
	for _, v := range r.Violations {
		findings = fmt.Appendln(findings, v)
	}
	if err := os.WriteFile(filepath.Join(o.env.dir, "violations.txt"), findings, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.env.dir, "history.json"), text, 0o600)
}
