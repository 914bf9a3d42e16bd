// Package budget measures what tenaq promises about speed and memory.
//
// Each Line is a scenario with its own server, on an empty directory that is removed afterwards.
// Rates are measured as ratios to other rates, in alternating rounds, so they say little about the
// machine. All bounds are in Lines. Config.Short measures smaller numbers and judges only gross
// deviations of ratios. It measures a deviating line again, because a machine that stalls once is
// no finding. A line that fails, or finds what must never happen, gets no second chance.
package budget

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"tenaq/internal/cli"
)

// Config configures a measurement.
type Config struct {
	Short bool
	Scale float64 // share of the full numbers of messages, queues and polls, above 0 and at most 1
	Dir   string  // for the data; empty for the temporary directory
}

// A Line is one scenario: what is done to a server, and the bounds of the result.
type Line struct {
	Name   string
	Text   string
	bounds []bound
	disk   int64 // bytes that the full form needs under Config.Dir
	run    runner
}

// A runner measures what a line is about.
type runner func(context.Context, *env) ([]measure, error)

// A bound is the bound of one measure of a line.
type bound struct {
	what string
	unit string  // empty for a ratio
	most bool    // the value is the largest allowed, otherwise the smallest
	is   float64 // in the full form

	// gross replaces it in the short form, and is far enough from the usual values that a busy
	// machine does not fail. Only ratios have one. Measures without it are not judged in the short
	// form, unless they count what must never happen, with the bound 0.
	gross float64

	free bool // there is no bound, and the measure is only reported
}

// A measure is a measured value, under the name of its bound.
type measure struct {
	what  string
	value float64
	note  string // what it was made of
}

func atLeast(what string, is, gross float64) bound {
	return bound{what: what, is: is, gross: gross}
}

func atMost(what string, is float64, unit string, gross float64) bound {
	return bound{what: what, unit: unit, most: true, is: is, gross: gross}
}

// Lines is the budget. The last number of a bound is that of the short form.
var Lines = []Line{
	{"send", "durable sends of 100 B, against a server that does nothing", []bound{
		atLeast("64 clients", 0.70, 0.20),
		atMost("CPU time", 1.5, "", 5),
		atLeast("256 clients", 0.80, 0.20),
	}, 512 << 20, served(measureSend)},
	{"bodies", "durable sends of 64 clients, against a server that does nothing", []bound{
		atLeast("4 KiB", 0.55, 0.05),
		atLeast("64 KiB", 0.55, 0.02),
	}, 4 << 30, served(measureBodies)},
	{"commit", "p50 of sends of 16 clients, against p50 of forced writes", []bound{
		atMost("p50", 2.5, "", 50),
	}, 512 << 20, served(measureCommit)},
	{"bytes", "bytes written to disk for each byte of bodies of 4 KiB", []bound{
		atMost("sends only", 2.5, "", 12),
		atMost("deletes at once", 1.5, "", 12),
		atMost("deletes after 5 s", 1.5, "", 12),
	}, 2 << 30, served(measureBytes)},
	{"batch", "lives in batches of ten, against the engine alone on the same disk", []bound{
		atLeast("rate", 0.50, 0.07),
	}, 512 << 20, served(measureBatch)},
	{"history", "lives on a queue that keeps a history, against one that does not", []bound{
		atLeast("rate", 0.80, 0.20),
	}, 2 << 30, served(measureHistory)},
	{"replay", "receives beside a replay of a million (short: 20,000), against none", []bound{
		atMost("p99 of receives", 2, "", 20),
	}, 4 << 30, served(measureReplay)},
	{"depth", "10 million messages (short: 200,000), against an empty queue", []bound{
		atLeast("send", 0.90, 0.40),
		atLeast("life", 0.90, 0.40),
		atMost("memory", 512, "MiB", 0),
		atMost("most memory", 512, "MiB", 0),
		atMost("ready after kill -9", 2, "s", 0),
	}, 8 << 30, served(measureDepth)},
	{"fifo", "lives among a million groups (short: 50,000), against no groups", []bound{
		atLeast("life", 0.70, 0.30),
	}, 2 << 30, served(measureFIFO)},
	{"start", "a server on an empty directory, until it has answered a send", []bound{
		atMost("first send answered", 100, "ms", 0),
	}, 512 << 20, served(measureStart)},
	{"idle", "100,000 queues and 10,000 polls (short: 2,000, 500), against before", []bound{
		atMost("more memory", 300, "MiB", 0),
		atMost("processor", 2, "% of a core", 0),
	}, 512 << 20, served(measureIdle)},
	{"live", "sends beside 64 open live streams of the console, against none", []bound{
		atLeast("send", 0.98, 0.30),
		atMost("more memory", 32, "MiB", 0),
	}, 512 << 20, served(measureLive)},
	{"lists", "pages of 100,000 queues, 10 million messages (short: 1,000, 20,000)", []bound{
		atMost("queues", 20, "ms", 0),
		atMost("messages", 20, "ms", 0),
		atMost("groups", 20, "ms", 0),
		atMost("reasons", 20, "ms", 0),
		atMost("history", 20, "ms", 0),
		atMost("tasks", 20, "ms", 0),
		atMost("count", 20, "ms", 0),
		atMost("message", 20, "ms", 0),
		atMost("wrong pages", 0, "pages", 0),
	}, 8 << 30, served(measureLists)},
	{"search", "sends beside a search of 10 million bodies (short: 20,000)", []bound{
		{what: "searched", unit: "messages/s", is: 50_000},
		atLeast("send", 0.95, 0.20),
	}, 8 << 30, served(measureSearch)},
	{"latency", "p99 of sends at half the maximum rate, against p99 of forced writes", []bound{
		atMost("p99", 3, "", 200),
	}, 512 << 20, served(measureLatency)},
	{"due", "a million messages due in one second (short: 20,000), beside lives", []bound{
		atLeast("life", 0.50, 0.15),
		atMost("first received after", 1, "s", 0),
	}, 512 << 20, served(measureDue)},
	{"dedup", "sends with 5 million ids remembered (short: 100,000), against none", []bound{
		atLeast("send", 0.50, 0.20),
		atMost("ready after kill -9", 2, "s", 0),
	}, 4 << 30, served(measureDedup)},
	{"window", "sends with 5 million ids kept for 7 d (short: 100,000), against none", []bound{
		atLeast("send", 0.80, 0.20),
		atLeast("after kill -9", 0.80, 0.20),
	}, 4 << 30, served(measureWindow)},
	{"overload", "twice the maximum rate, from 4,096 clients (short: 512), then half", []bound{
		atLeast("goodput", 0.90, 0.30),
		atMost("refused under another name", 0, "requests", 0),
		atMost("most memory", 512, "MiB", 0),
		atMost("health answers within", 1, "s", 0),
		atLeast("half load afterwards", 0.95, 0.50),
		atLeast("closed loop afterwards", 0.90, 0.40),
	}, 2 << 30, measureOverload},
	{"scaling", "sends to servers with 1, 2, 4 and more processors", []bound{
		{what: "rate", free: true},
	}, 512 << 20, measureScaling},
}

// Choose returns the lines with these names out of all, or all lines for no names.
func Choose(all []Line, names []string) (lines []Line, err error) {
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, l := range all {
		known = append(known, l.Name)
	}
	for _, name := range names {
		i := slices.Index(known, name)
		if i < 0 {
			return nil, cli.Usagef("the budget has no line %q: choose from %s", name,
				strings.Join(known, ", "))
		}
		lines = append(lines, all[i])
	}
	return lines, nil
}

// Run measures lines one after the other, and stops when ctx ends.
func Run(ctx context.Context, c *Config, lines []Line, p *cli.Progress) *Report {
	report := &Report{Short: c.Short, Scale: c.Scale, Processors: runtime.NumCPU(), Rows: []Row{}}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		report.Load = strings.Join(strings.Fields(string(load))[:3], " ")
	}
	defer p.Done()
	for _, l := range lines {
		p.Begin(l.Name)
		p.Say("%s", l.Text)
		report.Rows = append(report.Rows, l.measureTwice(ctx, c, p)...)
		p.Done()
		if ctx.Err() != nil {
			break
		}
	}
	return report
}

// measureTwice measures again what missed only gross ratios. The notes say what was missed first.
func (l *Line) measureTwice(ctx context.Context, c *Config, p *cli.Progress) []Row {
	first := l.measure(ctx, c, p)
	if !c.Short || ctx.Err() != nil || !slices.ContainsFunc(first, Row.failed) ||
		slices.ContainsFunc(first, func(r Row) bool { return r.failed() && r.bound.gross == 0 }) {
		return first
	}
	second := l.measure(ctx, c, p)
	for i := range second {
		if i < len(first) && first[i].failed() {
			second[i].Note += "; the first time " + figure(*first[i].Measured)
		}
	}
	return second
}

func (l *Line) measure(ctx context.Context, c *Config, p *cli.Progress) (rows []Row) {
	began := time.Now()
	e := newEnv(c, p)
	err := e.room(l.disk)
	var found []measure
	if err == nil {
		found, err = l.run(ctx, e)
	}
	bounds := l.bounds
	if small, ok := errors.AsType[tooSmall](err); ok {
		rows, bounds, err = []Row{{Line: l.Name, Note: small.Error()}}, nil, nil
	}
	err = errors.Join(err, e.own.Close())
	for _, b := range bounds {
		i := slices.IndexFunc(found, func(m measure) bool { return m.what == b.what })
		switch {
		case i >= 0:
			rows = append(rows, b.judge(l.Name, c.Short, found[i]))
		case err == nil:
			err = fmt.Errorf("%s was not measured", b.what)
		}
	}
	if err != nil {
		rows = append(rows, Row{Line: l.Name, Error: err.Error()})
	}
	for i := range rows {
		rows[i].Seconds = time.Since(began).Seconds()
	}
	return rows
}
