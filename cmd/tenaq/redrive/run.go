package redrive

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/redrivehost"
)

type redriveRunFlags struct {
	*redriveFlags
	redrivehost.PolicyFlags
	cli.MetricsFlags
	cli.PushFlags

	parking, target, schedule, look string
	createParking, once             bool
	log                             cli.LogFlags
}

func newRedriveRunCmd(a *cli.App, r *redriveFlags) *cobra.Command {
	f := &redriveRunFlags{redriveFlags: r}
	cmd := &cobra.Command{
		Use:   "run QUEUE... --parking QUEUE",
		Short: "Redrive the messages of dead-letter queues",
		Long: `Redrive the messages of dead-letter queues, until a signal ends it or, with --once, for one step.

A step asks what has become of the messages that were sent earlier, and then decides about the dead letters:
to send them back with a delay, to hold them for now, or to park them. Each message goes to the queue it came
from, or to --target. Several queues are redriven side by side with one parking lot; one that fails is tried
again and does not stop the others. Any number of these programs may run: they share what they know in the
records.

By default the ledger says what has become of a message, where workers of package worker or "tenaq pipe"
leave their claims. For other workers add --no-claims: a message that is a dead letter again has failed. A
tenaq server says which messages were deleted, and those count as done. On any other server a message that
has not come back after its visibility timeout and one step counts as half a success.

` + redrivehost.ScheduleHelp + `

On standard error there is a line for each message that is sent on and for each step in which something
happened; on a terminal one line that moves, and what needs attention. With --json there is one object per
step on standard output.

With --once nothing else knows how often that is: say so with --schedule, by which steps are known to be near
each other. The exit code is 4 when the breaker is open after the step, or when another redriver was at work
at the same time. With several queues it is 5 when some of them failed.

` + cli.RecordsHelp + `

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
	flags.StringVar(&f.parking, "parking", "", "the parking lot: a `queue` for what is not to be redriven, of the same kind as the dead-letter queue")
	flags.BoolVar(&f.createParking, "create-parking", false, "create the parking lot if it does not exist; it keeps messages for 14 days")
	flags.StringVar(&f.target, "target", "", "redrive everything to this `queue` (default: where each message came from)")
	flags.StringVar(&f.schedule, "schedule", redrivehost.ScheduleDefault, "when to take steps: rate(N minutes), five fields of cron, or continuous, as a `schedule`")
	flags.StringVar(&f.look, "look", "", "hide messages that were looked at for this `duration` (default 2m, or half the time between two steps if that is less)")
	flags.BoolVar(&f.once, "once", false, "take one step and end")
	f.log.Register(flags, "info; warn on a terminal or with --json")
	f.PolicyFlags.Register(flags)
	f.MetricsFlags.Register(cmd)
	f.PushFlags.Register(cmd)
	return cmd
}

// specs reads the flags.
func (f *redriveRunFlags) specs(queues []string) ([]redrivehost.Spec, error) {
	if f.parking == "" {
		return nil, cli.Usagef("there is no parking lot for what is not to be redriven; add --parking QUEUE")
	}
	s, err := f.spec()
	if err != nil {
		return nil, err
	}
	var specs []redrivehost.Spec
	for _, queue := range queues {
		name := cli.QueueNameOf(queue)
		if slices.ContainsFunc(specs, func(o redrivehost.Spec) bool { return cli.QueueNameOf(o.DeadLetter) == name }) {
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

// spec reads what is the same for all queues.
func (f *redriveRunFlags) spec() (s redrivehost.Spec, err error) {
	s = redrivehost.Spec{Parking: f.parking, Target: f.target, CreateParking: f.createParking}
	if s.Schedule, err = redrivehost.ParseSchedule(f.schedule); err != nil {
		return s, cli.Usagef("--schedule: %v", err)
	}
	if f.look != "" {
		if s.Look, err = cli.SomeDuration(f.look); err != nil {
			return s, cli.Usagef("--look: %v", err)
		}
	}
	s.Policy, err = f.Policy()
	return s, err
}

// run takes steps for all queues.
func (f *redriveRunFlags) run(ctx context.Context, a *cli.App, specs []redrivehost.Spec) error {
	teller, err := teller(&f.log, a)
	if err != nil {
		return err
	}
	metrics, err := f.Listen()
	if err != nil {
		return err
	}
	defer metrics.Close()
	h, err := f.host(ctx, teller.logger, f.Open)
	if err != nil {
		return err
	}
	defer h.Close()
	counts := redrivehost.NewMetrics(specs)
	counts.Reach(h)
	metrics.Serve(teller.logger, counts.Write)
	defer metrics.Close() // before the records are
	if push, err := f.Enabled(h.Client.Endpoint); err != nil {
		return err
	} else if push && f.once {
		// Only the parking lots are told: a single step says nothing about the silence that follows. The step reports an
		// endpoint that does not answer.
		var telling sync.WaitGroup
		telling.Go(func() { _ = cli.NewPusher(h.Client, monitor.Redrivers, teller.logger, counts.Lots).Once(ctx) })
		defer telling.Wait()
	} else if push {
		defer cli.NewPusher(h.Client, monitor.Redrivers, teller.logger, counts.Pushed).Start(ctx)()
	}
	var loops []*redrivehost.Loop
	for _, s := range specs {
		loops = append(loops, redrivehost.NewLoop(h, s, func(step redrivehost.Step) {
			counts.Note(step)
			teller.tell(step, &s)
		}))
	}
	if f.once {
		return redriveOnce(ctx, loops)
	}
	if err := findAll(ctx, loops, teller.logger); err != nil {
		return err
	}
	teller.begin(specs)
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { teller.watch(watching) })
	redrivehost.Run(ctx, loops)
	stop()
	watch.Wait()
	return nil
}

// findAll finds the queues of all loops. That of one may be missing for now; when none is there it had better
// be said at once.
func findAll(ctx context.Context, loops []*redrivehost.Loop, logger *slog.Logger) error {
	missing := 0
	var last error
	for _, l := range loops {
		if err := l.Find(ctx); err != nil {
			missing, last = missing+1, err
			if len(loops) > 1 {
				logger.Warn("not redriven for now", "queue", cli.QueueNameOf(l.Spec.DeadLetter), "error", err)
			}
		}
	}
	switch {
	case missing == 1 && len(loops) == 1:
		return last
	case missing == len(loops):
		return cli.Codedf(cli.ExitCode(last), "none of %d queues can be redriven; see above", missing)
	}
	return nil
}

// redriveOnce takes one step for each queue and says how it went.
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

// onceVerdict makes the exit code of --once.
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
		return cli.Codedf(cli.ExitPartly, "the steps of %s failed; see above", strings.Join(failed, ", "))
	case len(open) > 0:
		return cli.Codedf(cli.ExitRefused, "the breaker of %s is open, because its consumer is sick; see: tenaq redrive status %s", strings.Join(open, ", "), open[0])
	case len(met) > 0:
		return cli.Codedf(cli.ExitRefused, "another redriver was at work on %s; nothing is lost", strings.Join(met, ", "))
	}
	return nil
}

// A redriveTeller tells of steps: as JSON, on a terminal, or in a log.
type redriveTeller struct {
	*cli.App
	logger *slog.Logger
	board  *redriveBoard // nil unless there is a terminal

	mu sync.Mutex // one document after the other
}

// newRedriveTeller makes one for a command without flags for its log.
func newRedriveTeller(a *cli.App) *redriveTeller {
	t, _ := teller((&cli.LogFlags{}), a) // only flags can be wrong
	return t
}

func teller(f *cli.LogFlags, a *cli.App) (*redriveTeller, error) {
	t := &redriveTeller{App: a}
	board, usual := newRedriveBoard(a), slog.LevelInfo
	if a.JSON || board.p.Terminal { // steps are shown in another way
		usual = slog.LevelWarn
	}
	style, err := f.Style(a, usual)
	if err != nil {
		return nil, err
	}
	if board.p.Terminal && !a.JSON {
		t.board, t.logger = board, style.Logger(board)
	} else {
		t.logger = style.Logger(a.Stderr)
	}
	return t, nil
}

// begin says what is going to be done.
func (t *redriveTeller) begin(specs []redrivehost.Spec) {
	for _, s := range specs {
		t.logger.Info("redriving", "queue", cli.QueueNameOf(s.DeadLetter), "parking", cli.QueueNameOf(s.Parking), "schedule", s.Schedule.Text)
	}
}

func (t *redriveTeller) tell(s redrivehost.Step, spec *redrivehost.Spec) {
	if t.JSON {
		t.mu.Lock()
		defer t.mu.Unlock()
		_ = t.PrintJSONLine(newStepDocument(&s, &spec.Policy)) // who reads it may have gone; the work goes on
		return
	}
	if s.Err == nil || !s.Next.IsZero() { // else it is what the command ends with
		redrivehost.LogStep(t.logger, &s)
	}
	if t.board != nil {
		t.board.note(s)
		t.board.draw(time.Now())
	}
}

// watch keeps the line of a terminal moving until ctx ends.
func (t *redriveTeller) watch(ctx context.Context) {
	if t.board == nil {
		return
	}
	defer t.board.done()
	for ctx.Err() == nil {
		t.board.draw(time.Now())
		cli.Pause(ctx, time.Second)
	}
}
