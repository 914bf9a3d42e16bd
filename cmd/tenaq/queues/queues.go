// Package queues has the commands that create, list, change and delete queues, apply a file of
// them, and move messages between them. Each works on any SQS endpoint.
package queues

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

func NewCmd(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Create, list, show, change, purge and delete queues",
		Long: `Create, list, show, change, purge and delete queues.

Give a queue by name, URL or ARN. Attributes have the names and values of SQS:
whole seconds and whole bytes. The commands also accept units, such as 90s, 4d
and 256KiB.`,
		Example: `  tenaq queue create orders --attribute VisibilityTimeout=60
  tenaq queue list
  tenaq queue show orders`,
	}
	f := &cli.ClientFlags{}
	f.Register(cmd)
	cmd.AddCommand(
		newQueueCreateCmd(a, f),
		newQueueListCmd(a, f),
		newQueueShowCmd(a, f),
		newQueueSetCmd(a, f),
		newQueueTagCmd(a, f),
		newQueueUntagCmd(a, f),
		newQueuePurgeCmd(a, f),
		newQueueDeleteCmd(a, f),
	)
	cli.AsGroup(cmd)
	return cmd
}

// confirm asks before something that cannot be undone. Where there is nobody to ask, the answer
// must have been given on the command line.
func confirm(a *cli.App, ctx context.Context, yes bool, question string) error {
	switch {
	case yes:
		return nil
	case !cli.IsTerminal(a.Stdin):
		return cli.Usagef("this cannot be undone and there is no terminal to ask on; add --yes")
	}
	fmt.Fprintf(a.Stderr, "%s [y/N] ", cli.Shown(a.Stderr, question))
	answer, err := cli.UnlessInterrupted(ctx, func() (string, error) {
		return bufio.NewReader(a.Stdin).ReadString('\n')
	})
	if err != nil {
		fmt.Fprintln(a.Stderr)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return cli.Codedf(cli.ExitFailed, "nothing was done")
}
