package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/encoding/cbor"

	"tenaq/internal/cli"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/series"
	"tenaq/internal/ops/doctor"
	"tenaq/internal/testing/sqstest"
)

// heard keeps the notices that an action got.
type heard struct {
	mu  sync.Mutex
	all []Notice
}

func (h *heard) act(_ context.Context, n *Notice) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, *n)
	return nil
}

// lines are the notices as state and alarm.
func (h *heard) lines() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var lines []string
	for _, n := range h.all {
		lines = append(lines, string(n.State)+" "+n.Alarm)
	}
	return lines
}

func (h *heard) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := h.lines(); !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", when, got, want)
	}
}

var testLimits = Limits{Interval: time.Minute, AgeMax: time.Hour, InFlightMax: 5, BacklogMin: 10}

// allKinds are the default alarms of a watcher.
func allKinds(t *testing.T) []*watchKind {
	t.Helper()
	kinds, err := (&Config{}).kinds()
	if err != nil || len(kinds) != len(watchKinds) {
		t.Fatalf("got %d kinds, %v, want all %d", len(kinds), err, len(watchKinds))
	}
	return kinds
}

// watching starts a watcher of a server in the bubble, and stops it at the end of the test.
func watching(t *testing.T, c *sqstest.Client, out io.Writer, names ...string) *heard {
	t.Helper()
	a := &cli.App{Stdout: out, Stderr: io.Discard}
	cl := &cli.Client{Client: c.Client, Endpoint: cli.Endpoint{URL: "http://127.0.0.1:9324"}, Timeout: 15 * time.Second}
	source := &sqsSource{client: cl, limit: 100, said: a.Note, dead: map[string]bool{}, notes: map[string]error{}}
	if len(names) > 0 {
		var err error
		if source.refs, _, err = doctor.QueueRefs(t.Context(), cl, names, "", 100); err != nil {
			t.Fatal(err)
		}
	}
	h := &heard{}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- newWatcher(a, source, allKinds(t), testLimits, []action{h.act}, false).Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the watcher ended with %v, want nothing", err)
		}
	})
	synctest.Wait()
	return h
}

func send(t *testing.T, c *sqstest.Client, url string, n int) {
	t.Helper()
	for i := range n {
		if _, err := c.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(fmt.Sprintf("secret %d", i))}); err != nil {
			t.Fatal(err)
		}
	}
}

func receive(t *testing.T, c *sqstest.Client, url string, n int, visibility int32) []string {
	t.Helper()
	var handles []string
	for range n {
		out, err := c.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, VisibilityTimeout: visibility, MaxNumberOfMessages: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range out.Messages {
			handles = append(handles, *m.ReceiptHandle)
		}
	}
	return handles
}

// A real dead letter is reported once, with what to do next and without its content. Its end is
// reported once too.
func TestWatchDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sqstest.New(t)
		dead := s.Queue(t, "orders-dlq")
		orders := s.Queue(t, "orders", "RedrivePolicy", sqstest.RedrivePolicy("orders-dlq", "1"))
		c := s.Client()
		var out bytes.Buffer
		h := watching(t, c, &out)
		h.expect(t, "at first")

		send(t, c, orders, 1)
		receive(t, c, orders, 1, 1)
		time.Sleep(2 * time.Second)
		receive(t, c, orders, 1, 1)
		time.Sleep(time.Minute)
		h.expect(t, "after two receives", "ALARM orders-dlq/dead-letters")
		time.Sleep(time.Hour)
		h.expect(t, "an hour later", "ALARM orders-dlq/dead-letters")
		for _, want := range []string{"ALARM  orders-dlq/dead-letters  1 dead letter; see: tenaq queue show orders-dlq; tenaq redrive plan orders-dlq\n"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("got %q, want %q in it", out.String(), want)
			}
		}
		if text, _ := json.Marshal(h.all[0]); strings.Contains(string(text), "secret") || strings.Contains(h.all[0].Text(), "secret") {
			t.Errorf("got the body of a message in %s", text)
		}
		receive(t, c, dead, 1, 3600)
		time.Sleep(time.Minute)
		h.expect(t, "while somebody looks at it", "ALARM orders-dlq/dead-letters")
		if _, err := c.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: &dead}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		h.expect(t, "after a purge", "ALARM orders-dlq/dead-letters", "OK orders-dlq/dead-letters")
	})
}

// A queue that is named is watched with its dead-letter queue, and a dead-letter queue is known as
// one by its sources.
func TestWatchNamed(t *testing.T) {
	for _, name := range []string{"orders", "orders-dlq"} {
		synctest.Test(t, func(t *testing.T) {
			s := sqstest.New(t)
			dead := s.Queue(t, "orders-dlq")
			s.Queue(t, "orders", "RedrivePolicy", sqstest.RedrivePolicy("orders-dlq", "1"))
			s.Queue(t, "other-dlq")
			other := s.Queue(t, "other", "RedrivePolicy", sqstest.RedrivePolicy("other-dlq", "1"))
			c := s.Client()
			send(t, c, dead, 2)
			send(t, c, other, 1)
			watching(t, c, io.Discard, name).expect(t, name, "ALARM orders-dlq/dead-letters")
		})
	}
}

func TestWatchInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sqstest.New(t)
		url := s.Queue(t, "work")
		c := s.Client()
		h := watching(t, c, io.Discard)
		send(t, c, url, 6)
		receive(t, c, url, 6, 30)
		time.Sleep(4 * time.Minute)
		h.expect(t, "after a short burst")
		receive(t, c, url, 6, 600)
		time.Sleep(3*time.Minute + 30*time.Second)
		h.expect(t, "after three minutes")
		time.Sleep(2 * time.Minute)
		h.expect(t, "after five", "ALARM work/in-flight-limit")
		time.Sleep(10 * time.Minute)
		h.expect(t, "when the timeouts are over", "ALARM work/in-flight-limit", "OK work/in-flight-limit")
	})
}

// A backlog that grows for a quarter of an hour is reported. One that comes and goes is not, nor is
// a small one.
func TestWatchBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sqstest.New(t)
		grows, small, swings := s.Queue(t, "grows"), s.Queue(t, "small"), s.Queue(t, "swings")
		c := s.Client()
		h := watching(t, c, io.Discard)
		time.Sleep(30 * time.Second) // between two readings
		minute := func(i int) {
			send(t, c, grows, 2)
			if i < 9 {
				send(t, c, small, 1)
			}
			if i%5 < 4 {
				send(t, c, swings, 20)
			} else {
				for _, handle := range receive(t, c, swings, 80, 30) {
					if _, err := c.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &swings, ReceiptHandle: &handle}); err != nil {
						t.Fatal(err)
					}
				}
			}
			time.Sleep(time.Minute)
		}
		for i := range 14 {
			minute(i)
		}
		h.expect(t, "after 14 minutes")
		for i := range 6 {
			minute(14 + i)
		}
		h.expect(t, "after 20 minutes", "ALARM grows/backlog-grows")
		time.Sleep(10 * time.Minute)
		h.expect(t, "when nothing more comes", "ALARM grows/backlog-grows", "OK grows/backlog-grows")
	})
}

// Readings that fail are tried again; three in a row are an alarm.
func TestWatchUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sqstest.New(t)
		s.Queue(t, "orders")
		c := s.Client()
		h := watching(t, c, io.Discard)
		broken := func(string) sqstest.Fault { return sqstest.Broken }
		c.SetFault(broken)
		time.Sleep(2 * time.Minute)
		c.SetFault(nil)
		time.Sleep(2 * time.Minute)
		h.expect(t, "after two")
		c.SetFault(broken)
		time.Sleep(10 * time.Minute)
		h.expect(t, "after ten", "ALARM endpoint/unreachable")
		c.SetFault(nil)
		time.Sleep(time.Minute)
		h.expect(t, "when it answers again", "ALARM endpoint/unreachable", "OK endpoint/unreachable")
	})
}

// An alarm ends when its queue is deleted.
func TestWatchDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sqstest.New(t)
		dead := s.Queue(t, "orders-dlq")
		s.Queue(t, "orders", "RedrivePolicy", sqstest.RedrivePolicy("orders-dlq", "1"))
		c := s.Client()
		send(t, c, dead, 1)
		h := watching(t, c, io.Discard)
		if _, err := c.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &dead}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		h.expect(t, "deleted", "ALARM orders-dlq/dead-letters", "INSUFFICIENT_DATA orders-dlq/dead-letters")
	})
}

// With --once, watch ends after one look, or once the requested alarms are decided.
func TestWatchOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sqstest.New(t)
		url := s.Queue(t, "grows")
		c := s.Client()
		a := &cli.App{Stdout: io.Discard, Stderr: io.Discard}
		cl := &cli.Client{Client: c.Client, Endpoint: cli.Endpoint{URL: "http://127.0.0.1:9324"}, Timeout: 15 * time.Second}
		once := func(alarms string) (time.Duration, error) {
			kinds, err := (&Config{Once: true, Alarms: cli.SplitList(alarms)}).kinds()
			if err != nil {
				t.Fatal(err)
			}
			source := &sqsSource{client: cl, limit: 100, said: a.Note, dead: map[string]bool{}, notes: map[string]error{}}
			start := time.Now()
			err = newWatcher(a, source, kinds, testLimits, nil, true).Run(t.Context())
			return time.Since(start), err
		}
		if took, err := once(""); took > time.Second || err != nil {
			t.Errorf("got %v after %v, want nothing at once", err, took)
		}
		go func() {
			for range 25 {
				send(t, c, url, 2)
				time.Sleep(time.Minute)
			}
		}()
		if took, err := once("backlog-grows"); took != 20*time.Minute || cli.ExitCode(err) != cli.ExitRefused {
			t.Errorf("got %v after %v, want an alarm after 20 min", err, took)
		}
		time.Sleep(time.Hour)
		c.SetFault(func(string) sqstest.Fault { return sqstest.Broken })
		if _, err := once(""); cli.ExitCode(err) != cli.ExitFailed {
			t.Errorf("of a server that fails: got %v, want exit code 1", err)
		}
	})
}

// minutesOf is what CloudWatch tells of n minutes that end at a time.
func minutesOf(end time.Time, values ...float64) []series.Interval {
	var minutes []series.Interval
	first := end.Truncate(time.Minute).Add(-time.Duration(len(values)-1) * time.Minute)
	for i, v := range values {
		minutes = append(minutes, series.Interval{At: first.Add(time.Duration(i) * time.Minute).UnixMilli(), Set: series.One(v)})
	}
	return minutes
}

func states(changes []Notice) []string {
	var list []string
	for _, n := range changes {
		list = append(list, string(n.State)+" "+n.Alarm)
	}
	return list
}

// Ages and deletes are judged once they are known, and not before.
func TestWatchJudge(t *testing.T) {
	j := newJudge(allKinds(t), testLimits, (&sqsSource{client: &cli.Client{}}).commands)
	now := time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC)
	look := func(minutes int, q *watchedQueue) []string {
		return states(j.reading(now.Add(time.Duration(minutes)*time.Minute), []*watchedQueue{q}))
	}
	age := func(d time.Duration) *watchedQueue { return &watchedQueue{name: "q", visible: 1, age: &d} }
	expect := func(when string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
	}
	expect("no age", look(0, &watchedQueue{name: "q", visible: 1}))
	expect("young", look(1, age(time.Minute)))
	expect("old", look(2, age(61*time.Minute)), "ALARM q/oldest-age")
	expect("still", look(3, age(62*time.Minute)))
	expect("young again", look(4, age(time.Minute)), "OK q/oldest-age")

	counts := func(minutes int, sent, deleted float64) *watchedQueue {
		at := now.Add(time.Duration(minutes) * time.Minute)
		return &watchedQueue{name: "q", sent: minutesOf(at, slices.Repeat([]float64{sent}, 20)...), deleted: minutesOf(at, slices.Repeat([]float64{deleted}, 20)...)}
	}
	expect("even", look(5, counts(5, 100, 105)))
	expect("too many deletes", look(6, counts(6, 100, 106)), "ALARM q/double-deletes")
	// If a minute is reported twice, it is not counted twice: the later report counts.
	expect("more of them", look(6, counts(6, 100, 300)))
	expect("even again", look(7, counts(7, 100, 100)), "OK q/double-deletes")
	expect("nothing is told any more", look(8, &watchedQueue{name: "q"}))

	// All rules are such as can be evaluated, at every interval.
	for _, interval := range []time.Duration{10 * time.Second, time.Minute, 90 * time.Second, 7 * time.Minute, time.Hour} {
		for i := range watchKinds {
			l := testLimits
			l.Interval = interval
			if err := watchKinds[i].rule(l, "q").Check(); err != nil {
				t.Errorf("%s every %v: got %v", watchKinds[i].name, interval, err)
			}
		}
	}
}

// An action that fails is tried again, with pauses; then the next notice has its turn, and it is
// said what is lost.
func TestWatchRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		var tries []string
		fails := func(_ context.Context, n *Notice) error {
			tries = append(tries, n.Alarm)
			if n.Alarm == "a" || len(tries) == 5 {
				return errors.New("no")
			}
			return nil
		}
		r := newRunner(&cli.App{Stderr: &said}, []action{fails})
		go r.run(t.Context())
		start := time.Now()
		r.hand(Notice{Alarm: "a"})
		r.hand(Notice{Alarm: "b"})
		lost := r.finish(time.Hour, func() {})
		if want := []string{"a", "a", "a", "a", "b", "b"}; !slices.Equal(tries, want) || lost != 1 {
			t.Errorf("got the attempts %q with %d lost, want %q with 1", tries, lost, want)
		}
		if got := time.Since(start); got != (1+2+4+1)*time.Second {
			t.Errorf("it took %v, want 8 s of pauses", got)
		}
		if got := said.String(); got != "a notice about a was not delivered: no\n" {
			t.Errorf("said %q", got)
		}
	})
}

// An action that hangs is ended, and does not keep the command from its end.
func TestWatchRunnerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context, _ *Notice) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		var said bytes.Buffer
		a := &cli.App{Stderr: &said}
		r := newRunner(a, []action{hangs})
		go r.run(t.Context())
		start := time.Now()
		r.hand(Notice{Alarm: "a"})
		if lost := r.finish(time.Hour, func() {}); lost != 1 || time.Since(start) != 4*attemptMax+7*time.Second {
			t.Errorf("got %d lost after %v, want 1 after four attempts", lost, time.Since(start))
		}
		if !strings.Contains(said.String(), "it did not end within 30 s") {
			t.Errorf("said %q", said.String())
		}

		ctx, cancel := context.WithCancel(t.Context())
		r = newRunner(a, []action{hangs})
		go r.run(ctx)
		start = time.Now()
		for range 3 {
			r.hand(Notice{Alarm: "a"})
		}
		if lost := r.finish(farewell, cancel); lost != 3 || time.Since(start) != farewell {
			t.Errorf("at the end: got %d lost after %v, want 3 after %v", lost, time.Since(start), farewell)
		}
	})
}

// Too many notices that wait are lost, and do not hold up the readings.
func TestWatchRunnerFull(t *testing.T) {
	r := newRunner(&cli.App{Stderr: io.Discard}, []action{(&heard{}).act})
	for range waitingMax + 3 {
		r.hand(Notice{})
	}
	if r.lost != 3 {
		t.Errorf("got %d lost, want 3", r.lost)
	}
}

func TestExecAction(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	n := &Notice{Alarm: "orders-dlq/dead-letters", Queue: "orders-dlq", State: alarm.Alarm, Reason: "1 dead letter"}
	if err := execAction("cat > "+file+"; echo $TENAQ_STATE $TENAQ_QUEUE >> "+file)(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, second, _ := strings.Cut(string(text), "\n")
	var got Notice
	if err := json.Unmarshal([]byte(first), &got); err != nil || got.Alarm != n.Alarm || got.Reason != n.Reason || second != "ALARM orders-dlq\n" {
		t.Errorf("got %q, %v, want the notice and its state", text, err)
	}
	if err := execAction("echo it is broken >&2; exit 3")(t.Context(), n); err == nil || err.Error() != "--exec: exit status 3: it is broken" {
		t.Errorf("of a command that fails: got %v", err)
	}
	// A child that is left keeps the pipes open, and goes with the shell.
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	late := filepath.Join(t.TempDir(), "late")
	if err := execAction("(sleep 1; touch "+late+") & sleep 60")(ctx, n); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 30*time.Second {
		t.Errorf("of a command that hangs: got %v after %v", err, time.Since(start))
	}
	time.Sleep(2 * time.Second)
	if _, err := os.Stat(late); err == nil {
		t.Error("a child of a command that was ended goes on")
	}
}

func TestWebhookAction(t *testing.T) {
	var asked []string
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+string(body))
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		io.WriteString(w, strings.Repeat("no ", 10_000))
	}))
	defer s.Close()
	n := &Notice{Alarm: "q/oldest-age", State: alarm.Alarm, Reason: "the oldest message is 2 h old", Commands: []string{"tenaq peek q"}}
	act := webhookAction(s.URL + "/secret")
	if err := act(t.Context(), n); err != nil {
		t.Errorf("got %v", err)
	}
	if want := `POST /secret application/json {"text":"ALARM: q/oldest-age\nthe oldest message is 2 h old\n  tenaq peek q"}`; len(asked) != 1 || asked[0] != want {
		t.Errorf("got %q, want %q", asked, want)
	}
	for _, status = range []int{http.StatusInternalServerError, http.StatusFound} {
		err := act(t.Context(), n)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(status)) || strings.Contains(err.Error(), "secret") || len(err.Error()) > 700 {
			t.Errorf("of status %d: got %v, want it without the URL, and short", status, err)
		}
	}
	if len(asked) != 3 {
		t.Errorf("got %d requests, want 3: no redirect is followed", len(asked))
	}
	s.Close()
	if err := act(t.Context(), n); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("of nobody: got %v, want an error without the URL", err)
	}
}

// fakeCloudWatch answers GetMetricData as CloudWatch does, or refuses.
type fakeCloudWatch struct {
	*httptest.Server
	queries []string
	refuse  string
	status  int
	values  map[string][]float64 // by metric name, the newest last
	calls   int
}

func newFakeCloudWatch(t *testing.T) *fakeCloudWatch {
	f := &fakeCloudWatch{status: http.StatusForbidden}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeCloudWatch) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.calls++
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
	w.Header().Set("Content-Type", "application/cbor")
	if f.refuse != "" {
		w.WriteHeader(f.status)
		w.Write(cbor.Encode(cbor.Map{"__type": cbor.String("com.amazonaws.cloudwatch#" + f.refuse), "message": cbor.String("not you.")}))
		return
	}
	in, err := cbor.Decode(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	end := time.Unix(int64(in.(cbor.Map)["EndTime"].(*cbor.Tag).Value.(cbor.Float64)), 0)
	var results cbor.List
	for _, q := range in.(cbor.Map)["MetricDataQueries"].(cbor.List) {
		stat := q.(cbor.Map)["MetricStat"].(cbor.Map)
		metric := stat["Metric"].(cbor.Map)
		name := string(metric["MetricName"].(cbor.String))
		f.queries = append(f.queries, name+" of "+string(metric["Dimensions"].(cbor.List)[0].(cbor.Map)["Value"].(cbor.String)))
		var times, values cbor.List
		for i, v := range f.values[name] {
			at := end.Add(-time.Duration(len(f.values[name])-i) * time.Minute)
			times = append(times, &cbor.Tag{ID: 1, Value: cbor.Float64(at.Unix())})
			values = append(values, cbor.Float64(v))
		}
		results = append(results, cbor.Map{"Id": q.(cbor.Map)["Id"], "Timestamps": times, "Values": values, "StatusCode": cbor.String("Complete")})
	}
	w.Write(cbor.Encode(cbor.Map{"MetricDataResults": results}))
}

func (f *fakeCloudWatch) client(e cli.Endpoint, wanted ...cloudWatchMetric) *cloudWatch {
	return &cloudWatch{
		client: &cli.Client{Endpoint: e, Timeout: 15 * time.Second}, wanted: wanted,
		api: cloudwatch.New(cloudwatch.Options{
			Region: "us-east-1", BaseEndpoint: aws.String(f.URL), Retryer: aws.NopRetryer{},
			Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		}),
	}
}

func TestCloudWatch(t *testing.T) {
	f := newFakeCloudWatch(t)
	f.values = map[string][]float64{"ApproximateAgeOfOldestMessage": {10, 7200}, "NumberOfMessagesSent": {1, 2}, "NumberOfMessagesDeleted": {3}}
	w := f.client(cli.Endpoint{}, cloudWatchMetric{"a", "ApproximateAgeOfOldestMessage", "Maximum", takeAge},
		cloudWatchMetric{"d", "NumberOfMessagesDeleted", "Sum", func(q *watchedQueue, m []series.Interval) { q.deleted = m }})
	queues := []*watchedQueue{{name: "one"}, {name: "two"}}
	if err := w.add(t.Context(), time.Now(), queues); err != nil {
		t.Fatal(err)
	}
	for _, q := range queues {
		if q.age == nil || *q.age != 2*time.Hour || len(q.deleted) != 1 || q.deleted[0].Set.Sum != 3 {
			t.Errorf("%s: got the age %v and deletes %v, want 2 h and 3", q.name, q.age, q.deleted)
		}
	}
	if want := []string{"ApproximateAgeOfOldestMessage of one", "NumberOfMessagesDeleted of one", "ApproximateAgeOfOldestMessage of two", "NumberOfMessagesDeleted of two"}; !slices.Equal(f.queries, want) {
		t.Errorf("got asked for %q, want %q", f.queries, want)
	}

	// One request has 500 metrics.
	many := make([]*watchedQueue, 251)
	for i := range many {
		many[i] = &watchedQueue{name: fmt.Sprint(i)}
	}
	f.queries, f.calls = nil, 0
	if err := w.add(t.Context(), time.Now(), many); err == nil || !strings.Contains(err.Error(), "the first 250 queues") || f.calls != 1 || len(f.queries) != 500 {
		t.Errorf("got %v, %d requests for %d metrics, want one for 500", err, f.calls, len(f.queries))
	}

	// A failure is tried again at the next reading, a refusal is not.
	here := f.client(cli.Endpoint{URL: f.URL}, w.wanted...)
	if err := here.add(t.Context(), time.Now(), queues); err != nil {
		t.Fatal(err)
	}
	f.refuse, f.status = "InternalServiceFault", http.StatusInternalServerError
	if err := here.add(t.Context(), time.Now(), queues); err == nil || here.refused {
		t.Errorf("of a server that has answered: got %v, want a failure that is tried again", err)
	}
	f.calls = 0
	for range 2 {
		if err := w.add(t.Context(), time.Now(), queues); err == nil {
			t.Error("of a failure: got no error")
		}
	}
	f.refuse, f.status = "AccessDeniedException", http.StatusForbidden
	if err := w.add(t.Context(), time.Now(), queues); err == nil || !strings.Contains(err.Error(), "not you, so these metrics are missing: ApproximateAgeOfOldestMessage, NumberOfMessagesDeleted; allow cloudwatch:GetMetricData") {
		t.Errorf("of a refusal: got %v", err)
	}
	if err := w.add(t.Context(), time.Now(), queues); err != nil || f.calls != 3 {
		t.Errorf("after a refusal: got %v and %d requests, want no more than 3", err, f.calls)
	}

	// A server that has never answered has no CloudWatch.
	f.refuse, f.status, f.calls = "UnknownOperationException", http.StatusBadRequest, 0
	w = f.client(cli.Endpoint{URL: f.URL}, w.wanted...)
	if err := w.add(t.Context(), time.Now(), queues); err == nil || !strings.Contains(err.Error(), "does not answer GetMetricData") {
		t.Errorf("of a server without CloudWatch: got %v", err)
	}
	for range 3 {
		if err := w.add(t.Context(), time.Now(), queues); err != nil {
			t.Errorf("of a server without CloudWatch: got %v again", err)
		}
	}
	if f.calls != 1 {
		t.Errorf("of a server without CloudWatch: got %d requests, want 1", f.calls)
	}
}

// The command at the end of a line works at the endpoint of the queue.
func TestWatchCommands(t *testing.T) {
	for _, test := range []struct {
		source sqsSource
		want   string
	}{
		{sqsSource{client: &cli.Client{Endpoint: cli.Endpoint{URL: cli.DefaultEndpoint, Origin: "default"}}, v1: &cli.V1Client{}}, "tenaq peek q --limit 10; tenaq claims stuck"},
		{sqsSource{client: &cli.Client{Endpoint: cli.Endpoint{URL: "http://queue:1", Origin: "--endpoint-url"}}, v1: &cli.V1Client{}}, "tenaq peek q --limit 10 --endpoint-url http://queue:1; tenaq claims stuck"},
		{sqsSource{client: &cli.Client{Endpoint: cli.Endpoint{URL: "http://queue:1", Origin: "AWS_ENDPOINT_URL"}}}, "tenaq queue show q; tenaq claims stuck"},
		{sqsSource{client: &cli.Client{Endpoint: cli.Endpoint{URL: "", Origin: "--aws"}}}, "tenaq queue show q --aws; tenaq claims stuck"},
	} {
		if got := strings.Join(test.source.commands([]string{"tenaq peek QUEUE --limit 10", "tenaq claims stuck"}, "q"), "; "); got != test.want {
			t.Errorf("%v: got %q, want %q", test.source.client.Endpoint, got, test.want)
		}
	}
}

// A failure is reported once, and again if it has worked in between.
func TestWatchSays(t *testing.T) {
	var said []string
	s := &sqsSource{said: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }, notes: map[string]error{}}
	for _, err := range []error{errors.New("a"), errors.New("b"), nil, nil, errors.New("c")} {
		s.say("CloudWatch", err)
	}
	if want := []string{"CloudWatch: a; other checks continue", "CloudWatch: c; other checks continue"}; !slices.Equal(said, want) {
		t.Errorf("got %q, want %q", said, want)
	}
}
