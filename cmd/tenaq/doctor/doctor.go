// Package doctor has the command that looks for what will go wrong next: the machine, the clock, the endpoint,
// the settings and the queues. It changes nothing.
package doctor

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/settings"
)

type doctorFlags struct {
	cli.ClientFlags
	settings    settings.SettingFlags
	metricsURLs []string
	limit       int
	strict      bool
	verbose     bool
}

// QueuesMax bounds the queues of an account that are looked at: each is at least one request.
const QueuesMax = 10_000

func NewCmd(a *cli.App) *cobra.Command {
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
		Args: cli.Wants(0, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.limit < 1 || f.limit > QueuesMax {
				return cli.Usagef("--limit: %d is not a number from 1 to %d", f.limit, QueuesMax)
			}
			d, err := f.doctor(a)
			if err != nil {
				return err
			}
			return d.run(cmd.Context(), args)
		},
	}
	f.ClientFlags.Register(cmd)
	flags := cmd.Flags()
	f.settings.RegisterSome(flags, "data-dir", "disk-reserve")
	flags.StringArrayVar(&f.metricsURLs, "metrics-url", nil, "read measurements from the /metrics at this `URL`, of a server or of workers; may be repeated")
	flags.IntVar(&f.limit, "limit", 1000, "look at no more than this `number` of queues")
	flags.BoolVar(&f.strict, "strict", false, "exit with 1 for warnings too")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "show what is ok as well")
	return cmd
}

// A Doctor looks at one endpoint, and at what is on this machine of it.
type Doctor struct {
	*cli.App
	flags    *doctorFlags
	settings *settings.Configuration
	Endpoint cli.Endpoint
	Region   string
	getenv   func(string) string
	HTTP     *http.Client
	client   *cli.Client // nil when there are no credentials for it

	kind endpointKind
	look probe
	seen []finding
}

func (f *doctorFlags) doctor(a *cli.App) (*Doctor, error) {
	settings, err := f.settings.Load()
	if err != nil {
		return nil, err
	}
	e, err := f.Resolve()
	if err != nil {
		return nil, err
	}
	timeout, err := cli.ParseDuration(f.Timeout)
	if err != nil || timeout == 0 {
		return nil, cli.Usagef("--timeout: %q is not a duration such as 15s", f.Timeout)
	}
	return &Doctor{
		App: a, flags: f, settings: settings, Endpoint: e, getenv: os.Getenv,
		Region: cmp.Or(cli.ResolveRegion(f.Region, os.Getenv), cli.DefaultRegion),
		HTTP:   &http.Client{Timeout: timeout},
	}, nil
}

// run does all checks and prints what they found.
func (d *Doctor) run(ctx context.Context, queues []string) error {
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
		return cli.Codedf(cli.ExitFailed, "interrupted")
	}
	report := newDoctorReport(d.Endpoint.String(), d.seen)
	report.Seconds = time.Since(started).Seconds()
	if err := d.printReport(report); err != nil {
		return err
	}
	return report.verdict(d.flags.strict)
}

// find notes what a check has found. A check that does not apply has found nothing.
func (d *Doctor) find(subject, check string, f finding) {
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
		return cli.Codedf(cli.ExitFailed, "%s; each says what to do", cli.Counted(r.Problems, "problem", "problems"))
	case strict && r.Warnings > 0:
		return cli.Codedf(cli.ExitFailed, "%s, and --strict; each says what to do", cli.Counted(r.Warnings, "warning", "warnings"))
	}
	return nil
}
