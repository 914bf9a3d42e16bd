package series

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// metrics returns metrics as the queues of a server have them.
func metrics(n int) []Metric {
	all := make([]Metric, n)
	for i := range all {
		all[i] = Metric{"AWS/SQS", "ApproximateNumberOfMessagesVisible", []Dimension{{"QueueName", fmt.Sprintf("queue-%d", i)}}}
	}
	return all
}

// fill puts a value into every minute of the time that is kept, for every metric, and returns the
// next minute.
func fill(tb testing.TB, s *Store, all []Metric, value func(minute int64) float64) (next int64) {
	for next = range int64(180) {
		for _, m := range all {
			if err := s.Put(m, next*Minute, One(value(next)), "Count"); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return next + 1
}

func idle(int64) float64        { return 3 }
func busy(minute int64) float64 { return float64(minute) }

// heap returns how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// One operation is a Put of one of 10,000 metrics that have three hours of data, minute after
// minute.
func BenchmarkPut(b *testing.B) {
	for name, value := range map[string]func(int64) float64{"idle": idle, "busy": busy} {
		b.Run(name, func(b *testing.B) {
			all := metrics(10_000)
			s := New(Config{RunsMax: 3_000_000})
			before := heap()
			minute := fill(b, s, all, value)
			perMetric := float64(heap()-before) / float64(len(all))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i == len(all) {
					i = 0
					minute++
					s.Drop((minute - 180) * Minute)
				}
				if err := s.Put(all[i], minute*Minute, One(value(minute)), "Count"); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(perMetric, "B/metric")
			b.ReportMetric(float64(s.runs)/float64(len(all)), "runs/metric")
		})
	}
}

// One operation asks for the five newest periods of five minutes, as an alarm does.
func BenchmarkPoints(b *testing.B) {
	for name, value := range map[string]func(int64) float64{"idle": idle, "busy": busy} {
		b.Run(name, func(b *testing.B) {
			s, m := New(Config{}), metrics(1)
			end := fill(b, s, m, value) * Minute
			b.ReportAllocs()
			for b.Loop() {
				if got := s.Points(m[0], Sum, 300, end-25*Minute, end); len(got) != 5 {
					b.Fatal(got)
				}
			}
		})
	}
}

// Putting into a full Store costs no more when the oldest minutes have to go for it.
func BenchmarkPutFull(b *testing.B) {
	all := metrics(10_000)
	s := New(Config{})
	minute := fill(b, s, all, busy)
	for i := 0; b.Loop(); i++ {
		if i == len(all) {
			i = 0
			minute++
		}
		if err := s.Put(all[i], minute*Minute, One(busy(minute)), "Count"); err != nil {
			b.Fatal(err)
		}
	}
}

// A Store may be used from any goroutine.
func TestConcurrent(t *testing.T) {
	s, all := New(Config{RunsMax: 100, MetricsMax: 20, Keep: time.Hour}), metrics(20)
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for minute := range int64(200) {
				for _, m := range all {
					_ = s.Put(m, minute*Minute, One(float64(minute)), "Count") // another may have dropped that minute
					s.Points(m, Sum, 60, 0, minute*Minute)
				}
				switch g {
				case 0:
					s.Drop((minute - 60) * Minute)
				case 1:
					s.List(Filter{Namespace: "AWS/SQS"})
				case 2:
					s.Forget(all[minute%20])
				}
			}
		})
	}
	group.Wait()
	runs := 0
	for _, m := range all {
		if tr := s.track(m); tr != nil {
			runs += len(tr.runs)
		}
	}
	if runs != s.runs || runs > 100 || len(s.order) != len(s.tracks) {
		t.Errorf("%d runs, counted %d; %d tracks, %d in order", s.runs, runs, len(s.tracks), len(s.order))
	}
}
