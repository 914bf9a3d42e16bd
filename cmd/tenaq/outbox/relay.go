package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/work/v1client"
	"tenaq/outbox"
)

type relayFlags struct {
	*flags
	cli.ClientFlags
	cli.BodiesFlags
	cli.MetricsFlags
	cli.PushFlags

	cfg              outbox.Config // what the flags say of it
	queues           []string
	orders           string
	once, untilEmpty bool
	log              cli.LogFlags
}

func newRelayCmd(a *cli.App, o *flags) *cobra.Command {
	f := &relayFlags{flags: o}
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Send the rows of an outbox to their queues",
		Long: `Send the rows of an outbox to their queues until a signal ends the relay, or
with --once or --until-empty until nothing is left to send. Any number of relays
may run on one outbox, on any number of machines.

Every committed row is sent at least once, each time with the same deduplication
id and the same key for workers. Rows of one group are sent in the order of
their commits. If a queue refuses a row, the relay tries again with growing
pauses and sets the row aside after --attempts. If a queue is missing, cannot be
reached or refuses the credentials, its rows wait; rows for other queues are
sent.

At the first SIGTERM or interrupt the relay leases no more rows, finishes its
requests and gives the other rows back; a second one ends it at once. If a relay
dies, other relays send its rows after its --lease. The log goes to standard
error and never contains bodies.

--once sends what is due and ends. If a queue accepts no messages, it gives up
that queue after five attempts. --until-empty ends when no row is pending: it
waits for queues, for rows that are not due yet, for further attempts and for
other relays. Both print how many rows were sent. The exit code is 5 if others
were refused, set aside or left, and 1 if none was sent.

A relay reports the rows that were set aside to a tenaq server, and asks it
every few seconds what its operators order about them. --orders says what the
relay carries out: release sends rows again, all also deletes rows with their
messages. An order is about a row as it was reported. If the row was released
and set aside again since, the order does nothing. A relay with --once,
--until-empty or --push-metrics off reports nothing and takes no orders.

--queue NAME=QUEUE sends rows for NAME to QUEUE, a name or a URL. --keep may be
forever. The pauses between attempts double, from --retry-base to --retry-max.

` + cli.BodiesHelp + `

` + cli.MetricsHelp,
		Example: `  tenaq outbox relay --db postgres://app@db.example.com/app
  tenaq outbox relay --db sqlite:app.db --queue orders=orders-v2 --queue mails=https://sqs.us-east-1.amazonaws.com/123456789012/mails
  tenaq outbox relay --aws --region eu-central-1 --keep 168h --parallel 32
  tenaq outbox relay --metrics-listen :9328 --bodies dir:/mnt/bodies
  tenaq outbox relay --once      # from cron`,
		Args: cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), a)
		},
	}
	f.ClientFlags.Register(cmd)
	f.BodiesFlags.Register(cmd)
	f.MetricsFlags.Register(cmd)
	f.PushFlags.Register(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.queues, "queue", nil,
		"other queue of rows, as `NAME=QUEUE`; repeatable")
	cli.Number(flags, &f.cfg.Parallel, "parallel", 8, 1, 0, "`number` of requests in progress")
	cli.Number(flags, &f.cfg.Rows, "rows", 1000, 1, 0, "`number` of rows in progress")
	cli.SomeTime(flags, &f.cfg.Lease, "lease", "30s", "lease `duration`, at least 3s")
	cli.Number(flags, &f.cfg.Attempts, "attempts", 10, 1, 0, "`number` of refusals until set aside")
	cli.SomeTime(flags, &f.cfg.RetryBase, "retry-base", "1s", "`duration` of first retry pause")
	cli.SomeTime(flags, &f.cfg.RetryMax, "retry-max", "5m", "maximum `duration` of a pause")
	cli.Value(flags, &f.cfg.Keep, "keep", "720h", "keep sent rows this `duration`", parseKeep)
	cli.SomeTime(flags, &f.cfg.Poll, "poll", "5s", "`duration` between two looks")
	cli.Choice(cmd, &f.orders, "orders", "release",
		"`mode`: none, release or all", "none", "release", "all")
	flags.BoolVar(&f.once, "once", false, "send what is due, then end")
	flags.BoolVar(&f.untilEmpty, "until-empty", false, "end when no row is pending")
	f.log.Register(flags, "info")
	return cmd
}

func parseKeep(text string) (time.Duration, error) {
	if text == "forever" {
		return -1, nil
	}
	return cli.SomeDuration(text)
}

// config checks the flags. The result lacks the outbox, the client, events and logs.
func (f *relayFlags) config() (cfg outbox.Config, err error) {
	cfg = f.cfg
	switch {
	case f.once && f.untilEmpty:
		return cfg, cli.Usagef("--once and --until-empty exclude each other; leave one out")
	case cfg.RetryMax < cfg.RetryBase:
		return cfg, cli.Usagef("--retry-max: %s is less than --retry-base, %s",
			cli.HumanDuration(cfg.RetryMax), cli.HumanDuration(cfg.RetryBase))
	}
	if cfg.Queues, err = cli.ParsePairs("--queue", f.queues); err != nil {
		return cfg, err
	}
	for name, queue := range cfg.Queues {
		switch {
		case queue == "":
			return cfg, cli.Usagef(`--queue: "%s=" is not NAME=QUEUE`, name)
		case cli.IsQueueARN(queue):
			return cfg, cli.Usagef("--queue: give the name or the URL of the queue, not its ARN, %s", queue)
		}
	}
	cfg.Offload, err = f.Offloader()
	return cfg, err
}

func (f *relayFlags) run(ctx context.Context, a *cli.App) error {
	cfg, err := f.config()
	if err != nil {
		return err
	}
	metrics, err := f.Listen()
	if err != nil {
		return err
	}
	defer metrics.Close()
	c, err := f.Connect(ctx)
	if err != nil {
		return err
	}
	for _, queue := range cfg.Queues {
		if cli.IsQueueURL(queue) {
			if _, err := c.QueueURL(ctx, queue); err != nil {
				return err
			}
		}
	}
	o, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer o.Close()

	log, counts := f.log.Style(a, slog.LevelInfo).Logger(a.Stderr), NewMetrics(o)
	cfg.Box, cfg.Client, cfg.Logger, cfg.Events = o, client{c, counts}, log, counts.events(log)
	relay, err := outbox.New(cfg)
	if err != nil {
		return cli.Usagef("%v", err)
	}
	metrics.Serve(log, counts.Write)
	defer metrics.Close() // before the outbox is
	ends := f.once || f.untilEmpty
	if f.Enabled(c.Endpoint) && !ends {
		defer cli.NewPusher(c, monitor.Relays, log, counts.pushed(o.name())).Start(ctx)()
		takes := ordersTaken[f.orders]
		defer newReporter(o, v1client.New(c.Client), counts, log, takes).start(ctx)()
	}
	log.Info("relaying", "outbox", o.place.String(), "endpoint", c.Endpoint.String())
	running, stop := context.WithCancel(ctx)
	defer stop()
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	go counts.summaries(running, log, minute.C)
	var sick []string
	if ends {
		sick, err = relay.Drain(ctx, f.untilEmpty)
	} else {
		err = relay.Run(ctx)
	}
	log.Info("stopped", counts.relayed().attributes()...)
	if ends && !errors.Is(err, outbox.ErrSchema) {
		return o.verdict(ctx, a, counts, sick, err)
	}
	return explain(o.place, err)
}

type verdict struct {
	Sent    int64 `json:"sent"`
	Refused int   `json:"refused"` // and to be tried again
	Parked  int64 `json:"parked"`
	Left    *int  `json:"left"` // due rows of queues that took nothing; null if unknown
}

// verdict prints what was done, and makes an error of what was not. failure is that of the relay.
func (o *openOutbox) verdict(
	ctx context.Context, a *cli.App, m *Metrics, sick []string, failure error,
) error {
	var left outbox.Stats
	if len(sick) > 0 && failure == nil {
		left, failure = o.Stats(ctx)
	}
	m.mu.Lock()
	v := verdict{Sent: m.sent.Value(), Refused: len(m.pending), Parked: m.parked.Value()}
	m.mu.Unlock()
	var bad []string
	add := func(is bool, format string, args ...any) {
		if is {
			bad = append(bad, fmt.Sprintf(format, args...))
		}
	}
	add(v.Parked > 0, "%d set aside, see: %s", v.Parked, parkedList)
	add(v.Refused > 0, "%d refused, to be tried again", v.Refused)
	switch {
	case errors.Is(failure, context.Canceled):
		add(true, "interrupted")
	case failure != nil:
		add(true, "the outbox does not say what is left: %v", explain(o.place, failure))
	default:
		v.Left = &left.Due
		add(left.Due > 0, "%d left, because a queue accepts no messages now: %s; see above", left.Due,
			strings.Join(sick, ", "))
	}
	if err := a.Result(v, "sent %s", rowsText(int(v.Sent))); err != nil || len(bad) == 0 {
		return err
	}
	code := cli.ExitPartly
	if v.Sent == 0 {
		code = cli.ExitFailed
	}
	return cli.Codedf(code, "not all rows were sent: %s", strings.Join(bad, "; "))
}
