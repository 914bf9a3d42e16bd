package server

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tenaq/internal/api/intake"
	"tenaq/internal/broker"
	"tenaq/internal/engine"
	"tenaq/internal/kv"
	"tenaq/internal/observe/metric"
	"tenaq/internal/observe/monitor"
)

// scrape reads /metrics into values by name and labels, and checks the form on the way.
func scrape(t *testing.T, s *Server) map[string]string {
	t.Helper()
	code, body := get(t, "http://"+s.AdminAddr()+"/metrics")
	if code != 200 {
		t.Fatalf("/metrics answers %d %q", code, body)
	}
	values := make(map[string]string)
	family := ""
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			family, _, _ = strings.Cut(rest, " ")
			continue
		}
		if strings.HasPrefix(line, "# HELP ") {
			continue
		}
		m := regexp.MustCompile(`^([a-z_]+(?:\{.*\})?) (\S+)$`).FindStringSubmatch(line)
		if m == nil || !strings.HasPrefix(m[1], family) {
			t.Errorf("under %s there is the line %q", family, line)
			continue
		}
		if _, twice := values[m[1]]; twice {
			t.Errorf("%s is there twice", m[1])
		}
		values[m[1]] = m[2]
	}
	return values
}

// [METRIC-11, METRIC-12, METRIC-18]
func TestMetrics(t *testing.T) {
	s, _ := run(t, config(t))
	url := "http://" + s.Addr() + "/000000000000/"
	do := func(action, format string, args ...any) string {
		t.Helper()
		_, body := call(t, s, action, fmt.Sprintf(format, args...))
		return body
	}
	receipt := regexp.MustCompile(`"ReceiptHandle":"([^"]+)"`)
	receive := func(queue string) (handle string) {
		t.Helper()
		if m := receipt.FindStringSubmatch(do("ReceiveMessage", `{"QueueUrl":"%s%s"}`, url, queue)); m != nil {
			return m[1]
		}
		return ""
	}
	want := func(values map[string]string, name, value string) {
		t.Helper()
		if got := values[name]; got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	values := scrape(t, s)
	want(values, "tenaq_queues", "0")
	want(values, `tenaq_messages{state="visible"}`, "0")
	want(values, `tenaq_build_info{version="v1.2.3",go="`+runtime.Version()+`"}`, "1")

	do("CreateQueue", `{"QueueName":"a"}`)
	do("CreateQueue", `{"QueueName":"b.fifo","Attributes":{"FifoQueue":"true"}}`)
	for i := range 5 {
		do("SendMessage", `{"QueueUrl":"%sa","MessageBody":"%d"}`, url, i)
		do("SendMessage", `{"QueueUrl":"%sb.fifo","MessageBody":"b","MessageGroupId":"g","MessageDeduplicationId":"same"}`, url)
	}
	do("SendMessage", `{"QueueUrl":"%sa","MessageBody":"late","DelaySeconds":900}`, url)
	first, second := receive("a"), receive("a")
	do("DeleteMessage", `{"QueueUrl":"%sa","ReceiptHandle":"%s"}`, url, first)
	do("DeleteMessage", `{"QueueUrl":"%sa","ReceiptHandle":"%s"}`, url, first)
	do("ChangeMessageVisibility", `{"QueueUrl":"%sa","ReceiptHandle":"%s","VisibilityTimeout":0}`, url, second)
	for range 4 {
		receive("a") // the second one again, and those after it
	}
	do("DeleteMessage", `{"QueueUrl":"%sa","ReceiptHandle":"%s"}`, url, second)
	receive("a")
	receive("a")
	do("SendMessage", `{"QueueUrl":"%snowhere","MessageBody":"x"}`, url)
	do("ReceiveMessage", `{"QueueUrl":"%snowhere"}`, url)
	do("Nonsense", `{}`)
	time.Sleep(10 * time.Millisecond) // so that ages are not zero

	values = scrape(t, s)
	for name, value := range map[string]string{
		"tenaq_queues": "2",
		`tenaq_queue_messages{queue="a",state="visible"}`:                                           "0",
		`tenaq_queue_messages{queue="a",state="in_flight"}`:                                         "4",
		`tenaq_queue_messages{queue="a",state="delayed"}`:                                           "1",
		`tenaq_queue_messages{queue="b.fifo",state="visible"}`:                                      "1",
		`tenaq_messages{state="visible"}`:                                                           "1",
		`tenaq_messages{state="in_flight"}`:                                                         "4",
		`tenaq_queue_sent_total{queue="a"}`:                                                         "6",
		`tenaq_queue_sent_total{queue="b.fifo"}`:                                                    "1",
		`tenaq_queue_deduplicated_total{queue="b.fifo"}`:                                            "4",
		`tenaq_queue_received_total{queue="a"}`:                                                     "6",
		`tenaq_queue_redelivered_total{queue="a"}`:                                                  "1",
		`tenaq_queue_empty_receives_total{queue="a"}`:                                               "2",
		`tenaq_queue_deleted_total{queue="a",handle="current"}`:                                     "1",
		`tenaq_queue_deleted_total{queue="a",handle="stale"}`:                                       "1",
		`tenaq_queue_deleted_total{queue="a",handle="gone"}`:                                        "1",
		`tenaq_queue_message_size_bytes_count{queue="a"}`:                                           "6",
		`tenaq_queue_message_size_bytes_sum{queue="a"}`:                                             "9",
		`tenaq_queue_wait_seconds_count{queue="a"}`:                                                 "5",
		`tenaq_queue_handling_seconds_count{queue="a"}`:                                             "1",
		`tenaq_requests_total{action="SendMessage",code=""}`:                                        "11",
		`tenaq_requests_total{action="SendMessage",code="AWS.SimpleQueueService.NonExistentQueue"}`: "1",
		`tenaq_requests_total{action="",code="InvalidAction"}`:                                      "1",
		`tenaq_request_seconds_count{action="SendMessage"}`:                                         "11",
		"tenaq_sends_refused":                                                                       "0",
		"tenaq_waiting_polls":                                                                       "0",
	} {
		want(values, name, value)
	}
	if values[`tenaq_queue_oldest_message_age_seconds{queue="a"}`] == "0" || values["tenaq_commit_seconds_count"] == "0" || values["tenaq_turn_requests_count"] == "0" {
		t.Error("the oldest message has no age, or nothing was committed")
	}
	if _, there := values[`tenaq_queue_sent_total{queue="nowhere"}`]; there {
		t.Error("a queue that never was is told about")
	}

	do("DeleteQueue", `{"QueueUrl":"%sa"}`, url)
	for name := range scrape(t, s) {
		if strings.Contains(name, `queue="a"`) {
			t.Errorf("a queue that is deleted is told about: %s", name)
		}
	}
}

// A running move task tells how far it is; one that is over is not told about. [METRIC-22]
func TestMetricsOfMoveTasks(t *testing.T) {
	s, _ := run(t, config(t))
	url := "http://" + s.Addr() + "/000000000000/"
	do := func(action, format string, args ...any) string {
		t.Helper()
		code, body := call(t, s, action, fmt.Sprintf(format, args...))
		if code != 200 {
			t.Fatalf("%s: %d %s", action, code, body)
		}
		return body
	}
	want := func(name, value string) {
		t.Helper()
		if got := scrape(t, s)[name]; got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	want(`tenaq_alarms{state="ALARM"}`, "0")
	want(`tenaq_alarm_notices_total{action="log",result="lost"}`, "0")
	want(`tenaq_move_tasks{state="running"}`, "0")
	want(`tenaq_move_tasks{state="cancelling"}`, "0")
	const arn = "arn:aws:sqs:us-east-1:000000000000:"
	do("CreateQueue", `{"QueueName":"dead"}`)
	do("CreateQueue", `{"QueueName":"a","Attributes":{"RedrivePolicy":"{\"deadLetterTargetArn\":\"%sdead\",\"maxReceiveCount\":\"1\"}"}}`, arn)
	for range 100 { // enough for a hundred seconds
		do("SendMessage", `{"QueueUrl":"%sdead","MessageBody":"b"}`, url)
	}
	task := do("StartMessageMoveTask", `{"SourceArn":"%sdead","DestinationArn":"%sa","MaxNumberOfMessagesPerSecond":1}`, arn, arn)
	want(`tenaq_move_tasks{state="running"}`, "1")
	want(`tenaq_move_task_expected_messages{source="dead",destination="a"}`, "100")
	for deadline := time.Now().Add(time.Minute); scrape(t, s)[`tenaq_move_task_moved_messages{source="dead",destination="a"}`] == "0"; {
		if time.Now().After(deadline) {
			t.Fatal("the task has moved nothing in a minute")
		}
		time.Sleep(10 * time.Millisecond)
	}
	handle := regexp.MustCompile(`"TaskHandle":"([^"]+)"`).FindStringSubmatch(task)
	do("CancelMessageMoveTask", `{"TaskHandle":"%s"}`, handle[1])
	for deadline := time.Now().Add(time.Minute); ; {
		values := scrape(t, s)
		_, told := values[`tenaq_move_task_moved_messages{source="dead",destination="a"}`]
		if !told && values[`tenaq_move_tasks{state="cancelling"}`] == "0" && values[`tenaq_move_tasks{state="running"}`] == "0" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a task that was cancelled is told about: %v", values)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// With very many queues, the metrics of each queue can be left out, and nothing else is.
func TestNoQueueMetrics(t *testing.T) {
	cfg := config(t)
	cfg.NoQueueMetrics = true
	s, _ := run(t, cfg)
	call(t, s, "CreateQueue", `{"QueueName":"a"}`)
	values := scrape(t, s)
	for name := range values {
		if strings.Contains(name, "queue=") {
			t.Errorf("there is %s", name)
		}
	}
	if values["tenaq_queues"] != "1" || values[`tenaq_messages{state="visible"}`] != "0" {
		t.Errorf("got %v", values)
	}
}

// reports has a server write metrics of a broker.
func reports(t testing.TB, s *Server, w *broker.Broker) {
	alarms, err := monitor.New(monitor.Config{Queues: w, Keeper: monitor.File(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	s.writer.Store(&service{server: s, broker: w, alarms: alarms})
}

// A server that does not write its store has no metrics of a writer.
func TestMetricsOfFollower(t *testing.T) {
	s := &Server{intake: intake.New(intake.Config{}), disk: &disk{room: roomOn}}
	var text strings.Builder
	if err := s.read(t.Context()).writeTo(&text); err != nil {
		t.Fatal(err)
	}
	if got := text.String(); strings.Contains(got, "tenaq_writer_answers") ||
		strings.Contains(got, "tenaq_turn_requests") ||
		!strings.Contains(got, "tenaq_disk_free_bytes") {
		t.Errorf("got\n%s", got)
	}
}

// If the writer does not answer, the metrics say so, and say what it was doing.
func TestMetricsWithoutWriter(t *testing.T) {
	w, err := broker.New(broker.Config{Store: kv.NewMemory(), Engine: engine.Config{Region: "us-east-1", Fault: func(s string) { panic(s) }}})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{intake: intake.New(intake.Config{}), disk: &disk{room: roomOn}}
	reports(t, s, w)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // instead of surveyTime
	defer cancel()
	time.Sleep(10 * time.Millisecond)
	var text strings.Builder
	if err := s.read(ctx).writeTo(&text); err != nil { // the broker does not run
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "tenaq_writer_answers 0\n") || strings.Contains(text.String(), "\ntenaq_queues ") {
		t.Errorf("got\n%s", &text)
	}
	if m := regexp.MustCompile(`tenaq_last_turn_age_seconds (\S+)`).FindStringSubmatch(text.String()); m == nil || strings.HasPrefix(m[1], "0.00") {
		t.Errorf("the last turn was %v s ago, want 0.01 at least", m)
	}
}

// The names follow the rules of Prometheus: counters end in _total, everything else in its unit and
// not in _total.
func TestMetricNames(t *testing.T) {
	seen := make(map[string]bool)
	for _, row := range slices.Concat(table, nodeTable) {
		name := row.Name
		if seen[name] {
			t.Errorf("%s is in the table twice", name)
		}
		seen[name] = true
		if (row.Kind == metric.KindCounter) != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %s", name, row.Kind)
		}
		if row.Kind == metric.KindHistogram && !regexp.MustCompile(`_(seconds|bytes|requests)$`).MatchString(name) {
			t.Errorf("%s has no unit", name)
		}
		if row.Help == "" || strings.HasSuffix(row.Help, ".") {
			t.Errorf("%s: the help is %q", name, row.Help)
		}
		if row.perQueue != slices.Contains(row.Labels, "queue") {
			t.Errorf("%s: is it of each queue?", name)
		}
	}
}

// BenchmarkScrape is what a scrape costs with 10,000 queues, each of which has a message.
func BenchmarkScrape(b *testing.B) {
	s := &Server{cfg: Config{Account: "000000000000"}, intake: intake.New(intake.Config{}),
		disk: &disk{room: roomOn}}
	w, err := broker.New(broker.Config{Store: kv.NewMemory(), Engine: engine.Config{Region: "us-east-1", InFlightMax: 10, Tally: &s.tally, Fault: func(s string) { panic(s) }}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	draft := engine.NewDraft(engine.Entry{Body: engine.Text{Value: "body", Set: true}})
	for i := range 10_000 {
		name := engine.QueueName{Account: "000000000000", Name: fmt.Sprintf("queue-%05d", i)}
		if err := w.Do(ctx, &engine.CreateQueue{Queue: name, NameSet: true}); err != nil {
			b.Fatal(err)
		}
		if err := w.Do(ctx, &engine.SendMessage{Queue: name, Draft: draft}); err != nil {
			b.Fatal(err)
		}
	}
	reports(b, s, w)
	b.ReportAllocs()
	for b.Loop() {
		r := s.read(ctx)
		if !r.answers {
			b.Fatal("the writer does not answer")
		}
		if err := r.writeTo(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

// The operator of a server can make it report more.
func TestMoreMetrics(t *testing.T) {
	cfg := config(t)
	cfg.Metrics = func(w *metric.Writer) {
		w.Begin(metric.Family{Name: "more", Help: "More", Kind: metric.KindGauge})
		w.Value(1)
	}
	s, _ := run(t, cfg)
	values := scrape(t, s)
	if values["more"] != "1" || values["tenaq_queues"] != "0" {
		t.Errorf("got %v", values)
	}
}
