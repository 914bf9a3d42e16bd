// Package pipe has the command that runs a program, or calls an address, for each message of a queue. Package
// worker/pipe runs the tasks; this package reads flags, writes the log and says how a run ended.
package pipe

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/worker"
	"tenaq/worker/pipe"
)

const pipeHelp = `Give each message of a queue to a program, and delete it when its work is done: run COMMAND for it, or make a
request to --http. What does the work need not know anything about queues. Several workers may share a
queue, on one machine or on many.

A COMMAND finds the body on its standard input and what else there is to know in its environment: TENAQ_KEY,
TENAQ_EFFECT_KEY (an idempotency key), TENAQ_FENCE, TENAQ_ATTEMPT, TENAQ_MESSAGE_ID, TENAQ_GENERATION,
TENAQ_RECEIVES, TENAQ_REDRIVES, TENAQ_LINEAGE, TENAQ_GROUP, TENAQ_QUEUE_URL and TENAQ_SENT. The file
TENAQ_METADATA_FILE has the same as JSON, with the message attributes. What it writes to the file
TENAQ_RESULT_FILE, at most 128 KiB, is recorded as the result. Its exit code decides:

  0              done
  65             poison: to the dead-letter queue at once
  75             later: the message comes back after --pause, and no attempt is counted
  anything else  a failed attempt; the end of what it printed is the reason

A COMMAND that cannot be started is no attempt: the worker keeps the message and tries again. If COMMAND is
missing at the start, or TMPDIR (default /tmp) is not a directory that this user can write to, the exit code
is 2.

What it prints goes to standard output, each line with the key in front. When it has ended, what it left
running in its process group is killed.

With --http the body is sent with POST, and the rest in headers: Idempotency-Key, Tenaq-Key, Tenaq-Fence and
so on. 2xx is done, with the answer as the result; 422 is poison; 429 and 503 with Retry-After are later, and
so is an address that cannot be reached; anything else is a failed attempt. With --lambda messages go in
batches, as the event that AWS Lambda calls a function with, and batchItemFailures in the answer are
understood.

A message is hidden from other workers for as long as its task runs, and for --lease after this worker dies.
Its work runs under a claim on its key: never twice at once, and not again when it is done. A failed attempt
is tried again after a pause, and after --attempts the message goes to the dead-letter queue with the
reason. The key is what a producer of tenaq called the work; else, on a FIFO queue, the deduplication id; else
the id of the first message. --key takes it out of the message. Keys are one space for all queues that share
records: where two queues mean different work by the same key, give one a --ledger of its own.

With --once the worker ends when there is nothing to receive and no task runs. The exit code is 0 if the queue
is then empty. It is 8 if messages are left that cannot be received yet: hidden by a pause before the next
attempt or by another worker, or delayed. The last line says how many, and until when this worker's own pauses
last. --until-empty waits for them.

The log on standard error has a line for everything that happens to a message, and one at the end that counts.
SIGTERM and SIGINT end it: tasks that run may go on for --drain, are told to stop, and the exit code is 0. A
second signal ends it at once.

With --bodies a task gets the body that is kept beside the queue. While the directory cannot be read such a
message is given back, and no attempt is counted. A body that is not there is a failed attempt; with --key,
which may have to look into it, the message goes to the dead-letter queue at once. With --delete-bodies the
body of a message that is done is removed after it.

` + cli.RecordsHelp + `

` + cli.BodiesHelp + `

` + cli.MetricsHelp

type pipeFlags struct {
	cli.ClientFlags
	cli.RecordsFlags
	cli.BodiesFlags
	cli.MetricsFlags

	concurrency, batchSize, prefetch, attempts int
	lease, taskTimeout, drain                  string
	retryBase, retryMax                        string
	deadLetter, key, ledger                    string
	noClaims, once, untilEmpty, deleteBodies   bool

	grace, pause string
	noOutput     bool

	http    string
	lambda  bool
	headers []string

	log cli.LogFlags
}

func NewCmd(a *cli.App) *cobra.Command {
	f := &pipeFlags{}
	cmd := &cobra.Command{
		Use:   "pipe QUEUE [flags] [-- COMMAND [ARG]...]",
		Short: "Give each message to a program, and delete it when its work is done",
		Long:  pipeHelp,
		Example: `  tenaq pipe orders -- ./charge-card --currency eur
  tenaq pipe files --key body.file.id --concurrency 4 --task-timeout 1h -- sh -c 'convert - "$TENAQ_KEY.png"'
  tenaq pipe orders --records postgres://app@db.example.com/app --http http://127.0.0.1:8080/charge
  tenaq pipe orders --http http://127.0.0.1:9000/2015-03-31/functions/function/invocations --lambda
  tenaq pipe reports --once -- ./send-report       # from cron: ends when there is nothing to receive
  tenaq pipe accounts --bodies dir:/mnt/bodies -- ./import
  tenaq pipe orders --metrics-listen :9326 -- ./charge-card`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			queue, program, err := splitPipeArgs(cmd, args)
			if err != nil {
				return err
			}
			cfg, err := f.config()
			if err != nil {
				return err
			}
			handler, err := f.handler(a, cmd, program)
			if err != nil {
				return err
			}
			if cfg.Offload, err = f.Offloader(); err != nil {
				return err
			}
			if cfg.DeleteBodies = f.deleteBodies; f.deleteBodies && cfg.Offload == nil {
				return cli.Usagef("--delete-bodies: nobody has said where bodies are; do so with --bodies")
			}
			return f.run(cmd.Context(), a, queue, cfg, handler)
		},
	}
	f.ClientFlags.Register(cmd)
	f.RecordsFlags.Register(cmd)
	f.BodiesFlags.Register(cmd)
	f.MetricsFlags.Register(cmd)
	flags := cmd.Flags()
	f.log.Register(flags, "info")
	flags.IntVar(&f.concurrency, "concurrency", 10, "how many tasks run at once, as a `number`")
	flags.IntVar(&f.attempts, "attempts", 3, "dead-letter a message after this `number` of failed attempts")
	flags.IntVar(&f.prefetch, "prefetch", 0, "hold this `number` of messages more than can be worked on at once")
	flags.StringVar(&f.lease, "lease", "60s", "how long after the death of this worker its messages come back, as a `duration` of at least 3s")
	flags.StringVar(&f.taskTimeout, "task-timeout", "11h", "tell a task to stop that runs for longer than this `duration`")
	flags.StringVar(&f.drain, "drain", "30s", "after a signal, let tasks run on for this `duration`")
	flags.StringVar(&f.retryBase, "retry-base", "2s", "the pause before the second attempt is at most about this `duration`, and doubles with every other")
	flags.StringVar(&f.retryMax, "retry-max", "15m", "the longest pause between two attempts, as a `duration`")
	flags.StringVar(&f.deadLetter, "dead-letter", "", "the `queue` for what has used up its attempts (default: that of the redrive policy)")
	flags.StringVar(&f.key, "key", "", "what names the work of a message: body.`PATH`, with dots, into a body that is JSON, or attribute:NAME")
	flags.StringVar(&f.ledger, "ledger", "claim/", "`prefix` of the keys of the ledger of claims")
	flags.BoolVar(&f.noClaims, "no-claims", false, "work without a ledger: at least once, and attempts are receives")
	flags.BoolVar(&f.once, "once", false, "end when there is nothing to receive and no task runs; exit 8 if messages are left")
	flags.BoolVar(&f.untilEmpty, "until-empty", false, "end when the queue holds nothing any more, hidden messages included")
	flags.BoolVar(&f.deleteBodies, "delete-bodies", false, "with --bodies: remove the body of a message that is done, which nothing else may point to")
	flags.StringVar(&f.grace, "grace", "10s", "kill a task that was told to stop after this `duration`")
	flags.StringVar(&f.pause, "pause", "60s", "give a message back for this `duration` when its task says later and not when")
	flags.BoolVar(&f.noOutput, "no-output", false, "do not print what tasks print")
	flags.StringVar(&f.http, "http", "", "make a request to this `URL` for each message")
	flags.BoolVar(&f.lambda, "lambda", false, "with --http: send batches, as AWS Lambda does")
	flags.IntVar(&f.batchSize, "batch-size", 10, "with --lambda: messages in a batch at most, as a `number` up to 10")
	flags.StringArrayVar(&f.headers, "header", nil, "with --http: a header of every request, as `NAME:VALUE`, where VALUE may be @FILE; may be repeated")
	return cmd
}

// splitPipeArgs tells the queue from the command behind the two dashes.
func splitPipeArgs(cmd *cobra.Command, args []string) (queue string, program []string, err error) {
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		args, program = args[:dash], args[dash:]
	}
	switch len(args) {
	case 0:
		return "", nil, cli.Usagef("%s needs the name of a queue; usage: %s", cmd.CommandPath(), cmd.UseLine())
	case 1:
		return args[0], program, nil
	}
	return "", nil, cli.Usagef("%s does not take %q; put the command behind two dashes: %s %s -- %s",
		cmd.CommandPath(), args[1], cmd.CommandPath(), args[0], strings.Join(args[1:], " "))
}

// config reads the flags that say how to work.
func (f *pipeFlags) config() (worker.Config, error) {
	cfg := worker.Config{
		Concurrency: f.concurrency, BatchSize: f.batchSize, Prefetch: f.prefetch, Attempts: f.attempts, NoClaims: f.noClaims,
	}
	for _, n := range []struct {
		flag  string
		value int
	}{{"concurrency", f.concurrency}, {"attempts", f.attempts}, {"batch-size", f.batchSize}} {
		if n.value < 1 {
			return cfg, cli.Usagef("--%s: %d is not a number of at least 1", n.flag, n.value)
		}
	}
	if f.once && f.untilEmpty {
		return cfg, cli.Usagef("--once and --until-empty exclude each other")
	}
	err := parseDurations([]durationFlag{
		{"lease", f.lease, &cfg.Lease},
		{"task-timeout", f.taskTimeout, &cfg.Timeout},
		{"drain", f.drain, &cfg.Drain},
		{"retry-base", f.retryBase, &cfg.RetryBase},
		{"retry-max", f.retryMax, &cfg.RetryMax},
	})
	if err == nil && f.key != "" {
		cfg.Key, err = parseKey(f.key)
	}
	return cfg, err
}

// handler reads the flags that say what is to be done with a message.
func (f *pipeFlags) handler(a *cli.App, cmd *cobra.Command, program []string) (worker.Handler, error) {
	var grace, pause, drain time.Duration
	err := parseDurations([]durationFlag{{"grace", f.grace, &grace}, {"pause", f.pause, &pause}, {"drain", f.drain, &drain}})
	switch {
	case err != nil:
		return nil, err
	case f.http != "" && len(program) > 0:
		return nil, cli.Usagef("a command and --http exclude each other")
	case f.http != "":
		return f.endpoint(pause)
	case len(program) == 0:
		return nil, cli.Usagef("there is nothing to give the messages to; add -- and a command, or --http URL")
	case f.lambda || len(f.headers) > 0 || cmd.Flags().Changed("batch-size"):
		return nil, cli.Usagef("--lambda, --header and --batch-size are for --http")
	case grace >= drain:
		return nil, cli.Usagef("--grace must be shorter than --drain, or tasks that were told to stop are given up before they are killed")
	}
	c := &pipe.Command{Args: program, Grace: grace, Pause: pause}
	if err := c.Check(); err != nil {
		return nil, cli.Usagef("%v", err)
	}
	// The address is this program's own: a task that runs another one would find it taken.
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, cli.MetricsVariable+"=") })
	if !f.noOutput {
		c.Output = a.Stdout
	}
	return c, nil
}

// endpoint is the handler for --http.
func (f *pipeFlags) endpoint(pause time.Duration) (worker.Handler, error) {
	u, err := url.Parse(f.http)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, cli.Usagef("--http: %q is not a URL such as http://127.0.0.1:8080/path", f.http)
	}
	header := make(http.Header)
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, ":")
		if name, value = strings.TrimSpace(name), strings.TrimSpace(value); !ok || name == "" {
			return nil, cli.Usagef("--header: %q is not of the form NAME:VALUE", h)
		}
		if file, ok := strings.CutPrefix(value, "@"); ok {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, cli.Usagef("--header: %v", err)
			}
			value = strings.TrimSpace(string(text))
		}
		header.Add(name, value)
	}
	if f.lambda {
		return &pipe.Lambda{URL: f.http, Header: header, Pause: pause}, nil
	}
	return &pipe.HTTP{URL: f.http, Header: header, Pause: pause}, nil
}

// A durationFlag is a flag that is a duration, and where it goes.
type durationFlag struct {
	name, value string
	to          *time.Duration
}

func parseDurations(flags []durationFlag) error {
	for _, f := range flags {
		d, err := cli.ParseDuration(f.value)
		if err == nil && d == 0 {
			err = fmt.Errorf("%q is not more than zero", f.value)
		}
		if err != nil {
			return cli.Usagef("--%s: %v", f.name, err)
		}
		*f.to = d
	}
	return nil
}
