package main

import (
	"context"
	"net"
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
	if !answers(ctx, "http://"+s.Addr()) {
		return
	}
	for ctx.Err() == nil {
		h, err := section.host(ctx, s.Addr(), c)
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

// host opens the records and makes a client of the server.
func (s *redriveSection) host(ctx context.Context, addr string, c *configuration) (*redriveHost, error) {
	store, err := s.records.open(ctx)
	if err != nil {
		return nil, err
	}
	h, err := newRedriveHost(frontDoor(addr, c.Region), store, s.ledger, s.noClaims, c.Logger.With("component", "redrive"))
	if err != nil {
		_ = store.Close()
	}
	return h, err
}

// frontDoor is a client of the server that listens at an address of this process.
func frontDoor(addr, region string) *client {
	if host, port, err := net.SplitHostPort(addr); err == nil && net.ParseIP(host).IsUnspecified() {
		addr = net.JoinHostPort("127.0.0.1", port)
	}
	e := endpoint{url: "http://" + addr, origin: "its own address"}
	return &client{
		Client: sqs.New(sqs.Options{
			BaseEndpoint: &e.url, Region: region, Retryer: newRetryer(),
			Credentials: credentials.NewStaticCredentialsProvider(openID, openSecret, ""), // it checks none
		}),
		endpoint: e,
		timeout:  15 * time.Second,
	}
}
