package redrive

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/redrivehost"
	"tenaq/redrive"
)

type runFlags struct {
	*flags
	cli.MetricsFlags
	cli.PushFlags

	spec   redrivehost.Spec // what the flags say of it
	policy *redrive.Policy
	once   bool
	log    cli.LogFlags
}

func newRunCmd(a *cli.App, r *flags) *cobra.Command {
	f := &runFlags{flags: r}
	cmd := &cobra.Command{
		Use:   "run QUEUE... --parking QUEUE",
		Short: "Redrive the messages of dead-letter queues",
		Long: `Redrive the messages of dead-letter queues until a signal stops the command, or
for one step with --once.

A step finds out the outcomes of the messages that were sent earlier. Then it
decides about each dead letter: send it back with a delay, hold it for now, or
park it. A message goes to the queue it came from, or to --target. Several
queues can share one parking lot and are redriven side by side; if one fails, it
is tried again while the others continue. Any number of redrivers may run: they
share their records.

Outcomes come from the ledger, if the workers use package worker or "tenaq
pipe". For other workers add --no-claims: a message that is a dead letter again
has failed. A tenaq server reports which messages were deleted; those count as
done. On any other server, a message that has not come back after its visibility
timeout and one step counts as half a success.

` + redrivehost.ScheduleHelp + `

Standard error gets a line for each message that is sent on and each eventful
step. On a terminal, it gets one line that is updated, and lines for what needs
attention. --json prints one object per step on standard output.

With --once, --schedule says how often the command runs. The exit code is 4 if
the breaker is open after the step or another redriver took a step at the same
time, and 5 if only some of several queues failed.

` + cli.MetricsHelp,
		Example: `  tenaq redrive run orders-dlq --parking orders-parking
  tenaq redrive run orders-dlq mail-dlq --parking parking --create-parking --schedule 'rate(10 minutes)'
  tenaq redrive run orders-dlq --parking orders-parking --schedule '*/15 6-22 * * *' --rate-max 20
  tenaq redrive run orders-dlq --parking orders-parking --metrics-listen :9327
  tenaq redrive run orders-dlq --parking orders-parking --once --json     # from cron or a scheduled task`,
		Args: cli.Wants(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			specs, err := f.specs(args)
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), a, specs)
		},
	}
	f.registerClaims(cmd)
	flags := cmd.Flags()
	cli.Text(flags, &f.spec.Parking, "parking", "`queue` that is the parking lot")
	flags.BoolVar(&f.spec.CreateParking, "create-parking", false,
		"create a missing parking lot; keeps for 14 days")
	cli.Text(flags, &f.spec.Target, "target", "redrive to this `queue` (default: the origin)")
	cli.Value(flags, &f.spec.Schedule, "schedule", redrivehost.ScheduleDefault,
		"`schedule` of steps", redrivehost.ParseSchedule)
	cli.Value(flags, &f.spec.Look, "look", "", "`duration` to hide messages (default up to 2m)",
		cli.SomeDuration)
	flags.BoolVar(&f.once, "once", false, "take one step, then end")
	f.log.Register(flags, "info or warn")
	f.policy = redrivehost.PolicyFlags(flags)
	f.MetricsFlags.Register(cmd)
	f.PushFlags.Register(cmd)
	return cmd
}

func (f *runFlags) specs(queues []string) (specs []redrivehost.Spec, err error) {
	s := f.spec
	if s.Parking == "" {
		return nil, cli.Usagef("the parking lot is missing; add --parking QUEUE")
	}
	s.Policy = *f.policy
	for _, queue := range queues {
		name := cli.QueueNameOf(queue)
		if slices.ContainsFunc(specs, func(o redrivehost.Spec) bool {
			return cli.QueueNameOf(o.DeadLetter) == name
		}) {
			return nil, cli.Usagef("%s is given twice", name)
		}
		s.DeadLetter = queue
		if err := s.Check(); err != nil {
			return nil, cli.Usagef("%s: %v", name, err)
		}
		specs = append(specs, s)
	}
	return specs, nil
}

func (f *runFlags) run(ctx context.Context, a *cli.App, specs []redrivehost.Spec) error {
	r := newReporter(a, &f.log)
	metrics, err := f.Listen()
	if err != nil {
		return err
	}
	defer metrics.Close()
	h, err := f.host(ctx, r.logger, func(ctx context.Context) (*cli.RecordStore, error) {
		return f.OpenLogged(ctx, r.logger)
	})
	if err != nil {
		return err
	}
	defer h.Close()
	counts := redrivehost.NewMetrics(specs)
	counts.Reach(h)
	metrics.Serve(r.logger, counts.Write)
	defer metrics.Close() // before the records are
	switch push := f.Enabled(h.Client.Endpoint); {
	case push && f.once:
		// Only the parking lots are pushed, because silence after a single step means nothing. The
		// step itself reports an endpoint that does not answer.
		var pushing sync.WaitGroup
		pushing.Go(func() {
			_ = cli.NewPusher(h.Client, monitor.Redrivers, r.logger, counts.Lots).Once(ctx)
		})
		defer pushing.Wait()
	case push:
		defer cli.NewPusher(h.Client, monitor.Redrivers, r.logger, counts.Pushed).Start(ctx)()
	}
	var loops []*redrivehost.Loop
	for _, s := range specs {
		loops = append(loops, redrivehost.NewLoop(h, s, func(step redrivehost.Step) {
			counts.Note(step)
			r.report(step, &s.Policy)
		}))
	}
	if f.once {
		return redriveOnce(ctx, loops)
	}
	if err := findAll(ctx, loops, r.logger); err != nil {
		return err
	}
	for _, s := range specs {
		r.logger.Info("redriving", "queue", cli.QueueNameOf(s.DeadLetter), "parking",
			cli.QueueNameOf(s.Parking), "schedule", s.Schedule.Text)
	}
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(watching) })
	redrivehost.Run(ctx, loops)
	stop()
	watch.Wait()
	return nil
}

// findAll finds the queues of all loops. Some may be missing for now; if all are, the command ends.
func findAll(ctx context.Context, loops []*redrivehost.Loop, logger *slog.Logger) error {
	missing := 0
	var last error
	for _, l := range loops {
		if err := l.Find(ctx); err != nil {
			missing, last = missing+1, err
			if len(loops) > 1 {
				logger.Warn("dead-letter queue not redriven, trying again", "queue", cli.QueueNameOf(l.Spec.DeadLetter),
					"error", err)
			}
		}
	}
	switch {
	case missing == 1 && len(loops) == 1:
		return last
	case missing == len(loops):
		return cli.Codedf(cli.ExitCode(last), "none of %d queues can be redriven; see above",
			missing)
	}
	return nil
}

func redriveOnce(ctx context.Context, loops []*redrivehost.Loop) error {
	steps := make([]redrivehost.Step, len(loops))
	var running sync.WaitGroup
	for i, l := range loops {
		running.Go(func() {
			steps[i] = l.Step(ctx)
			l.Tell(steps[i])
		})
	}
	running.Wait()
	return onceVerdict(steps)
}

func onceVerdict(steps []redrivehost.Step) error {
	var failed, open, met []string
	var last error
	for _, s := range steps {
		switch {
		case redrivehost.IsOverlap(s.Err):
			met = append(met, s.Queue)
		case s.Err != nil:
			failed, last = append(failed, s.Queue), s.Err
		case s.Open():
			open = append(open, s.Queue)
		}
	}
	switch {
	case len(failed) > 0 && len(steps) == 1:
		return last
	case len(failed) == len(steps):
		return cli.Codedf(cli.ExitCode(last), "none of %d steps was taken; see above", len(steps))
	case len(failed) > 0:
		return cli.Codedf(cli.ExitPartly, "the steps of %s failed; see above",
			strings.Join(failed, ", "))
	case len(open) > 0:
		return cli.Codedf(cli.ExitRefused,
			"the breaker of %s is open, because its consumer is unhealthy; see: tenaq redrive status %s",
			strings.Join(open, ", "), open[0])
	case len(met) > 0:
		return cli.Codedf(cli.ExitRefused,
			"another redriver took a step for %s at the same time; nothing is lost",
			strings.Join(met, ", "))
	}
	return nil
}
