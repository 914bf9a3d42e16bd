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
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/observe/metric"
)

// What commands that go on for long tell about themselves in numbers, in the text format of Prometheus. The names
// are an interface: dashboards and alarms of others depend on them. Each of these commands has a table of its own;
// what is the same for all of them is here.
//
// The values of labels come out of the configuration, or are one of a few words. Nothing that stands in a message
// becomes a label.

// MetricsVariable says in the environment what --metrics-listen says.
const MetricsVariable = "TENAQ_METRICS_LISTEN"

// MetricsHelp says what --metrics-listen does; it is part of the help of every command that has it.
const MetricsHelp = `With --metrics-listen or TENAQ_METRICS_LISTEN there is an address with /metrics, for Prometheus, and /livez,
which answers 200 as long as the process does. A port alone, such as :9326, is on 127.0.0.1; other machines
reach an address that names what to listen on, such as 0.0.0.0:9326. Several programs on one machine need
several ports. docs/operations/metrics.md says what the metrics mean.`

// MetricsFlags say where a command tells its metrics.
type MetricsFlags struct{ metricsListen string }

func (f *MetricsFlags) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.metricsListen, "metrics-listen", "", "tell metrics at this `address`, such as :9326; off for none (default $TENAQ_METRICS_LISTEN, else off)")
}

// Listen takes the address, before anything else is begun. It returns nil when there is none.
func (f *MetricsFlags) Listen() (*metricsServer, error) {
	address, origin := f.metricsListen, "--metrics-listen"
	if address == "" {
		address, origin = os.Getenv(MetricsVariable), MetricsVariable
	}
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
		return nil, Codedf(ExitRefused, "%s: address %s is in use: stop the other program or choose another address", origin, address)
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
	logger.Info("telling metrics", "url", "http://"+s.listener.Addr().String()+"/metrics")
}

// metricsHandler answers /metrics and /livez.
func metricsHandler(write func(*metric.Writer)) http.Handler {
	started := time.Now()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", metric.ContentType)
		w.Header().Set("Cache-Control", "no-store")
		m := metric.NewWriter(w)
		write(m)
		WriteMetrics(m, processMetrics, started)
		_ = m.Flush() // nobody is there to read it
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write([]byte("ok\n"))
	})
	return mux
}

// metricsDrain is how long a scrape that is under way may go on when the command ends.
const metricsDrain = 5 * time.Second

// Close ends it. What a scrape asks is not needed any more afterwards.
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

// A MetricRow is a family of a table, and how to write it from what is known.
type MetricRow[K any] struct {
	metric.Family
	Write func(w *metric.Writer, known K)
}

// WriteMetrics writes all rows of a table.
func WriteMetrics[K any](w *metric.Writer, table []MetricRow[K], known K) {
	for i := range table {
		w.Begin(table[i].Family)
		table[i].Write(w, known)
	}
}

// processMetrics are those of every command, whose process has started at a time.
var processMetrics = []MetricRow[time.Time]{
	{metric.Family{Name: "tenaq_build_info", Help: "1, with the version of the program", Kind: metric.KindGauge, Labels: []string{"version", "go"}},
		func(w *metric.Writer, _ time.Time) { w.Value(1, BuildVersion().Version, runtime.Version()) }},
	{metric.Family{Name: "process_start_time_seconds", Help: "When the process started, since 1970", Kind: metric.KindGauge},
		func(w *metric.Writer, started time.Time) { w.Value(float64(started.UnixMilli()) / 1000) }},
	{metric.Family{Name: "process_cpu_seconds_total", Help: "CPU time that the process has used, in user and system mode", Kind: metric.KindCounter},
		func(w *metric.Writer, _ time.Time) { w.Value(metric.CPUSeconds()) }},
	{metric.Family{Name: "go_goroutines", Help: "Goroutines", Kind: metric.KindGauge},
		func(w *metric.Writer, _ time.Time) { w.Value(float64(runtime.NumGoroutine())) }},
}

// A WordCount counts by one of a few words. All of them are there from the beginning, or the first one to be
// counted would be no increase.
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

// Write writes all of them. The word is the last label.
func (c *WordCount) Write(w *metric.Writer, labels ...string) {
	for i, word := range c.words {
		w.Value(float64(c.counts[i].Value()), append(labels[:len(labels):len(labels)], word)...)
	}
}

// askedMax is how long a scrape waits for what it has to ask others.
const askedMax = 5 * time.Second

// An Asked value is known to others. It is asked for when somebody wants it, and not again for a while, however many
// want it: asking may be work. That it could not be asked is kept as well.
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
