package serve

import (
	"context"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/cli"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/redrivehost"
	"tenaq/internal/server"
	"tenaq/internal/settings"
)

// A server can redrive its own dead letters. It does so through its own API, as any other program
// would, so no other part of it knows about redriving.

// recordsRetry is how long a hosted redriver waits for records that cannot be opened. The server
// does not wait.
const recordsRetry = time.Minute

// redriveHosted runs the redrivers of the configuration file until ctx ends, once the server
// answers, and counts their steps.
func redriveHosted(
	ctx context.Context, s *server.Server, c *settings.Configuration, counts *redrivehost.Metrics,
	shown *redrivers,
) {
	section := c.File.Redrive
	logger := c.Logger.With("component", "redrive")
	if !answers(ctx, s) {
		return
	}
	door := frontDoor(s, c)
	for ctx.Err() == nil {
		h, err := openHost(ctx, section, door, logger)
		if err != nil {
			logger.Warn("redriving is suspended", "error", err, "retry_in", recordsRetry)
			shown.reach(nil, err)
			cli.Pause(ctx, recordsRetry)
			continue
		}
		counts.Reach(h)
		shown.reach(h, nil)
		var loops []*redrivehost.Loop
		for _, spec := range section.Specs {
			logger.Info("redriving", "queue", spec.DeadLetter, "parking", spec.Parking, "schedule",
				spec.Schedule.Text)
			loops = append(loops, redrivehost.NewLoop(h, spec, func(step redrivehost.Step) {
				counts.Note(step)
				shown.note(step)
				redrivehost.LogStep(logger, &step)
			}))
		}
		stop := cli.NewPusher(h.Client, monitor.Redrivers, logger, counts.Pushed).Start(ctx)
		redrivehost.Run(ctx, loops)
		stop()
		counts.Reach(nil)
		shown.reach(nil, errNotRunning)
		h.Close()
	}
}

func openHost(
	ctx context.Context, s *settings.RedriveSection, door *cli.Client, logger *slog.Logger,
) (*redrivehost.Host, error) {
	flags := cli.RecordsFlags{Address: s.Records.Address,
		Connect: func(context.Context) (*cli.Client, error) { return door, nil }}
	store, err := flags.OpenLogged(ctx, logger)
	if err != nil {
		return nil, err
	}
	return redrivehost.NewHost(door, store, s.Ledger, s.NoClaims, logger)
}

// frontDoor is a client of the server in this process, with a key of its own if the server has
// credentials.
func frontDoor(s *server.Server, c *settings.Configuration) *cli.Client {
	id, secret := cli.OpenID, cli.OpenSecret
	if c.Credentials != nil {
		key := c.Credentials.Own("redrive")
		id, secret = key.ID, key.Secret.Reveal()
	}
	url := s.URL()
	return &cli.Client{
		Client: sqs.New(sqs.Options{
			BaseEndpoint: &url, Region: c.Region, Retryer: cli.NewRetryer(),
			HTTPClient:  s.HTTPClient(),
			Credentials: credentials.NewStaticCredentialsProvider(id, secret, ""),
		}),
		Endpoint: cli.Endpoint{URL: url, Origin: "its own address"},
		Timeout:  15 * time.Second,
	}
}
