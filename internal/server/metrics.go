package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	"tenaq/internal/broker"
	"tenaq/internal/engine"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/metric"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/observe/tally"
)

// What the server tells about itself in numbers, in the text format of Prometheus. The names are an
// interface: dashboards and alarms of others depend on them.
//
// Numbers per queue are exact, and of the account of the configuration. Where the messages are is
// asked from the writer, a few queues at a time, so that requests go on in between; what has
// happened is counted as it happens, and begins at zero with the process.

// surveyPage is how many queues the writer looks at in one go.
const surveyPage = 50

// A reading is everything that is read for one answer.
type reading struct {
	s       *Server
	writer  broker.Metrics
	silence time.Duration  // before the writer was asked anything
	answers bool           // the writer
	gauges  []engine.Gauge // of the account; none when it does not answer
	tasks   []engine.MoveTask
	counts  []*tally.Queue // of the account
	alarms  []monitor.Status
}

// surveyTime is how long the writer has to tell where the messages are. What else there is to tell
// is told then without: it is for who asks what the writer is doing.
const surveyTime = 3 * time.Second

// A row of the table is a family, and how to write it.
type row struct {
	metric.Family
	perQueue bool
	write    func(w *metric.Writer, r *reading)
}

const (
	counter   = metric.KindCounter
	gauge     = metric.KindGauge
	histogram = metric.KindHistogram
)

var queueLabel = []string{"queue"}

// table is all there is.
var table = []row{
	{metric.Family{Name: "tenaq_queue_messages",
		Help: "Messages of a queue: visible, in_flight or delayed", Kind: gauge,
		Labels: []string{"queue", "state"}}, true,
		func(w *metric.Writer, r *reading) {
			for _, g := range r.gauges {
				w.Value(float64(g.Visible), g.Queue.Name, "visible")
				w.Value(float64(g.InFlight), g.Queue.Name, "in_flight")
				w.Value(float64(g.Delayed), g.Queue.Name, "delayed")
			}
		}},
	{metric.Family{Name: "tenaq_queue_oldest_message_age_seconds",
		Help: "How long ago the oldest of the messages of a queue was first sent, whatever queues it has been in since; 0 when there is none", Kind: gauge, Labels: queueLabel}, true,
		func(w *metric.Writer, r *reading) {
			for _, g := range r.gauges {
				w.Value(float64(g.Age)/1000, g.Queue.Name)
			}
		}},
	ofQueues("tenaq_queue_sent_total", "Messages that were sent and stored",
		func(q *tally.Queue) *metric.Counter {
			return &q.Sent
		}),
	ofQueues("tenaq_queue_deduplicated_total",
		"Sends that were duplicates, so that nothing was stored",
		func(q *tally.Queue) *metric.Counter {
			return &q.Deduplicated
		}),
	ofQueues("tenaq_queue_received_total", "Messages that were handed out",
		func(q *tally.Queue) *metric.Counter {
			return &q.Received
		}),
	ofQueues("tenaq_queue_redelivered_total", "Messages that were handed out and had been before",
		func(q *tally.Queue) *metric.Counter {
			return &q.Redelivered
		}),
	{metric.Family{Name: "tenaq_queue_timed_out_total",
		Help: "Deliveries whose visibility timeout was over before a delete, counted when the message went on; the timeout was kept as the receive had it, or changed",
		Kind: counter, Labels: []string{"queue", "timeout"}}, true,
		func(w *metric.Writer, r *reading) {
			for _, q := range r.counts {
				w.Value(float64(q.TimedOut.Value()), q.Name, "kept")
				w.Value(float64(q.TimedOutChanged.Value()), q.Name, "changed")
			}
		}},
	ofQueues("tenaq_queue_empty_receives_total", "Receives that were answered without a message",
		func(q *tally.Queue) *metric.Counter {
			return &q.Empty
		}),
	{metric.Family{Name: "tenaq_queue_deleted_total",
		Help: "Deletes that were answered as done, by handle: current removed the message, stale was of an earlier delivery and removed nothing, gone found no message",
		Kind: counter, Labels: []string{"queue", "handle"}}, true,
		func(w *metric.Writer, r *reading) {
			for _, q := range r.counts {
				w.Value(float64(q.Deleted.Value()), q.Name, "current")
				w.Value(float64(q.DeletedStale.Value()), q.Name, "stale")
				w.Value(float64(q.DeletedGone.Value()), q.Name, "gone")
			}
		}},
	ofQueues("tenaq_queue_expired_total", "Messages whose retention was over",
		func(q *tally.Queue) *metric.Counter {
			return &q.Expired
		}),
	ofQueues("tenaq_queue_dead_lettered_total", "Messages that left for the dead-letter queue",
		func(q *tally.Queue) *metric.Counter {
			return &q.DeadLetters
		}),
	ofQueues("tenaq_queue_moved_total", "Messages that a move task took away",
		func(q *tally.Queue) *metric.Counter {
			return &q.Moved
		}),
	ofQueues("tenaq_queue_arrived_total",
		"Messages that came from another queue, dead-lettered or moved",
		func(q *tally.Queue) *metric.Counter {
			return &q.Arrived
		}),
	distribution("tenaq_queue_message_size_bytes", "Sizes of messages that were sent and stored",
		func(q *tally.Queue) *metric.Histogram {
			return q.Sizes
		}),
	distribution("tenaq_queue_wait_seconds", "From the send of a message to its first receive",
		func(q *tally.Queue) *metric.Histogram {
			return q.Waited
		}),
	distribution("tenaq_queue_handling_seconds",
		"From the newest receive of a message to its delete",
		func(q *tally.Queue) *metric.Histogram {
			return q.Handled
		}),

	{metric.Family{Name: "tenaq_queues", Help: "Queues that exist", Kind: gauge}, false,
		func(w *metric.Writer, r *reading) {
			if r.answers {
				w.Value(float64(len(r.gauges)))
			}
		}},
	{metric.Family{Name: "tenaq_messages",
		Help: "Messages of all queues: visible, in_flight or delayed", Kind: gauge,
		Labels: []string{"state"}}, false,
		func(w *metric.Writer, r *reading) {
			if !r.answers {
				return
			}
			var all engine.Gauge
			for _, g := range r.gauges {
				all.Visible, all.InFlight, all.Delayed = all.Visible+g.Visible, all.InFlight+
					g.InFlight, all.Delayed+g.Delayed
			}
			w.Value(float64(all.Visible), "visible")
			w.Value(float64(all.InFlight), "in_flight")
			w.Value(float64(all.Delayed), "delayed")
		}},

	{metric.Family{Name: "tenaq_move_tasks",
		Help: "Move tasks that are not over: running or cancelling", Kind: gauge,
		Labels: []string{"state"}}, false,
		func(w *metric.Writer, r *reading) {
			if r.answers {
				w.Value(float64(len(r.running())), "running")
				w.Value(float64(len(r.tasks)-len(r.running())), "cancelling")
			}
		}},
	ofTasks("tenaq_move_task_moved_messages",
		"Messages that a running move task has moved; the destination is empty when each goes back to where it came from",
		func(t *engine.MoveTask) int64 { return t.Moved }),
	ofTasks("tenaq_move_task_expected_messages",
		"Messages that could be received when a running move task started, and so about what it has to move",
		func(t *engine.MoveTask) int64 { return t.ToMove }),

	{metric.Family{Name: "tenaq_requests_total",
		Help: "Requests of the main port that were answered, by action and code of the error; empty for those that name no action, and for success", Kind: counter, Labels: []string{"action", "code"}}, false,
		func(w *metric.Writer, r *reading) {
			for _, c := range r.s.intake.Ends.All() {
				w.Value(float64(c.N.Value()), c.Action, c.Code)
			}
		}},
	{metric.Family{Name: "tenaq_request_seconds",
		Help: "From the headers of a request to its answer, waits of polls included, where it succeeded", Kind: histogram, Labels: []string{"action"}}, false,
		func(w *metric.Writer, r *reading) {
			for _, c := range r.s.intake.Ends.All() {
				if c.Code == "" {
					w.Histogram(c.Times, c.Action)
				}
			}
		}},
	{metric.Family{Name: "tenaq_commit_seconds",
		Help: "How long the writer waited for the disk, turn by turn", Kind: histogram}, false,
		func(w *metric.Writer, r *reading) { w.Histogram(r.writer.Commits) }},
	{metric.Family{Name: "tenaq_turn_requests",
		Help: "Requests that one turn of the writer took up together", Kind: histogram}, false,
		func(w *metric.Writer, r *reading) { w.Histogram(r.writer.Turns) }},
	{metric.Family{Name: "tenaq_waiting_polls", Help: "Receives that wait for messages",
		Kind: gauge}, false,
		func(w *metric.Writer, r *reading) { w.Value(float64(r.writer.Polls)) }},
	{metric.Family{Name: "tenaq_waiting_requests", Help: "Requests that wait to be taken up",
		Kind: gauge}, false,
		func(w *metric.Writer, r *reading) { w.Value(float64(r.writer.Intake)) }},
	{metric.Family{Name: "tenaq_last_turn_age_seconds",
		Help: "How long ago the last turn of the writer reached the disk; it happens every five seconds at least", Kind: gauge}, false,
		func(w *metric.Writer, r *reading) { w.Value(r.silence.Seconds()) }},
	{metric.Family{Name: "tenaq_writer_answers",
		Help: "1 when the writer has told where the messages are; without, there is nothing of that here", Kind: gauge}, false,
		func(w *metric.Writer, r *reading) { w.Value(oneIf(r.answers)) }},
	{metric.Family{Name: "tenaq_sends_refused",
		Help: "1 while sends are refused because the disk is nearly full", Kind: gauge}, false,
		func(w *metric.Writer, r *reading) { w.Value(oneIf(r.s.disk.low())) }},
	{metric.Family{Name: "tenaq_disk_free_bytes", Help: "Free bytes where the data is",
		Kind: gauge}, false,
		func(w *metric.Writer, r *reading) {
			if free, err := r.s.disk.room(r.s.cfg.DataDir); err == nil {
				w.Value(float64(free))
			}
		}},

	{metric.Family{Name: "tenaq_alarms",
		Help: "Alarms by state, of those that programs have put and of those of queues that are not OK or have not been for long", Kind: gauge, Labels: []string{"state"}}, false,
		func(w *metric.Writer, r *reading) {
			for _, state := range []alarm.State{alarm.OK, alarm.Alarm, alarm.Insufficient} {
				n := 0
				for _, s := range r.alarms {
					if s.State == state {
						n++
					}
				}
				w.Value(float64(n), string(state))
			}
		}},
	{metric.Family{Name: "tenaq_alarm_raised", Help: "1 for each alarm that is in the state ALARM",
		Kind: gauge, Labels: []string{"alarm", "queue"}}, true,
		func(w *metric.Writer, r *reading) {
			for _, s := range r.alarms {
				if s.State == alarm.Alarm {
					w.Value(1, s.Name, s.Queue)
				}
			}
		}},
	{metric.Family{Name: "tenaq_alarms_judged_age_seconds",
		Help: "How long ago all alarms were evaluated last; it happens every minute", Kind: gauge},
		false,
		func(w *metric.Writer, r *reading) { w.Value(r.s.alarms.Judged().Seconds()) }},
	{metric.Family{Name: "tenaq_alarm_notices_total",
		Help: "Notices of alarms by action and by result: delivered, or lost after all attempts",
		Kind: counter, Labels: []string{"action", "result"}}, false,
		func(w *metric.Writer, r *reading) {
			for _, n := range r.s.alarms.Notices() {
				w.Value(float64(n.Delivered), n.Action, "delivered")
				w.Value(float64(n.Lost), n.Action, "lost")
			}
		}},

	{metric.Family{Name: "tenaq_build_info", Help: "1, with the version of the program",
		Kind: gauge, Labels: []string{"version", "go"}}, false,
		func(w *metric.Writer, r *reading) { w.Value(1, r.s.cfg.Version, runtime.Version()) }},
	{metric.Family{Name: "process_start_time_seconds", Help: "When the process started, since 1970",
		Kind: gauge}, false,
		func(w *metric.Writer, r *reading) { w.Value(float64(r.s.started.UnixMilli()) / 1000) }},
	{metric.Family{Name: "process_cpu_seconds_total",
		Help: "CPU time that the process has used, in user and system mode", Kind: counter}, false,
		func(w *metric.Writer, _ *reading) { w.Value(metric.CPUSeconds()) }},
	{metric.Family{Name: "process_resident_memory_bytes",
		Help: "Memory that the process has from the system", Kind: gauge}, false,
		func(w *metric.Writer, _ *reading) {
			if n, ok := resident(); ok {
				w.Value(n)
			}
		}},
	{metric.Family{Name: "go_goroutines", Help: "Goroutines", Kind: gauge}, false,
		func(w *metric.Writer, _ *reading) { w.Value(float64(runtime.NumGoroutine())) }},
	{metric.Family{Name: "go_memstats_heap_alloc_bytes", Help: "Bytes of objects on the heap",
		Kind: gauge}, false,
		func(w *metric.Writer, r *reading) {
			sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
			metrics.Read(sample)
			w.Value(float64(sample[0].Value.Uint64()) - float64(r.s.cfg.HeapBallast))
		}},
}

// ofQueues is a row of a counter that queues have.
func ofQueues(name, help string, of func(*tally.Queue) *metric.Counter) row {
	return row{metric.Family{Name: name, Help: help, Kind: counter, Labels: queueLabel}, true,
		func(w *metric.Writer, r *reading) {
			for _, q := range r.counts {
				w.Value(float64(of(q).Value()), q.Name)
			}
		}}
}

// distribution is a row of a histogram that queues have.
func distribution(name, help string, of func(*tally.Queue) *metric.Histogram) row {
	return row{metric.Family{Name: name, Help: help, Kind: histogram, Labels: queueLabel}, true,
		func(w *metric.Writer, r *reading) {
			for _, q := range r.counts {
				w.Histogram(of(q), q.Name)
			}
		}}
}

// ofTasks is a row of a gauge that running move tasks have. No two of them empty the same queue.
// [MOVE-5]
func ofTasks(name, help string, of func(*engine.MoveTask) int64) row {
	return row{metric.Family{Name: name, Help: help, Kind: gauge,
		Labels: []string{"source", "destination"}}, false, func(w *metric.Writer, r *reading) {
		for _, t := range r.running() {
			w.Value(float64(of(&t)), nameOfARN(t.Source), nameOfARN(t.Destination))
		}
	}}
}

// running are the move tasks that go on.
func (r *reading) running() (tasks []engine.MoveTask) {
	for _, t := range r.tasks {
		if t.Status == "RUNNING" {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// nameOfARN is the name of the queue that an ARN ends with.
func nameOfARN(arn string) string { return arn[strings.LastIndexByte(arn, ':')+1:] }

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// resident is the memory of the process, where the system tells.
func resident() (bytes float64, ok bool) {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, false
	}
	var size, pages float64
	_, err = fmt.Sscan(string(statm), &size, &pages)
	return pages * float64(os.Getpagesize()), err == nil
}

// serveMetrics answers a scrape.
func (s *Server) serveMetrics(w http.ResponseWriter, req *http.Request) {
	r := s.read(req.Context())
	w.Header().Set("Content-Type", metric.ContentType)
	w.Header().Set("Cache-Control", "no-store")
	_ = r.writeTo(w) // the client has left
}

// read asks for everything that is not counted. The state of the writer is looked at first: to be
// asked is work for it.
func (s *Server) read(ctx context.Context) *reading {
	r := &reading{s: s, writer: s.broker.Metrics(), silence: s.broker.Silence(),
		alarms: s.alarms.Status()}
	ctx, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	r.gauges, r.answers = s.survey(ctx)
	if r.answers {
		op := &engine.SurveyTasks{Account: s.cfg.Account}
		if err := s.broker.Do(ctx, op); err == nil {
			r.tasks = op.Tasks
		} else {
			r.gauges, r.answers = nil, false
		}
	}
	s.broker.Tally().Each(func(q *tally.Queue) {
		if q.Account == s.cfg.Account {
			r.counts = append(r.counts, q)
		}
	})
	slices.SortFunc(r.counts, func(x, y *tally.Queue) int {
		return strings.Compare(x.Name, y.Name)
	})
	return r
}

// survey asks the writer where the messages are, of all queues or of none.
func (s *Server) survey(ctx context.Context) (gauges []engine.Gauge, ok bool) {
	for op := (&engine.Survey{Max: surveyPage}); ; op.After = op.Last {
		if err := s.broker.Do(ctx, op); err != nil {
			return nil, false
		}
		for _, g := range op.Gauges {
			if g.Queue.Account == s.cfg.Account {
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
	for i := range table {
		if row := &table[i]; !row.perQueue || !r.s.cfg.NoQueueMetrics {
			w.Begin(row.Family)
			row.write(w, r)
		}
	}
	if r.s.cfg.Metrics != nil {
		r.s.cfg.Metrics(w)
	}
	return w.Flush()
}

// Families are those of the table, for who checks what refers to them.
func Families() (families []metric.Family) {
	for i := range table {
		families = append(families, table[i].Family)
	}
	return families
}
