package monitor

import (
	"context"
	"fmt"
	"testing"

	"tenaq/internal/broker"
	"tenaq/internal/engine"
	"tenaq/internal/kv"
	"tenaq/internal/observe/series"
)

// BenchmarkMinute is what a minute costs with 10,000 queues that have a message and to which things
// happen: one look, the write of the minute, and the alarms.
func BenchmarkMinute(b *testing.B) {
	w, err := broker.New(broker.Config{Store: kv.NewMemory(), Engine: engine.Config{Region: "us-east-1", InFlightMax: 10, Fault: func(s string) { panic(s) }}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	const queues = 10_000
	for i := range queues {
		name := queueNamed(fmt.Sprintf("queue-%05d", i))
		if err := w.Do(ctx, &engine.CreateQueue{Queue: name, NameSet: true}); err != nil {
			b.Fatal(err)
		}
		if err := w.Do(ctx, &engine.SendMessage{Queue: name, Draft: engine.NewDraft(engine.Entry{Body: engine.Text{Value: "x", Set: true}})}); err != nil {
			b.Fatal(err)
		}
	}
	m, err := New(Config{Queues: w, Account: account, Keeper: File(b.TempDir())})
	if err != nil {
		b.Fatal(err)
	}
	at := m.minute()
	b.ReportAllocs()
	for b.Loop() {
		for i := range queues {
			w.Tally().Of(account, fmt.Sprintf("queue-%05d", i)).Received.Add(3)
		}
		m.sample(ctx)
		m.sights.minute = at
		at += series.Minute
		m.endMinute()
		m.judge(ctx, at)
	}
	b.ReportMetric(float64(len(m.series.List(series.Filter{})))/queues, "metrics/queue")
}
