// Package outbox has the commands of the transactional outbox: its tables, rows, relay and replays. Package
// outbox at the root of the module does the work.
package outbox

import (
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

func NewCmd(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "outbox",
		Short: "Send what programs have written into the outbox of their database",
		Long: `Send what programs have written into the outbox of their database, and look after it.

A program writes a row of its business and a row about the message into one database, in one transaction: so
there are both or none. A relay sends the message afterwards, at least once, whatever dies in between. Any
language writes to an outbox with an INSERT; its columns are those of Debezium's outbox event router:

  INSERT INTO outbox (aggregatetype, aggregateid, type, payload)
  VALUES ('orders', '17', 'order_placed', '{"id": 17}')

aggregatetype is the queue, aggregateid what the message is about, payload its body. More may be said in
group_id, dedup_id, headers, deliver_after and generation.

A row that a queue refuses is tried again, and parked with the reason when its attempts are used up: then it
waits for a person.

` + outboxHelp,
		Example: `  tenaq outbox init --db postgres://app@db.example.com/app
  tenaq outbox relay --db postgres://app@db.example.com/app
  TENAQ_OUTBOX=sqlite:app.db tenaq outbox status
  tenaq outbox parked list --db sqlite:app.db`,
	}
	f := &flags{}
	f.register(cmd)
	cmd.AddCommand(
		newOutboxInitCmd(a, f),
		newOutboxRelayCmd(a, f),
		newOutboxStatusCmd(a, f),
		newOutboxParkedCmd(a, f),
		newOutboxEnqueueCmd(a, f),
		newOutboxReplayCmd(a, f),
	)
	cli.AsGroup(cmd)
	return cmd
}
