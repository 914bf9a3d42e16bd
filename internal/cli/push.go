package cli

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/spf13/cobra"

	"tenaq/internal/observe/monitor"
)

// Redrivers and relays push a few numbers to their server every minute, with PutMetricData. The
// server has alarms on them, above all on their silence, which they cannot report themselves.

// pushEvery is a minute of the alarms.
const pushEvery = time.Minute

type Pushed struct {
	Name, About string // about is a queue or an outbox
	Value       float64
}

type PushFlags struct{ push string }

func (f *PushFlags) Register(cmd *cobra.Command) {
	Choice(cmd, &f.push, "push-metrics", "auto", "push `mode`: on, off or auto",
		"on", "off", "auto")
}

// Enabled reports whether to push. Amazon charges for metrics, so auto means off there.
func (f *PushFlags) Enabled(e Endpoint) bool {
	return f.push == "on" || f.push == "auto" && !e.IsAmazon()
}

type pusher struct {
	by     monitor.Teller
	client *cloudwatch.Client
	logger *slog.Logger
	read   func() []Pushed
}

// NewPusher makes a client for the endpoint of another.
func NewPusher(c *Client, by monitor.Teller, logger *slog.Logger, read func() []Pushed) *pusher {
	o := c.Options()
	return &pusher{by: by, logger: logger, read: read, client: cloudwatch.New(cloudwatch.Options{
		BaseEndpoint: o.BaseEndpoint, Region: o.Region, Credentials: o.Credentials,
		Retryer: o.Retryer, HTTPClient: o.HTTPClient,
	})}
}

// Start pushes until ctx is done or stop is called.
func (p *pusher) Start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { p.run(ctx) })
	return func() { cancel(); running.Wait() }
}

// run pushes every minute until ctx is done. It logs the first failure only: other servers may not
// accept metrics, and the rest of the command reports a server that cannot be reached.
func (p *pusher) run(ctx context.Context) {
	complained := false
	for {
		if err := p.Once(ctx); err != nil && ctx.Err() == nil && !complained {
			complained = true
			p.logger.Info("the endpoint accepts no metrics, so it cannot raise alarms about this process", "error", err)
		}
		if Pause(ctx, pushEvery); ctx.Err() != nil {
			return
		}
	}
}

// Once pushes all numbers in one request, which has room for a thousand.
func (p *pusher) Once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	in := &cloudwatch.PutMetricDataInput{Namespace: aws.String(string(p.by))}
	for _, n := range p.read() {
		metric := p.by.Metric(n.Name, n.About)
		in.MetricData = append(in.MetricData, types.MetricDatum{
			MetricName: &metric.Name, Value: aws.Float64(n.Value),
			Dimensions: []types.Dimension{{Name: &metric.Dimensions[0].Name,
				Value: &metric.Dimensions[0].Value}},
		})
	}
	if len(in.MetricData) == 0 {
		return nil
	}
	_, err := p.client.PutMetricData(ctx, in)
	return err
}
