package main

import (
	"strings"

	"github.com/spf13/cobra"
)

func newRedrivePauseCmd(a *app, f *redriveFlags) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "pause QUEUE --reason TEXT",
		Short: "Keep all redrivers of a dead-letter queue from redriving and parking",
		Long: `Keep all redrivers of a dead-letter queue from redriving and parking, wherever they run, until somebody
resumes it. What is on its way goes on, and its outcome is still asked for.

The pause is in the records that the redrivers share, so it outlives them. It is forgotten two weeks after the
last step of a redriver.

` + recordsHelp,
		Example: `  tenaq redrive pause orders-dlq --reason 'the bank is down until noon'
  tenaq redrive resume orders-dlq`,
		Args: wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return usagef("there is no reason; add --reason, for who wonders later why nothing is redriven")
			}
			v, err := f.view(cmd.Context(), a, pausing(args[0]))
			if err != nil {
				return err
			}
			defer v.close()
			why := reason + " (" + person() + ")"
			if err := v.redriver.Pause(cmd.Context(), why); err != nil {
				return v.inRecords(err)
			}
			return a.result(map[string]any{"queue": v.queue, "paused": why}, "paused the redrivers of %s; let them go on with: tenaq redrive resume %[1]s", v.queue)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, as `text` for who looks later")
	return cmd
}

func newRedriveResumeCmd(a *app, f *redriveFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "resume QUEUE",
		Short: "End a pause",
		Long: `End a pause: the redrivers of a dead-letter queue go on with their next step. One that is not paused stays as
it is.

` + recordsHelp,
		Example: `  tenaq redrive resume orders-dlq`,
		Args:    wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := f.view(cmd.Context(), a, pausing(args[0]))
			if err != nil {
				return err
			}
			defer v.close()
			state, err := v.redriver.State(cmd.Context())
			if err == nil && state.Paused != "" {
				err = v.redriver.Resume(cmd.Context())
			}
			document := map[string]any{"queue": v.queue, "wasPaused": state.Paused}
			switch {
			case err != nil:
				return v.inRecords(err)
			case state.Paused == "":
				return a.result(document, "%s was not paused", v.queue)
			}
			return a.result(document, "the redrivers of %s go on; they were paused: %s", v.queue, oneLine(state.Paused))
		},
	}
}

// pausing is all that has to be known of a queue whose redrivers are paused.
func pausing(queue string) *redriveSpec {
	return &redriveSpec{deadLetter: queue, schedule: schedule{every: rateMost}}
}
