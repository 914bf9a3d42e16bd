package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/observe/metric"
)

// Metrics of long-running commands, in the text format of Prometheus. Dashboards and alarms of
// users depend on their names. Each command has its own table; this file has what they share.
//
// Label values come from the configuration or from a short fixed list, never from a message.

const MetricsVariable = "TENAQ_METRICS_LISTEN"

// MetricsHelp explains --metrics-listen in the help of every command that has it.
const MetricsHelp = `--metrics-listen or TENAQ_METRICS_LISTEN serves /metrics, for Prometheus, and
/livez, which answers 200 while the process lives. A port alone, such as :9326,
listens on 127.0.0.1; 0.0.0.0:9326 also serves other machines. Each program on a
machine needs its own port. docs/operations/metrics.md explains the metrics.`

type MetricsFlags struct{ metricsListen string }

func (f *MetricsFlags) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.metricsListen, "metrics-listen", "",
		"serve metrics at this `address` (default off)")
}

// Listen takes the address before any work begins. It returns nil if there is none.
func (f *MetricsFlags) Listen() (*metricsServer, error) {
	address, origin := FlagOr("--metrics-listen", f.metricsListen, MetricsVariable, os.Getenv)
	if address == "" || address == "off" {
		return nil, nil
	}
	if err := CheckAddress(address); err != nil {
		return nil, Usagef("%s: %v", origin, err)
	}
	host, port, _ := net.SplitHostPort(address)
	address = net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port)
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, Codedf(ExitRefused,
			"%s: address %s is in use: stop the other program or choose another address", origin,
			address)
	case err != nil:
		return nil, Usagef("%s: cannot listen on %s: %v", origin, address, err)
	}
	return &metricsServer{listener: l}, nil
}

// A metricsServer answers /metrics and /livez for a command. Its methods do nothing when it is nil.
type metricsServer struct {
	listener net.Listener
	http     *http.Server // nil until it serves
}

// Serve begins to answer, with what write writes.
func (s *metricsServer) Serve(logger *slog.Logger, write func(*metric.Writer)) {
	if s == nil {
		return
	}
	s.http = &http.Server{
		Handler:           metricsHandler(write),
		ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	go s.http.Serve(s.listener)
	logger.Info("serving metrics", "url", "http://"+s.listener.Addr().String()+"/metrics")
}

func metricsHandler(write func(*metric.Writer)) http.Handler {
	started := time.Now()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", metric.ContentType)
		w.Header().Set("Cache-Control", "no-store")
		m := metric.NewWriter(w)
		write(m)
		WriteMetrics(m, processMetrics, started)
		_ = m.Flush() // the client has gone
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write([]byte("ok\n"))
	})
	return mux
}

const metricsDrain = 5 * time.Second

func (s *metricsServer) Close() {
	if s == nil {
		return
	}
	if s.http != nil {
		ctx, cancel := context.WithTimeout(context.Background(), metricsDrain)
		defer cancel()
		if s.http.Shutdown(ctx) != nil {
			_ = s.http.Close()
		}
	}
	_ = s.listener.Close()
}

// A MetricRow is a family of a table, and writes its values from what is known.
type MetricRow[K any] struct {
	metric.Family
	Write func(w *metric.Writer, known K)
}

type writeOf[K any] = func(w *metric.Writer, known K)

func row[K any](
	kind metric.Kind, name, help string, write writeOf[K], labels []string,
) MetricRow[K] {
	return MetricRow[K]{metric.Family{Name: name, Help: help, Kind: kind, Labels: labels}, write}
}

func Counter[K any](name, help string, write writeOf[K], labels ...string) MetricRow[K] {
	return row(metric.KindCounter, name, help, write, labels)
}

func Gauge[K any](name, help string, write writeOf[K], labels ...string) MetricRow[K] {
	return row(metric.KindGauge, name, help, write, labels)
}

func Histogram[K any](name, help string, write writeOf[K], labels ...string) MetricRow[K] {
	return row(metric.KindHistogram, name, help, write, labels)
}

func WriteMetrics[K any](w *metric.Writer, table []MetricRow[K], known K) {
	for i := range table {
		w.Begin(table[i].Family)
		table[i].Write(w, known)
	}
}

// processMetrics are those of every command, from the start time of its process.
var processMetrics = []MetricRow[time.Time]{
	Gauge("tenaq_build_info", "Always 1; the labels carry the version",
		func(w *metric.Writer, _ time.Time) {
			w.Value(1, BuildVersion().Version, runtime.Version())
		}, "version", "go"),
	Gauge("process_start_time_seconds", "Start time of the process, in seconds since 1970",
		func(w *metric.Writer, started time.Time) { w.Value(float64(started.UnixMilli()) / 1000) }),
	Counter("process_cpu_seconds_total", "User and system CPU time of the process",
		func(w *metric.Writer, _ time.Time) { w.Value(metric.CPUSeconds()) }),
	Gauge("go_goroutines", "Number of goroutines",
		func(w *metric.Writer, _ time.Time) { w.Value(float64(runtime.NumGoroutine())) }),
}

// A WordCount counts by word, out of a fixed list. All words are exported from the start: otherwise
// the first count of a word would not be an increase.
type WordCount struct {
	words  []string
	counts []metric.Counter
}

func NewWordCount(words ...string) *WordCount {
	return &WordCount{words, make([]metric.Counter, len(words))}
}

// Add counts n of a word; of one that it does not have, of the last.
func (c *WordCount) Add(word string, n int) {
	i := 0
	for i < len(c.words)-1 && c.words[i] != word {
		i++
	}
	c.counts[i].Add(int64(n))
}

// Value returns the count of a word.
func (c *WordCount) Value(word string) int64 {
	return c.counts[slices.Index(c.words, word)].Value()
}

// Write writes all of them. The word is the last label.
func (c *WordCount) Write(w *metric.Writer, labels ...string) {
	for i, word := range c.words {
		w.Value(float64(c.counts[i].Value()), append(labels[:len(labels):len(labels)], word)...)
	}
}

const askedMax = 5 * time.Second

// An Asked value is fetched on demand and kept for a while, because fetching may be expensive. A
// failure is kept too.
type Asked[V any] struct {
	Ask  func(context.Context) (V, error)
	Keep time.Duration

	mu    sync.Mutex
	known bool
	at    time.Time
	value V
	err   error
}

func (a *Asked[V]) Get() (V, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.known || time.Since(a.at) >= a.Keep {
		ctx, cancel := context.WithTimeout(context.Background(), askedMax)
		defer cancel()
		a.value, a.err = a.Ask(ctx)
		a.known, a.at = true, time.Now()
	}
	return a.value, a.err
}
