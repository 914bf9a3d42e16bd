package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/smithy-go"

	"tenaq/internal/cli"
	"tenaq/internal/observe/series"
)

// Bounds of requests to CloudWatch. It lags by some minutes, and its latest minutes change.
const (
	cloudWatchMetrics = 500 // of one GetMetricData
	cloudWatchBack    = 20 * time.Minute
	cloudWatchPages   = 5
)

var errMoreQueues = errors.New("there are more queues than --limit; name the queues that matter, or raise it")

// A cloudWatch asks for metrics that are not attributes of queues.
type cloudWatch struct {
	api     *cloudwatch.Client
	client  *cli.Client // for its timeout and its words
	wanted  []cloudWatchMetric
	worked  bool
	refused bool // for good
}

type cloudWatchMetric struct {
	id, name, stat string
	take           func(q *watchedQueue, minutes []series.Interval)
}

// connectCloudWatch makes a client for what is watched. ages is whether to ask for ages, too.
func (cfg *Config) connectCloudWatch(
	ctx context.Context, c *cli.Client, ages bool,
) (*cloudWatch, error) {
	kinds, err := cfg.kinds()
	if err != nil {
		return nil, err
	}
	watched := func(name string) bool {
		return slices.ContainsFunc(kinds, func(k *watchKind) bool { return k.name == name })
	}
	w := &cloudWatch{client: c}
	if ages && watched("oldest-age") {
		w.wanted = append(w.wanted,
			cloudWatchMetric{"a", "ApproximateAgeOfOldestMessage", "Maximum", takeAge})
	}
	if watched("double-deletes") {
		w.wanted = append(w.wanted,
			cloudWatchMetric{"s", "NumberOfMessagesSent", "Sum",
				func(q *watchedQueue, m []series.Interval) {
					q.sent = m
				}},
			cloudWatchMetric{"d", "NumberOfMessagesDeleted", "Sum",
				func(q *watchedQueue, m []series.Interval) {
					q.deleted = m
				}})
	}
	if len(w.wanted) == 0 {
		return nil, nil
	}
	settings, err := cli.AWSConfig(ctx, c.Endpoint,
		cli.ResolveRegion(cfg.Connect.Region, os.Getenv))
	if err != nil {
		return nil, err
	}
	w.api = cloudwatch.NewFromConfig(settings, func(o *cloudwatch.Options) {
		o.BaseEndpoint = nil // as for SQS, it has been decided
		if !c.Endpoint.IsAmazon() {
			o.BaseEndpoint = aws.String(c.Endpoint.URL)
		}
	})
	return w, nil
}

// takeAge takes the newest age. A queue without one is empty, or was not used for hours.
func takeAge(q *watchedQueue, minutes []series.Interval) {
	if len(minutes) > 0 {
		age := time.Duration(minutes[len(minutes)-1].Set.Max * float64(time.Second))
		q.age = &age
	}
}

// add adds the metrics of CloudWatch to the queues. After a refusal it does not ask again.
func (w *cloudWatch) add(ctx context.Context, now time.Time, queues []*watchedQueue) error {
	most := cloudWatchMetrics / max(1, len(w.wanted))
	if w.refused || len(queues) == 0 {
		return nil
	}
	asked := queues[:min(len(queues), most)]
	minutes, err := w.ask(ctx, now, asked)
	if err != nil {
		var answer smithy.APIError
		switch {
		case errors.As(err, &answer) && cli.IsCredentialError(cli.ErrorKind(answer)):
			w.refused = true
			return fmt.Errorf("%s, so these metrics are missing: %s; allow cloudwatch:GetMetricData, or set --cloudwatch=off", shortError(err), w.names())
		case !w.worked && !w.client.Endpoint.IsAmazon():
			w.refused = true
			return fmt.Errorf("%s does not answer GetMetricData, so these metrics are missing: %s",
				w.client.Endpoint, w.names())
		}
		return errors.New(shortError(err))
	}
	w.worked = true
	for i, q := range asked {
		for _, m := range w.wanted {
			m.take(q, minutes[fmt.Sprintf("%s%d", m.id, i)])
		}
	}
	if len(asked) < len(queues) {
		return fmt.Errorf("asked about the first %d queues only, because a request has at most %d metrics; name the queues that matter", len(asked), cloudWatchMetrics)
	}
	return nil
}

func (w *cloudWatch) names() string {
	var names []string
	for _, m := range w.wanted {
		names = append(names, m.name)
	}
	return strings.Join(names, ", ")
}

// shortError is the message of a server without the wrappers of the SDK.
func shortError(err error) string {
	var answer smithy.APIError
	if errors.As(err, &answer) {
		return cmp.Or(strings.TrimSuffix(answer.ErrorMessage(), "."), answer.ErrorCode())
	}
	return err.Error()
}

// ask makes one GetMetricData, and returns the minutes of each metric, oldest first, by its id.
func (w *cloudWatch) ask(
	ctx context.Context, now time.Time, queues []*watchedQueue,
) (map[string][]series.Interval, error) {
	in := &cloudwatch.GetMetricDataInput{
		StartTime: aws.Time(now.Add(-cloudWatchBack).Truncate(time.Minute)),
		EndTime:   aws.Time(now.Truncate(time.Minute).Add(time.Minute)),
		ScanBy:    types.ScanByTimestampAscending,
	}
	for i, q := range queues {
		for _, m := range w.wanted {
			in.MetricDataQueries = append(in.MetricDataQueries, types.MetricDataQuery{
				Id: aws.String(fmt.Sprintf("%s%d", m.id, i)),
				MetricStat: &types.MetricStat{
					Metric: &types.Metric{
						Namespace: aws.String("AWS/SQS"), MetricName: aws.String(m.name),
						Dimensions: []types.Dimension{{Name: aws.String("QueueName"),
							Value: aws.String(q.name)}},
					},
					Period: aws.Int32(60), Stat: aws.String(m.stat),
				},
			})
		}
	}
	ctx, cancel := w.client.Bound(ctx, 0)
	defer cancel()
	minutes := map[string][]series.Interval{}
	for range cloudWatchPages {
		out, err := w.api.GetMetricData(ctx, in)
		if err != nil {
			return nil, cli.WithCause(ctx, err)
		}
		for _, r := range out.MetricDataResults {
			for i := range min(len(r.Timestamps), len(r.Values)) {
				minutes[aws.ToString(r.Id)] = append(minutes[aws.ToString(r.Id)],
					series.Interval{At: r.Timestamps[i].UnixMilli(), Set: series.One(r.Values[i])})
			}
		}
		if in.NextToken = out.NextToken; aws.ToString(in.NextToken) == "" {
			break
		}
	}
	return minutes, nil
}
