// Package doctor examines an endpoint, its queues and this machine for settings and conditions that
// cause trouble later.
//
// It changes nothing and receives no message. Each check returns a Finding: what was found, with
// its figures, and what to do about it. A check never fails for lack of data; it reports that it
// was not done, and why. Printing and exit codes are left to the command.
package doctor

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"time"

	"tenaq/internal/cli"
	"tenaq/internal/settings"
)

// QueuesMax bounds the queues of an account that are examined: each costs at least one request.
const QueuesMax = 10_000

// Config configures a Doctor.
type Config struct {
	Connect  cli.ClientFlags         // the endpoint to examine
	Settings *settings.Configuration // the server configuration of this machine
	// where to read measurements, besides the server of Settings
	MetricsURLs []string
	Limit       int // queues to examine, at most QueuesMax
}

// A Doctor examines one endpoint, and the part of it that runs on this machine.
type Doctor struct {
	Endpoint cli.Endpoint
	Region   string
	HTTP     *http.Client

	connect     cli.ClientFlags
	settings    *settings.Configuration
	metricsURLs []string
	limit       int
	getenv      func(string) string
	client      *cli.Client // nil when there are no credentials for it

	kind endpointKind
	look probe
	seen []Finding
}

// New resolves the endpoint. It sends no request.
func New(c Config) (*Doctor, error) {
	e, err := c.Connect.Resolve()
	if err != nil {
		return nil, err
	}
	return &Doctor{
		Endpoint: e, HTTP: &http.Client{Timeout: c.Connect.Timeout},
		Region:  cmp.Or(cli.ResolveRegion(c.Connect.Region, os.Getenv), cli.DefaultRegion),
		connect: c.Connect, settings: c.Settings, metricsURLs: c.MetricsURLs, limit: c.Limit,
		getenv: os.Getenv,
	}, nil
}

// Examine runs all checks. Without names it examines all queues of the endpoint, up to the limit.
func (d *Doctor) Examine(ctx context.Context, queues []string) (*Report, error) {
	started := time.Now()
	steps := &clockSteps{}
	d.examineMachine(ctx)
	d.find("machine, node of a cluster", "certificate",
		checkIdentity(d.settings.ClusterIdentity, time.Now()))
	steps.look(time.Now())
	d.examineEndpoint(ctx)
	steps.look(time.Now())
	if d.kind == KindTenaq {
		d.examineCluster(ctx)
	}
	if d.client != nil {
		if err := d.examineQueues(ctx, queues); err != nil {
			return nil, err
		}
	}
	steps.look(time.Now())
	d.find("clock", "clock steps", steps.check())
	if ctx.Err() != nil {
		return nil, cli.Codedf(cli.ExitFailed, "interrupted")
	}
	report := newReport(d.Endpoint.String(), d.seen)
	report.Seconds = time.Since(started).Seconds()
	return report, nil
}

// find records a finding. The zero Finding says that the check does not apply.
func (d *Doctor) find(subject, check string, f Finding) {
	if f.State == "" {
		return
	}
	f.Subject, f.Check = subject, check
	d.seen = append(d.seen, f)
}
