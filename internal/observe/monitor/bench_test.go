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

// BenchmarkBoard is a page of the list of 100,000 queues that all have messages, and what a look
// costs while such pages are read.
func BenchmarkBoard(b *testing.B) {
	m, err := New(Config{Keeper: File(b.TempDir()), NoShipped: true})
	if err != nil {
		b.Fatal(err)
	}
	m.sights.queues = make(map[string]*sight)
	for i := range 100_000 {
		name := fmt.Sprintf("queue-%06d", i*7919%1_000_003)
		m.sights.queues[name] = &sight{name: name, target: fmt.Sprintf("queue-%06d", i), data: &data{
			gauge: engine.Gauge{Visible: int64(i * 31 % 977), Age: int64(i * 17 % 4999)}}}
	}
	page := func() {
		board := m.Board(0)
		rows, _ := board.Find(BoardQuery{Text: "UE-00", Sort: "trouble", Desc: true, From: 300, Max: 100})
		if len(rows) != 100 {
			b.Fatalf("%d rows", len(rows))
		}
	}
	page()
	b.Run("look", func(b *testing.B) {
		for range b.N {
			m.sights.round++
			m.renewBoard()
		}
	})
	b.Run("page", func(b *testing.B) {
		for range b.N {
			page()
		}
	})
}
