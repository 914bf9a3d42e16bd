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

// Redrivers and relays tell the server whose queues they work on a few numbers every minute, with the calls of CloudWatch:
// a server has alarms on them, above all on their silence, which they cannot tell themselves.

// pushEvery is a minute of the alarms.
const pushEvery = time.Minute

// A Pushed is one of these numbers.
type Pushed struct {
	Name, About string // about is a queue or an outbox
	Value       float64
}

// PushFlags say whether a command does so.
type PushFlags struct{ push string }

func (f *PushFlags) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.push, "push-metrics", "auto", "tell the endpoint every minute how things are, with PutMetricData, for its alarms: `on`, off, or auto for on but with Amazon")
}

// Enabled tells whether it should. Amazon wants money for metrics, so there one has to ask for it.
func (f *PushFlags) Enabled(e Endpoint) (bool, error) {
	switch f.push {
	case "on":
		return true, nil
	case "off":
		return false, nil
	case "auto":
		return !e.IsAmazon(), nil
	}
	return false, Usagef("--push-metrics: %q is none of on, off and auto", f.push)
}

// A pusher tells the numbers that read returns, in one namespace.
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
		BaseEndpoint: o.BaseEndpoint, Region: o.Region, Credentials: o.Credentials, Retryer: o.Retryer, HTTPClient: o.HTTPClient,
	})}
}

// Start tells until ctx is done or the function is called that it returns.
func (p *pusher) Start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { p.run(ctx) })
	return func() { cancel(); running.Wait() }
}

// run tells every minute until ctx is done. A server that does not want to know, such as another than ours, is told of
// once; one that cannot be reached is what the rest of the command complains about.
func (p *pusher) run(ctx context.Context) {
	complained := false
	for {
		if err := p.Once(ctx); err != nil && ctx.Err() == nil && !complained {
			complained = true
			p.logger.Info("the endpoint takes no metrics, so it has no alarms on this process", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pushEvery):
		}
	}
}

// Once tells all numbers. They are few: a request has room for a thousand.
func (p *pusher) Once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	in := &cloudwatch.PutMetricDataInput{Namespace: aws.String(string(p.by))}
	for _, n := range p.read() {
		metric := p.by.Metric(n.Name, n.About)
		in.MetricData = append(in.MetricData, types.MetricDatum{
			MetricName: &metric.Name, Value: aws.Float64(n.Value),
			Dimensions: []types.Dimension{{Name: &metric.Dimensions[0].Name, Value: &metric.Dimensions[0].Value}},
		})
	}
	if len(in.MetricData) == 0 {
		return nil
	}
	_, err := p.client.PutMetricData(ctx, in)
	return err
}
