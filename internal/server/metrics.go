package server

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"tenaq/internal/broker"
	"tenaq/internal/cluster/node"
	"tenaq/internal/engine"
	"tenaq/internal/observe/metric"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/observe/tally"
)

const (
	// surveyPage is the number of queues that the writer reports at a time. Requests are served in
	// between.
	surveyPage = 50

	// surveyTime is how long a scrape waits for the writer. Without its report the scrape still has
	// everything else, because an operator may be looking for what the writer is doing.
	surveyTime = 3 * time.Second
)

// A reading is everything that one scrape reports. Values per queue are exact, and only of the
// server's own account.
type reading struct {
	s       *Server
	v       *service     // nil while this server does not write the store
	node    node.Metrics // of a node of a cluster
	writer  broker.Metrics
	silence time.Duration  // before the writer was asked anything
	answers bool           // the writer reported its queues
	gauges  []engine.Gauge // none if the writer did not answer
	tasks   []engine.MoveTask
	counts  []*tally.Queue // since the process started
	alarms  []monitor.Status
}

func (r *reading) running() (tasks []engine.MoveTask) {
	for _, t := range r.tasks {
		if t.Status == "RUNNING" {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// serveMetrics answers a scrape in the text format of Prometheus.
func (s *Server) serveMetrics(w http.ResponseWriter, req *http.Request) {
	r := s.read(req.Context())
	w.Header().Set("Content-Type", metric.ContentType)
	w.Header().Set("Cache-Control", "no-store")
	_ = r.writeTo(w) // the client has left
}

// read collects a reading. It looks at the state of the writer first, because the questions that
// follow are work for the writer.
func (s *Server) read(ctx context.Context) *reading {
	r := &reading{s: s, v: s.writer.Load()}
	s.tally.Each(func(q *tally.Queue) {
		if q.Account == s.cfg.Account {
			r.counts = append(r.counts, q)
		}
	})
	slices.SortFunc(r.counts, func(x, y *tally.Queue) int {
		return strings.Compare(x.Name, y.Name)
	})
	if s.node != nil {
		r.node = s.node.Metrics()
	}
	if r.v != nil {
		ctx, cancel := context.WithTimeout(ctx, surveyTime)
		defer cancel()
		r.ask(ctx)
	}
	return r
}

// ask asks the writer.
func (r *reading) ask(ctx context.Context) {
	b := r.v.broker
	r.writer, r.silence, r.alarms = b.Metrics(), b.Silence(), r.v.alarms.Status()
	r.gauges, r.answers = r.survey(ctx)
	if !r.answers {
		return
	}
	op := &engine.SurveyTasks{Account: r.s.cfg.Account}
	if err := b.Do(ctx, op); err != nil {
		r.gauges, r.answers = nil, false
		return
	}
	r.tasks = op.Tasks
}

// survey asks the writer where the messages of all queues are.
func (r *reading) survey(ctx context.Context) (gauges []engine.Gauge, ok bool) {
	for op := (&engine.Survey{Max: surveyPage}); ; op.After = op.Last {
		if err := r.v.broker.Do(ctx, op); err != nil {
			return nil, false
		}
		for _, g := range op.Gauges {
			if g.Queue.Account == r.s.cfg.Account {
				gauges = append(gauges, g)
			}
		}
		if !op.More {
			return gauges, true
		}
	}
}

func (r *reading) writeTo(to io.Writer) error {
	w := metric.NewWriter(to)
	rows := table
	if r.s.node != nil {
		rows = slices.Concat(table, nodeTable)
	}
	for i := range rows {
		row := &rows[i]
		if row.perQueue && r.s.cfg.NoQueueMetrics || row.ofWriter && r.v == nil {
			continue
		}
		w.Begin(row.Family)
		row.write(w, r)
	}
	if r.s.cfg.Metrics != nil {
		r.s.cfg.Metrics(w)
	}
	return w.Flush()
}
