package queues

import (
	"context"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

const exampleLack = "cannot make the example: this needs a tenaq server of this version"

func newExampleCmd(a *cli.App, f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "example",
		Short: "Create an example: a queue whose worker fails with some messages",
		Long: `Create an example, to see what tenaq shows when a worker fails.

The server creates the queues example-orders and example-orders-dlq, sends 20
messages, and plays a worker. It deletes 11 of them, and gives 6 up for three
different reasons: these are dead letters. 3 messages wait. As with any dead
letter, the alarm example-orders-dlq/dead-letters follows within a minute.

The command is refused with exit code 4 if one of the queues exists. Delete both
to remove the example.`,
		Example: `  tenaq queue example
  tenaq dead list example-orders-dlq
  tenaq dead redrive example-orders-dlq --reason Timeout --yes`,
		Args: cli.Wants(0, 0),
		RunE: f.RunV1(exampleLack, func(ctx context.Context, v *cli.V1Client, _ []string) error {
			var made struct {
				Queue       string `json:"queue"`
				DeadLetters string `json:"deadLetters"`
				Sent        int    `json:"sent"`
				Deleted     int    `json:"deleted"`
				Dead        int    `json:"dead"`
			}
			if err := v.Post(ctx, "create the example", "", "/example", struct{}{},
				&made); err != nil {
				return err
			}
			if err := a.Result(made, "created %s: of %s, a worker deleted %d and gave up %d",
				made.Queue, cli.Counted(made.Sent, "message", "messages"), made.Deleted,
				made.Dead); err != nil {
				return err
			}
			a.Note("see why they failed: tenaq dead list %s", made.DeadLetters)
			return nil
		}),
	}
}
