package main

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/monitor"
	"tenaq/internal/server"
)

// A server can redrive its own dead letters. It does so through its own front door, as any other program
// would, so nothing in it knows about redriving.

// recordsRetry is how long a hosted redriver waits for records that cannot be opened. The queue does not.
const recordsRetry = time.Minute

// redriveHosted runs the redrivers of the configuration file until ctx ends, once the server answers. What they do
// is counted.
func (a *app) redriveHosted(ctx context.Context, s *server.Server, c *configuration, counts *redriveMetrics) {
	section := c.file.redrive
	logger := c.Logger.With("component", "redrive")
	if !answers(ctx, s) {
		return
	}
	door := frontDoor(s, c)
	for ctx.Err() == nil {
		h, err := section.host(ctx, door, c)
		if err != nil {
			logger.Warn("nothing is redriven for now", "error", err, "again-in", recordsRetry)
			pause(ctx, recordsRetry)
			continue
		}
		counts.reach(h)
		var loops []*redriveLoop
		for _, spec := range section.specs {
			logger.Info("redriving", "queue", spec.deadLetter, "parking", spec.parking, "schedule", spec.schedule.text)
			loops = append(loops, newRedriveLoop(h, spec, func(step redriveStep) {
				counts.note(step)
				logStep(logger, &step)
			}))
		}
		stop := newPusher(h.client, monitor.Redrivers, logger, counts.pushed).start(ctx)
		runRedrivers(ctx, loops)
		stop()
		counts.reach(nil)
		h.close()
	}
}

// host opens the records, for the queues behind a door.
func (s *redriveSection) host(ctx context.Context, door *client, c *configuration) (*redriveHost, error) {
	store, err := s.records.open(ctx)
	if err != nil {
		return nil, err
	}
	h, err := newRedriveHost(door, store, s.ledger, s.noClaims, c.Logger.With("component", "redrive"))
	if err != nil {
		_ = store.Close()
	}
	return h, err
}

// frontDoor is a client of the server of this process. Where there are credentials it has a key of its own.
func frontDoor(s *server.Server, c *configuration) *client {
	id, secret := openID, openSecret
	if c.Credentials != nil {
		key := c.Credentials.Own("redrive")
		id, secret = key.ID, key.Secret.Reveal()
	}
	url := s.URL()
	return &client{
		Client: sqs.New(sqs.Options{
			BaseEndpoint: &url, Region: c.Region, Retryer: newRetryer(), HTTPClient: s.HTTPClient(),
			Credentials: credentials.NewStaticCredentialsProvider(id, secret, ""),
		}),
		endpoint: endpoint{url: url, origin: "its own address"},
		timeout:  15 * time.Second,
	}
}
