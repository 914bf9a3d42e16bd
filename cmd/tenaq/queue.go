package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newQueueCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Create, list, show, change, purge and delete queues",
		Long: `Create, list, show, change, purge and delete queues.

A queue is given by its name, its URL or its ARN. Attributes have the names and values that SQS gives them:
whole seconds and whole bytes. The commands also take units for these, such as 90s, 4d and 256KiB.`,
		Example: `  tenaq queue create orders --attribute VisibilityTimeout=60
  tenaq queue list
  tenaq queue show orders`,
	}
	f := &clientFlags{}
	f.register(cmd)
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
	asGroup(cmd)
	return cmd
}

// confirm asks before something that cannot be undone. Where there is nobody to ask, the answer must have
// been given on the command line.
func (a *app) confirm(ctx context.Context, yes bool, question string) error {
	switch {
	case yes:
		return nil
	case !isTerminal(a.stdin):
		return usagef("this cannot be undone and there is no terminal to ask on; add --yes")
	}
	fmt.Fprintf(a.stderr, "%s [y/N] ", shown(a.stderr, question))
	answer, err := unlessInterrupted(ctx, func() (string, error) {
		return bufio.NewReader(a.stdin).ReadString('\n')
	})
	if err != nil {
		fmt.Fprintln(a.stderr)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return codedf(exitFailed, "nothing was done")
}
