package main

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
)

type doctorFlags struct {
	clientFlags
	settings    settingFlags
	metricsURLs []string
	limit       int
	strict      bool
	verbose     bool
}

// doctorQueuesMax bounds the queues of an account that are looked at: each is at least one request.
const doctorQueuesMax = 10_000

func newDoctorCmd(a *app) *cobra.Command {
	f := &doctorFlags{}
	cmd := &cobra.Command{
		Use:   "doctor [QUEUE]...",
		Short: "Find what will wake somebody at night: disk, clock, endpoint, settings of queues",
		Long: `Find what will wake somebody at night, before it does. Nothing is changed, and no message is received.

  machine    of a server on this machine, or of the directory given with --data-dir: how long a forced write
             takes, free space, file system, memory and open files. A file of at most 1 MiB is written into
             the directory and removed. The store of a running server is not opened
  clock      against the clock of the endpoint, and whether it is being set while this runs
  endpoint   what answers there, whether queue URLs lead back to it, region, variables that contradict each
             other, credentials that cannot be meant
  queues     settings that contradict each other, in the queues that are named or in all of them

Settings are read from the attributes of queues, so they are checked on Amazon SQS too. What has to be
measured is read from the metrics of the server when it is the one of this configuration, and from every
address given with --metrics-url, such as the admin address of a server or the --metrics-listen of workers.

Each check is ok, a warning, a problem, or not checked, and says why. What is ok is shown with --verbose.
Exit code 1 means that there is a problem; with --strict a warning is enough.`,
		Example: `  tenaq doctor
  tenaq doctor orders orders-dlq
  tenaq doctor --aws --region eu-west-1 --strict
  tenaq doctor --data-dir /var/lib/tenaq --metrics-url http://127.0.0.1:9325/metrics
  tenaq doctor --json | jq -r '.findings[] | select(.state == "problem") | .says'`,
		Args: wants(0, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.limit < 1 || f.limit > doctorQueuesMax {
				return usagef("--limit: %d is not a number from 1 to %d", f.limit, doctorQueuesMax)
			}
			d, err := f.doctor(a)
			if err != nil {
				return err
			}
			return d.run(cmd.Context(), args)
		},
	}
	f.clientFlags.register(cmd)
	flags := cmd.Flags()
	f.settings.registerSome(flags, "data-dir", "disk-reserve")
	flags.StringArrayVar(&f.metricsURLs, "metrics-url", nil, "read measurements from the /metrics at this `URL`, of a server or of workers; may be repeated")
	flags.IntVar(&f.limit, "limit", 1000, "look at no more than this `number` of queues")
	flags.BoolVar(&f.strict, "strict", false, "exit with 1 for warnings too")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "show what is ok as well")
	return cmd
}

// A doctor looks at one endpoint, and at what is on this machine of it.
type doctor struct {
	*app
	flags    *doctorFlags
	settings *configuration
	endpoint endpoint
	region   string
	getenv   func(string) string
	http     *http.Client
	client   *client // nil when there are no credentials for it

	kind endpointKind
	look probe
	seen []finding
}

func (f *doctorFlags) doctor(a *app) (*doctor, error) {
	settings, err := f.settings.load()
	if err != nil {
		return nil, err
	}
	e, err := f.resolve()
	if err != nil {
		return nil, err
	}
	timeout, err := parseDuration(f.timeout)
	if err != nil || timeout == 0 {
		return nil, usagef("--timeout: %q is not a duration such as 15s", f.timeout)
	}
	return &doctor{
		app: a, flags: f, settings: settings, endpoint: e, getenv: os.Getenv,
		region: cmp.Or(resolveRegion(f.region, os.Getenv), defaultRegion),
		http:   &http.Client{Timeout: timeout},
	}, nil
}

// run does all checks and prints what they found.
func (d *doctor) run(ctx context.Context, queues []string) error {
	started := time.Now()
	steps := &clockSteps{}
	d.examineMachine(ctx)
	steps.look(time.Now())
	d.examineEndpoint(ctx)
	steps.look(time.Now())
	if d.client != nil {
		if err := d.examineQueues(ctx, queues); err != nil {
			return err
		}
	}
	steps.look(time.Now())
	d.find("clock", "clock steps", steps.check())
	if ctx.Err() != nil {
		return codedf(exitFailed, "interrupted")
	}
	report := newDoctorReport(d.endpoint.String(), d.seen)
	report.Seconds = time.Since(started).Seconds()
	if err := d.printReport(report); err != nil {
		return err
	}
	return report.verdict(d.flags.strict)
}

// find notes what a check has found. A check that does not apply has found nothing.
func (d *doctor) find(subject, check string, f finding) {
	if f.State == "" {
		return
	}
	f.Subject, f.Check = subject, check
	d.seen = append(d.seen, f)
}

// verdict is the error that the findings deserve.
func (r *doctorReport) verdict(strict bool) error {
	switch {
	case r.Problems > 0:
		return codedf(exitFailed, "%s; each says what to do", counted(r.Problems, "problem", "problems"))
	case strict && r.Warnings > 0:
		return codedf(exitFailed, "%s, and --strict; each says what to do", counted(r.Warnings, "warning", "warnings"))
	}
	return nil
}
