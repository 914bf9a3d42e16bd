package bench

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tenaq/internal/bench/peers"
	"tenaq/internal/cli"
)

func newPeersCmd(a *cli.App) *cobra.Command {
	var c peers.Config
	var names []string
	var list strings.Builder
	for _, p := range peers.All {
		if p.Optional() {
			names = append(names, p.Name)
			fmt.Fprintf(&list, "  %-12s  %s\n", p.Name, p.Title)
		}
	}
	cmd := &cobra.Command{
		Use:       "peers [PEER]...",
		Short:     "Compare tenaq with other queues on this machine",
		ValidArgs: names,
		Args:      cli.Wants(0, -1),
		Long: `Compare tenaq with other queues on this machine. Each peer that is installed
runs on loopback with its data in a temporary directory, beside tenaq and a
server that does nothing. All take turns with the same clients and bodies.
Without names, all peers are measured:

` + list.String() + `
A life is a send, a receive and a delete of one message of 100 bytes. "In tens",
a request has ten messages where the protocol has such requests. Elsewhere, ten
requests are sent before the first answer is awaited. CPU time is that of all
processes of a peer.

The last column says what is on disk before a peer answers. Compare only peers
that force as much. The exit code is 1 if tenaq is slower than its bounds. A
peer that is not installed is listed with how to install it.`,
		Example: `  tenaq bench peers
  tenaq bench peers redis rabbitmq --rounds 5
  tenaq bench peers postgresql --dir /var/tmp --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := peers.Choose(args)
			if err != nil {
				return err
			}
			line := cli.NewProgress(a.Stderr, "bench")
			defer line.Done()
			r, err := peers.Compare(cmd.Context(), &c, chosen, line)
			switch {
			case cmd.Context().Err() != nil:
				return errors.New("interrupted")
			case err != nil:
				return err
			}
			line.Done()
			return printPeers(a, r)
		},
	}
	p := cmd.Flags()
	cli.Value(p, &c.Dir, "dir", "", "keep the data under this `directory`", readableDir)
	cli.Number(p, &c.Load.Clients, "clients", 64, 1, 1000, "`number` of connections to each")
	cli.Value(p, &c.Load.Round, "round", "1s", "`duration` of a round", parseRound)
	cli.Number(p, &c.Rounds, "rounds", 3, 1, 0, "`number` of rounds, after a warm-up")
	return cmd
}

// printPeers prints a comparison, and fails if a bound is not met.
func printPeers(a *cli.App, r *peers.Report) error {
	if a.JSON {
		if err := a.PrintJSON(r); err != nil {
			return err
		}
	} else {
		if err := a.PrintTable(r.Table()); err != nil {
			return err
		}
		if len(r.Ratios) > 0 {
			if err := a.PrintText("\n"); err != nil {
				return err
			}
			if err := a.PrintTable(r.RatioTable()); err != nil {
				return err
			}
		}
		a.Note("%s, %d clients, medians of %s",
			cli.Counted(r.Processors, "processor", "processors"), r.Clients,
			cli.Counted(r.Rounds, "round", "rounds"))
	}
	if n := r.Failed(); n > 0 {
		return cli.Codedf(cli.ExitFailed, "%d of %d bounds are not met", n, len(r.Ratios))
	}
	return nil
}
