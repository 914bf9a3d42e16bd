package cluster

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/cluster/wire"
)

func newCACmd(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "Make the certificates of the nodes",
		Long: `Make the authority of a cluster, and a certificate for each node. Nodes use them
to authenticate to each other; clients never see them. The commands overwrite
nothing.

The directory of the authority holds ca.pem and ca-key.pem. Keep ca-key.pem away
from the nodes and safe: with it, any program can pose as a node. The directory
of a node holds ca.pem, node.pem and node-key.pem, all that --cluster-identity
needs.

A node's certificate expires after two years. To renew it, make another one and
replace node.pem and node-key.pem: a running node reads them for each
connection.`,
		Example: `  tenaq cluster ca new authority
  tenaq cluster ca node authority node-1`,
	}
	cmd.AddCommand(newAuthorityCmd(a), newNodeCmd(a))
	cli.AsGroup(cmd)
	return cmd
}

func newAuthorityCmd(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "new DIR",
		Short: "Make the authority of a cluster",
		Long: `Make the authority of a cluster: DIR/ca.pem and DIR/ca-key.pem. It expires after
twenty years.`,
		Example: "  tenaq cluster ca new authority",
		Args:    cli.Wants(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o700); err != nil {
				return err
			}
			if err := wire.NewAuthority(args[0]); err != nil {
				return err
			}
			return a.Result(map[string]string{"authority": args[0]},
				"%s: authority of a cluster; next, for each node: tenaq cluster ca node %s NODE_DIR", args[0], args[0])
		},
	}
}

func newNodeCmd(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "node DIR NODE_DIR",
		Short: "Make the certificate of a node",
		Long: `Make the certificate of a node, signed by the authority in DIR. NODE_DIR gets
node.pem, node-key.pem and a copy of ca.pem. Copy it to the machine of the node
and start the server there with --cluster-identity. Only the user of the server
should be able to read it.`,
		Example: "  tenaq cluster ca node authority node-1",
		Args:    cli.Wants(2, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[1], 0o700); err != nil {
				return err
			}
			if err := wire.NewCertificate(args[0], args[1]); err != nil {
				return err
			}
			id, err := wire.OpenIdentity(args[1])
			if err != nil {
				return err
			}
			ends, err := id.Ends()
			if err != nil {
				return err
			}
			return a.Result(map[string]any{"identity": args[1], "ends": ends.UTC()},
				"%s: certificate of a node, valid until %s; on its machine: tenaq serve --cluster-identity %s ...",
				args[1], ends.UTC().Format(time.DateOnly), args[1])
		},
	}
}
