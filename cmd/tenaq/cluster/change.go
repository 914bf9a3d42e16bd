package cluster

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

// changeMin is the least that a change may take: it is an entry of the log, and a node may have to
// become the leader first.
const changeMin = 40 * time.Second

// changeCmd makes a command of one that sends a change to the cluster.
func changeCmd(
	cmd *cobra.Command, do func(ctx context.Context, v *cli.V1Client, args []string) error,
) *cobra.Command {
	f := &cli.ClientFlags{}
	cmd.RunE = f.RunV1(lack, func(ctx context.Context, v *cli.V1Client, args []string) error {
		v.C.Timeout = max(v.C.Timeout, changeMin)
		return explained(v, do(ctx, v, args))
	})
	f.Register(cmd)
	return cmd
}

func newJoinCmd(a *cli.App) *cobra.Command {
	return changeCmd(&cobra.Command{
		Use:   "join NODE",
		Short: "Admit a waiting node",
		Long: `Admit a waiting node: a server with an empty data directory whose
--cluster-peers names nodes of the cluster. "tenaq cluster status" lists it.

The node copies the rows and catches up. It gets a vote when it has kept up with
the leader for ten seconds; until then it is a learner. Three voters survive the
loss of one, and five the loss of two. Four voters survive no more losses than
three.`,
		Example: `  tenaq cluster join 10.0.0.4:9326
  tenaq cluster join 3f9c1a2b`,
		Args: cli.Wants(1, 1),
	}, func(ctx context.Context, v *cli.V1Client, args []string) error {
		in := map[string]string{"node": args[0]}
		if err := v.Post(ctx, "admit "+args[0], "", "/cluster/join", in, &struct{}{}); err != nil {
			return err
		}
		return a.Result(in, "%s is admitted: it gets a vote when it has caught up, see: tenaq cluster status", args[0])
	})
}

func newRemoveCmd(a *cli.App) *cobra.Command {
	return changeCmd(&cobra.Command{
		Use:   "remove NODE",
		Short: "Remove a node from the cluster",
		Long: `Remove a node from the cluster for good. It stops serving and never votes again,
even if it comes back. Empty its data directory before you start it again.

The cluster refuses the command if the remaining reachable nodes would not be a
majority: start the others first. To put another node in its place, use "tenaq
cluster replace": a cluster of two survives no loss.`,
		Example: `  tenaq cluster remove 10.0.0.3:9326
  tenaq cluster remove 3f9c1a2b`,
		Args: cli.Wants(1, 1),
	}, func(ctx context.Context, v *cli.V1Client, args []string) error {
		in := map[string]string{"node": args[0]}
		if err := v.Post(ctx, "remove "+args[0], "", "/cluster/remove", in,
			&struct{}{}); err != nil {
			return err
		}
		return a.Result(in, "%s is removed", args[0])
	})
}

func newReplaceCmd(a *cli.App) *cobra.Command {
	return changeCmd(&cobra.Command{
		Use:   "replace OLD NEW",
		Short: "Put a waiting node in the place of a lost one",
		Long: `Remove the node OLD, then admit the waiting node NEW. Do this when the disk of a
node is lost or damaged: empty its data directory, start it, and replace the
old, unreachable node with the new one. Both may have the same address.`,
		Example: `  tenaq cluster replace 3f9c1a2b 77d0e5aa
  tenaq cluster replace 10.0.0.3:9326 10.0.0.3:9326    # the same machine`,
		Args: cli.Wants(2, 2),
	}, func(ctx context.Context, v *cli.V1Client, args []string) error {
		in := map[string]string{"old": args[0], "new": args[1]}
		if err := v.Post(ctx, "replace "+args[0], "", "/cluster/replace", in,
			&struct{}{}); err != nil {
			return err
		}
		return a.Result(in, "%s is removed and %s admitted: it gets a vote when it has caught up, see: tenaq cluster status", args[0], args[1])
	})
}

func newTransferCmd(a *cli.App) *cobra.Command {
	return changeCmd(&cobra.Command{
		Use:   "transfer [NODE]",
		Short: "Let another node lead",
		Long: `Let another node lead: NODE, or the most up-to-date one. Requests wait while
leadership changes, usually for less than a second. A leader that is stopped
with SIGTERM does this by itself.`,
		Example: `  tenaq cluster transfer
  tenaq cluster transfer 10.0.0.2:9326`,
		Args: cli.Wants(0, 1),
	}, func(ctx context.Context, v *cli.V1Client, args []string) error {
		in, next := map[string]string{}, "another node"
		if len(args) > 0 {
			in["node"], next = args[0], args[0]
		}
		if err := v.Post(ctx, "transfer the lead", "", "/cluster/transfer", in,
			&struct{}{}); err != nil {
			return err
		}
		return a.Result(in, "%s leads; see: tenaq cluster status", next)
	})
}
