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
	var c budget.Config
	var names []string
	var list strings.Builder
	for _, l := range budget.Lines {
		names = append(names, l.Name)
		fmt.Fprintf(&list, "  %-8s  %s\n", l.Name, l.Text)
	}
	cmd := &cobra.Command{
		Use:   "budget [LINE]...",
		Short: "Measure what tenaq promises about speed and memory",
		Long: `Measure what tenaq promises about speed and memory. Each line is a scenario with
a server of its own, on an empty directory that is removed afterwards. Without
names, all lines are measured one after the other.

` + list.String() + `
A rate is a share of another rate, measured in alternating rounds: it says
little about the machine, but other work on the machine still disturbs it. The
exit code is 1 if a bound is not met or a line could not be measured.

The full form takes about twenty minutes and gigabytes under --dir. --scale
reduces the numbers of messages, queues and polls and keeps the bounds. --short
takes less than three minutes and fails only if a ratio is grossly wrong.`,
		Example: `  tenaq bench budget
  tenaq bench budget send latency
  tenaq bench budget --short --json
  tenaq bench budget depth --scale 0.1 --dir /mnt/data`,
		ValidArgs: names,
		Args:      cli.Wants(0, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			lines, err := budget.Choose(args)
			if err != nil {
				return err
			}
			if !(c.Scale > 0 && c.Scale <= 1) {
				return cli.Usagef("--scale: %v is not a share above 0, up to 1", c.Scale)
			}
			r := budget.Run(cmd.Context(), &c, lines, cli.NewProgress(a.Stderr, "budget"))
			if a.JSON {
				err = a.PrintJSON(r)
			} else if err = a.PrintTable(r.Table()); err == nil {
				a.Note("%s, load before %s", cli.Counted(r.Processors, "processor", "processors"),
					cmp.Or(r.Load, "unknown"))
			}
			switch n := r.Failed(); {
			case err != nil:
				return err
			case cmd.Context().Err() != nil:
				return errors.New("interrupted")
			case n > 0:
				return cli.Codedf(cli.ExitFailed,
					"%d of %d bounds are not met or could not be measured", n, len(r.Rows))
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
