// Package dead has the commands for dead letters, and for the tasks that move, park and delete
// messages. What they do runs in the server; the commands count, ask and watch.
package dead

import (
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

// NewCmd returns the command dead.
func NewCmd(a *cli.App) *cobra.Command {
	group := &cobra.Command{
		Use:   "dead",
		Short: "Show why messages failed; redrive, park, delete or correct them",
		Long: `Show why messages became dead letters, and redrive, park, delete or correct
them. The commands also work on other queues. They need a tenaq server.

"tenaq peek QUEUE" shows the messages themselves, "tenaq move start" moves all
of them back, and "tenaq redrive" brings them back with judgement.`,
		Example: `  tenaq dead list orders-dlq
  tenaq dead redrive orders-dlq --text timeout
  tenaq dead redrive orders-dlq --text timeout --yes`,
	}
	group.AddCommand(newListCmd(a), newRedriveCmd(a), newParkCmd(a), newDeleteCmd(a),
		newEditCmd(a), newNoteCmd(a))
	cli.AsGroup(group)
	return group
}
