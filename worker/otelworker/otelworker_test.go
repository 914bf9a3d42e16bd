package otelworker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"tenaq/worker"
	"tenaq/worker/otelworker"
	"tenaq/workertest"
)

const (
	parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	header = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
)

// A rig has exporters in memory.
type rig struct {
	*testing.T
	spans  *tracetest.InMemoryExporter
	reader *metric.ManualReader
	*otelworker.Telemetry
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, spans: tracetest.NewInMemoryExporter(), reader: metric.NewManualReader()}
	var err error
	r.Telemetry, err = otelworker.New(otelworker.Config{
		TracerProvider: trace.NewTracerProvider(trace.WithSyncer(r.spans)),
		MeterProvider:  metric.NewMeterProvider(metric.WithReader(r.reader)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// span returns the only span.
func (r *rig) span() tracetest.SpanStub {
	r.Helper()
	all := r.spans.GetSpans()
	if len(all) != 1 {
		r.Fatalf("%d spans, want one", len(all))
	}
	r.spans.Reset()
	return all[0]
}

// wantAttributes compares attributes, written as name=value in order of name.
func wantAttributes(t *testing.T, got []attribute.KeyValue, want string) {
	t.Helper()
	set := attribute.NewSet(got...)
	if text := set.Encoded(attribute.DefaultEncoder()); text != want {
		t.Errorf("attributes %s\nwant       %s", text, want)
	}
}

// metrics returns the only data point of each metric.
func (r *rig) metrics() (d metricdata.HistogramDataPoint[float64], c metricdata.DataPoint[int64]) {
	r.Helper()
	var all metricdata.ResourceMetrics
	if err := r.reader.Collect(r.Context(), &all); err != nil {
		r.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch {
		case m.Name == "messaging.process.duration" && m.Unit == "s":
			d = m.Data.(metricdata.Histogram[float64]).DataPoints[0]
		case m.Name == "messaging.client.consumed.messages" && m.Unit == "{message}":
			c = m.Data.(metricdata.Sum[int64]).DataPoints[0]
		default:
			r.Errorf("metric %s in %s", m.Name, m.Unit)
		}
	}
	return d, c
}

func sent(t *testing.T, id, traceparent, awsHeader string) *worker.Message {
	d := workertest.New(t, workertest.Config{ID: id, Key: "order-17", Attempt: 2, QueueURL: "http://127.0.0.1:9324/000000000000/orders"})
	d.TraceHeader = awsHeader
	if traceparent != "" {
		d.Attributes = map[string]types.MessageAttributeValue{
			"traceparent": {DataType: aws.String("String"), StringValue: &traceparent},
		}
	}
	return d.Message
}

const about = "messaging.destination.name=orders,messaging.operation.name=process"

func TestProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		err := r.Middleware(t.Context(), []*worker.Message{sent(t, "m1", parent, "")}, func(ctx context.Context) error {
			if !oteltrace.SpanContextFromContext(ctx).IsValid() {
				t.Error("the handler has no span in its context")
			}
			time.Sleep(3 * time.Second)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		s := r.span()
		if s.Name != "process orders" || s.SpanKind != oteltrace.SpanKindConsumer || s.Status.Code != codes.Unset {
			t.Errorf("span %q of kind %v with status %v", s.Name, s.SpanKind, s.Status)
		}
		wantAttributes(t, s.Attributes, "messaging.destination.name=orders,messaging.message.id=m1,messaging.operation.name=process,"+
			"messaging.operation.type=process,messaging.system=aws_sqs,tenaq.attempt=2,tenaq.key=order-17")
		if len(s.Links) != 1 || s.Links[0].SpanContext.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" ||
			s.Links[0].SpanContext.SpanID().String() != "b7ad6b7169203331" {
			t.Errorf("links %+v", s.Links)
		}
		duration, consumed := r.metrics()
		if duration.Count != 1 || duration.Sum != 3 || consumed.Value != 1 {
			t.Errorf("%d calls in %vs, %d messages; want 1 in 3s, 1", duration.Count, duration.Sum, consumed.Value)
		}
		wantAttributes(t, duration.Attributes.ToSlice(), about+",messaging.system=aws_sqs")
		wantAttributes(t, consumed.Attributes.ToSlice(), about+",messaging.system=aws_sqs")
	})
}

// A batch is one span, with a link for each message whose producer is known.
func TestBatch(t *testing.T) {
	r := newRig(t)
	batch := []*worker.Message{sent(t, "m1", parent, header), sent(t, "m2", "", header), sent(t, "m3", "", ""), sent(t, "m4", "bad", "Root=bad")}
	if err := r.Middleware(t.Context(), batch, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	s := r.span()
	got := ""
	for _, l := range s.Links {
		got += fmt.Sprintf("%s %s %t ", l.SpanContext.TraceID(), l.SpanContext.SpanID(), l.SpanContext.IsSampled())
	}
	if want := "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331 true 5759e988bd862e3fe1be46a994272793 53995c3f42cd8ad8 true "; got != want {
		t.Errorf("links to %s\nwant     %s", got, want)
	}
	if _, consumed := r.metrics(); consumed.Value != 4 {
		t.Errorf("%d messages consumed, want 4", consumed.Value)
	}
	wantAttributes(t, s.Attributes, "messaging.batch.message_count=4,"+about+",messaging.operation.type=process,messaging.system=aws_sqs")
}

func TestErrors(t *testing.T) {
	sick := errors.New("sick")
	for want, c := range map[string]struct{ err, cause error }{
		"_OTHER":   {sick, nil},
		"poison":   {worker.Poison(sick), nil},
		"lost":     {sick, worker.ErrLost},
		"timeout":  {sick, worker.ErrTimeout},
		"stalled":  {sick, worker.ErrStalled},
		"draining": {sick, worker.ErrDraining},
	} {
		r := newRig(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		err := r.Middleware(ctx, []*worker.Message{sent(t, "m1", "", "")}, func(context.Context) error {
			cancel(c.cause)
			return c.err
		})
		if err != c.err {
			t.Errorf("%s: the middleware returned %v, want %v", want, err, c.err)
		}
		s := r.span()
		if s.Status.Code != codes.Error || s.Status.Description != "sick" {
			t.Errorf("%s: status %+v", want, s.Status)
		}
		duration, _ := r.metrics()
		for what, set := range map[string]attribute.Set{"span": attribute.NewSet(s.Attributes...), "duration": duration.Attributes} {
			if got, _ := set.Value("error.type"); got.AsString() != want {
				t.Errorf("the %s has error.type %q, want %q", what, got.AsString(), want)
			}
		}
	}
}
