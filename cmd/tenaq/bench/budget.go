package bench

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tenaq/internal/bench/budget"
	"tenaq/internal/cli"
)

func newBudgetCmd(a *cli.App) *cobra.Command {
	cmd := newLinesCmd(a, "budget", budget.Lines)
	cmd.Short = "Measure what tenaq promises about speed and memory"
	cmd.Long = `Measure what tenaq promises about speed and memory. Each line is a scenario with
a server of its own, on an empty directory that is removed afterwards. Without
names, all lines are measured one after the other.

` + listed(budget.Lines) + `
A rate is a share of another rate, measured in alternating rounds: it says
little about the machine, but other work on the machine still disturbs it. The
exit code is 1 if a bound is not met or a line could not be measured.

The full form takes about half an hour and gigabytes under --dir. --scale
reduces the numbers of messages, queues and polls and keeps the bounds. --short
takes less than three minutes and fails only if a ratio is grossly wrong twice.`
	cmd.Example = `  tenaq bench budget
  tenaq bench budget send bodies bytes
  tenaq bench budget --short --json
  tenaq bench budget depth --scale 0.1 --dir /mnt/data`
	return cmd
}

func newClusterCmd(a *cli.App) *cobra.Command {
	cmd := newLinesCmd(a, "cluster", budget.ClusterLines)
	cmd.Short = "Measure what tenaq promises about a cluster"
	cmd.Long = `Measure what tenaq promises about a cluster. Each line starts three nodes on
this machine, on empty directories that are removed afterwards. Without names,
all lines are measured one after the other.

` + listed(budget.ClusterLines) + `
The nodes share the cores with the load and with the server that they are
compared with, so three machines do better. The exit code is 1 if a bound is
not met or a line could not be measured.

The full form takes about five minutes and gigabytes under --dir. --scale
reduces the size of what is copied. --short takes less than two minutes; it
fails only if a ratio is grossly wrong twice, or if a message is lost or stored
twice.`
	cmd.Example = `  tenaq bench cluster
  tenaq bench cluster failover
  tenaq bench cluster copy --scale 0.2 --dir /mnt/data
  tenaq bench cluster --short --json`
	return cmd
}

// listed returns the names and texts of lines, for the help.
func listed(lines []budget.Line) string {
	var list strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&list, "  %-8s  %s\n", l.Name, l.Text)
	}
	return list.String()
}

// newLinesCmd returns a command that measures lines.
func newLinesCmd(a *cli.App, name string, all []budget.Line) *cobra.Command {
	var c budget.Config
	var names []string
	for _, l := range all {
		names = append(names, l.Name)
	}
	cmd := &cobra.Command{
		Use:       name + " [LINE]...",
		ValidArgs: names,
		Args:      cli.Wants(0, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			lines, err := budget.Choose(all, args)
			if err != nil {
				return err
			}
			if !(c.Scale > 0 && c.Scale <= 1) {
				return cli.Usagef("--scale: %v is not above 0 and at most 1", c.Scale)
			}
			r := budget.Run(cmd.Context(), &c, lines, cli.NewProgress(a.Stderr, name))
			if a.JSON {
				err = a.PrintJSON(r)
			} else if err = a.PrintTable(r.Table()); err == nil {
				a.Note("%s, load before %s", cli.Counted(r.Processors, "processor", "processors"),
					cmp.Or(r.Load, "unknown"))
			}
			switch failed := r.Failed(); {
			case err != nil:
				return err
			case cmd.Context().Err() != nil:
				return errors.New("interrupted")
			case len(failed) > 0:
				return cli.Codedf(cli.ExitFailed, "not met, or not measured: %s (%d of %d)",
					strings.Join(failed, ", "), len(failed), len(r.Rows))
			}
			return nil
		},
	}
	p := cmd.Flags()
	p.BoolVar(&c.Short, "short", false, "measure less, and fail only on gross deviations")
	p.Float64Var(&c.Scale, "scale", 1, "`share` of the full numbers to use")
	cli.Value(p, &c.Dir, "dir", "", "keep the data under this `directory`", readableDir)
	return cmd
}
