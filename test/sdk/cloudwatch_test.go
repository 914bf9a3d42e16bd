package sdk

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/schemas"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/smithy-go/transport/http/protocol/awsjson"
	"github.com/aws/smithy-go/transport/http/protocol/awsquery"

	"tenaq/internal/server"
)

// speak are the protocols of CloudWatch. A client speaks CBOR unless it is configured to speak
// another protocol.
var speak = map[string]func(*cloudwatch.Options){
	"CBOR":  func(*cloudwatch.Options) {},
	"JSON":  func(o *cloudwatch.Options) { o.Protocol = awsjson.New10(schemas.GraniteServiceVersion20100801) },
	"Query": func(o *cloudwatch.Options) { o.Protocol = awsquery.New(schemas.GraniteServiceVersion20100801) },
}

// cloudWatch returns a client of CloudWatch that makes each request once.
func (n *node) cloudWatch(change func(*cloudwatch.Options)) *cloudwatch.Client {
	return cloudwatch.New(cloudwatch.Options{
		Region:           "us-east-1",
		BaseEndpoint:     aws.String("http://" + n.server.Addr()),
		Credentials:      credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""),
		RetryMaxAttempts: 1,
	}, change)
}

// onQueue is an alarm on messages that are visible in a queue. It keeps its state while the queue
// does not exist, because a minute may end at any step of a test.
func onQueue(name, queue string) *cloudwatch.PutMetricAlarmInput {
	return &cloudwatch.PutMetricAlarmInput{
		AlarmName:          &name,
		Namespace:          aws.String("AWS/SQS"),
		MetricName:         aws.String("ApproximateNumberOfMessagesVisible"),
		Dimensions:         []types.Dimension{{Name: aws.String("QueueName"), Value: &queue}},
		Statistic:          types.StatisticSum,
		Period:             aws.Int32(60),
		EvaluationPeriods:  aws.Int32(1),
		Threshold:          aws.Float64(0),
		ComparisonOperator: types.ComparisonOperatorGreaterThanThreshold,
		TreatMissingData:   aws.String("ignore"),
		AlarmActions:       []string{"arn:aws:sns:us-east-1:000000000000:log"},
		Tags:               []types.Tag{{Key: aws.String("team"), Value: aws.String("orders")}},
	}
}

// The life of an alarm, as any program leads it.
func TestAlarms(t *testing.T) {
	for name, change := range speak {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t, nil)
			client, ctx := n.cloudWatch(change), t.Context()
			check := func(_ any, err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			for i := range 5 {
				check(client.PutMetricAlarm(ctx, onQueue(fmt.Sprint("alarm-", i), "orders-dlq")))
			}
			exists := cloudwatch.NewAlarmExistsWaiter(client)
			if err := exists.Wait(ctx, &cloudwatch.DescribeAlarmsInput{AlarmNames: []string{"alarm-4"}}, 10*time.Second); err != nil {
				t.Error(err)
			}

			var names []string
			pages := cloudwatch.NewDescribeAlarmsPaginator(client, &cloudwatch.DescribeAlarmsInput{
				AlarmNamePrefix: aws.String("alarm-"), MaxRecords: aws.Int32(2),
			})
			for count := 1; pages.HasMorePages(); count++ {
				page, err := pages.NextPage(ctx)
				check(nil, err)
				for _, a := range page.MetricAlarms {
					names = append(names, *a.AlarmName)
				}
				if count > 3 {
					t.Fatal("more than three pages")
				}
			}
			if want := []string{"alarm-0", "alarm-1", "alarm-2", "alarm-3", "alarm-4"}; !slices.Equal(names, want) {
				t.Errorf("pages: got %q, want %q", names, want)
			}

			describe := func() types.MetricAlarm {
				t.Helper()
				out, err := client.DescribeAlarmsForMetric(ctx, &cloudwatch.DescribeAlarmsForMetricInput{
					Namespace: aws.String("AWS/SQS"), MetricName: aws.String("ApproximateNumberOfMessagesVisible"),
					Dimensions: []types.Dimension{{Name: aws.String("QueueName"), Value: aws.String("orders-dlq")}},
				})
				check(nil, err)
				if len(out.MetricAlarms) == 0 {
					t.Fatal("no alarm on the metric")
				}
				return out.MetricAlarms[0]
			}
			a := describe()
			const arn = "arn:aws:cloudwatch:us-east-1:000000000000:alarm:alarm-0"
			if *a.AlarmArn != arn || a.StateValue != types.StateValueInsufficientData || !*a.ActionsEnabled || *a.Threshold != 0 || *a.Period != 60 ||
				time.Since(*a.AlarmConfigurationUpdatedTimestamp).Abs() > time.Hour || len(a.Dimensions) != 1 || a.AlarmActions[0] != "arn:aws:sns:us-east-1:000000000000:log" {
				t.Errorf("got %+v, want what was put", a)
			}

			check(client.SetAlarmState(ctx, &cloudwatch.SetAlarmStateInput{
				AlarmName: aws.String("alarm-0"), StateValue: types.StateValueAlarm, StateReason: aws.String("a test"),
			}))
			check(client.DisableAlarmActions(ctx, &cloudwatch.DisableAlarmActionsInput{AlarmNames: names}))
			if a := describe(); a.StateValue != types.StateValueAlarm || *a.StateReason != "a test" || *a.ActionsEnabled {
				t.Errorf("got %s because of %q, actions enabled %v, want ALARM of a test, false", a.StateValue, *a.StateReason, *a.ActionsEnabled)
			}
			check(client.EnableAlarmActions(ctx, &cloudwatch.EnableAlarmActionsInput{AlarmNames: names[:1]}))
			if a := describe(); !*a.ActionsEnabled {
				t.Error("actions are not enabled again")
			}
			history, err := client.DescribeAlarmHistory(ctx, &cloudwatch.DescribeAlarmHistoryInput{AlarmName: aws.String("alarm-0")})
			check(nil, err)
			if len(history.AlarmHistoryItems) != 1 || *history.AlarmHistoryItems[0].HistorySummary != "Alarm updated from INSUFFICIENT_DATA to ALARM" {
				t.Errorf("history: got %+v, want the one change", history.AlarmHistoryItems)
			}

			check(client.TagResource(ctx, &cloudwatch.TagResourceInput{ResourceARN: aws.String(arn), Tags: []types.Tag{
				{Key: aws.String("empty"), Value: aws.String("")}, {Key: aws.String("since"), Value: aws.String("2026")},
			}}))
			check(client.UntagResource(ctx, &cloudwatch.UntagResourceInput{ResourceARN: aws.String(arn), TagKeys: []string{"since"}}))
			tags, err := client.ListTagsForResource(ctx, &cloudwatch.ListTagsForResourceInput{ResourceARN: aws.String(arn)})
			check(nil, err)
			if len(tags.Tags) != 2 || *tags.Tags[0].Key != "empty" || *tags.Tags[0].Value != "" || *tags.Tags[1].Value != "orders" {
				t.Errorf("tags: got %+v, want empty and team", tags.Tags)
			}

			check(client.DeleteAlarms(ctx, &cloudwatch.DeleteAlarmsInput{AlarmNames: names}))
			out, err := client.DescribeAlarms(ctx, &cloudwatch.DescribeAlarmsInput{})
			check(nil, err)
			if len(out.MetricAlarms) != 0 {
				t.Errorf("%d alarms after they were deleted", len(out.MetricAlarms))
			}
		})
	}
}

// A refusal comes back as the type of error that a program asks for.
func TestCloudWatchErrors(t *testing.T) {
	for name, change := range speak {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, ctx := start(t, nil).cloudWatch(change), t.Context()
			// With Query, the client calls an error by its type where the other protocols have the
			// code of the answer.
			code := func(code, kind string) string {
				if name == "Query" {
					return kind
				}
				return code
			}

			_, err := client.DeleteAlarms(ctx, &cloudwatch.DeleteAlarmsInput{AlarmNames: []string{"nothing"}})
			if err := refused(err, "ResourceNotFound", 404, new(*types.ResourceNotFound)); err != nil {
				t.Errorf("DeleteAlarms: %v", err)
			}
			_, err = client.ListTagsForResource(ctx, &cloudwatch.ListTagsForResourceInput{
				ResourceARN: aws.String("arn:aws:cloudwatch:us-east-1:000000000000:alarm:nothing"),
			})
			if err := refused(err, "ResourceNotFoundException", 404, new(*types.ResourceNotFoundException)); err != nil {
				t.Errorf("ListTagsForResource: %v", err)
			}
			_, err = client.DescribeAlarms(ctx, &cloudwatch.DescribeAlarmsInput{NextToken: aws.String("x")})
			if err := refused(err, "InvalidNextToken", 400, new(*types.InvalidNextToken)); err != nil {
				t.Errorf("DescribeAlarms: %v", err)
			}
			put := &cloudwatch.PutMetricDataInput{Namespace: aws.String("Shop"), MetricData: []types.MetricDatum{{MetricName: aws.String("Orders")}}}
			_, err = client.PutMetricData(ctx, put)
			if err := refused(err, code("MissingParameter", "MissingRequiredParameterException"), 400, new(*types.MissingRequiredParameterException)); err != nil {
				t.Errorf("PutMetricData: %v", err)
			}
			put.MetricData[0].Value, put.MetricData[0].StorageResolution = aws.Float64(1), aws.Int32(1)
			_, err = client.PutMetricData(ctx, put)
			if err := refused(err, code("InvalidParameterValue", "InvalidParameterValueException"), 400, new(*types.InvalidParameterValueException)); err != nil {
				t.Errorf("PutMetricData: %v", err)
			}
			put.MetricData[0].Values = []float64{1}
			put.MetricData[0].StorageResolution = nil
			_, err = client.PutMetricData(ctx, put)
			if err := refused(err, code("InvalidParameterCombination", "InvalidParameterCombinationException"), 400, new(*types.InvalidParameterCombinationException)); err != nil {
				t.Errorf("PutMetricData: %v", err)
			}
			in := onQueue("a", "orders")
			in.AlarmActions = []string{"https://example.com/hook"}
			_, err = client.PutMetricAlarm(ctx, in)
			if err := refused(err, code("ValidationError", "ValidationException"), 400, nil); err != nil {
				t.Errorf("PutMetricAlarm: %v", err)
			}
			_, err = client.ListDashboards(ctx, &cloudwatch.ListDashboardsInput{})
			if err := refused(err, "InvalidAction", 400, nil); err != nil {
				t.Errorf("ListDashboards: %v", err)
			}
		})
	}
}

// Metrics read back as they were put.
func TestMetrics(t *testing.T) {
	for name, change := range speak {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, ctx := start(t, nil).cloudWatch(change), t.Context()
			at := time.Now().Truncate(time.Minute).Add(-time.Hour)
			dimensions := []types.Dimension{{Name: aws.String("Site"), Value: aws.String("b")}}
			in := &cloudwatch.PutMetricDataInput{Namespace: aws.String("Shop")}
			for i := range 20 {
				in.MetricData = append(in.MetricData, types.MetricDatum{
					MetricName: aws.String("Orders"), Dimensions: dimensions, Unit: types.StandardUnitCount,
					Timestamp: aws.Time(at.Add(time.Duration(i) * time.Minute)), Value: aws.Float64(float64(i) + 0.25),
				})
			}
			// The client compresses what is this long, see its documentation.
			for i := range 500 {
				in.MetricData = append(in.MetricData, types.MetricDatum{MetricName: aws.String(fmt.Sprintf("m%03d", i)), Values: []float64{1, 2}, Counts: []float64{3, 1}})
			}
			if _, err := client.PutMetricData(ctx, in); err != nil {
				t.Fatal(err)
			}

			stats, err := client.GetMetricStatistics(ctx, &cloudwatch.GetMetricStatisticsInput{
				Namespace: in.Namespace, MetricName: aws.String("Orders"), Dimensions: dimensions,
				StartTime: &at, EndTime: aws.Time(at.Add(20 * time.Minute)), Period: aws.Int32(600),
				Statistics: []types.Statistic{types.StatisticSum, types.StatisticMaximum},
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(stats.Datapoints) != 2 {
				t.Fatalf("%d datapoints, want 2", len(stats.Datapoints))
			}
			for i, want := range []struct{ sum, maximum float64 }{{47.5, 9.25}, {147.5, 19.25}} {
				d := stats.Datapoints[i]
				if *d.Sum != want.sum || *d.Maximum != want.maximum || d.Minimum != nil || d.Unit != types.StandardUnitCount || !d.Timestamp.Equal(at.Add(time.Duration(i)*10*time.Minute)) {
					t.Errorf("datapoint %d: got %+v, want sum %v, maximum %v", i, d, want.sum, want.maximum)
				}
			}

			query := func(id, name string, stat string, d []types.Dimension) types.MetricDataQuery {
				return types.MetricDataQuery{Id: &id, MetricStat: &types.MetricStat{
					Metric: &types.Metric{Namespace: in.Namespace, MetricName: &name, Dimensions: d}, Period: aws.Int32(60), Stat: &stat,
				}}
			}
			pages := cloudwatch.NewGetMetricDataPaginator(client, &cloudwatch.GetMetricDataInput{
				StartTime: &at, EndTime: aws.Time(time.Now().Add(time.Minute)), ScanBy: types.ScanByTimestampAscending, MaxDatapoints: aws.Int32(7),
				MetricDataQueries: []types.MetricDataQuery{query("orders", "Orders", "Average", dimensions), query("m", "m007", "Sum", nil), {
					Id: aws.String("twice"), Expression: aws.String("orders * 2"),
				}},
			})
			got := map[string][]float64{}
			for pages.HasMorePages() {
				page, err := pages.NextPage(ctx)
				if err != nil {
					t.Fatal(err)
				}
				points := 0
				for _, r := range page.MetricDataResults {
					got[*r.Id] = append(got[*r.Id], r.Values...)
					points += len(r.Values)
				}
				if points == 0 || points > 7 {
					t.Fatalf("a page of %d datapoints, want 1 to 7", points)
				}
			}
			var want, twice []float64
			for i := range 20 {
				want = append(want, float64(i)+0.25)
				twice = append(twice, float64(2*i)+0.5)
			}
			if !slices.Equal(got["orders"], want) || !slices.Equal(got["m"], []float64{5}) || !slices.Equal(got["twice"], twice) {
				t.Errorf("got %v, want 20 orders, 5, and 20 that are twice as much", got)
			}

			list := cloudwatch.NewListMetricsPaginator(client, &cloudwatch.ListMetricsInput{Namespace: in.Namespace})
			count := 0
			for list.HasMorePages() {
				page, err := list.NextPage(ctx)
				if err != nil {
					t.Fatal(err)
				}
				count += len(page.Metrics)
			}
			if count != 501 {
				t.Errorf("listed %d metrics, want 501", count)
			}
		})
	}
}

// The server records what happens to its queues, and an alarm on it comes into ALARM, and outlives
// a restart in it.
func TestAlarmOnQueue(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *server.Config) { c.AlarmMinute = 200 * time.Millisecond })
	url := n.queue("orders-dlq")
	client, ctx := n.cloudWatch(speak["CBOR"]), t.Context()
	if _, err := client.PutMetricAlarm(ctx, onQueue("not-empty", "orders-dlq")); err != nil {
		t.Fatal(err)
	}
	n.send(url, "hello")
	state := func() types.StateValue {
		out, err := client.DescribeAlarms(ctx, &cloudwatch.DescribeAlarmsInput{AlarmNames: []string{"not-empty"}})
		if err != nil || len(out.MetricAlarms) != 1 {
			t.Fatal(out, err)
		}
		return out.MetricAlarms[0].StateValue
	}
	until := func(want types.StateValue) {
		t.Helper()
		for begin := time.Now(); state() != want; time.Sleep(50 * time.Millisecond) {
			if time.Since(begin) > 30*time.Second {
				t.Fatalf("the alarm is %s, want %s", state(), want)
			}
		}
	}
	until(types.StateValueAlarm)
	list, err := client.ListMetrics(ctx, &cloudwatch.ListMetricsInput{Namespace: aws.String("AWS/SQS"), MetricName: aws.String("NumberOfMessagesSent")})
	if err != nil || len(list.Metrics) != 1 || *list.Metrics[0].Dimensions[0].Value != "orders-dlq" {
		t.Errorf("metrics: got %+v, %v, want one of the queue", list, err)
	}
	n = n.restart(nil)
	client = n.cloudWatch(speak["CBOR"])
	if got := state(); got != types.StateValueAlarm {
		t.Errorf("after a restart: got %s, want ALARM", got)
	}
	m := n.one("orders-dlq")
	n.delete("orders-dlq", m.ReceiptHandle)
	until(types.StateValueOk)
}

// A caller that may not ask for queues may not ask for alarms. [AUTH-2]
func TestCloudWatchHost(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	client := n.cloudWatch(func(o *cloudwatch.Options) {
		o.BaseEndpoint = aws.String("http://attacker.example")
		o.HTTPClient = dialing(n.server.Addr())
	})
	_, err := client.DescribeAlarms(t.Context(), &cloudwatch.DescribeAlarmsInput{})
	if err := refused(err, "AccessDenied", 403, nil); err != nil {
		t.Error(err)
	}
}
