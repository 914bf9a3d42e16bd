// Package otelworker records OpenTelemetry traces and metrics of the handlers of a worker:
//
//	telemetry, err := otelworker.New(otelworker.Config{})
//	...
//	w, err := worker.New(worker.Config{Middleware: []worker.Middleware{telemetry.Middleware}, ...})
//
// It is separate, so that package worker does not import OpenTelemetry. Names follow the semantic
// conventions for messaging. For each call of the handler, it records:
//
//   - A span "process QUEUE" of kind consumer, which is the span of the handler's context. It links
//     to the context of the producer of each message, taken from the message attribute
//     "traceparent" (with "tracestate"), or else from the system attribute AWSTraceHeader.
//   - The histogram messaging.process.duration, in seconds.
//   - The counter messaging.client.consumed.messages, of messages that a handler was given.
//
// An error of the handler sets the status of the span and error.type, which is "poison", why the
// context ended ("lost", "timeout", "stalled", "draining"), or "_OTHER". The errors of worker.Later
// and worker.Unavailable are errors here too.
//
// It leaves what happens before and after the handler to worker.Events.
package otelworker

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"tenaq/internal/work/queuename"
	"tenaq/worker"
)

// Config configures a Telemetry. The zero value uses the global providers of OpenTelemetry.
type Config struct {
	TracerProvider trace.TracerProvider // otel.GetTracerProvider when nil
	MeterProvider  metric.MeterProvider // otel.GetMeterProvider when nil
}

// A Telemetry records calls of handlers. Any number of workers may share one.
type Telemetry struct {
	tracer   trace.Tracer
	duration metric.Float64Histogram
	consumed metric.Int64Counter
}

const scope = "tenaq/worker/otelworker"

// New returns a Telemetry, or an error if the MeterProvider refuses an instrument.
func New(cfg Config) (*Telemetry, error) {
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = otel.GetMeterProvider()
	}
	t := &Telemetry{tracer: cfg.TracerProvider.Tracer(scope)}
	meter := cfg.MeterProvider.Meter(scope)
	var err error
	t.duration, err = meter.Float64Histogram("messaging.process.duration",
		metric.WithDescription("Duration of processing operation."), metric.WithUnit("s"),
		// Those of the conventions, and more: handlers may run for hours.
		metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75,
			1, 2.5, 5, 7.5, 10, 60, 600, 3600))
	if err != nil {
		return nil, err
	}
	t.consumed, err = meter.Int64Counter("messaging.client.consumed.messages",
		metric.WithDescription("Number of messages that were delivered to the application."),
		metric.WithUnit("{message}"))
	return t, err
}

// Middleware is the worker.Middleware that records.
func (t *Telemetry) Middleware(
	ctx context.Context, messages []*worker.Message, next func(context.Context) error,
) (err error) {
	queue := queuename.Of(messages[0].QueueURL)
	about := []attribute.KeyValue{
		attribute.String("messaging.system", "aws_sqs"),
		attribute.String("messaging.destination.name", queue),
		attribute.String("messaging.operation.name", "process"),
	}
	t.consumed.Add(ctx, int64(len(messages)), metric.WithAttributes(about...))
	ctx, span := t.tracer.Start(ctx, "process "+queue,
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links(messages)...),
		trace.WithAttributes(about...), trace.WithAttributes(identity(messages)...))
	defer span.End()
	began := time.Now()
	err = next(ctx)
	if err != nil {
		kind := attribute.String("error.type", errorType(ctx, err))
		span.SetAttributes(kind)
		span.SetStatus(codes.Error, err.Error())
		about = append(about, kind)
	}
	t.duration.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(about...))
	return err
}

// identity returns the attributes that identify the messages of a span.
func identity(messages []*worker.Message) []attribute.KeyValue {
	kind := attribute.String("messaging.operation.type", "process")
	if len(messages) > 1 {
		return []attribute.KeyValue{kind,
			attribute.Int("messaging.batch.message_count", len(messages))}
	}
	m := messages[0]
	return []attribute.KeyValue{
		kind, attribute.String("messaging.message.id", m.ID),
		attribute.String("tenaq.key", m.EffectKey()), attribute.Int("tenaq.attempt", m.Attempt()),
	}
}

// links returns a link to the producer of each message that carries a trace context.
func links(messages []*worker.Message) (links []trace.Link) {
	for _, m := range messages {
		if producer := producerOf(m); producer.IsValid() {
			links = append(links, trace.Link{
				SpanContext: producer, Attributes: []attribute.KeyValue{attribute.String("messaging.message.id", m.ID)},
			})
		}
	}
	return links
}

// producerOf returns the span in which a message was sent.
func producerOf(m *worker.Message) trace.SpanContext {
	carrier := propagation.MapCarrier{}
	for _, name := range (propagation.TraceContext{}).Fields() {
		if a, ok := m.Attributes[name]; ok {
			carrier[name] = aws.ToString(a.StringValue)
		}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier)
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		return c
	}
	return xray(m.TraceHeader)
}

// xray reads an AWSTraceHeader:
// "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1".
func xray(header string) trace.SpanContext {
	cfg := trace.SpanContextConfig{Remote: true}
	for field := range strings.SplitSeq(header, ";") {
		switch name, value, _ := strings.Cut(strings.TrimSpace(field), "="); name {
		case "Root":
			if id, ok := strings.CutPrefix(value, "1-"); ok {
				// A zero id means that there is no trace.
				cfg.TraceID, _ = trace.TraceIDFromHex(strings.ReplaceAll(id, "-", ""))
			}
		case "Parent":
			cfg.SpanID, _ = trace.SpanIDFromHex(value)
		case "Sampled":
			cfg.TraceFlags = cfg.TraceFlags.WithSampled(value == "1")
		}
	}
	return trace.NewSpanContext(cfg)
}

// errorType returns one of a few words for an error.
func errorType(ctx context.Context, err error) string {
	if worker.IsPoison(err) {
		return "poison"
	}
	switch context.Cause(ctx) {
	case worker.ErrLost:
		return "lost"
	case worker.ErrTimeout:
		return "timeout"
	case worker.ErrStalled:
		return "stalled"
	case worker.ErrDraining:
		return "draining"
	}
	return "_OTHER"
}
