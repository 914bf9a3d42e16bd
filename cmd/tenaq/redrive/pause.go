package redrive

import (
	"strings"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/redrivehost"
)

func newRedrivePauseCmd(a *cli.App, f *redriveFlags) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "pause QUEUE --reason TEXT",
		Short: "Keep all redrivers of a dead-letter queue from redriving and parking",
		Long: `Keep all redrivers of a dead-letter queue from redriving and parking, wherever they run, until somebody
resumes it. What is on its way goes on, and its outcome is still asked for.

The pause is in the records that the redrivers share, so it outlives them. It is forgotten two weeks after the
last step of a redriver.

` + cli.RecordsHelp,
		Example: `  tenaq redrive pause orders-dlq --reason 'the bank is down until noon'
  tenaq redrive resume orders-dlq`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return cli.Usagef("there is no reason; add --reason, for who wonders later why nothing is redriven")
			}
			v, err := f.view(cmd.Context(), a, pausing(args[0]))
			if err != nil {
				return err
			}
			defer v.Close()
			why := reason + " (" + cli.Person() + ")"
			if err := v.Redriver.Pause(cmd.Context(), why); err != nil {
				return v.InRecords(err)
			}
			return a.Result(map[string]any{"queue": v.Queue, "paused": why}, "paused the redrivers of %s; let them go on with: tenaq redrive resume %[1]s", v.Queue)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, as `text` for who looks later")
	return cmd
}

func newRedriveResumeCmd(a *cli.App, f *redriveFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "resume QUEUE",
		Short: "End a pause",
		Long: `End a pause: the redrivers of a dead-letter queue go on with their next step. One that is not paused stays as
it is.

` + cli.RecordsHelp,
		Example: `  tenaq redrive resume orders-dlq`,
		Args:    cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := f.view(cmd.Context(), a, pausing(args[0]))
			if err != nil {
				return err
			}
			defer v.Close()
			state, err := v.Redriver.State(cmd.Context())
			if err == nil && state.Paused != "" {
				err = v.Redriver.Resume(cmd.Context())
			}
			document := map[string]any{"queue": v.Queue, "wasPaused": state.Paused}
			switch {
			case err != nil:
				return v.InRecords(err)
			case state.Paused == "":
				return a.Result(document, "%s was not paused", v.Queue)
			}
			return a.Result(document, "the redrivers of %s go on; they were paused: %s", v.Queue, cli.OneLine(state.Paused))
		},
	}
}

// pausing is all that has to be known of a queue whose redrivers are paused.
func pausing(queue string) *redrivehost.Spec {
	return &redrivehost.Spec{DeadLetter: queue, Schedule: redrivehost.Schedule{Every: redrivehost.RateMost}}
}
