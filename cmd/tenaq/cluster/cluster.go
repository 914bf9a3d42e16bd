// Package cluster has the commands that show, change and prepare a cluster, and that run one on
// this machine. The nodes themselves are servers: "tenaq serve --cluster-listen".
package cluster

import (
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

func NewCmd(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show, change and set up a cluster of servers",
		Long: `Show, change and set up a cluster: three servers with the same queues, one of
which may fail without the loss of an acknowledged message.

A node is a server that runs with --cluster-listen. Clients may use any node.
"tenaq cluster local" runs three nodes on this machine, to try it out.

For a cluster on three machines, make an authority and a certificate for each
node, copy each node's directory to its machine, and start all three with the
same list of peers:

  tenaq cluster ca new authority
  tenaq cluster ca node authority node-1

  tenaq serve --data-dir /var/lib/tenaq --listen :9324 --credentials keys.json \
    --cluster-listen :9326 --cluster-advertise 10.0.0.1:9326 \
    --cluster-peers 10.0.0.1:9326,10.0.0.2:9326,10.0.0.3:9326 \
    --cluster-identity /etc/tenaq/node-1

The nodes find each other, and form the cluster once every node in the list is
running. A node that starts later waits until "tenaq cluster join" or "replace"
admits it.

NODE is the id of a node, the beginning of one, or the address that it
advertises. With keys, these commands need tenaq:GetCluster or
tenaq:ChangeCluster, and a key of the server's account.`,
		Example: `  tenaq cluster local
  tenaq cluster status
  tenaq cluster replace 3f9c1a2b 10.0.0.4:9326`,
	}
	cmd.AddCommand(newStatusCmd(a), newJoinCmd(a), newRemoveCmd(a), newReplaceCmd(a),
		newTransferCmd(a), newCACmd(a), newConvertCmd(a), newLocalCmd(a))
	cli.AsGroup(cmd)
	return cmd
}
