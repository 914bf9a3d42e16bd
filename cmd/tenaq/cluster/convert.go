package cluster

import (
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/server"
	"tenaq/internal/settings"
)

// newConvertCmd returns the command that makes the first node of a cluster of a single server.
func newConvertCmd(a *cli.App) *cobra.Command {
	var advertise string
	cmd := &cobra.Command{
		Use:   "convert DATA_DIR --advertise HOST:PORT",
		Short: "Make a single server the first node of a cluster",
		Long: `Turn a stopped server into the first node of a cluster. DATA_DIR keeps all
queues and messages, and receipt handles stay valid. The command copies nothing:
the new files are links to the old ones. --advertise is the address where other
nodes will reach this one.

Then start this node with --cluster-listen, start the others with empty data
directories, and admit each one with "tenaq cluster join".

The old files stay in DATA_DIR as store.before-cluster and
witness.before-cluster. To go back, stop the node, remove the folders raft and
groups, and rename these two to store and witness. Going back loses everything
since the conversion. Remove them once the cluster works: they keep disk
space that the node would otherwise free.

If the command is interrupted, run it again. The exit code is 3 if there is no
store, 4 if a server has the directory open or it belongs to a node already, and
6 if the store is damaged.`,
		Example: `  tenaq cluster convert /var/lib/tenaq --advertise queue-1.example.com:9326
  tenaq serve --data-dir /var/lib/tenaq \
    --cluster-listen :9326 --cluster-advertise queue-1.example.com:9326 \
    --cluster-identity /etc/tenaq/cluster`,
		Args: cli.Wants(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			if advertise == "" {
				return cli.Usagef("name the address where other nodes reach this one with --advertise HOST:PORT")
			}
			if err := settings.CheckPeer(advertise); err != nil {
				return cli.Usagef("--advertise: %v", err)
			}
			return convert(a, args[0], advertise)
		},
	}
	cmd.Flags().StringVar(&advertise, "advertise", "",
		"`address` where other nodes reach this one")
	return cmd
}

type converted struct {
	Dir string `json:"dataDir"`
	server.Converted
}

func convert(a *cli.App, dir, advertise string) error {
	c, err := server.Convert(dir, advertise)
	if errors.Is(err, fs.ErrNotExist) && cli.ExitCode(err) == cli.ExitFailed {
		return cli.Codedf(cli.ExitNotFound,
			"there is no store in %s: name the data directory of the server", dir)
	}
	if err != nil {
		return err
	}
	return a.Result(converted{dir, c}, `%s: node %s of cluster %s, up to commit %d
Start it with --cluster-listen, and admit the others with: tenaq cluster join.
To go back, stop it, remove raft and groups in %s, and rename
store.before-cluster to store and witness.before-cluster to witness. This loses
everything since the conversion. Remove both once the cluster works.`,
		dir, c.Node, c.Group, c.Commit, dir)
}
