// Package redrive has the commands of the redriver: run, plan, status, pause, parked messages and their release.
// Package redrivehost runs it; package redrive at the root of the module decides.
package redrive

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/redrivehost"
)

func NewCmd(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redrive",
		Short: "Bring dead letters back at the pace their consumer can bear",
		Long: `Bring dead letters back to the queue they came from, at the pace that their consumer can bear, and put aside
what would only come back again.

Three queues belong together: the one that is worked on, its dead-letter queue, and a parking lot, which no
program reads. A redriver sends a few dead letters back, finds out whether they succeed, and then sends more
of them, or less, or none while the consumer is sick. What fails again and again although others succeed is
parked with its reason, for a person to look at.

"tenaq move" moves everything at once and asks nobody; it is for a consumer that is known to be well.

` + cli.RecordsHelp,
		Example: `  tenaq redrive plan orders-dlq
  tenaq redrive run orders-dlq --parking orders-parking
  tenaq redrive status orders-dlq
  tenaq redrive parked list orders-parking`,
	}
	f := &redriveFlags{}
	f.ClientFlags.Register(cmd)
	f.RecordsFlags.Register(cmd)
	cmd.AddCommand(
		newRedriveRunCmd(a, f),
		newRedrivePlanCmd(a, f),
		newRedriveStatusCmd(a, f),
		newRedrivePauseCmd(a, f),
		newRedriveResumeCmd(a, f),
		newRedriveParkedCmd(a, f),
	)
	cli.AsGroup(cmd)
	return cmd
}

// redriveFlags say where the queues and the records of a redriver are.
type redriveFlags struct {
	cli.ClientFlags
	cli.RecordsFlags

	ledger   string
	noClaims bool
}

// registerClaims adds the flags of commands that ask what has become of messages.
func (f *redriveFlags) registerClaims(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.ledger, "ledger", "claim/", "`prefix` of the keys of the ledger in which the workers claim their work")
	flags.BoolVar(&f.noClaims, "no-claims", false, "the workers keep no ledger: learn outcomes from the server, or from what does not come back")
}

// host makes a host, with the store that open opens: who only looks wants one that is there.
func (f *redriveFlags) host(ctx context.Context, logger *slog.Logger, open func(context.Context) (*cli.RecordStore, error)) (*redrivehost.Host, error) {
	c, err := f.Connect(ctx)
	if err != nil {
		return nil, err
	}
	store, err := open(ctx)
	if err != nil {
		return nil, err
	}
	h, err := redrivehost.NewHost(c, store, f.ledger, f.noClaims, logger)
	if err != nil {
		_ = store.Close()
		return nil, err
	}
	return h, nil
}

// view opens what is there. The queue has to exist: by a slip in its name somebody would pause nothing.
func (f *redriveFlags) view(ctx context.Context, a *cli.App, s *redrivehost.Spec) (*redrivehost.View, error) {
	h, err := f.host(ctx, newRedriveTeller(a).logger, f.OpenExisting)
	if err != nil {
		return nil, err
	}
	v, err := h.View(ctx, s)
	if err != nil {
		h.Close()
	}
	return v, err
}
