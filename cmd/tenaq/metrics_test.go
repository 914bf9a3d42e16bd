package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/breaker"
	"tenaq/internal/metric"
	"tenaq/internal/server"
	"tenaq/outbox"
	"tenaq/redrive"
	"tenaq/worker"
)

// told is what is written, by name and labels.
func told(t *testing.T, write func(*metric.Writer)) map[string]string {
	t.Helper()
	var b strings.Builder
	w := metric.NewWriter(&b)
	write(w)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	values := make(map[string]string)
	for line := range strings.Lines(b.String()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && !strings.HasPrefix(line, "#") {
			values[name+"}"] = value
		} else if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			values[name] = value
		}
	}
	return values
}

func wantTold(t *testing.T, got map[string]string, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
}

// commandFamilies are those of all commands.
func commandFamilies() (all []metric.Family) {
	for _, r := range workerTable {
		all = append(all, r.Family)
	}
	for _, r := range redriveTable {
		all = append(all, r.Family)
	}
	for _, r := range outboxTable {
		all = append(all, r.Family)
	}
	return all
}

// The names follow the rules of Prometheus, and those of a server and its redriver do not collide.
func TestCommandMetricNames(t *testing.T) {
	seen := make(map[string]bool)
	for _, f := range append(server.Families(), commandFamilies()...) {
		if seen[f.Name] {
			t.Errorf("%s is there twice", f.Name)
		}
		seen[f.Name] = true
	}
	for _, f := range commandFamilies() {
		if !regexp.MustCompile(`^tenaq_(worker|redrive|outbox)_[a-z_]+$`).MatchString(f.Name) {
			t.Errorf("%s is of no command", f.Name)
		}
		if (f.Kind == metric.KindCounter) != strings.HasSuffix(f.Name, "_total") {
			t.Errorf("%s is a %s", f.Name, f.Kind)
		}
		if f.Kind == metric.KindHistogram && !regexp.MustCompile(`_(seconds|rows)$`).MatchString(f.Name) {
			t.Errorf("%s has no unit", f.Name)
		}
		if f.Help == "" || strings.HasSuffix(f.Help, ".") {
			t.Errorf("%s: the help is %q", f.Name, f.Help)
		}
	}
}

func TestWorkerMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newWorkerMetrics("orders", 4)
		var log []string
		note := func(what string) { log = append(log, what) }
		e := m.events(worker.Events{
			Received:     func(*worker.Message) { note("received") },
			Done:         func(*worker.Message, time.Duration) { note("done") },
			Failed:       func(*worker.Message, error, time.Duration) { note("failed") },
			Deferred:     func(*worker.Message, time.Duration, string) { note("deferred") },
			Busy:         func(*worker.Message, *claims.Busy) { note("busy") },
			Duplicate:    func(*worker.Message, *claims.Done) { note("duplicate") },
			DeadLettered: func(*worker.Message, string, string) { note("dead") },
			Lost:         func(*worker.Message, error) { note("lost") },
			Abandoned:    func(*worker.Message, error) { note("abandoned") },
		})
		begin := func() *worker.Message {
			msg := new(worker.Message)
			e.Received(msg)
			e.Claimed(msg, nil)
			e.Started(msg)
			return msg
		}
		bad := errors.New("no")
		done, failed, poison, given, lost, abandoned := begin(), begin(), begin(), begin(), begin(), begin()
		begin() // and never heard of again
		time.Sleep(3 * time.Second)
		e.Done(done, time.Second)
		e.Failed(failed, bad, time.Second)
		e.Failed(poison, worker.Poison(bad), time.Second)
		e.DeadLettered(poison, "no", "id")
		e.Deferred(given, time.Second, "later")
		e.Lost(lost, bad)
		e.Abandoned(abandoned, bad)

		unbegun := new(worker.Message)
		for _, err := range []error{&claims.Busy{}, fmt.Errorf("wrapped: %w", &claims.Done{}), &claims.UsedUp{}, &claims.NeedsPerson{}, bad, bad} {
			e.Claimed(unbegun, err)
		}
		e.Busy(unbegun, &claims.Busy{})
		e.Duplicate(unbegun, &claims.Done{})
		e.Deferred(unbegun, time.Second, "the ledger cannot be used")
		e.Failed(unbegun, worker.Poison(bad), 0)
		e.Lost(unbegun, bad)
		e.Beat(3, nil)
		e.Beat(2, bad)
		e.QueueError("receive", 1, bad)
		e.QueueError("send to the dead-letter queue", 1, bad)
		e.QueueError("dance", 1, bad)

		wantTold(t, told(t, m.write), map[string]string{
			`tenaq_worker_received_total{queue="orders"}`:                             "7",
			`tenaq_worker_claims_total{queue="orders",outcome="won"}`:                 "7",
			`tenaq_worker_claims_total{queue="orders",outcome="busy"}`:                "1",
			`tenaq_worker_claims_total{queue="orders",outcome="done"}`:                "1",
			`tenaq_worker_claims_total{queue="orders",outcome="exhausted"}`:           "1",
			`tenaq_worker_claims_total{queue="orders",outcome="parked"}`:              "1",
			`tenaq_worker_claims_total{queue="orders",outcome="unknown"}`:             "2",
			`tenaq_worker_attempts_total{queue="orders",attempt="first"}`:             "7",
			`tenaq_worker_attempts_total{queue="orders",attempt="repeated"}`:          "0",
			`tenaq_worker_handled_total{queue="orders",result="succeeded"}`:           "1",
			`tenaq_worker_handled_total{queue="orders",result="failed"}`:              "1",
			`tenaq_worker_handled_total{queue="orders",result="poison"}`:              "2",
			`tenaq_worker_handled_total{queue="orders",result="given_back"}`:          "1",
			`tenaq_worker_handled_total{queue="orders",result="lost"}`:                "1",
			`tenaq_worker_handled_total{queue="orders",result="abandoned"}`:           "1",
			`tenaq_worker_handling_seconds_sum{queue="orders"}`:                       "18",
			`tenaq_worker_handling_seconds_count{queue="orders"}`:                     "6",
			`tenaq_worker_running{queue="orders"}`:                                    "1",
			`tenaq_worker_concurrency{queue="orders"}`:                                "4",
			`tenaq_worker_given_back_total{queue="orders"}`:                           "2",
			`tenaq_worker_lost_total{queue="orders"}`:                                 "2",
			`tenaq_worker_dead_lettered_total{queue="orders"}`:                        "1",
			`tenaq_worker_lease_renewals_total{queue="orders",result="renewed"}`:      "3",
			`tenaq_worker_lease_renewals_total{queue="orders",result="failed"}`:       "2",
			`tenaq_worker_queue_errors_total{queue="orders",operation="receive"}`:     "1",
			`tenaq_worker_queue_errors_total{queue="orders",operation="dead_letter"}`: "1",
			`tenaq_worker_queue_errors_total{queue="orders",operation="other"}`:       "1",
		})
		want := "received received received received received received received done failed failed dead deferred lost abandoned busy duplicate deferred failed lost"
		if got := strings.Join(log, " "); got != want {
			t.Errorf("the log was told %q, want %q", got, want)
		}
	})
}

func TestRedriveMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newRedriveMetrics([]redriveSpec{{deadLetter: "a-dlq", parking: "lot"}, {deadLetter: "arn:aws:sqs:us-east-1:000000000000:b-dlq", parking: "lot"}})
		values := told(t, m.write)
		wantTold(t, values, map[string]string{
			`tenaq_redrive_steps_total{queue="a-dlq",result="done"}`:     "0",
			`tenaq_redrive_decisions_total{queue="b-dlq",action="park"}`: "0",
			`tenaq_redrive_last_step_age_seconds{queue="b-dlq"}`:         "0",
			`tenaq_redrive_breaker_state{queue="a-dlq"}`:                 "",
			`tenaq_redrive_dead_letters{queue="a-dlq"}`:                  "",
			`tenaq_redrive_drain_seconds{queue="a-dlq"}`:                 "",
			`tenaq_redrive_held{queue="a-dlq",why="rate"}`:               "",
			`tenaq_redrive_kinds{queue="a-dlq",breaker="closed"}`:        "",
		})

		decided := func(action redrive.Action, why string) redrive.Decided {
			return redrive.Decided{Decision: redrive.Decision{Action: action, Why: why}}
		}
		step := redriveStep{queue: "a-dlq", ended: time.Now(), drain: time.Minute, report: redrive.Report{
			Depth: 7,
			State: redrive.State{
				Breaker: breaker.Breaker{State: breaker.HalfOpen}, Rate: 5, Flights: make([]redrive.Flight, 2),
				Kinds: []redrive.Kind{{Breaker: breaker.Breaker{State: breaker.Open}}, {}},
			},
			Outcomes:  []redrive.Outcome{{Result: redrive.Succeeded}, {Result: redrive.Gone}, {Result: redrive.Failed}},
			Decisions: []redrive.Decided{decided(redrive.Redrive, ""), decided(redrive.Park, ""), decided(redrive.Hold, "5 messages are on their way"), decided(redrive.Hold, "no such queue")},
		}}
		m.note(step)
		time.Sleep(time.Minute)
		m.note(redriveStep{queue: "a-dlq", ended: time.Now(), err: redrive.ErrOverlap})
		time.Sleep(time.Minute)
		m.note(redriveStep{queue: "a-dlq", ended: time.Now(), err: errors.New("down"), report: redrive.Report{
			State: redrive.State{Breaker: breaker.Breaker{State: breaker.Open}, Paused: "release"}}})
		m.note(redriveStep{queue: "a-dlq", ended: time.Now(), err: errors.New("no records")})
		m.note(redriveStep{queue: "c-dlq", ended: time.Now()}) // nobody asked for it
		values = told(t, m.write)
		wantTold(t, values, map[string]string{
			`tenaq_redrive_steps_total{queue="a-dlq",result="done"}`:         "1",
			`tenaq_redrive_steps_total{queue="a-dlq",result="overlap"}`:      "1",
			`tenaq_redrive_steps_total{queue="a-dlq",result="failed"}`:       "2",
			`tenaq_redrive_steps_total{queue="b-dlq",result="done"}`:         "0",
			`tenaq_redrive_decisions_total{queue="a-dlq",action="redrive"}`:  "1",
			`tenaq_redrive_decisions_total{queue="a-dlq",action="park"}`:     "1",
			`tenaq_redrive_decisions_total{queue="a-dlq",action="hold"}`:     "2",
			`tenaq_redrive_outcomes_total{queue="a-dlq",result="succeeded"}`: "2",
			`tenaq_redrive_outcomes_total{queue="a-dlq",result="failed"}`:    "1",
			`tenaq_redrive_last_step_age_seconds{queue="a-dlq"}`:             "60",
			`tenaq_redrive_last_step_age_seconds{queue="b-dlq"}`:             "120",
			`tenaq_redrive_breaker_state{queue="a-dlq"}`:                     "1",
			`tenaq_redrive_breaker_state{queue="b-dlq"}`:                     "",
			`tenaq_redrive_paused{queue="a-dlq"}`:                            "1",
			`tenaq_redrive_dead_letters{queue="a-dlq"}`:                      "7",
			`tenaq_redrive_held{queue="a-dlq",why="rate"}`:                   "1",
			`tenaq_redrive_held{queue="a-dlq",why="other"}`:                  "1",
			`tenaq_redrive_held{queue="a-dlq",why="breaker"}`:                "0",
			`tenaq_redrive_drain_seconds{queue="a-dlq"}`:                     "", // it stands
		})
		step.ended = time.Now()
		m.note(step)
		wantTold(t, told(t, m.write), map[string]string{
			`tenaq_redrive_breaker_state{queue="a-dlq"}`:             "2",
			`tenaq_redrive_on_their_way{queue="a-dlq"}`:              "2",
			`tenaq_redrive_rate{queue="a-dlq"}`:                      "5",
			`tenaq_redrive_paused{queue="a-dlq"}`:                    "0",
			`tenaq_redrive_kinds{queue="a-dlq",breaker="closed"}`:    "1",
			`tenaq_redrive_kinds{queue="a-dlq",breaker="open"}`:      "1",
			`tenaq_redrive_kinds{queue="a-dlq",breaker="half_open"}`: "0",
			`tenaq_redrive_drain_seconds{queue="a-dlq"}`:             "60",
			`tenaq_redrive_last_step_age_seconds{queue="a-dlq"}`:     "0",
		})
	})
}

// The parking lot of several queues is asked once, and not with every scrape.
func TestParkingMetrics(t *testing.T) {
	inLoopRig(t, func(t *testing.T, r *loopRig) {
		m := newRedriveMetrics([]redriveSpec{{deadLetter: "a-dlq", parking: "parking"}, {deadLetter: "b-dlq", parking: "parking"}, {deadLetter: "c-dlq", parking: "gone"}})
		m.reach(r.host)
		parking := r.server.Queue(t, "parking")
		r.die(parking, 3)
		want := func(value string) {
			t.Helper()
			got := told(t, m.write)
			wantTold(t, got, map[string]string{`tenaq_redrive_parked_messages{parking="parking"}`: value, `tenaq_redrive_parked_messages{parking="gone"}`: ""})
		}
		want("3")
		r.die(parking, 1)
		want("3")
		time.Sleep(parkingKeep)
		want("4")
		m.reach(nil)
		time.Sleep(parkingKeep)
		want("")
	})
}

// The words for why a dead letter is held are found in what package redrive says.
func TestHoldReasons(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := defaultPolicy()
	p.Redrives, p.Strikes, p.Near, p.DelayBase, p.DelayMax = 5, 2, time.Minute, time.Minute, time.Hour
	closed := func(change func(*redrive.State)) redrive.State {
		s := redrive.State{Breaker: breaker.Breaker{State: breaker.Closed}, Rate: 5}
		change(&s)
		return s
	}
	kind := func(b breaker.Breaker) []redrive.Kind {
		return []redrive.Kind{{Fingerprint: redrive.FingerprintOf("timeout"), Since: now, Last: now, Breaker: b}}
	}
	flight := redrive.Flight{Letter: "x", Group: "g", Kind: redrive.FingerprintOf("timeout"), Sent: now}
	for _, test := range []struct {
		want   string
		state  redrive.State
		letter redrive.Letter
	}{
		{"paused", closed(func(s *redrive.State) { s.Paused = "release" }), redrive.Letter{}},
		{"breaker", closed(func(s *redrive.State) { s.Breaker = breaker.Breaker{State: breaker.Open, LastChange: now} }), redrive.Letter{}},
		{"unsure", closed(func(s *redrive.State) {}), redrive.Letter{Sends: 1, Died: now}},
		{"rate", closed(func(s *redrive.State) { s.Rate = 0 }), redrive.Letter{}},
		{"group", closed(func(s *redrive.State) { s.Flights = []redrive.Flight{flight} }), redrive.Letter{Group: "g"}},
		{"kind", closed(func(s *redrive.State) { s.Kinds = kind(breaker.Breaker{State: breaker.Open, LastChange: now}) }), redrive.Letter{Reason: "timeout"}},
		{"kind", closed(func(s *redrive.State) {
			s.Kinds, s.Flights = kind(breaker.Breaker{State: breaker.HalfOpen}), []redrive.Flight{flight}
		}), redrive.Letter{Reason: "timeout"}},
		{"delay", closed(func(s *redrive.State) {}), redrive.Letter{Group: "g", Died: now}},
	} {
		test.letter.ID = "a"
		_, d := test.state.Decide(&p, now, test.letter, 0.5)
		if got := holdReason(d.Why); d.Action != redrive.Hold || got != test.want {
			t.Errorf("%s %q is %q, want %q", d.Action, d.Why, got, test.want)
		}
	}
	for why, want := range map[string]string{
		"the ledger cannot be asked now: no answer": "ledger",
		"an earlier message of its group is held":   "group",
		"it does not say which queue it came from":  "other",
		"": "other",
	} {
		if got := holdReason(why); got != want {
			t.Errorf("%q is %q, want %q", why, got, want)
		}
	}
}

// A statsBox is an outbox that is asked how many rows there are.
type statsBox struct {
	outbox.Box
	asked int
	stats outbox.Stats
	err   error
}

func (b *statsBox) Stats(context.Context) (outbox.Stats, error) {
	b.asked++
	return b.stats, b.err
}

// A batchClient is a queue that answers with an error, if it has one.
type batchClient struct {
	outbox.SQS
	err error
}

func (c *batchClient) SendMessageBatch(context.Context, *sqs.SendMessageBatchInput, ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	return &sqs.SendMessageBatchOutput{}, c.err
}

func TestOutboxMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := &statsBox{stats: outbox.Stats{Pending: 5, Due: 3, Oldest: 90 * time.Second, Parked: 2}}
		m := newOutboxMetrics(box)
		var log []string
		e := m.events(outbox.Events{
			Sent:   func(outbox.Row, string) { log = append(log, "sent") },
			Failed: func(outbox.Row, string, time.Duration) { log = append(log, "failed") },
			Parked: func(outbox.Row, string) { log = append(log, "parked") },
			Lost:   func(outbox.Row) { log = append(log, "lost") },
		})
		e.Sent(outbox.Row{CreatedAt: time.Now().Add(-4 * time.Second)}, "m1")
		e.Sent(outbox.Row{CreatedAt: time.Now().Add(time.Second)}, "m2") // by another clock
		e.Failed(outbox.Row{}, "no", time.Second)
		e.Parked(outbox.Row{}, "no")
		e.Lost(outbox.Row{})
		if want := []string{"sent", "sent", "failed", "parked", "lost"}; !slices.Equal(log, want) {
			t.Errorf("the log was told %q, want %q", log, want)
		}
		queue := &batchClient{}
		for _, queue.err = range []error{nil, nil, errors.New("down")} {
			_, _ = m.client(queue).SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{Entries: make([]types.SendMessageBatchRequestEntry, 3)})
		}
		rows := map[string]string{
			"tenaq_outbox_up": "1", "tenaq_outbox_pending_rows": "5", "tenaq_outbox_due_rows": "3",
			"tenaq_outbox_parked_rows": "2", "tenaq_outbox_oldest_due_age_seconds": "90",
		}
		wantTold(t, told(t, m.write), rows)
		wantTold(t, told(t, m.write), map[string]string{
			"tenaq_outbox_sent_total": "2", "tenaq_outbox_refused_total": "1", "tenaq_outbox_parked_total": "1", "tenaq_outbox_lost_total": "1",
			`tenaq_outbox_batches_total{result="answered"}`: "2", `tenaq_outbox_batches_total{result="failed"}`: "1",
			"tenaq_outbox_batch_rows_sum": "9", "tenaq_outbox_batch_rows_count": "3",
			"tenaq_outbox_wait_seconds_sum": "4", "tenaq_outbox_wait_seconds_count": "2",
		})

		// Many who scrape cost no more than one.
		box.stats, box.err = outbox.Stats{}, errors.New("no table")
		time.Sleep(outboxStatsKeep - time.Millisecond)
		wantTold(t, told(t, m.write), rows)
		if box.asked != 1 {
			t.Errorf("asked %d times, want once", box.asked)
		}
		time.Sleep(time.Millisecond)
		for range 3 {
			wantTold(t, told(t, m.write), map[string]string{
				"tenaq_outbox_up": "0", "tenaq_outbox_pending_rows": "", "tenaq_outbox_due_rows": "", "tenaq_outbox_sent_total": "2",
			})
		}
		if box.asked != 2 {
			t.Errorf("asked %d times, want twice", box.asked)
		}
	})
}

func TestMetricsListen(t *testing.T) {
	t.Setenv("TENAQ_METRICS_LISTEN", "")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	for _, test := range []struct {
		flag, environment string
		host              string // empty is none
		bad               string
		code              int
	}{
		{"", "", "", "", exitOK},
		{"off", "127.0.0.1:0", "", "", exitOK},
		{"", "off", "", "", exitOK},
		{":0", "", "127.0.0.1", "", exitOK},
		{"", ":0", "127.0.0.1", "", exitOK},
		{"localhost:0", "", "127.0.0.1", "", exitOK},
		{":" + port, "", "", "--metrics-listen: address 127.0.0.1:" + port + " is in use", exitRefused},
		{"", ":" + port, "", "TENAQ_METRICS_LISTEN: address 127.0.0.1:" + port + " is in use", exitRefused},
		{"9326", "", "", "--metrics-listen: \"9326\" is not an address with a port", exitUsage},
		{"192.0.2.1:1", "", "", "--metrics-listen: cannot listen on 192.0.2.1:1", exitUsage},
	} {
		t.Setenv("TENAQ_METRICS_LISTEN", test.environment)
		s, err := (&metricsFlags{test.flag}).listen()
		host := ""
		if s != nil {
			host, _, _ = net.SplitHostPort(s.listener.Addr().String())
		}
		s.close()
		if exitCode(err) != test.code || err != nil && !strings.HasPrefix(err.Error(), test.bad) || host != test.host {
			t.Errorf("%q and %q listen on %q with error %v, want %q and %q", test.flag, test.environment, host, err, test.host, test.bad)
		}
	}
}

func TestMetricsHandler(t *testing.T) {
	h := metricsHandler(func(w *metric.Writer) {
		w.Begin(metric.Family{Name: "a", Help: "A", Kind: metric.KindGauge})
		w.Value(1)
	})
	for _, test := range []struct {
		method, path string
		code         int
		kind         string
		body         string // in it
	}{
		{"GET", "/metrics", 200, metric.ContentType, "# HELP a A\n# TYPE a gauge\na 1\n# HELP tenaq_build_info "},
		{"GET", "/livez", 200, "text/plain; charset=utf-8", "ok\n"},
		{"POST", "/metrics", 405, "text/plain; charset=utf-8", ""},
		{"GET", "/", 404, "text/plain; charset=utf-8", ""},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(test.method, test.path, nil))
		if kind := w.Header().Get("Content-Type"); w.Code != test.code || kind != test.kind || !strings.Contains(w.Body.String(), test.body) {
			t.Errorf("%s %s: got %d %q %q, want %d %q %q", test.method, test.path, w.Code, kind, w.Body, test.code, test.kind, test.body)
		}
	}
}
