package group

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"tenaq/internal/broker"
	"tenaq/internal/cluster/raftlog"
	"tenaq/internal/engine"
	"tenaq/internal/kv"
	"tenaq/internal/kv/pebblekv"
)

// BenchmarkWritten measures how much a message makes a store and a group of one node write to the
// real disk, and how fast both are. A message that lives is received and deleted; one that stays is
// not.
func BenchmarkWritten(b *testing.B) {
	for _, clients := range []int{4, 256} {
		for _, stays := range []bool{false, true} {
			for name, open := range map[string]func(*testing.B) *broker.Broker{
				"store": benchStore, "group": benchGroup,
			} {
				what := map[bool]string{false: "lives", true: "stays"}[stays]
				b.Run(fmt.Sprintf("%s/%s/%d", what, name, clients), func(b *testing.B) {
					benchWritten(b, open(b), clients, stays)
				})
			}
		}
	}
}

var benchBody = strings.Repeat("an order ", 111) // 1 kB

func benchWritten(b *testing.B, k *broker.Broker, clients int, stays bool) {
	ctx := context.Background()
	queue := engine.QueueName{Account: "000000000000", Name: "orders"}
	if err := k.Do(ctx, &engine.CreateQueue{Queue: queue, NameSet: true}); err != nil {
		b.Fatal(err)
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	before := writtenBytes(b)
	b.ResetTimer()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if err := benchLife(ctx, k, queue, stays); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(writtenBytes(b)-before)/float64(b.N)/float64(len(benchBody)), "written/body")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

func benchLife(ctx context.Context, k *broker.Broker, q engine.QueueName, stays bool) error {
	if err := k.Do(ctx, &engine.SendMessage{Queue: q, Draft: engine.NewDraft(engine.Entry{
		Body: text(benchBody)})}); err != nil || stays {
		return err
	}
	r := &engine.ReceiveMessage{Queue: q, Max: number(1)}
	if err := k.Do(ctx, r); err != nil {
		return err
	}
	for _, m := range r.Messages {
		h := engine.Handle{Text: "h", Valid: true, Incarnation: r.Incarnation, Space: m.Space,
			Seq: m.Seq, Generation: m.Generation}
		if err := k.Do(ctx, &engine.DeleteMessage{Queue: q, Handle: h}); err != nil {
			return err
		}
	}
	return nil
}

// writtenBytes is what this process has given to write calls.
func writtenBytes(b *testing.B) (n int64) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Skip(err)
	}
	if _, err := fmt.Sscanf(string(text), "rchar: %d\nwchar: %d", new(int64), &n); err != nil {
		b.Fatal(err)
	}
	return n
}

// benchBroker runs a broker until the benchmark ends.
func benchBroker(b *testing.B, store kv.Store, stopped func() error) *broker.Broker {
	k, err := broker.New(broker.Config{Store: store, TurnBytes: 4 << 20,
		Engine: engine.Config{Region: "elsewhere", InFlightMax: 120_000,
			Fault: func(s string) { panic(s) }}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		<-ended
		if err := stopped(); err != nil {
			b.Error(err)
		}
	})
	return k
}

func benchStore(b *testing.B) *broker.Broker {
	s, err := pebblekv.Open(pebblekv.Options{Dir: b.TempDir(), Fatal: func(err error) { panic(err) }})
	if err != nil {
		b.Fatal(err)
	}
	return benchBroker(b, s, s.Close)
}

func benchGroup(b *testing.B) *broker.Broker {
	dir, fatal := b.TempDir(), func(err error) { panic(err) }
	log, err := pebblekv.OpenLog(pebblekv.Options{Dir: filepath.Join(dir, "raft"), Fatal: fatal})
	if err != nil {
		b.Fatal(err)
	}
	state, err := pebblekv.OpenState(pebblekv.Options{Dir: filepath.Join(dir, "1"), Fatal: fatal},
		groupID)
	if err != nil {
		b.Fatal(err)
	}
	_, link := raft.NewInmemTransport("a")
	led, done := make(chan Term), make(chan struct{})
	g, err := Open(Config{
		Node: "a", Log: raftlog.Open(log, 1), State: state, Transport: link,
		Heartbeat: 100 * time.Millisecond, Fatal: fatal,
		Ask:  func(raft.Server) (Standing, error) { return Standing{}, io.EOF },
		Free: func() (uint64, error) { return 1 << 40, nil },
		Lead: func(t Term) error {
			led <- t
			<-done
			return nil
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := g.Bootstrap([]raft.Server{{ID: "a", Address: "a"}}); err != nil {
		b.Fatal(err)
	}
	return benchBroker(b, (<-led).Store, func() error {
		close(done)
		g.Close()
		if err := state.Close(); err != nil {
			return err
		}
		return log.Close()
	})
}
