package outbox

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tenaq/internal/cli"
	"tenaq/internal/observe/monitor"
	"tenaq/outbox"
)

type outboxRelayFlags struct {
	*flags
	cli.ClientFlags
	cli.BodiesFlags
	cli.MetricsFlags
	cli.PushFlags

	queues                                 []string
	parallel, rows, attempts               int
	lease, retryBase, retryMax, keep, poll string
	once, untilEmpty                       bool
	log                                    cli.LogFlags
}

func newOutboxRelayCmd(a *cli.App, o *flags) *cobra.Command {
	f := &outboxRelayFlags{flags: o}
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Send the rows of an outbox to their queues",
		Long: `Send the rows of an outbox to their queues, until a signal ends it or, with --once or --until-empty, until
nothing is left to send. Any number of relays may run on one outbox, on any number of machines.

A row goes to the queue that it names. --queue says where rows go whose name for a queue is not that of the
queue. A row that was committed is sent at least once, and every time with the same deduplication id and the
same key for workers. Rows of one group are sent in the order of their commits.

A row that its queue refuses is tried again after a pause that doubles, and is parked when it was refused
--attempts times. That a queue is missing or cannot be reached, or refuses the credentials, is not the fault
of a row: it stays and is sent when the queue takes it. Rows for other queues do not wait for it.

The first SIGTERM or interrupt makes the relay claim nothing more, finish the requests that are under way,
and give the rest back; the second ends it at once. What a dead relay had in hand is sent by others after
--lease.

The log is on standard error: what needs attention, once a minute what was done, and with --log-level debug a
line for each row. It has no bodies.

--once sends what is due and ends. It leaves a queue that does not take messages after five attempts.
--until-empty goes on until nothing is pending at all: it waits for queues, for rows whose time has not come,
for next attempts and for other relays. Parked rows are not waited for. Both say how many rows were sent. The
exit code is 5 when others were parked, refused, or left because of their queue; 1 when none was sent.

Rows are removed when --keep has passed since they were sent.

` + outboxHelp + `

` + cli.BodiesHelp + `

` + cli.MetricsHelp,
		Example: `  tenaq outbox relay --db postgres://app@db.example.com/app
  tenaq outbox relay --db sqlite:app.db --queue orders=orders-v2 --queue mails=https://sqs.us-east-1.amazonaws.com/123456789012/mails
  tenaq outbox relay --aws --region eu-central-1 --keep 168h --parallel 32
  tenaq outbox relay --bodies dir:/mnt/bodies
  tenaq outbox relay --metrics-listen :9328
  tenaq outbox relay --once      # from cron`,
		Args: cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), a, cmd.Flags())
		},
	}
	f.ClientFlags.Register(cmd)
	f.BodiesFlags.Register(cmd)
	f.MetricsFlags.Register(cmd)
	f.PushFlags.Register(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.queues, "queue", nil, "send rows for NAME to QUEUE, its name or URL, as `NAME=QUEUE`; may be repeated")
	flags.IntVar(&f.parallel, "parallel", 8, "have this `number` of requests under way at most")
	flags.IntVar(&f.rows, "rows", 400, "have this `number` of rows in hand at most")
	flags.StringVar(&f.lease, "lease", "30s", "others take over the rows of a dead relay after this `duration`; at least 3s")
	flags.IntVar(&f.attempts, "attempts", 10, "park a row when its queue has refused it this `number` of times")
	flags.StringVar(&f.retryBase, "retry-base", "1s", "wait up to this `duration` after the first refusal of a row, twice as long after each other")
	flags.StringVar(&f.retryMax, "retry-max", "5m", "wait this `duration` at most after a refusal")
	flags.StringVar(&f.keep, "keep", "720h", "keep rows for this `duration` after they were sent; or forever")
	flags.StringVar(&f.poll, "poll", "5s", "look for rows after this `duration` at the latest, if nothing wakes the relay before")
	flags.BoolVar(&f.once, "once", false, "send what is due, and end")
	flags.BoolVar(&f.untilEmpty, "until-empty", false, "end when no row is pending")
	f.log.Register(flags, "info")
	return cmd
}

// config reads the flags. What is missing is the outbox, the client and whom to tell.
func (f *outboxRelayFlags) config(flags *pflag.FlagSet) (cfg outbox.Config, err error) {
	cfg = outbox.Config{Parallel: f.parallel, Rows: f.rows, Attempts: f.attempts, Queues: map[string]string{}}
	for _, name := range []string{"parallel", "rows", "attempts"} { // zero would be the default
		if n, _ := flags.GetInt(name); n < 1 {
			return cfg, cli.Usagef("--%s: %d is not a number of at least 1", name, n)
		}
	}
	for _, d := range []struct {
		name, text string
		to         *time.Duration
	}{
		{"lease", f.lease, &cfg.Lease}, {"retry-base", f.retryBase, &cfg.RetryBase}, {"retry-max", f.retryMax, &cfg.RetryMax},
		{"keep", f.keep, &cfg.Keep}, {"poll", f.poll, &cfg.Poll},
	} {
		if d.name == "keep" && d.text == "forever" {
			cfg.Keep = -1
			continue
		}
		if *d.to, err = cli.SomeDuration(d.text); err != nil {
			return cfg, cli.Usagef("--%s: %v", d.name, err)
		}
	}
	switch {
	case f.once && f.untilEmpty:
		return cfg, cli.Usagef("--once and --until-empty exclude each other")
	case cfg.Lease < outboxLeaseMin:
		return cfg, cli.Usagef("--lease: %s is less than %v", f.lease, outboxLeaseMin)
	case cfg.RetryMax < cfg.RetryBase:
		return cfg, cli.Usagef("--retry-max: %s is less than --retry-base, %s", f.retryMax, f.retryBase)
	}
	for _, text := range f.queues {
		name, queue, _ := strings.Cut(text, "=")
		_, twice := cfg.Queues[name]
		switch {
		case name == "" || queue == "":
			return cfg, cli.Usagef("--queue: %q is not NAME=QUEUE", text)
		case twice:
			return cfg, cli.Usagef("--queue: %s is given twice", name)
		case cli.IsQueueARN(queue):
			return cfg, cli.Usagef("--queue: give the name or the URL of the queue, not its ARN, %s", queue)
		}
		cfg.Queues[name] = queue
	}
	return cfg, nil
}

// outboxLeaseMin is what package outbox allows.
const outboxLeaseMin = 3 * time.Second

// run relays until ctx ends or nothing is left to do.
func (f *outboxRelayFlags) run(ctx context.Context, a *cli.App, flags *pflag.FlagSet) error {
	cfg, err := f.config(flags)
	if err != nil {
		return err
	}
	style, err := f.log.Style(a, slog.LevelInfo)
	if err != nil {
		return err
	}
	if cfg.Offload, err = f.Offloader(); err != nil {
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
			if _, err := c.QueueURL(ctx, queue); err != nil { // it asks nobody about a URL
				return err
			}
		}
	}
	o, err := f.Open(ctx)
	if err != nil {
		return err
	}
	defer o.Close()

	running, stop := context.WithCancel(ctx)
	defer stop()
	log := NewLog(style.Logger(a.Stderr))
	counts := NewMetrics(o.Box)
	cfg.Box, cfg.Client, cfg.Logger, cfg.Events = o.Box, counts.client(relayClient{c}), log.Logger, counts.events(log.events())
	var end *end
	if f.once || f.untilEmpty {
		end = NewEnd(o.Box, f.untilEmpty, stop)
		cfg.Box, cfg.Events = end, end.events(cfg.Events)
	}
	relay, err := outbox.NewRelay(cfg)
	if err != nil {
		return cli.Usagef("%v", err)
	}
	metrics.Serve(log.Logger, counts.Write)
	defer metrics.Close() // before the outbox is
	if push, err := f.Enabled(c.Endpoint); err != nil {
		return err
	} else if push && end == nil {
		defer cli.NewPusher(c, monitor.Relays, log.Logger, counts.pushed(o.name())).Start(running)()
	}
	log.Info("relaying", "outbox", o.place.String(), "endpoint", c.Endpoint.String())
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	go log.summaries(running, minute.C)
	err = relay.Run(running)
	log.stopped()
	switch {
	case err != nil:
		return o.place.Explain(err)
	case end != nil:
		return end.verdict(ctx, a, o.place)
	}
	return nil
}

// A relayClient bounds each request, and says its errors in one sentence. A relay still sees what they are.
type relayClient struct{ c *cli.Client }

func (r relayClient) SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	out, err := cli.Call(ctx, r.c, r.c.SendMessageBatch, in, options...)
	return out, r.told("send to", aws.ToString(in.QueueUrl), err)
}

func (r relayClient) GetQueueUrl(ctx context.Context, in *sqs.GetQueueUrlInput, options ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error) {
	out, err := cli.Call(ctx, r.c, r.c.GetQueueUrl, in, options...)
	return out, r.told(lookingUp, aws.ToString(in.QueueName), err)
}

// lookingUp is what a relay says itself, and better.
const lookingUp = "find queue"

func (r relayClient) told(doing, queue string, err error) error {
	if err == nil {
		return nil
	}
	text := r.c.Explain(doing, queue, err).Error()
	return &toldError{strings.TrimPrefix(text, lookingUp+" "+queue+": "), err}
}

// A toldError has the words of explain and the chain of the SDK.
type toldError struct {
	text string
	err  error
}

func (e *toldError) Error() string { return e.text }

func (e *toldError) Unwrap() error { return e.err }
