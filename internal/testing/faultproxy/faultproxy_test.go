package faultproxy

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// A backend answers how often it was asked, and remembers what for.
type backend struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	hosts  []string
	asked  chan struct{} // one token for every request
	hold   chan struct{} // a request waits until it is closed, or its client is gone
	gone   chan struct{} // one token for every client that is
}

func newBackend(t *testing.T) *backend {
	b := &backend{asked: make(chan struct{}, 100), gone: make(chan struct{}, 100)}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		b.mu.Lock()
		b.bodies, b.hosts = append(b.bodies, string(body)), append(b.hosts, r.Host)
		hold := b.hold
		b.mu.Unlock()
		b.asked <- struct{}{}
		if hold != nil {
			select {
			case <-hold:
			case <-r.Context().Done():
				b.gone <- struct{}{}
				return
			}
		}
		w.Header().Set("x-amzn-RequestId", "1")
		var request struct{ Entries []struct{ Id string } }
		if json.Unmarshal(body, &request) == nil && request.Entries != nil {
			_ = json.NewEncoder(w).Encode(map[string]any{"Successful": request.Entries})
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		_, _ = io.WriteString(w, strings.Repeat("x", len(b.bodies)))
	}))
	t.Cleanup(b.Close)
	return b
}

func (b *backend) seen() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.bodies...)
}

func start(t *testing.T, b *backend, plan func(Request) Fault) *Proxy {
	t.Helper()
	p, err := Start(Config{Target: b.URL, Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// ask makes one request, and returns the answer and its body.
func ask(ctx context.Context, p *Proxy, operation, body string) (*http.Response, string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL(), strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	r.Header.Set("X-Amz-Target", "AmazonSQS."+operation)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

// Each fault, as client and server see it.
func TestFaults(t *testing.T) {
	const batch = `{"Entries":[{"Id":"a"},{"Id":"b"},{"Id":"c"}]}`
	for _, test := range []struct {
		how    How
		body   string
		status int    // zero when the client gets no answer
		answer string // or part of it
		query  string
		seen   []string
	}{
		{Passes, "1", 200, "x", "", []string{"1"}},
		{Drop, "1", 0, "", "", nil},
		{Lose, "1", 0, "", "", []string{"1"}},
		{Twice, "1", 200, "xx", "", []string{"1", "1"}},
		{Fail, "1", 500, `"__type":"com.amazon.coral.service#InternalFailure"`, "InternalFailure;Receiver", nil},
		{Unavailable, "1", 503, `"__type":"com.amazon.coral.service#ServiceUnavailable"`, "ServiceUnavailable;Receiver", nil},
		{Throttle, "1", 403, `"__type":"com.amazonaws.sqs#RequestThrottled"`, "RequestThrottled;Sender", nil},
		{Partly, batch, 200, `{"Failed":[{"Id":"a","Code":"InternalError","Message":"injected fault","SenderFault":false},` +
			`{"Id":"c","Code":"InternalError","Message":"injected fault","SenderFault":false}],"Successful":[{"Id":"b"}]}`,
			"", []string{`{"Entries":[{"Id":"b"}]}`}},
		{Partly, "1", 200, "x", "", []string{"1"}}, // no batch
	} {
		b := newBackend(t)
		p := start(t, b, Script("Op", map[int]Fault{1: {How: test.how}}))
		resp, answer, err := ask(t.Context(), p, "Op", test.body)
		switch {
		case test.status == 0 && err == nil:
			t.Errorf("%s: got %s, want no answer", test.how, resp.Status)
		case test.status != 0 && err != nil:
			t.Errorf("%s: got %v, want an answer", test.how, err)
		case err == nil && (resp.StatusCode != test.status || !strings.Contains(answer, test.answer) ||
			resp.Header.Get("x-amzn-query-error") != test.query):
			t.Errorf("%s: got %s %q with %v, want %d %q", test.how, resp.Status, answer, resp.Header, test.status, test.answer)
		}
		if got := b.seen(); !reflect.DeepEqual(got, test.seen) {
			t.Errorf("%s: the server saw %q, want %q", test.how, got, test.seen)
		}
		if got := p.Count("Op"); !reflect.DeepEqual(got, map[How]int{test.how: 1}) {
			t.Errorf("%s: counted %v", test.how, got)
		}
		// The next one passes, and other operations have numbers of their own.
		for _, operation := range []string{"Op", "Other"} {
			if _, _, err := ask(t.Context(), p, operation, "2"); err != nil {
				t.Errorf("%s: %s after it: got %v", test.how, operation, err)
			}
		}
		if got := p.Count("")[Passes]; got < 2 {
			t.Errorf("%s: counted %d requests that passed, want 2 at least", test.how, got)
		}
	}
}

// A request that is late reaches the server although its client has been told that it failed.
func TestLate(t *testing.T) {
	b := newBackend(t)
	p := start(t, b, Script("Op", map[int]Fault{1: {How: Late, LateBy: time.Millisecond}}))
	if _, _, err := ask(t.Context(), p, "Op", "1"); err == nil {
		t.Error("got an answer, want none")
	}
	<-b.asked
	if got := b.seen(); len(got) != 1 || got[0] != "1" {
		t.Errorf("the server saw %q, want the request", got)
	}
}

// Queue URLs are made from the Host header, and so lead back to the proxy.
func TestHostStays(t *testing.T) {
	b := newBackend(t)
	p := start(t, b, nil)
	resp, _, err := ask(t.Context(), p, "Op", "1")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.hosts[0], strings.TrimPrefix(p.URL(), "http://"); got != want {
		t.Errorf("the server was asked as %s, want %s", got, want)
	}
	if got := resp.Header.Get("x-amzn-RequestId"); got != "1" {
		t.Errorf("request id %q, want the server's", got)
	}
}

// A request that is delayed waits, and its client can go away meanwhile: before the server has seen
// the request it then never does, and a poll that waits at the server ends there.
func TestClientGoesAway(t *testing.T) {
	b := newBackend(t)
	p := start(t, b, Script("Op", map[int]Fault{1: {Before: time.Hour}, 3: {Before: time.Millisecond, After: time.Millisecond}}))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := ask(ctx, p, "Op", "1"); err == nil {
		t.Error("got an answer after an hour at once")
	}
	if got := b.seen(); got != nil {
		t.Errorf("the server saw %q, want nothing", got)
	}
	b.hold = make(chan struct{})
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		<-b.asked
		cancel()
	}()
	if _, _, err := ask(ctx, p, "Op", "2"); err == nil {
		t.Error("got an answer after going away")
	}
	<-b.gone
	close(b.hold)
	if _, _, err := ask(t.Context(), p, "Op", "3"); err != nil || p.Slow() != 1 {
		t.Errorf("delayed: got %v and %d counted, want an answer and one", err, p.Slow())
	}
}

// In an outage nothing gets through: no request, and no answer to one that arrived before.
func TestOutage(t *testing.T) {
	b := newBackend(t)
	b.hold = make(chan struct{})
	p := start(t, b, nil)
	go func() {
		<-b.asked
		p.Outage(true)
		close(b.hold)
	}()
	for i, want := range []int{1, 1} {
		if _, _, err := ask(t.Context(), p, "Op", "1"); err == nil {
			t.Error("got an answer in an outage")
		}
		if got := len(b.seen()); got != want {
			t.Errorf("request %d: the server saw %d, want %d", i, got, want)
		}
	}
	p.Outage(false)
	if _, _, err := ask(t.Context(), p, "Op", "2"); err != nil {
		t.Errorf("after the outage: %v", err)
	}
	if got := p.Cut(); got != 2 {
		t.Errorf("counted %d, want 2", got)
	}
}

func TestArrived(t *testing.T) {
	b := newBackend(t)
	arrived := make(chan Request, 1)
	p, err := Start(Config{
		Target: b.URL, Arrived: func(r Request, _ time.Time) { arrived <- r },
		Plan: func(Request) Fault { return Fault{How: Drop} },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	_, _, _ = ask(t.Context(), p, "Op", "1")
	if got, want := <-arrived, (Request{1, "Op", []byte("1")}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The same seed has the same faults for the n-th request of an operation, whatever comes in
// between, and each about as often as its chance says.
func TestSometimes(t *testing.T) {
	chances := map[string]Chances{
		"Op": {Drop: .1, Lose: .1, Late: .1, Twice: .1, Partly: .1, Fail: .1, Unavailable: .1, Throttle: .1, Slow: .5, DelayMax: time.Second},
		"":   {Fail: 1},
	}
	one, two := Sometimes(7, chances), Sometimes(7, chances)
	const n = 20_000
	counts, slow, late := make(map[How]int), 0, 0
	for i := range n {
		if i%3 == 0 {
			if f := two(Request{Operation: "Other"}); f != (Fault{How: Fail}) {
				t.Fatalf("got %+v for an operation without chances", f)
			}
		}
		f := one(Request{Operation: "Op"})
		if g := two(Request{Operation: "Op"}); f != g {
			t.Fatalf("request %d: got %+v and %+v with one seed", i, f, g)
		}
		counts[f.How]++
		if f.Before > 0 || f.After > 0 {
			slow++
		}
		if f.LateBy > 0 {
			late++
		}
	}
	for h := Passes; h < hows; h++ {
		want := n / 10
		if h == Passes {
			want = n / 5
		}
		if got := counts[h]; got < want*8/10 || got > want*12/10 {
			t.Errorf("%s: got %d of %d, want about %d", h, got, n, want)
		}
	}
	if slow < n*4/10 || slow > n*6/10 || late < n*8/100 || late > n*12/100 {
		t.Errorf("got %d slow and %d late of %d, want a half and a tenth", slow, late, n)
	}
	if f, g := Sometimes(8, chances), Sometimes(7, chances); func() bool {
		for range 20 {
			if f(Request{Operation: "Op"}) != g(Request{Operation: "Op"}) {
				return false
			}
		}
		return true
	}() {
		t.Error("two seeds gave the same faults")
	}
}
