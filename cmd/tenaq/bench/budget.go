package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

// A budgetLine is one scenario: a server of its own, what is done to it, and what has to come of that.
type budgetLine struct {
	name   string
	text   string
	bounds []bound
	disk   int64 // bytes that the full form needs under --dir
	run    func(context.Context, *budgetEnv) ([]measure, error)
}

// A bound is what one measure of a line has to keep.
type bound struct {
	what string
	unit string  // empty for a ratio
	most bool    // the value is the largest allowed, otherwise the smallest
	is   float64 // in the full form

	// gross is in its place in the short form, which a busy machine must not fail: far from what is measured when nothing is
	// wrong. Only ratios have one. What has none is measured and not judged there.
	gross float64
}

// A measure is what came out, under the name of its bound.
type measure struct {
	what  string
	value float64
	note  string // what it was made of
}

func atLeast(what string, is, gross float64) bound { return bound{what: what, is: is, gross: gross} }

func atMost(what string, is float64, unit string, gross float64) bound {
	return bound{what: what, unit: unit, most: true, is: is, gross: gross}
}

// budgetLines is the budget. All bounds are here, those of the short form in the last place.
var budgetLines = []budgetLine{
	{"send", "one message a request, 64 clients, against a server that does nothing", []bound{
		atLeast("rate", 0.80, 0.25),
	}, 512 << 20, budgetSend},
	{"batch", "lives in batches of ten over HTTP, against the engine alone on the same disk", []bound{
		atLeast("rate", 0.50, 0.07),
	}, 512 << 20, budgetBatch},
	{"depth", "a backlog of 10 million messages (short: 200,000), against an empty queue of the same server", []bound{
		atLeast("send", 0.90, 0.40),
		atLeast("life", 0.90, 0.40),
		atMost("memory", 512, "MiB", 0),
		atMost("most memory", 512, "MiB", 0),
		atMost("ready after kill -9", 2, "s", 0),
	}, 8 << 30, budgetDepth},
	{"fifo", "lives among a million groups, each with a message (short: 50,000), against a standard queue", []bound{
		atLeast("life", 0.70, 0.30),
	}, 2 << 30, budgetFIFO},
	{"idle", "100,000 empty queues and 10,000 long polls (short: 2,000 and 500), against the same server before", []bound{
		atMost("more memory", 300, "MiB", 0),
		atMost("processor", 2, "% of a core", 0),
	}, 512 << 20, budgetIdle},
	{"latency", "p99 of sends at half of the closed loop's rate, against that of writes forced to disk meanwhile", []bound{
		atMost("p99", 3, "", 200),
	}, 512 << 20, budgetLatency},
	{"due", "a million delayed messages due in one second (short: 20,000), beside lives on another queue", []bound{
		atLeast("life", 0.50, 0.15),
		atMost("first received after", 1, "s", 0),
	}, 512 << 20, budgetDue},
	{"dedup", "sends to a FIFO queue that remembers 5 million ids (short: 100,000), against one without", []bound{
		atLeast("send", 0.50, 0.20),
		atMost("ready after kill -9", 2, "s", 0),
	}, 4 << 30, budgetDedup},
	{"overload", "twice the sends that 64 clients reach, from 4,096 (short: 512), and half of them afterwards", []bound{
		atLeast("goodput", 0.90, 0.30),
		atMost("refused under another name", 0, "requests", 0),
		atMost("most memory", 512, "MiB", 0),
		atMost("health answers within", 1, "s", 0),
		atLeast("half load afterwards", 0.95, 0.50),
		atLeast("closed loop afterwards", 0.90, 0.40),
	}, 2 << 30, budgetOverload},
}

// budgetFlags say which lines are measured, and how.
type budgetFlags struct {
	short bool
	scale float64
	dir   string
}

func newBenchBudgetCmd(a *cli.App) *cobra.Command {
	f := &budgetFlags{}
	names := make([]string, len(budgetLines))
	width := 0
	for i, l := range budgetLines {
		names[i] = l.name
		width = max(width, len(l.name))
	}
	var list strings.Builder
	for _, l := range budgetLines {
		fmt.Fprintf(&list, "  %-*s  %s\n", width, l.name, l.text)
	}
	cmd := &cobra.Command{
		Use:   "budget [LINE]...",
		Short: "Measure what tenaq promises about speed and memory",
		Long: `Measure what tenaq promises about speed and memory: each line is a scenario with a server of its own, on an
empty directory, which is removed in the end. Without names all lines are measured, one after the other.

` + list.String() + `
A rate is told as a share of another one that was measured in turns with it; so it says little about the
machine, but other work on the machine still disturbs it. Exit status 1 says that a bound is not met, or that
a line could not be measured; the table is printed all the same.

The full form takes some twenty minutes and gigabytes under --dir, of which it makes sure first. --scale
makes the numbers of messages, queues and polls smaller, and keeps the bounds. --short is for every change:
smaller numbers yet, less than three minutes, and only a ratio that is grossly wrong is a failure.`,
		Example: `  tenaq bench budget
  tenaq bench budget send latency
  tenaq bench budget --short --json
  tenaq bench budget depth --scale 0.1 --dir /mnt/data`,
		ValidArgs: names,
		Args:      cli.Wants(0, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			lines, err := chooseLines(args)
			if err != nil {
				return err
			}
			if !(f.scale > 0 && f.scale <= 1) {
				return cli.Usagef("--scale: %v is not a share above 0, up to 1", f.scale)
			}
			if f.dir != "" {
				if _, err := os.ReadDir(f.dir); err != nil {
					return cli.Usagef("--dir: %v", err)
				}
			}
			return benchBudget(a, cmd.Context(), f, lines)
		},
	}
	p := cmd.Flags()
	p.BoolVar(&f.short, "short", false, "measure smaller things in less than three minutes, and fail only on what is grossly wrong")
	p.Float64Var(&f.scale, "scale", 1, "`share` of the full numbers of messages, queues and polls")
	p.StringVar(&f.dir, "dir", "", "keep the data of the servers in this `directory`, on the disk to be measured (default the temporary one)")
	return cmd
}

// chooseLines finds the lines with these names, all when there are none.
func chooseLines(names []string) (lines []budgetLine, err error) {
	if len(names) == 0 {
		return budgetLines, nil
	}
	var all []string
	for _, l := range budgetLines {
		all = append(all, l.name)
	}
	for _, name := range names {
		i := slices.Index(all, name)
		if i < 0 {
			return nil, cli.Usagef("the budget has no line %q: choose from %s", name, strings.Join(all, ", "))
		}
		lines = append(lines, budgetLines[i])
	}
	return lines, nil
}

// benchBudget measures lines and prints what came of them.
func benchBudget(a *cli.App, ctx context.Context, f *budgetFlags, lines []budgetLine) error {
	report := budgetReport{Short: f.short, Scale: f.scale, Processors: runtime.NumCPU(), Rows: []budgetRow{}}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		report.Load = strings.Join(strings.Fields(string(load))[:3], " ")
	}
	line := cli.NewProgress(a.Stderr)
	defer line.Done()
	failed := 0
	for _, l := range lines {
		line.Begin(l.name)
		line.Say("%s", l.text)
		for _, r := range l.measure(ctx, f, line) {
			if r.failed() {
				failed++
			}
			report.Rows = append(report.Rows, r)
		}
		line.Done()
		if ctx.Err() != nil {
			break
		}
	}
	if err := printBudget(a, &report); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case failed > 0:
		return cli.Codedf(cli.ExitFailed, "%d of %d bounds are not met, or could not be measured", failed, len(report.Rows))
	}
	return nil
}

// measure runs a line and judges what it found.
func (l *budgetLine) measure(ctx context.Context, f *budgetFlags, line *cli.Progress) (rows []budgetRow) {
	began := time.Now()
	e := newBudgetEnv(f, line)
	err := e.room(l.disk)
	var found []measure
	if err == nil {
		found, err = l.run(ctx, e)
	}
	err = errors.Join(err, e.own.Close())
	for _, b := range l.bounds {
		i := slices.IndexFunc(found, func(m measure) bool { return m.what == b.what })
		switch {
		case i >= 0:
			rows = append(rows, b.judge(l.name, f.short, found[i]))
		case err == nil:
			err = fmt.Errorf("%s was not measured", b.what)
		}
	}
	if err != nil {
		rows = append(rows, budgetRow{Line: l.name, Error: err.Error()})
	}
	for i := range rows {
		rows[i].Seconds = time.Since(began).Seconds()
	}
	return rows
}
