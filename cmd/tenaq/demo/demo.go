// Package demo is the command "tenaq demo". It plays the scenarios with processes that are killed,
// beside the usual way to write the same program, and checks the outcome.
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

	"tenaq/cmd/tenaq/demo/cluster"
	"tenaq/cmd/tenaq/demo/crash"
	"tenaq/cmd/tenaq/demo/order"
	"tenaq/cmd/tenaq/demo/outbox"
	"tenaq/cmd/tenaq/demo/pipeline"
	"tenaq/cmd/tenaq/demo/redrive"
	"tenaq/cmd/tenaq/demo/stage"
	outboxcmd "tenaq/cmd/tenaq/outbox"
	"tenaq/internal/cli"
)

// scenarios are what "tenaq demo" plays, in this order.
var scenarios = []stage.Scenario{crash.Scenario, cluster.Scenario, pipeline.Scenario,
	order.Scenario, redrive.Scenario, outbox.Scenario}

// scenarioMax bounds a scenario on a machine in trouble. Without --long each takes about ten
// seconds.
const scenarioMax = 10 * time.Minute

type flags struct {
	seed        uint64
	keep        bool
	long        bool
	verbose     bool
	look        bool
	breakage    string
	endpointURL string
	database    string
}

// NewCmd returns the command.
func NewCmd(a *cli.App) *cobra.Command {
	f := &flags{}
	var list, breaks strings.Builder
	for _, s := range scenarios {
		fmt.Fprintf(&list, "  %-10s %s\n", s.Name, s.Text)
		for _, b := range s.Breaks {
			fmt.Fprintf(&breaks, "  %-9s %-11s %s\n", s.Name, b.Name, b.Text)
		}
	}
	cmd := &cobra.Command{
		Use:   "demo [SCENARIO]...",
		Short: "Show the promises under kill -9, in a minute",
		Long: `Show that the promises hold under kill -9, in a minute. Each scenario starts a
server of its own, or a cluster, on free loopback ports, with its data in a
temporary directory. It also starts other processes, kills them at the worst
moments, and then checks the outcome. Without a name, all scenarios run.

Scenarios:
` + list.String() + `
A scenario prints one line, and a line for each check that failed. With
--verbose it prints every step and every check. The exit code is 0 if all checks
pass. Otherwise it is 1, and the data is kept.

--long runs a scenario at full size. --break leaves a part out, so that checks
fail:
` + breaks.String() + `
With --endpoint-url the scenarios use another SQS server, in queues that they
create and delete. That server is not killed, and checks that depend on this are
skipped.

The seed decides what clients do and which process is killed. The timing of
processes varies, so two runs with the same seed are similar but not identical.

The scenario outbox keeps its database in an SQLite file. With --db it makes a
schema in a PostgreSQL database and drops it at the end.

--serve runs no scenario. It starts a server with the queues of a small shop,
prints the address of its console, and lets orders arrive until Ctrl-C.`,
		Example: `  tenaq demo
  tenaq demo crash --seed 7 --keep
  tenaq demo redrive --long --verbose
  tenaq demo order --break key
  tenaq demo crash --endpoint-url http://127.0.0.1:9324
  tenaq demo --serve`,
		ValidArgs: names(scenarios),
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := choose(args)
			switch {
			case err != nil:
				return err
			case f.look && (len(args) > 0 || f.endpointURL+f.breakage+f.database != ""):
				return cli.Usagef("--serve runs no scenario; leave out all flags but --keep and --verbose")
			case f.look:
				return f.serve(cmd.Context(), a)
			}
			if !cmd.Flags().Changed("seed") {
				f.seed = rand.Uint64N(1_000_000)
			}
			return f.run(cmd.Context(), a, chosen, args)
		},
	}
	fs := cmd.Flags()
	fs.Uint64Var(&f.seed, "seed", 0, "`number` that decides what happens (default random)")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "print every step and every check")
	fs.BoolVar(&f.look, "serve", false, "run a server with data to explore, until Ctrl-C")
	fs.BoolVar(&f.long, "long", false, "run the scenarios at full size")
	fs.BoolVar(&f.keep, "keep", false, "keep the data and print its path")
	fs.StringVar(&f.endpointURL, "endpoint-url", "", "`URL` of another SQS to use, or the word aws")
	fs.StringVar(&f.database, "db", "", "`URL` of a PostgreSQL for the scenario outbox")
	fs.StringVar(&f.breakage, "break", "", "`part` to leave out, so that checks fail")
	_ = cmd.RegisterFlagCompletionFunc("break",
		func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return breakNames(args), cobra.ShellCompDirectiveNoFileComp
		})
	cmd.AddCommand(&cobra.Command{
		Use:     "child [JSON]",
		Hidden:  true,
		Short:   "Be one of the other processes of a scenario",
		Long:    `Be one of the other processes of a scenario. Only the demo starts this command.`,
		Example: `  tenaq demo child`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return stage.RunChild(cmd.Context(), scenarios, args, a.Stdin)
		},
	})
	return cmd
}

// breakNames lists what the named scenarios can leave out, or all scenarios without a name.
func breakNames(scenario []string) (list []string) {
	for _, s := range scenarios {
		for _, b := range s.Breaks {
			name := cobra.CompletionWithDesc(b.Name, b.Text)
			if (len(scenario) == 0 || slices.Contains(scenario, s.Name)) &&
				!slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return list
}

func names(scenarios []stage.Scenario) (all []string) {
	for _, s := range scenarios {
		all = append(all, s.Name)
	}
	return all
}

// choose returns the named scenarios in the order of the table, all of them without a name.
func choose(args []string) (chosen []stage.Scenario, err error) {
	known := names(scenarios)
	for _, name := range args {
		if slices.Contains(known, name) {
			continue
		}
		if near := cli.Nearest(name, known); near != "" {
			return nil, cli.Usagef("there is no scenario %q; did you mean %s?", name, near)
		}
		return nil, cli.Usagef("there is no scenario %q; there are: %s", name,
			strings.Join(known, ", "))
	}
	for _, s := range scenarios {
		if len(args) == 0 || slices.Contains(args, s.Name) {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

// checkBreak refuses a part that the one chosen scenario cannot leave out.
func (f *flags) checkBreak(chosen []stage.Scenario) error {
	switch {
	case f.breakage == "":
		return nil
	case len(chosen) != 1:
		return cli.Usagef("--break is for one scenario: tenaq demo SCENARIO --break %s", f.breakage)
	}
	var parts []string
	for _, b := range chosen[0].Breaks {
		switch {
		case b.Name != f.breakage:
			parts = append(parts, b.Name)
		case b.Ours && f.endpointURL != "":
			return cli.Usagef("--break %s needs a server of the demo's own; leave out --endpoint-url", b.Name)
		default:
			return nil
		}
	}
	return cli.Usagef("the scenario %s cannot leave out %q; --break takes: %s",
		chosen[0].Name, f.breakage, strings.Join(parts, ", "))
}

// checkDatabase refuses a database that no chosen scenario uses.
func (f *flags) checkDatabase(chosen []stage.Scenario) error {
	if f.database == "" {
		return nil
	}
	if !slices.Contains(names(chosen), outbox.Scenario.Name) {
		return cli.Usagef("--db is for the scenario %s", outbox.Scenario.Name)
	}
	place, err := outboxcmd.ParsePlace(f.database, "postgres://USER@HOST/DATABASE")
	if err != nil {
		return cli.Usagef("--db: %v", err)
	}
	defer place.Close()
	if _, ok := place.(*outboxcmd.Postgres); !ok {
		return cli.Usagef("--db needs a URL such as postgres://USER@HOST/DATABASE; without --db the demo uses an SQLite file")
	}
	return nil
}

// run plays the chosen scenarios one after the other.
func (f *flags) run(ctx context.Context, a *cli.App, chosen []stage.Scenario, args []string) error {
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
	r := report{Seed: f.seed, OK: true, Repeat: f.repeat(args)}
	progress := cli.NewProgress(a.Stderr, "demo")
	for _, s := range chosen {
		env := &stage.Env{
			Name: s.Name,
			Seed: f.seed, Dir: filepath.Join(dir, s.Name), Other: other, Long: f.long, Keep: f.keep,
			Broken: f.breakage, Database: f.database, Verbose: f.verbose, Progress: progress,
		}
		played := play(ctx, s, env)
		r.add(played)
		progress.Done()
		if ctx.Err() != nil {
			break
		}
		if !a.JSON {
			played.print(a.Stdout, f.verbose)
		}
	}
	if ctx.Err() != nil {
		return errors.Join(cli.Codedf(cli.ExitFailed, "interrupted; run it again with: %s",
			r.Repeat), os.RemoveAll(dir))
	}
	// Files that a failure left behind are evidence.
	if f.keep || !r.OK {
		for _, s := range chosen {
			_ = os.Remove(filepath.Join(dir, s.Name)) // works only if it is empty
		}
		if os.Remove(dir) != nil {
			r.DataDir = dir
			defer a.Note("the data is in %s", dir)
		}
	} else {
		err = os.RemoveAll(dir)
	}
	return errors.Join(r.finish(a), err, r.verdict())
}

// repeat is the command that does the same again.
func (f *flags) repeat(args []string) string {
	command := append([]string{os.Args[0], "demo"}, args...)
	for _, flag := range []struct {
		name, value string
	}{{"break", f.breakage}, {"endpoint-url", f.endpointURL}} {
		if flag.value != "" {
			command = append(command, "--"+flag.name, flag.value)
		}
	}
	if f.long {
		command = append(command, "--long")
	}
	if f.database != "" {
		command = append(command, "--db URL") // it may have a password in it
	}
	return strings.Join(append(command, "--seed", fmt.Sprint(f.seed)), " ")
}

// play plays one scenario. A scenario that does not come to its end has failed a check.
func play(ctx context.Context, s stage.Scenario, env *stage.Env) scenarioReport {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, scenarioMax,
		fmt.Errorf("not done after %v", scenarioMax))
	defer cancel()
	env.Progress.Begin(s.Name)
	rows, err := s.Play(ctx, env)
	if err != nil {
		rows = append(rows, stage.Want("ran to its end", "yes", err.Error()))
	}
	return scenarioReport{Name: s.Name, Text: s.Text, Seconds: time.Since(began).Seconds(),
		Rows: rows}
}
