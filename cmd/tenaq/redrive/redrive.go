// Package redrive has the commands of the redriver: run, plan, status, pause, and those about
// parking lots. They read flags and print; package redrivehost runs redrivers, and package redrive
// at the root of the module decides.
package redrive

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/redrivehost"
	"tenaq/records"
	"tenaq/redrive"
)

func NewCmd(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redrive",
		Short: "Bring dead letters back at the pace their consumer can handle",
		Long: `Bring dead letters back to the queue they came from, at the pace that their
consumer can handle, and park those that would only fail again.

Three queues work together: the queue of the work, its dead-letter queue, and a
parking lot, which has no consumer. A redriver sends a few dead letters back,
finds out whether they succeeded, and then sends more, fewer, or none while the
consumer is unhealthy. A message that fails again and again while others succeed
is parked with the reason, until you release or discard it. docs/redrive.md
explains the decisions.

"tenaq move start" moves everything at once, for a consumer that works.

` + cli.RecordsHelp,
		Example: `  tenaq redrive plan orders-dlq
  tenaq redrive run orders-dlq --parking orders-parking
  tenaq redrive status orders-dlq
  tenaq redrive parked list orders-parking`,
	}
	f := &flags{}
	f.ClientFlags.Register(cmd)
	f.RecordsFlags.Register(cmd)
	f.RecordsFlags.Connect = f.ClientFlags.Connect
	cmd.AddCommand(newRunCmd(a, f), newPlanCmd(a, f), newStatusCmd(a, f), newPauseCmd(a, f),
		newResumeCmd(a, f), newParkedCmd(a, f))
	cli.AsGroup(cmd)
	return cmd
}

type flags struct {
	cli.ClientFlags
	cli.RecordsFlags

	ledger   string
	noClaims bool
}

// registerClaims adds the flags of commands that ask for the outcomes of messages.
func (f *flags) registerClaims(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.ledger, "ledger", "claim/", "`prefix` of the ledger")
	cmd.Flags().BoolVar(&f.noClaims, "no-claims", false, "the workers keep no ledger")
}

func (f *flags) host(
	ctx context.Context, logger *slog.Logger, open openRecords,
) (*redrivehost.Host, error) {
	c, err := f.ClientFlags.Connect(ctx)
	if err != nil {
		return nil, err
	}
	store, err := open(ctx)
	if err != nil {
		return nil, err
	}
	return redrivehost.NewHost(c, store, f.ledger, f.noClaims, logger)
}

// withView opens the redriver of the dead-letter queue that is the argument. The queue must exist:
// a misspelled name would pause nothing.
func (f *flags) withView(
	a *cli.App, p *redrive.Policy, open openRecords,
	do func(context.Context, *redrivehost.View) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		h, err := f.host(cmd.Context(), newReporter(a, &cli.LogFlags{}).logger, open)
		if err != nil {
			return err
		}
		defer h.Close()
		v, err := h.View(cmd.Context(),
			&redrivehost.Spec{DeadLetter: args[0], Policy: *p,
				Schedule: redrivehost.Schedule{Every: redrivehost.RateMost}})
		if err != nil {
			return err
		}
		return do(cmd.Context(), v)
	}
}

func newPauseCmd(a *cli.App, f *flags) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "pause QUEUE --reason TEXT",
		Short: "Pause all redrivers of a dead-letter queue",
		Long: `Pause all redrivers of a dead-letter queue, on all machines: they redrive and
park nothing until "tenaq redrive resume". They still follow messages that are
on their way.

The pause is kept in the records that the redrivers share. It expires two weeks
after the last step of a redriver.`,
		Example: `  tenaq redrive pause orders-dlq --reason 'the bank is down until noon'
  tenaq redrive resume orders-dlq`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return cli.Usagef("the reason is missing; add --reason TEXT, for people who look at the status later")
			}
			return f.withView(a, &redrive.Policy{}, f.OpenExisting,
				func(ctx context.Context, v *redrivehost.View) error {
					why := reason + " (" + cli.Person() + ")"
					if err := v.Redriver.Pause(ctx, why); err != nil {
						return v.InRecords(err)
					}
					return a.Result(map[string]any{"queue": v.Queue, "paused": why},
						"paused the redrivers of %s; end the pause with: tenaq redrive resume %[1]s", v.Queue)
				})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that says why; shown in the status")
	return cmd
}

func newResumeCmd(a *cli.App, f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "resume QUEUE",
		Short: "End a pause",
		Long: `End a pause: the redrivers of a dead-letter queue continue with their next step.
If they are not paused, nothing changes.`,
		Example: `  tenaq redrive resume orders-dlq`,
		Args:    cli.Wants(1, 1),
		RunE: f.withView(a, &redrive.Policy{}, f.OpenExisting,
			func(ctx context.Context, v *redrivehost.View) error {
				state, err := v.Redriver.State(ctx)
				if err == nil && state.Paused != "" {
					err = v.Redriver.Resume(ctx)
				}
				document := map[string]any{"queue": v.Queue, "wasPaused": state.Paused}
				switch {
				case err != nil:
					return v.InRecords(err)
				case state.Paused == "":
					return a.Result(document, "%s was not paused", v.Queue)
				}
				return a.Result(document, "resumed the redrivers of %s; they were paused: %s",
					v.Queue, cli.OneLine(state.Paused))
			}),
	}
}

func newStatusCmd(a *cli.App, f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status QUEUE",
		Short: "Show the state of the redrivers of a dead-letter queue",
		Long: `Show the state of the redrivers of a dead-letter queue. No message is received.
Add the policy flags of "tenaq redrive run": the records do not have them.

  breaker   CLOSED: messages are sent. OPEN: the consumer is unhealthy, and
            nothing is sent until the time shown. HALF_OPEN: single messages
            test whether it has recovered
  drains    how long the dead letters will take, at the rate at which they were
            completed or parked in the last hour. New dead letters are not
            included
  kinds     failures that differ only in numbers and names, and how many
            messages fail like this, up to 3`,
		Example: `  tenaq redrive status orders-dlq
  tenaq redrive status orders-dlq --json | jq .breaker.gauge     # 0 closed, 1 open, 2 half open`,
		Args: cli.Wants(1, 1),
	}
	policy := redrivehost.PolicyFlags(cmd.Flags())
	cmd.RunE = f.withView(a, policy, f.openOrEmpty,
		func(ctx context.Context, v *redrivehost.View) error {
			s, err := v.Status(ctx, policy)
			if err != nil {
				return err
			}
			now := time.Now()
			if err := a.PrintCard(s, "", s.Fields(now)...); err != nil || a.JSON {
				return err
			}
			if len(s.Kinds) > 0 {
				if err := a.PrintText("\n"); err != nil {
					return err
				}
				if err := a.PrintTable(s.KindTable(now)); err != nil {
					return err
				}
			}
			for _, w := range s.Warnings {
				a.Note("warning: %s", cli.OneLine(w))
			}
			return nil
		})
	return cmd
}

type openRecords func(context.Context) (*cli.RecordStore, error)

// openOptional opens the records. It returns nil if no address was given and the default place has
// none.
func (f *flags) openOptional(ctx context.Context) (*cli.RecordStore, error) {
	store, err := f.OpenExisting(ctx)
	if f.IsUsual() && cli.ExitCode(err) == cli.ExitNotFound {
		return nil, nil
	}
	return store, err
}

// openOrEmpty is openOptional with an empty store instead of none: no redriver has run yet.
func (f *flags) openOrEmpty(ctx context.Context) (*cli.RecordStore, error) {
	store, err := f.openOptional(ctx)
	if store != nil || err != nil {
		return store, err
	}
	place, err := f.Place(ctx)
	return &cli.RecordStore{Store: noRecords{}, Place: place}, err
}

type noRecords struct{}

var errNoRecords = errors.New("there are no records")

func (noRecords) Get(context.Context, string) (records.Record, error) {
	return records.Record{}, records.ErrNotFound
}

func (noRecords) List(context.Context, string, string, int) ([]records.Record, error) {
	return nil, nil
}

func (noRecords) Put(context.Context, records.Write) (records.Record, error) {
	return records.Record{}, errNoRecords
}

func (noRecords) Delete(context.Context, string, records.Version) error { return errNoRecords }
func (noRecords) Sweep(context.Context, int) (int, error)               { return 0, nil }
func (noRecords) Close() error                                          { return nil }
