package alarms

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/cmd/tenaq/doctor"
	"tenaq/internal/cli"
)

// The least time between two readings. Alarms go by minutes, and Amazon charges for each request.
const watchIntervalLeast = 10 * time.Second

type watchFlags struct {
	cli.ClientFlags
	prefix     string
	parking    []string
	config     string
	limit      int
	interval   string
	alarms     string
	ageMax     string
	flightMax  int64
	backlogMin int64
	cloudWatch string
	commands   []string
	webhooks   []string
	once       bool
}

// webhookVariable says in the environment what --webhook says: the URL is often a secret, and command lines are seen by
// everybody on a machine.
const webhookVariable = "TENAQ_WEBHOOK"

func NewWatchCmd(a *cli.App) *cobra.Command {
	f := &watchFlags{}
	cmd := &cobra.Command{
		Use:   "watch [QUEUE]...",
		Short: "Watch queues of any SQS endpoint, and tell when something is wrong",
		Long: `Watch the queues that are named with their dead-letter queues, those with a prefix, or all, and print a line
whenever an alarm begins or ends. Nothing is received, so it works beside any consumers, on every SQS
endpoint; a tenaq server also has alarms of its own, see "tenaq alarms".

  dead-letters     there are messages in a dead-letter queue or a parking lot
  oldest-age       the oldest message of another queue is older than --age-max, where an age is known: a tenaq
                   server tells it, CloudWatch does
  in-flight-limit  more than --in-flight-max messages are in flight for 5 minutes
  backlog-grows    at least --backlog-min messages wait, and become more for 15 minutes
  double-deletes   within 15 minutes there were 1.05 times as many deletes as sends, by CloudWatch. A backlog
                   that is worked off looks the same; docs/operations/watch.md says what this number is worth
  unreachable      three readings in a row did not succeed; this one there always is

A queue counts as one of dead letters when a redrive policy names it as its target, when its name ends like
OrdersDLQ, orders-dead-letters or ParkingLotQueue, when --parking names it, or when the section redrive: of
the file that --config names does. A queue of --parking is watched in any case.

Ages and deletes are asked of CloudWatch where it answers, in one GetMetricData for each reading, with at most
500 metrics: Amazon charges for each, and CloudWatch is some minutes late. If the credentials do not allow it
that is said once, and the rest goes on; --cloudwatch=off does not ask.

Each alarm ends with commands that show more. --exec runs a command with the alarm as JSON on its standard
input; --webhook, or the environment variable TENAQ_WEBHOOK, posts {"text": ...} as Slack and others take it.
Both are tried up to four times, 30 seconds each, one after the other. Nothing that stands in a message is
told to anybody.

With --once it ends after a reading, or after as many as the alarms given with --alarms need, with exit code 1
if something is in alarm. Unless told otherwise, those are taken that need only one.`,
		Example: `  tenaq watch
  tenaq watch orders mail --age-max 10m --webhook https://hooks.example.com/services/T0/B0
  tenaq watch orders --parking undecided-orders
  tenaq watch --aws --prefix prod- --exec 'jq -r .alarm | logger -t tenaq'
  tenaq watch --once || echo "something is wrong"
  tenaq watch --json --alarms dead-letters,oldest-age`,
		Args: cli.Wants(0, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := f.watcher(cmd.Context(), a, args)
			if err != nil {
				return err
			}
			return w.run(cmd.Context())
		},
	}
	f.ClientFlags.Register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.prefix, "prefix", "", "watch only queues whose names begin with this `text`")
	flags.StringArrayVar(&f.parking, "parking", nil, "watch this `queue` as a parking lot; may be repeated")
	flags.StringVar(&f.config, "config", "", "read from this YAML `file` which queues are redriven and where they park")
	flags.IntVar(&f.limit, "limit", 1000, "watch no more than this `number` of queues")
	flags.StringVar(&f.interval, "interval", "60s", "read the queues once in this `duration`, at least 10s")
	flags.StringVar(&f.alarms, "alarms", "", "watch only for these `names`, separated by commas")
	flags.StringVar(&f.ageMax, "age-max", "1h", "how old the oldest message may be, a `duration`")
	flags.Int64Var(&f.flightMax, "in-flight-max", 100_000, "how many messages of a queue may be in flight, a `number`; SQS refuses more than 120000")
	flags.Int64Var(&f.backlogMin, "backlog-min", 100, "the `number` of waiting messages below which a backlog may grow")
	flags.StringVar(&f.cloudWatch, "cloudwatch", "auto", "ask CloudWatch: auto, where it answers, or off")
	flags.StringArrayVar(&f.commands, "exec", nil, "run this `command` of the shell when an alarm begins or ends; may be repeated")
	flags.StringArrayVar(&f.webhooks, "webhook", nil, "post to this `URL` when an alarm begins or ends; may be repeated (default $TENAQ_WEBHOOK)")
	flags.BoolVar(&f.once, "once", false, "look once and exit: with 1 if something is in alarm")
	return cmd
}

// watcher makes a watcher of the flags.
func (f *watchFlags) watcher(ctx context.Context, a *cli.App, names []string) (*watcher, error) {
	interval, err := cli.ParseDuration(f.interval)
	switch {
	case err != nil:
		return nil, cli.Usagef("--interval: %v", err)
	case interval < watchIntervalLeast:
		return nil, cli.Usagef("--interval: %q is less than %s", f.interval, cli.HumanDuration(watchIntervalLeast))
	case interval > time.Hour:
		return nil, cli.Usagef("--interval: %q is more than an hour", f.interval)
	case f.prefix != "" && len(names) > 0:
		return nil, cli.Usagef("--prefix and the names of queues exclude each other")
	case f.limit < 1 || f.limit > doctor.QueuesMax:
		return nil, cli.Usagef("--limit: %d is not a number from 1 to %d", f.limit, doctor.QueuesMax)
	case f.flightMax < 0:
		return nil, cli.Usagef("--in-flight-max: %d is negative", f.flightMax)
	case f.backlogMin < 0:
		return nil, cli.Usagef("--backlog-min: %d is negative", f.backlogMin)
	case f.cloudWatch != "auto" && f.cloudWatch != "off":
		return nil, cli.Usagef("--cloudwatch: %q is neither auto nor off", f.cloudWatch)
	}
	limits := watchLimits{interval: interval, flightMax: f.flightMax, backlogMin: f.backlogMin}
	if limits.ageMax, err = cli.ParseDuration(f.ageMax); err != nil {
		return nil, cli.Usagef("--age-max: %v", err)
	}
	kinds, err := f.kinds()
	if err != nil {
		return nil, err
	}
	actions, err := f.actions()
	if err != nil {
		return nil, err
	}
	c, err := f.Connect(ctx)
	if err != nil {
		return nil, err
	}
	source, err := f.watchedSource(ctx, c, names)
	if err != nil {
		return nil, err
	}
	source.said = a.Note
	return newWatcher(a, source, kinds, limits, actions, f.once), nil
}

// kinds are the alarms that are watched for.
func (f *watchFlags) kinds() ([]*watchKind, error) {
	var chosen []*watchKind
	var known []string
	for i := range watchKinds {
		k := &watchKinds[i]
		known = append(known, k.name)
		if f.alarms == "" && (!f.once || k.needs == 0) || slices.Contains(cli.SplitList(f.alarms), k.name) {
			chosen = append(chosen, k)
		}
	}
	for _, name := range cli.SplitList(f.alarms) {
		if !slices.Contains(known, name) {
			return nil, cli.Usagef("--alarms: there is no alarm %q%s; there are %s", name, cli.DidYouMean(name, known), strings.Join(known, ", "))
		}
	}
	if len(chosen) == 0 {
		return nil, cli.Usagef("--alarms: names no alarm; there are %s", strings.Join(known, ", "))
	}
	return chosen, nil
}

// actions are what to do when an alarm begins or ends.
func (f *watchFlags) actions() ([]watchAction, error) {
	var actions []watchAction
	for _, command := range f.commands {
		if strings.TrimSpace(command) == "" {
			return nil, cli.Usagef("--exec: the command is empty")
		}
		actions = append(actions, execAction(command))
	}
	webhooks, origin := f.webhooks, "--webhook"
	if url := os.Getenv(webhookVariable); len(webhooks) == 0 && url != "" {
		webhooks, origin = []string{url}, webhookVariable
	}
	for _, url := range webhooks {
		if !cli.IsQueueURL(url) { // nothing of it is shown: it may be a secret
			return nil, cli.Usagef("%s: this is not a URL that begins with https:// or http://", origin)
		}
		actions = append(actions, webhookAction(url))
	}
	return actions, nil
}

// A watcher reads queues again and again, and says when the state of an alarm changes.
type watcher struct {
	*cli.App
	source  watchSource
	kinds   []*watchKind
	limits  watchLimits
	once    bool
	judge   *watchJudge
	runner  *watchRunner
	failed  int // readings in a row
	reached bool
}

func newWatcher(a *cli.App, source watchSource, kinds []*watchKind, limits watchLimits, actions []watchAction, once bool) *watcher {
	return &watcher{
		App: a, source: source, kinds: kinds, limits: limits, once: once,
		judge: newWatchJudge(kinds, limits, source.commands), runner: newWatchRunner(a, actions),
	}
}

// run watches until ctx ends; with --once, until the alarms are decided. Actions that are due then are still run, within
// a time.
func (w *watcher) run(ctx context.Context) error {
	acting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	go w.runner.run(acting)
	err := w.watch(ctx)
	patience := watchGoodbye
	if w.once {
		patience = watchAttempts * 2 * watchAttemptMax
	}
	if lost := w.runner.finish(patience, cancel); lost > 0 && err == nil {
		err = cli.Codedf(cli.ExitPartly, "%s not delivered; what happened is printed above", cli.Counted(lost, "notice was", "notices were"))
	}
	return err
}

func (w *watcher) watch(ctx context.Context) error {
	started := time.Now()
	needs := w.needs()
	if w.once && needs > 0 {
		w.Note("this takes %s: some alarms are decided by what happens meanwhile", cli.HumanDuration(needs))
	}
	ticker := time.NewTicker(w.limits.interval)
	defer ticker.Stop()
	for {
		if err := w.read(ctx); err != nil && ctx.Err() == nil && (w.once || !w.reached) {
			return err
		}
		if w.once && ctx.Err() == nil && time.Since(started) >= needs {
			return w.verdict()
		}
		select {
		case <-ctx.Done():
			if w.once {
				return cli.Codedf(cli.ExitFailed, "interrupted before the alarms were decided")
			}
			return nil
		case <-ticker.C:
		}
	}
}

// needs is how long it takes until all alarms are decided.
func (w *watcher) needs() time.Duration {
	var longest time.Duration
	for _, k := range w.kinds {
		longest = max(longest, k.needs)
	}
	return longest
}

// read takes a reading, and tells what has changed.
func (w *watcher) read(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, max(w.limits.interval, time.Minute))
	defer cancel()
	queues, err := w.source.queues(limited)
	now := time.Now()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		if w.failed++; w.failed == 1 {
			w.Note("cannot read the queues: %s; it is tried again", cli.OneLine(err.Error()))
		}
		if w.reached {
			w.tell(w.judge.unreachable(now, w.failed, err))
		}
		return err
	}
	if !w.reached && !w.once {
		w.Note("watching %s at %s every %s", cli.Counted(len(queues), "queue", "queues"), w.source.where(), cli.HumanDuration(w.limits.interval))
	}
	w.reached, w.failed = true, 0
	w.tell(w.judge.reading(now, queues))
	return nil
}

// tell prints what has changed, and has the actions run.
func (w *watcher) tell(changes []watchNotice) {
	for _, n := range changes {
		if w.JSON {
			_ = w.PrintJSONLine(n)
		} else {
			fmt.Fprintln(w.Stdout, w.line(n))
		}
		w.runner.hand(n)
	}
}

// line is a change as one line.
func (w *watcher) line(n watchNotice) string {
	colour, off := doctor.Colour(w.App, doctor.IsOK), ""
	if n.State == watchAlarm {
		colour = doctor.Colour(w.App, doctor.IsProblem)
	}
	if colour != "" {
		off = "\x1b[0m"
	}
	text := fmt.Sprintf("%s  %s%-5s%s  %s  %s", n.At.UTC().Format(time.RFC3339), colour, n.State, off, cli.OneLine(n.Alarm), cli.OneLine(n.Reason))
	if n.State == watchAlarm && len(n.Commands) > 0 {
		text += "; see: " + cli.OneLine(strings.Join(n.Commands, "; "))
	}
	return text
}

// verdict is how a look with --once ends.
func (w *watcher) verdict() error {
	switch n := w.judge.inAlarm(); n {
	case 0:
		w.Note("nothing is in alarm at %s", w.source.where())
		return nil
	default:
		return cli.Codedf(cli.ExitFailed, "%s", cli.Counted(n, "alarm", "alarms"))
	}
}
