package server

import (
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"

	"tenaq/internal/engine"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/metric"
	"tenaq/internal/observe/tally"
)

// A row of the table is a family of metrics, and how to write it.
type row struct {
	metric.Family
	perQueue bool
	ofWriter bool // only while this server writes the store
	write    func(w *metric.Writer, r *reading)
}

const (
	counter   = metric.KindCounter
	gauge     = metric.KindGauge
	histogram = metric.KindHistogram
)

// table lists the families of a server. Their names are an interface, because dashboards and alarms
// of users depend on them.
var table = []row{
	family("tenaq_queue_messages", gauge,
		"Messages of a queue by state: visible, in_flight or delayed",
		func(w *metric.Writer, r *reading) {
			for _, g := range r.gauges {
				writeStates(w, &g, g.Queue.Name)
			}
		}, "queue", "state"),
	family("tenaq_queue_oldest_message_age_seconds", gauge,
		"Time since the oldest message of a queue was first sent, to this or an earlier queue; 0 if the queue is empty",
		func(w *metric.Writer, r *reading) {
			for _, g := range r.gauges {
				w.Value(float64(g.Age)/1000, g.Queue.Name)
			}
		}, "queue"),
	counted("tenaq_queue_sent_total", "Messages that clients sent and the queue stored",
		func(q *tally.Queue) *metric.Counter { return &q.Sent }),
	counted("tenaq_queue_deduplicated_total", "Sends that were duplicates and stored nothing",
		func(q *tally.Queue) *metric.Counter { return &q.Deduplicated }),
	counted("tenaq_queue_received_total", "Messages received, repeated deliveries included",
		func(q *tally.Queue) *metric.Counter { return &q.Received }),
	counted("tenaq_queue_redelivered_total", "Messages received that had been received before",
		func(q *tally.Queue) *metric.Counter { return &q.Redelivered }),
	family("tenaq_queue_timed_out_total", counter,
		"Deliveries whose visibility timeout expired before a delete, counted at the next receive or move; timeout is kept, or changed by the consumer",
		func(w *metric.Writer, r *reading) {
			for _, q := range r.counts {
				w.Value(float64(q.TimedOut.Value()), q.Name, "kept")
				w.Value(float64(q.TimedOutChanged.Value()), q.Name, "changed")
			}
		}, "queue", "timeout"),
	counted("tenaq_queue_empty_receives_total", "Receives that returned no message",
		func(q *tally.Queue) *metric.Counter { return &q.Empty }),
	family("tenaq_queue_deleted_total", counter,
		"Successful deletes by handle: current removed the message, stale belonged to an earlier delivery and removed nothing, gone found no message",
		func(w *metric.Writer, r *reading) {
			for _, q := range r.counts {
				w.Value(float64(q.Deleted.Value()), q.Name, "current")
				w.Value(float64(q.DeletedStale.Value()), q.Name, "stale")
				w.Value(float64(q.DeletedGone.Value()), q.Name, "gone")
			}
		}, "queue", "handle"),
	counted("tenaq_queue_expired_total", "Messages removed at the end of their retention",
		func(q *tally.Queue) *metric.Counter { return &q.Expired }),
	counted("tenaq_queue_dead_lettered_total", "Messages moved to the dead-letter queue",
		func(q *tally.Queue) *metric.Counter { return &q.DeadLetters }),
	counted("tenaq_queue_moved_total", "Messages that move tasks moved to another queue",
		func(q *tally.Queue) *metric.Counter { return &q.Moved }),
	counted("tenaq_queue_arrived_total",
		"Messages that arrived from another queue, dead-lettered or moved",
		func(q *tally.Queue) *metric.Counter { return &q.Arrived }),
	distribution("tenaq_queue_message_size_bytes",
		"Sizes of messages that clients sent and the queue stored",
		func(q *tally.Queue) *metric.Histogram { return q.Sizes }),
	distribution("tenaq_queue_wait_seconds", "Time from the send of a message to its first receive",
		func(q *tally.Queue) *metric.Histogram { return q.Waited }),
	distribution("tenaq_queue_handling_seconds",
		"Time from the latest receive of a message to its delete",
		func(q *tally.Queue) *metric.Histogram { return q.Handled }),

	family("tenaq_queues", gauge, "Queues that exist", func(w *metric.Writer, r *reading) {
		if r.answers {
			w.Value(float64(len(r.gauges)))
		}
	}),
	family("tenaq_messages", gauge, "Messages of all queues by state: visible, in_flight or delayed",
		func(w *metric.Writer, r *reading) {
			var all engine.Gauge
			for _, g := range r.gauges {
				all.Visible += g.Visible
				all.InFlight += g.InFlight
				all.Delayed += g.Delayed
			}
			if r.answers {
				writeStates(w, &all)
			}
		}, "state"),
	family("tenaq_move_tasks", gauge, "Unfinished move tasks by state: running or cancelling",
		func(w *metric.Writer, r *reading) {
			if r.answers {
				running := len(r.running())
				w.Value(float64(running), "running")
				w.Value(float64(len(r.tasks)-running), "cancelling")
			}
		}, "state"),
	ofTasks("tenaq_move_task_moved_messages",
		"Messages that a running move task has moved; destination is empty if each returns to its source queue",
		func(t *engine.MoveTask) int64 { return t.Moved }),
	ofTasks("tenaq_move_task_expected_messages",
		"Messages available when a running move task started: about as many as it will move",
		func(t *engine.MoveTask) int64 { return t.ToMove }),

	family("tenaq_requests_total", counter,
		"Answered requests of the SQS address by action and error code; action is empty if the request named none, and Forward if another node of the cluster answered it; code is empty on success",
		func(w *metric.Writer, r *reading) {
			for _, c := range r.s.intake.Ends.All() {
				w.Value(float64(c.N.Value()), c.Action, c.Code)
			}
		}, "action", "code"),
	family("tenaq_request_seconds", histogram,
		"Time from the headers of a successful request to its answer, long polls included",
		func(w *metric.Writer, r *reading) {
			for _, c := range r.s.intake.Ends.All() {
				if c.Code == "" {
					w.Histogram(c.Times, c.Action)
				}
			}
		}, "action"),
	ofWriter(family("tenaq_commit_seconds", histogram,
		"Time that the writer waited for the disk in each turn",
		func(w *metric.Writer, r *reading) { w.Histogram(r.writer.Commits) })),
	ofWriter(family("tenaq_turn_requests", histogram, "Requests that the writer applied in one turn",
		func(w *metric.Writer, r *reading) { w.Histogram(r.writer.Turns) })),
	ofWriter(oneValue("tenaq_waiting_polls", "Long polls that wait for messages",
		func(r *reading) float64 { return float64(r.writer.Polls) })),
	ofWriter(oneValue("tenaq_waiting_requests", "Requests that wait for the writer",
		func(r *reading) float64 { return float64(r.writer.Intake) })),
	ofWriter(oneValue("tenaq_last_turn_age_seconds",
		"Time since the last turn of the writer reached the disk; at most about 5 in a healthy server",
		func(r *reading) float64 { return r.silence.Seconds() })),
	ofWriter(oneValue("tenaq_writer_answers",
		"1 if the writer reported its queues in time; if 0, gauges of queues and move tasks are missing",
		func(r *reading) float64 { return oneIf(r.answers) })),
	oneValue("tenaq_sends_refused",
		"1 while sends are refused because free disk space is below the reserve",
		func(r *reading) float64 { return oneIf(r.s.disk.low()) }),
	family("tenaq_disk_free_bytes", gauge, "Free bytes on the disk of the data directory",
		func(w *metric.Writer, r *reading) {
			if on, err := r.s.disk.room(r.s.cfg.DataDir); err == nil {
				w.Value(float64(on.free))
			}
		}),

	ofWriter(family("tenaq_alarms", gauge,
		"Alarms by state: alarms that programs created, and built-in alarms that are not OK or were not OK recently",
		func(w *metric.Writer, r *reading) {
			n := make(map[alarm.State]int)
			for _, s := range r.alarms {
				n[s.State]++
			}
			for _, state := range []alarm.State{alarm.OK, alarm.Alarm, alarm.Insufficient} {
				w.Value(float64(n[state]), string(state))
			}
		}, "state")),
	ofWriter(family("tenaq_alarm_raised", gauge, "1 for each alarm in the state ALARM",
		func(w *metric.Writer, r *reading) {
			for _, s := range r.alarms {
				if s.State == alarm.Alarm {
					w.Value(1, s.Name, s.Queue)
				}
			}
		}, "alarm", "queue")),
	ofWriter(oneValue("tenaq_alarms_judged_age_seconds",
		"Time since all alarms were last evaluated; at most about 60 in a healthy server",
		func(r *reading) float64 { return r.v.alarms.Judged().Seconds() })),
	ofWriter(family("tenaq_alarm_notices_total", counter,
		"Notices of alarms by action and result: delivered, or lost after all attempts",
		func(w *metric.Writer, r *reading) {
			for _, n := range r.v.alarms.Notices() {
				w.Value(float64(n.Delivered), n.Action, "delivered")
				w.Value(float64(n.Lost), n.Action, "lost")
			}
		}, "action", "result")),

	family("tenaq_build_info", gauge, "Always 1; the labels carry the version",
		func(w *metric.Writer, r *reading) { w.Value(1, r.s.cfg.Version, runtime.Version()) },
		"version", "go"),
	oneValue("process_start_time_seconds", "Start time of the process, in seconds since 1970",
		func(r *reading) float64 { return float64(r.s.started.UnixMilli()) / 1000 }),
	family("process_cpu_seconds_total", counter, "User and system CPU time of the process",
		func(w *metric.Writer, _ *reading) { w.Value(metric.CPUSeconds()) }),
	family("process_resident_memory_bytes", gauge, "Resident memory of the process",
		func(w *metric.Writer, _ *reading) {
			if n, ok := resident(); ok {
				w.Value(n)
			}
		}),
	oneValue("go_goroutines", "Number of goroutines",
		func(*reading) float64 { return float64(runtime.NumGoroutine()) }),
	oneValue("go_memstats_heap_alloc_bytes", "Bytes of objects on the heap",
		func(r *reading) float64 {
			sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
			metrics.Read(sample)
			return float64(sample[0].Value.Uint64()) - float64(r.s.cfg.HeapBallast)
		}),
}

// family returns the row of any family. One with the label queue is written for each queue.
func family(
	name string, kind metric.Kind, help string, write func(*metric.Writer, *reading),
	labels ...string,
) row {
	return row{metric.Family{Name: name, Help: help, Kind: kind, Labels: labels},
		slices.Contains(labels, "queue"), false, write}
}

// ofWriter marks a row that only the writer of a store knows.
func ofWriter(r row) row {
	r.ofWriter = true
	return r
}

// oneValue returns the row of a gauge with one value.
func oneValue(name, help string, value func(*reading) float64) row {
	return family(name, gauge, help, func(w *metric.Writer, r *reading) { w.Value(value(r)) })
}

// counted returns the row of a counter that each queue has.
func counted(name, help string, of func(*tally.Queue) *metric.Counter) row {
	return family(name, counter, help, func(w *metric.Writer, r *reading) {
		for _, q := range r.counts {
			w.Value(float64(of(q).Value()), q.Name)
		}
	}, "queue")
}

// distribution returns the row of a histogram that each queue has.
func distribution(name, help string, of func(*tally.Queue) *metric.Histogram) row {
	return family(name, histogram, help, func(w *metric.Writer, r *reading) {
		for _, q := range r.counts {
			w.Histogram(of(q), q.Name)
		}
	}, "queue")
}

// ofTasks returns the row of a gauge that each running move task has. No two tasks have the same
// source. [MOVE-5]
func ofTasks(name, help string, of func(*engine.MoveTask) int64) row {
	return family(name, gauge, help, func(w *metric.Writer, r *reading) {
		for _, t := range r.running() {
			w.Value(float64(of(&t)), nameOfARN(t.Source), nameOfARN(t.Destination))
		}
	}, "source", "destination")
}

// writeStates writes how many messages are in each state.
func writeStates(w *metric.Writer, g *engine.Gauge, labels ...string) {
	w.Value(float64(g.Visible), append(labels, "visible")...)
	w.Value(float64(g.InFlight), append(labels, "in_flight")...)
	w.Value(float64(g.Delayed), append(labels, "delayed")...)
}

// nameOfARN returns the name of the queue that an ARN ends with.
func nameOfARN(arn string) string { return arn[strings.LastIndexByte(arn, ':')+1:] }

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// resident returns the memory of the process, on systems that report it.
func resident() (bytes float64, ok bool) {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, false
	}
	var size, pages float64
	_, err = fmt.Sscan(string(statm), &size, &pages)
	return pages * float64(os.Getpagesize()), err == nil
}

// Families returns the families of the tables, for tests of what refers to them.
func Families() (families []metric.Family) {
	for _, row := range slices.Concat(table, nodeTable) {
		families = append(families, row.Family)
	}
	return families
}
