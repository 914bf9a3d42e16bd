package v1

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/engine"
)

// A reader is a client of a live stream, which may pause.
type reader struct {
	header   http.Header
	mu       sync.Mutex
	text     strings.Builder
	paused   chan struct{} // nil while it reads
	deadline time.Time
}

func (r *reader) Header() http.Header { return r.header }
func (r *reader) WriteHeader(int)     {}
func (r *reader) Flush()              {}

func (r *reader) SetWriteDeadline(t time.Time) error { r.deadline = t; return nil }
func (r *reader) SetReadDeadline(time.Time) error    { return nil }

func (r *reader) Write(b []byte) (int, error) {
	r.mu.Lock()
	paused := r.paused
	r.mu.Unlock()
	if paused != nil {
		select {
		case <-paused:
		case <-time.After(time.Until(r.deadline)):
			return 0, fmt.Errorf("too slow")
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

// pause makes the reader wait until it is paused no more.
func (r *reader) pause(paused chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused = paused
}

// events takes what has arrived: the names of events, and the last tick.
func (r *reader) events(t *testing.T) (names []string, last tick) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for event := range strings.SplitSeq(strings.TrimSuffix(r.text.String(), "\n\n"), "\n\n") {
		name, data, _ := strings.Cut(strings.TrimPrefix(event, "event: "), "\ndata: ")
		names = append(names, name)
		if name == "tick" {
			last = tick{}
			if err := json.Unmarshal([]byte(data), &last); err != nil {
				t.Fatalf("%v in %s", err, event)
			}
		} else if name == "bye" {
			names[len(names)-1] += " " + data
		}
	}
	r.text.Reset()
	return names, last
}

// open opens a stream. ended is closed when its handler has returned or panicked.
func open(ctx context.Context, h http.Handler, query string, change func(*http.Request)) (r *reader, ended chan struct{}) {
	r, ended = &reader{header: make(http.Header)}, make(chan struct{})
	req := httptest.NewRequest("GET", "http://localhost/v1/live"+query, nil).WithContext(ctx)
	if change != nil {
		change(req)
	}
	go func() {
		defer close(ended)
		defer func() { _ = recover() }()
		h.ServeHTTP(r, req)
	}()
	return r, ended
}

func sendTo(t *testing.T, w *world, queue string, n int) {
	t.Helper()
	for range n {
		w.do(t, &engine.SendMessage{Queue: engine.QueueName{Account: account, Name: queue},
			Draft: engine.NewDraft(engine.Entry{Body: engine.Text{Value: "x", Set: true}})})
	}
}

// A stream says once a second what happens. A client that pauses gets one tick for all that it
// missed, and one that reads nothing for five seconds is cut off. [V1-12, V1-13]
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, name := range []string{"a", "b"} {
			w.do(t, &engine.CreateQueue{Queue: engine.QueueName{Account: account, Name: name}, NameSet: true})
		}
		sendTo(t, w, "a", 5)
		ctx, leave := context.WithCancel(t.Context())
		r, ended := open(ctx, w, "?queues=a,gone,%20a", nil)
		if names, last := r.events(t); fmt.Sprint(names) != "[hello tick]" || last.Totals != (counted{}) || last.Queues["a"].Depth.Visible != 5 {
			t.Errorf("at first: %v, %+v", names, last)
		}
		if kind := r.header.Get("Content-Type"); kind != "text/event-stream" || r.header.Get("X-Accel-Buffering") != "no" || r.header.Get("Tenaq-Api") != "1" {
			t.Errorf("the headers are %v", r.header)
		}
		sendTo(t, w, "a", 2)
		sendTo(t, w, "b", 3)
		time.Sleep(3 * time.Second / 2) // between two ticks
		names, last := r.events(t)
		if fmt.Sprint(names) != "[tick]" || last.Totals.Sent != 5 || last.Queues["a"].Sent != 2 || last.Queues["a"].Depth.Visible != 7 || len(last.Queues) != 2 || last.Queues["gone"].Depth != nil || last.SilenceMS < 0 || last.SilenceMS > 6000 {
			t.Errorf("after a second: %v, %+v", names, last)
		}
		resume := make(chan struct{})
		r.pause(resume)
		for range 4 {
			time.Sleep(time.Second)
			sendTo(t, w, "a", 1)
		}
		r.pause(nil)
		close(resume)
		if names, last := r.events(t); fmt.Sprint(names) != "[tick tick]" || last.Skipped != 2 || last.Queues["a"].Sent != 3 {
			t.Errorf("after a pause: %v, %+v", names, last)
		}
		beside, leaveBeside := context.WithCancel(ctx)
		other, otherEnded := open(beside, w, "?queues=a", nil)
		r.pause(make(chan struct{}))
		time.Sleep(7 * time.Second)
		if names, last := other.events(t); fmt.Sprint(names) != "[hello tick tick tick tick tick tick tick]" || last.Skipped != 0 {
			t.Errorf("beside a client that reads nothing: %v, %+v", names, last)
		}
		select {
		case <-ended:
		default:
			t.Error("a client that reads nothing for 7 seconds is not cut off")
		}
		if w.live.mu.Lock(); len(w.live.streams) != 1 {
			t.Errorf("%d streams, of which one is cut off", len(w.live.streams))
		}
		w.live.mu.Unlock()
		leaveBeside()
		<-otherEnded
		time.Sleep(time.Second)
		r, ended = open(ctx, w, "", nil)
		if names, _ := r.events(t); fmt.Sprint(names) != "[hello tick]" {
			t.Errorf("a second stream: %v", names)
		}
		leave()
		<-ended
		time.Sleep(2 * time.Second)
		if w.live.mu.Lock(); w.live.running || len(w.live.streams) != 0 {
			t.Errorf("%d streams, running %v after all clients have left", len(w.live.streams), w.live.running)
		}
		w.live.mu.Unlock()
	})
}

// A stream ends after half an hour, with its key, and when the server stops, and says why. [V1-13]
func TestLiveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t, keyOf("TQALL001", "*", ""), keyOf("TQSEES01", "tenaq:ListQueues", ""))
		with := func(key string) func(*http.Request) {
			text := k.token(t, key, `{"for":"12h"}`).Token
			return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+text) }
		}
		all, sees := with("TQALL001"), with("TQSEES01")
		first, ended := open(t.Context(), k, "", all)
		time.Sleep(liveMax - time.Second/2)
		if names, _ := first.events(t); len(names) < 1700 || strings.HasPrefix(names[len(names)-1], "bye") {
			t.Errorf("before its end a stream has %d events", len(names))
		}
		time.Sleep(time.Second)
		<-ended
		if names, _ := first.events(t); names[len(names)-1] != `bye {"reason":"limit","retryMs":2000}` {
			t.Errorf("got %v at last", names[len(names)-1])
		}
		second, ended := open(t.Context(), k, "", sees)
		third, stopped := open(t.Context(), k, "", all)
		time.Sleep(time.Second)
		k.write(t, keyOf("TQALL001", "*", ""), keyOf("TQSEES01", "sqs:SendMessage", ""))
		time.Sleep(liveCheckEvery)
		<-ended
		if names, _ := second.events(t); names[len(names)-1] != `bye {"reason":"rights","retryMs":2000}` {
			t.Errorf("got %v at last", names[len(names)-1])
		}
		k.Drain()
		k.Drain()
		<-stopped
		if names, _ := third.events(t); names[len(names)-1] != `bye {"reason":"stopping","retryMs":2000}` {
			t.Errorf("got %v at last", names[len(names)-1])
		}
		if status, body := k.as(t, "key TQALL001", "GET", "/v1/live", ""); status != http.StatusServiceUnavailable {
			t.Errorf("after the server has begun to stop: got %d %s", status, body)
		}
	})
}

// Streams are bounded: of a key, together, and in the queues that they show. [V1-13]
func TestLiveIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, leave := context.WithCancel(t.Context())
		from := func(host int) func(*http.Request) {
			return func(r *http.Request) { r.RemoteAddr = fmt.Sprintf("10.0.0.%d:1234", host) }
		}
		refused := func(when, query string, host int) {
			t.Helper()
			r := httptest.NewRequest("GET", "http://localhost/v1/live"+query, nil)
			from(host)(r)
			got := httptest.NewRecorder()
			w.ServeHTTP(got, r)
			if got.Code != http.StatusTooManyRequests || !strings.Contains(got.Body.String(), "TooManyStreams") {
				t.Errorf("%s: got %d %s, want it refused", when, got.Code, got.Body)
			}
		}
		names := make([]string, 17)
		for i := range names {
			names[i] = fmt.Sprint("q", i)
		}
		if status, body := w.ask("GET", "/v1/live?queues="+strings.Join(names, ","), "", ""); status != http.StatusBadRequest {
			t.Errorf("17 queues: got %d %s", status, body)
		}
		var all []chan struct{}
		for i := range liveStreams {
			if i == liveStreamsOfKey {
				refused("the ninth stream of a client", "", 0)
			}
			query := ""
			if i < 4 { // each shows 16 others
				query = "?queues=" + strings.ReplaceAll(strings.Join(names[:16], ","), "q", fmt.Sprint("q", i, "-"))
			}
			if i == 4 {
				refused("a 65th queue", "?queues=another", 9)
			}
			_, ended := open(ctx, w, query, from(i/liveStreamsOfKey))
			all = append(all, ended)
			synctest.Wait()
		}
		refused("the 65th stream", "", 99)
		leave()
		for _, ended := range all {
			<-ended
		}
		w.Drain()
	})
}
