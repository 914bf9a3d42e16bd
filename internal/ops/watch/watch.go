// Package watch watches the queues of any SQS endpoint from outside, and reports alarms that begin
// or end.
//
// It receives no message, so it runs beside any consumers. It evaluates the same rules as a tenaq
// server, on what queue attributes, a tenaq server and CloudWatch report. A notice is printed first
// and handed to the actions afterwards, which never delay a reading. Nothing that a message
// contains becomes part of a notice.
package watch

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"tenaq/internal/cli"
	"tenaq/internal/observe/alarm"
)

// webhookVariable replaces --webhook: the URL is often a secret, and every user of a machine sees
// its command lines.
const webhookVariable = "TENAQ_WEBHOOK"

// Config configures a Watcher.
type Config struct {
	Connect cli.ClientFlags
	Queues  []string // by name; empty for all that begin with Prefix
	Prefix  string
	Parking []string // parking lots to watch besides
	// dead-letter queues and parking lots that the configuration of a redriver names
	Redriven []string
	Limit    int // queues to watch
	Limits   Limits
	// by name; empty for all, and with Once for those that one reading decides
	Alarms       []string
	NoCloudWatch bool
	Commands     []string // of the shell, to run with each notice
	Webhooks     []string // URLs to post each notice to; empty for that of TENAQ_WEBHOOK
	Once         bool     // end when all alarms are decided
}

// New connects to the endpoint and finds the queues.
func New(ctx context.Context, a *cli.App, cfg Config) (*Watcher, error) {
	if cfg.Prefix != "" && len(cfg.Queues) > 0 {
		return nil, cli.Usagef("--prefix and the names of queues exclude each other; leave one out")
	}
	kinds, err := cfg.kinds()
	if err != nil {
		return nil, err
	}
	actions, err := cfg.actions()
	if err != nil {
		return nil, err
	}
	c, err := cfg.Connect.Connect(ctx)
	if err != nil {
		return nil, err
	}
	source, err := cfg.source(ctx, c)
	if err != nil {
		return nil, err
	}
	source.said = a.Note
	return newWatcher(a, source, kinds, cfg.Limits, actions, cfg.Once), nil
}

func (cfg *Config) kinds() ([]*watchKind, error) {
	var chosen []*watchKind
	var known []string
	for i := range watchKinds {
		k := &watchKinds[i]
		known = append(known, k.name)
		if len(cfg.Alarms) == 0 && (!cfg.Once || k.needs == 0) ||
			slices.Contains(cfg.Alarms, k.name) {
			chosen = append(chosen, k)
		}
	}
	for _, name := range cfg.Alarms {
		if !slices.Contains(known, name) {
			return nil, cli.Usagef("--alarms: there is no alarm %q%s; there are %s", name,
				cli.DidYouMean(name, known), strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

func (cfg *Config) actions() ([]action, error) {
	var actions []action
	for _, command := range cfg.Commands {
		if strings.TrimSpace(command) == "" {
			return nil, cli.Usagef("--exec: the command is empty")
		}
		actions = append(actions, execAction(command))
	}
	webhooks, origin := cfg.Webhooks, "--webhook"
	if url := os.Getenv(webhookVariable); len(webhooks) == 0 && url != "" {
		webhooks, origin = []string{url}, webhookVariable
	}
	for _, url := range webhooks {
		if !cli.IsQueueURL(url) { // nothing of it is shown: it may be a secret
			return nil, cli.Usagef("%s: the URL does not begin with https:// or http://",
				origin)
		}
		actions = append(actions, webhookAction(url))
	}
	return actions, nil
}

// A Watcher reads queues again and again, and reports when the state of an alarm changes.
type Watcher struct {
	*cli.App
	source  source
	kinds   []*watchKind
	limits  Limits
	once    bool
	judge   *judge
	runner  *runner
	failed  int // readings in a row
	reached bool
}

func newWatcher(
	a *cli.App, source source, kinds []*watchKind, limits Limits, actions []action, once bool,
) *Watcher {
	return &Watcher{
		App: a, source: source, kinds: kinds, limits: limits, once: once,
		judge: newJudge(kinds, limits, source.commands), runner: newRunner(a, actions),
	}
}

// Run watches until ctx ends or, with Once, until the alarms are decided. It still runs the actions
// that wait then, for a bounded time.
func (w *Watcher) Run(ctx context.Context) error {
	acting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	go w.runner.run(acting)
	err := w.watch(ctx)
	patience := farewell
	if w.once {
		patience = attempts * 2 * attemptMax
	}
	if lost := w.runner.finish(patience, cancel); lost > 0 && err == nil {
		err = cli.Codedf(cli.ExitPartly, "%s not delivered; see above",
			cli.Counted(lost, "notice was", "notices were"))
	}
	return err
}

func (w *Watcher) watch(ctx context.Context) error {
	started := time.Now()
	needs := w.needs()
	if w.once && needs > 0 {
		w.Note("this takes %s, because some alarms need more than one reading",
			cli.HumanDuration(needs))
	}
	ticker := time.NewTicker(w.limits.Interval)
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

func (w *Watcher) needs() time.Duration {
	var longest time.Duration
	for _, k := range w.kinds {
		longest = max(longest, k.needs)
	}
	return longest
}

// read takes a reading and reports the changes.
func (w *Watcher) read(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, max(w.limits.Interval, time.Minute))
	defer cancel()
	queues, err := w.source.queues(limited)
	now := time.Now()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		if w.failed++; w.failed == 1 {
			w.Note("cannot read the queues: %s; retrying", cli.OneLine(err.Error()))
		}
		if w.reached {
			w.tell(w.judge.unreachable(now, w.failed, err))
		}
		return err
	}
	if !w.reached && !w.once {
		w.Note("watching %s at %s every %s", cli.Counted(len(queues), "queue", "queues"),
			w.source.where(), cli.HumanDuration(w.limits.Interval))
	}
	w.reached, w.failed = true, 0
	w.tell(w.judge.reading(now, queues))
	return nil
}

// tell prints changes and hands them to the actions.
func (w *Watcher) tell(changes []Notice) {
	for _, n := range changes {
		if w.JSON {
			_ = w.PrintJSONLine(n)
		} else {
			fmt.Fprintln(w.Stdout, w.line(n))
		}
		w.runner.hand(n)
	}
}

func (w *Watcher) line(n Notice) string {
	colour := cli.Green
	if n.State == alarm.Alarm {
		colour = cli.Red
	}
	text := fmt.Sprintf("%s  %s  %s  %s", n.At.UTC().Format(time.RFC3339),
		w.Painted(colour, fmt.Sprintf("%-5s",
			n.State)), cli.OneLine(n.Alarm), cli.OneLine(n.Reason))
	if n.State == alarm.Alarm && len(n.Commands) > 0 {
		text += "; see: " + cli.OneLine(strings.Join(n.Commands, "; "))
	}
	return text
}

func (w *Watcher) verdict() error {
	switch n := w.judge.inAlarm(); n {
	case 0:
		w.Note("no alarm at %s", w.source.where())
		return nil
	default:
		return cli.Codedf(cli.ExitRefused, "%s in the state ALARM",
			cli.Counted(n, "alarm is", "alarms are"))
	}
}
