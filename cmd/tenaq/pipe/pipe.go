// Package pipe has the command that runs a program, or calls an address, for each message of a
// queue. Package worker/pipe runs the tasks; this package reads flags, writes the log and says how
// a run ended.
package pipe

import (
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

const pipeHelp = `Run COMMAND, or send a request to --http, for each message of a queue, and
delete the message when its work is done. The program that does the work does
not need to know about queues. Several workers may share a queue, on one machine
or many.

COMMAND reads the body from standard input. Its environment has TENAQ_KEY,
TENAQ_EFFECT_KEY (an idempotency key), TENAQ_FENCE, TENAQ_ATTEMPT,
TENAQ_MESSAGE_ID, TENAQ_GENERATION, TENAQ_RECEIVES, TENAQ_REDRIVES,
TENAQ_LINEAGE, TENAQ_GROUP, TENAQ_QUEUE_URL and TENAQ_SENT. TENAQ_METADATA_FILE
names a JSON file with the same values and the message attributes. What COMMAND
writes to the file TENAQ_RESULT_FILE, at most 128 KiB, is recorded as the
result. Its exit code decides:

  0              done
  65             poison: move to the dead-letter queue at once
  75             later: retry after --pause, without counting an attempt
  anything else  a failed attempt; the end of its output is the reason

If COMMAND cannot be started, no attempt is counted, and the worker retries. If
COMMAND is missing at the start, or TMPDIR (default /tmp) is not a writable
directory, the exit code is 2. Output of COMMAND goes to standard output, with
the key before each line. Processes that it leaves in its group are killed.

--http sends the body with POST, and the rest in headers: Idempotency-Key,
Tenaq-Key, Tenaq-Fence and so on. 2xx is done, with the response as the result.
422 is poison. 429 and 503 with Retry-After are later, and so is an address that
cannot be reached. Anything else is a failed attempt. --lambda sends batches in
the event format of AWS Lambda, and understands batchItemFailures.

A message is hidden from other workers while its task runs, and for --lease
after this worker dies. The work runs under a claim on its key: never twice at
once, and not again once it is done. A failed attempt is retried after a pause.
After --attempts, the message moves to the dead-letter queue with the reason.

The key is the one that a tenaq producer set; else, on a FIFO queue, the
deduplication id; else the id of the first message. --key takes it from the
message. Queues that share records share keys: if two queues use the same key
for different work, give one of them a --ledger of its own.

--once exits when nothing can be received and no task runs. The exit code is 0
if the queue is then empty, and 8 if it holds messages that cannot be received
yet: hidden by a retry pause or by another worker, or delayed. The last line
counts them, and says when the pauses of this worker end. --until-empty waits
for them.

The log on standard error has a line for each event of a message, and a summary
at the end. SIGTERM and SIGINT stop the worker: tasks may run for --drain, then
are told to stop, and the exit code is 0. A second signal exits at once.

With --bodies, a task gets the body that is kept beside the queue. While the
directory cannot be read, such messages are given back without counting an
attempt. A missing body is a failed attempt; with --key, which may have to read
the body, the message moves to the dead-letter queue at once. --delete-bodies
removes the body of a completed message.

` + cli.RecordsHelp + `

` + cli.BodiesHelp + `

` + cli.MetricsHelp

type pipeFlags struct {
	cli.ClientFlags
	cli.RecordsFlags
	cli.BodiesFlags
	cli.MetricsFlags

	cfg                     worker.Config // what the flags say of it
	deadLetter, key, ledger string
	once, untilEmpty        bool

	grace, pause time.Duration
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
		Short: "Run a program for each message, then delete the message",
		Long:  pipeHelp,
		Example: `  tenaq pipe orders -- ./charge-card --currency eur
  tenaq pipe files --key body.id -- sh -c 'convert - "$TENAQ_KEY.png"'
  tenaq pipe orders --http http://127.0.0.1:8080/charge
  tenaq pipe orders --http http://127.0.0.1:9000/invocations --lambda
  tenaq pipe orders --records postgres://app@db.example.com/app -- ./charge-card
  tenaq pipe reports --once -- ./send-report    # from cron
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
			if cfg.DeleteBodies && cfg.Offload == nil {
				return cli.Usagef("--delete-bodies needs --bodies")
			}
			return f.run(cmd.Context(), a, queue, cfg, handler)
		},
	}
	f.ClientFlags.Register(cmd)
	f.RecordsFlags.Register(cmd)
	f.RecordsFlags.Connect = f.ClientFlags.Connect
	f.BodiesFlags.Register(cmd)
	f.MetricsFlags.Register(cmd)
	flags := cmd.Flags()
	f.log.Register(flags, "info")
	cli.Number(flags, &f.cfg.Concurrency, "concurrency", 10, 1, 0, "`number` of tasks at once")
	cli.Number(flags, &f.cfg.Attempts, "attempts", 3, 1, 0, "maximum `number` of attempts")
	flags.IntVar(&f.cfg.Prefetch, "prefetch", 0, "`number` of messages to prefetch")
	cli.SomeTime(flags, &f.cfg.Lease, "lease", "60s", "`duration` of a message's lease")
	cli.SomeTime(flags, &f.cfg.Timeout, "task-timeout", "11h", "stop a task after this `duration`")
	cli.SomeTime(flags, &f.cfg.Drain, "drain", "30s", "drain `duration` after a signal")
	cli.SomeTime(flags, &f.cfg.RetryBase, "retry-base", "2s", "`duration` of first retry pause")
	cli.SomeTime(flags, &f.cfg.RetryMax, "retry-max", "15m", "maximum `duration` of a pause")
	cli.Text(flags, &f.deadLetter, "dead-letter",
		"dead-letter `queue` (default: redrive policy's)")
	cli.Text(flags, &f.key, "key", "key of a message: body.`PATH` or attribute:NAME")
	flags.StringVar(&f.ledger, "ledger", "claim/", "key `prefix` of the ledger")
	flags.BoolVar(&f.cfg.NoClaims, "no-claims", false,
		"run without a ledger; attempts are receives")
	flags.BoolVar(&f.once, "once", false, "exit when nothing can be received")
	flags.BoolVar(&f.untilEmpty, "until-empty", false, "exit when the queue is empty")
	flags.BoolVar(&f.cfg.DeleteBodies, "delete-bodies", false,
		"remove the bodies of completed messages")
	cli.SomeTime(flags, &f.grace, "grace", "10s", "`duration` from stop to kill")
	cli.SomeTime(flags, &f.pause, "pause", "60s", "postpone by this `duration`")
	flags.BoolVar(&f.noOutput, "no-output", false, "do not print the output of tasks")
	cli.Text(flags, &f.http, "http", "send each message to this `URL`")
	flags.BoolVar(&f.lambda, "lambda", false, "with --http: send batches, as AWS Lambda does")
	cli.Number(flags, &f.cfg.BatchSize, "batch-size", 10, 1, 0,
		"maximum `number` in a --lambda batch")
	flags.StringArrayVar(&f.headers, "header", nil, "HTTP header, `NAME:VALUE` or NAME:@FILE")
	return cmd
}

// splitPipeArgs separates the queue from the command after the two dashes.
func splitPipeArgs(cmd *cobra.Command, args []string) (queue string, program []string, err error) {
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		args, program = args[:dash], args[dash:]
	}
	switch len(args) {
	case 0:
		return "", nil, cli.Usagef("%s needs the name of a queue; usage: %s", cmd.CommandPath(),
			cmd.UseLine())
	case 1:
		return args[0], program, nil
	}
	return "", nil, cli.Usagef("%s does not take %q; put the command behind two dashes: %s %s -- %s",
		cmd.CommandPath(), args[1], cmd.CommandPath(), args[0], strings.Join(args[1:], " "))
}

func (f *pipeFlags) config() (cfg worker.Config, err error) {
	cfg = f.cfg
	if f.once && f.untilEmpty {
		return cfg, cli.Usagef("--once and --until-empty exclude each other; leave one out")
	}
	if f.key != "" {
		cfg.Key, err = parseKey(f.key)
	}
	return cfg, err
}

func (f *pipeFlags) handler(
	a *cli.App, cmd *cobra.Command, program []string,
) (worker.Handler, error) {
	switch {
	case f.http != "" && len(program) > 0:
		return nil, cli.Usagef("a command and --http exclude each other; leave one out")
	case f.http != "":
		return f.endpoint()
	case len(program) == 0:
		return nil, cli.Usagef("no handler for the messages; add -- and a command, or --http URL")
	case f.lambda || len(f.headers) > 0 || cmd.Flags().Changed("batch-size"):
		return nil, cli.Usagef("--lambda, --header and --batch-size need --http")
	case f.grace >= f.cfg.Drain:
		return nil, cli.Usagef("--grace must be shorter than --drain: tasks must be killed before the worker abandons them")
	}
	c := &pipe.Command{Args: program, Grace: f.grace, Pause: f.pause}
	if err := c.Check(); err != nil {
		return nil, cli.Usagef("%v", err)
	}
	// A task that runs another tenaq could not listen on the address of this one.
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, cli.MetricsVariable+"=")
	})
	if !f.noOutput {
		c.Output = a.Stdout
	}
	return c, nil
}

func (f *pipeFlags) endpoint() (worker.Handler, error) {
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
		return &pipe.Lambda{URL: f.http, Header: header, Pause: f.pause}, nil
	}
	return &pipe.HTTP{URL: f.http, Header: header, Pause: f.pause}, nil
}
