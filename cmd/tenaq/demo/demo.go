// Package demo has the demonstrations: each plays one of the four scenarios with processes that are killed,
// beside what is usually done, and judges what came of it.
package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/cmd/tenaq/outbox"
	"tenaq/internal/cli"
)

// A scenario is one story of the demo: it makes things happen and returns what came of them, row by row.
type scenario struct {
	name   string
	text   string // what happens, in a line
	run    func(ctx context.Context, env *demoEnv) ([]demoRow, error)
	breaks []breakage

	// child is what a process does that the scenario starts beside this one, see demochild.go; nil when it
	// starts none.
	child func(ctx context.Context, a *cli.App, args []string) error
}

// A breakage is something that a scenario can leave out on purpose, so that one sees its checks fail.
type breakage struct {
	name string
	text string // what is left out
	ours bool   // it needs a server of our own
}

// scenarios are what "tenaq demo" shows, in this order.
var scenarios = []scenario{
	crashScenario,
	pipelineScenario,
	orderScenario,
	redriveScenario,
	outboxScenario,
}

// scenarioMax bounds a scenario. It is for machines that are in trouble: a demo takes less than a minute.
const scenarioMax = 3 * time.Minute

type demoFlags struct {
	seed        uint64
	keep        bool
	breakage    string
	endpointURL string
	database    string
}

func NewCmd(a *cli.App) *cobra.Command {
	f := &demoFlags{}
	var list, breaks strings.Builder
	for _, s := range scenarios {
		fmt.Fprintf(&list, "  %-10s %s\n", s.name, s.text)
		for _, b := range s.breaks {
			fmt.Fprintf(&breaks, "  %-10s %-10s %s\n", s.name, b.name, b.text)
		}
	}
	cmd := &cobra.Command{
		Use:   "demo [SCENARIO]...",
		Short: "Show what is promised, under kill -9",
		Long: `Show what the queue and the libraries promise, under kill -9: each scenario starts a server of its own on
a free loopback port, with its data in a temporary directory, uses it through the AWS SDK, does to it what
a bad day does, and accounts for everything at the end. Without a name all of them run.

Scenarios:
` + list.String() + `
Each check is a row: what must be, what is, and whether that is fine. Rows that wait for nothing only tell.
The exit code is 0 when all checks are fine and 1 otherwise; then the data is kept.

For those who do not believe the checks --break leaves out what one of them is about, and they fail:
` + breaks.String() + `
With --endpoint-url the same happens on another SQS, in queues that are made for it and deleted in the
end. No server is killed then, and what depends on that is skipped. The seed decides what clients do and
who is killed when; processes being what they are, no two runs are quite the same all the same.

The scenario outbox keeps its database in a file of SQLite; with --db in a schema of PostgreSQL that it makes
and drops.`,
		Example: `  tenaq demo
  tenaq demo crash --seed 7 --keep
  tenaq demo order --break heartbeat
  tenaq demo --json | jq '.scenarios[].rows[] | select(.ok == "no")'
  tenaq demo crash --endpoint-url http://127.0.0.1:9324`,
		ValidArgs: scenarioNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := chooseScenarios(args)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("seed") {
				f.seed = rand.Uint64N(1_000_000)
			}
			return f.run(cmd.Context(), a, chosen)
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&f.seed, "seed", 0, "`number` that decides what happens (default: a new one each time)")
	flags.BoolVar(&f.keep, "keep", false, "keep the data, and say where it is")
	flags.StringVar(&f.endpointURL, "endpoint-url", "", "use the SQS at this `URL`, or the word aws, instead of a server of its own")
	flags.StringVar(&f.database, "db", "", "have the database of the scenario outbox in the PostgreSQL at this `URL`, in a schema of its own")
	flags.StringVar(&f.breakage, "break", "", "leave out `what` a scenario shows, to see its checks fail")
	_ = cmd.RegisterFlagCompletionFunc("break", func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return breakNames(args), cobra.ShellCompDirectiveNoFileComp
	})
	cmd.AddCommand(newDemoChildCmd(a))
	return cmd
}

// breakNames lists what the named scenarios can leave out, all of them without a name, with what it is.
func breakNames(scenario []string) []string {
	var names []string
	seen := map[string]bool{}
	for _, s := range scenarios {
		if len(scenario) > 0 && !slices.Contains(scenario, s.name) {
			continue
		}
		for _, b := range s.breaks {
			if !seen[b.name] {
				seen[b.name] = true
				names = append(names, cobra.CompletionWithDesc(b.name, b.text))
			}
		}
	}
	return names
}

func scenarioNames() []string {
	var names []string
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return names
}

// chooseScenarios returns the named scenarios in the order of the table, all of them without a name.
func chooseScenarios(names []string) ([]scenario, error) {
	for _, name := range names {
		if slices.Contains(scenarioNames(), name) {
			continue
		}
		if near := cli.Nearest(name, scenarioNames()); near != "" {
			return nil, cli.Usagef("there is no scenario %q; did you mean %s?", name, near)
		}
		return nil, cli.Usagef("there is no scenario %q; there are: %s", name, strings.Join(scenarioNames(), ", "))
	}
	var chosen []scenario
	for _, s := range scenarios {
		if len(names) == 0 || slices.Contains(names, s.name) {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

// checkBreak refuses what the one chosen scenario cannot leave out.
func (f *demoFlags) checkBreak(chosen []scenario) error {
	if f.breakage == "" {
		return nil
	}
	if len(chosen) != 1 {
		return cli.Usagef("--break is for one scenario: tenaq demo SCENARIO --break %s", f.breakage)
	}
	var names []string
	for _, b := range chosen[0].breaks {
		if b.name != f.breakage {
			names = append(names, b.name)
			continue
		}
		if b.ours && f.endpointURL != "" {
			return cli.Usagef("--break %s needs a server of the demo's own; leave --endpoint-url out", b.name)
		}
		return nil
	}
	if len(names) == 0 {
		return cli.Usagef("the scenario %s has nothing that can be left out with --break", chosen[0].name)
	}
	return cli.Usagef("the scenario %s cannot do without %q; --break takes: %s", chosen[0].name, f.breakage, strings.Join(names, ", "))
}

// checkDatabase refuses a database that no scenario would use.
func (f *demoFlags) checkDatabase(chosen []scenario) error {
	if f.database == "" {
		return nil
	}
	if !slices.ContainsFunc(chosen, func(s scenario) bool { return s.name == outboxScenario.name }) {
		return cli.Usagef("--db is for the scenario %s", outboxScenario.name)
	}
	place, err := outbox.ParsePlace(f.database, "postgres://USER@HOST/DATABASE")
	if err != nil {
		return cli.Usagef("--db: %v", err)
	}
	defer place.Close()
	if _, ok := place.(*outbox.Postgres); !ok {
		return cli.Usagef("--db is for a PostgreSQL, as postgres://USER@HOST/DATABASE; without it the demo uses a file of SQLite")
	}
	return nil
}

// run runs the chosen scenarios one after the other and prints what came of them.
func (f *demoFlags) run(ctx context.Context, a *cli.App, chosen []scenario) error {
	if err := errors.Join(f.checkBreak(chosen), f.checkDatabase(chosen)); err != nil {
		return err
	}
	var other *cli.Endpoint
	if f.endpointURL != "" {
		e, err := cli.ResolveEndpoint(f.endpointURL, os.Getenv)
		if err != nil {
			return err
		}
		other = &e
	}
	dir, err := os.MkdirTemp("", "tenaq-demo-")
	if err != nil {
		return err
	}
	report := demoReport{Seed: f.seed, OK: true}
	progress := cli.NewProgress(a.Stderr)
	for _, s := range chosen {
		env := &demoEnv{
			seed: f.seed, dir: filepath.Join(dir, s.name), other: other,
			keep: f.keep, broken: f.breakage, database: f.database, progress: progress,
		}
		report.add(runScenario(ctx, s, env))
		if ctx.Err() != nil {
			break
		}
	}
	progress.Done()
	interrupted := ctx.Err() != nil
	// What a failure left behind is evidence, unless there is nothing.
	if f.keep || !report.OK && !interrupted {
		for _, s := range chosen {
			_ = os.Remove(filepath.Join(dir, s.name)) // which works if it is empty
		}
		if os.Remove(dir) != nil {
			report.DataDir = dir
			defer a.Note("the data is in %s", dir)
		}
	} else {
		err = os.RemoveAll(dir)
	}
	if interrupted {
		return errors.Join(cli.Codedf(cli.ExitFailed, "interrupted; the seed was %d", f.seed), err)
	}
	return errors.Join(printDemo(a, &report), err, report.verdict())
}

// runScenario runs one scenario. That it did not come to its end is a finding like any other.
func runScenario(ctx context.Context, s scenario, env *demoEnv) scenarioReport {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, scenarioMax, fmt.Errorf("not done after %v", scenarioMax))
	defer cancel()
	env.progress.Begin(s.name)
	err := os.Mkdir(env.dir, 0o700)
	var rows []demoRow
	if err == nil {
		rows, err = s.run(ctx, env)
	}
	if err != nil {
		rows = append(rows, wantRow("ran to its end", "yes", cli.WithCause(ctx, err).Error()))
	}
	return scenarioReport{Name: s.name, Text: s.text, Seconds: time.Since(began).Seconds(), Rows: rows}
}
