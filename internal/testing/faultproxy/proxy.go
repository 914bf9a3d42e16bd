// Package faultproxy stands between a client and a server that speak the SQS API in JSON, and
// disturbs them as a test tells it to: requests that never arrive, answers that are lost although
// the server has done what it was asked, requests that arrive twice, or after the client has
// stopped waiting, refusals, delays, and outages in which nothing gets through.
//
// A plan decides what happens to a request, by operation and number. A random plan repeats itself
// for the same seed. A request without a fault passes as it is, with its Host header, so queue URLs
// lead back through the proxy and signatures stay valid. Long polls pass, and end at the server
// when the client goes away. The proxy counts what it has done, and shows every request to callers
// that judge them.
//
// It listens on loopback only, and answers are held in memory as a whole. It leaves the judgement
// of clients to its callers.
package faultproxy

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tenaq/internal/work/backoff"
)

// Config says what a Proxy does. Only Target is needed.
type Config struct {
	// Target is the URL of the server.
	Target string

	// Plan says what goes wrong with a request; nil is nothing. Script and Sometimes make such
	// functions.
	Plan func(Request) Fault

	// Arrived is called with every request when it arrives, before anything happens to it. It is
	// called from many goroutines, and may be nil.
	Arrived func(Request, time.Time)
}

// A Proxy is a server on loopback that passes requests on, and sometimes does not.
type Proxy struct {
	cfg    Config
	target *url.URL
	server *httptest.Server
	client *http.Transport
	out    atomic.Bool    // nothing gets through
	late   sync.WaitGroup // requests whose clients are gone

	mu     sync.Mutex
	counts map[string]map[How]int // by operation
	number map[string]int         // requests so far, by operation
	slow   int
	cut    int
}

// Start starts a proxy.
func Start(cfg Config) (*Proxy, error) {
	target, err := url.Parse(cfg.Target)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		cfg: cfg, target: target,
		client: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64},
		counts: make(map[string]map[How]int), number: make(map[string]int),
	}
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	return p, nil
}

// URL is the address of the proxy, to be used instead of the server's.
func (p *Proxy) URL() string { return p.server.URL }

// Close ends all connections, waits for what is late, and stops listening.
func (p *Proxy) Close() {
	p.server.CloseClientConnections()
	p.server.Close()
	p.late.Wait()
	p.client.CloseIdleConnections()
}

// Outage begins an outage, or ends it. Meanwhile requests do not arrive and answers are lost, also
// those of requests that were under way when it began.
func (p *Proxy) Outage(on bool) { p.out.Store(on) }

// Count returns how many requests of an operation came to each end. The empty name is all
// operations.
func (p *Proxy) Count(operation string) map[How]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if operation != "" {
		return maps.Clone(p.counts[operation])
	}
	all := make(map[How]int)
	for _, counts := range p.counts {
		for how, n := range counts {
			all[how] += n
		}
	}
	return all
}

// Slow returns how many requests were delayed.
func (p *Proxy) Slow() int { return p.counter(&p.slow) }

// Cut returns how many requests did not get through, or their answers, because of an outage.
func (p *Proxy) Cut() int { return p.counter(&p.cut) }

func (p *Proxy) counter(n *int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *n
}

// serve is what becomes of one request.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		reset(w)
		return
	}
	request, fault := p.decide(r, body)
	if p.isOut() {
		reset(w)
		return
	}
	if !pause(r.Context(), fault.Before) {
		return
	}
	p.count(request.Operation, fault)

	switch ctx := r.Context(); fault.How {
	case Drop:
		reset(w)
		return
	case Late:
		later := context.WithoutCancel(ctx)
		p.late.Go(func() {
			time.Sleep(fault.LateBy)
			_, _ = p.ask(later, r, body)
		})
		reset(w)
		return
	case Fail:
		refuse(w, http.StatusInternalServerError, "InternalFailure;Receiver",
			"com.amazon.coral.service#InternalFailure")
		return
	case Unavailable:
		refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable;Receiver",
			"com.amazon.coral.service#ServiceUnavailable")
		return
	case Throttle:
		refuse(w, http.StatusForbidden, "RequestThrottled;Sender",
			"com.amazonaws.sqs#RequestThrottled")
		return
	}
	p.pass(w, r, body, fault)
}

// pass asks the server, in one way or another, and answers what it says.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, body []byte, fault Fault) {
	var left []byte // entries that the server does not see
	if fault.How == Partly {
		body, left = split(body)
	}
	a, err := p.ask(r.Context(), r, body)
	if err == nil && fault.How == Twice {
		a, err = p.ask(r.Context(), r, body)
	}
	if err != nil || fault.How == Lose || !pause(r.Context(), fault.After) || p.isOut() {
		reset(w)
		return
	}
	if left != nil && a.status == http.StatusOK {
		a.body = merge(a.body, left)
	}
	a.write(w)
}

// decide numbers a request, shows it, and asks the plan.
func (p *Proxy) decide(r *http.Request, body []byte) (Request, Fault) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	p.mu.Lock()
	p.number[operation]++
	request := Request{p.number[operation], operation, body}
	p.mu.Unlock()
	if p.cfg.Arrived != nil {
		p.cfg.Arrived(request, time.Now())
	}
	var f Fault
	if p.cfg.Plan != nil {
		f = p.cfg.Plan(request)
	}
	return request, f
}

func (p *Proxy) isOut() bool {
	if !p.out.Load() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut++
	return true
}

func (p *Proxy) count(operation string, f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts[operation] == nil {
		p.counts[operation] = make(map[How]int)
	}
	p.counts[operation][f.How]++
	if f.Before > 0 || f.After > 0 {
		p.slow++
	}
}

// An answer is what the server said.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ask sends a request to the server, as it came but for its body.
func (p *Proxy) ask(ctx context.Context, r *http.Request, body []byte) (a answer, err error) {
	u := *r.URL
	u.Scheme, u.Host = p.target.Scheme, p.target.Host
	out, err := http.NewRequestWithContext(ctx, r.Method, u.String(), bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	out.Host, out.Header = r.Host, r.Header.Clone()
	out.Header.Del("Connection")
	resp, err := p.client.RoundTrip(out)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	a = answer{status: resp.StatusCode, header: resp.Header}
	a.body, err = io.ReadAll(resp.Body)
	return a, err
}

func (a *answer) write(w http.ResponseWriter) {
	a.header.Del("Connection")
	a.header.Del("Content-Length") // a batch in parts has another one
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the client may be gone
}

// refuse answers in the server's place, as AWS JSON 1.0 has it.
func refuse(w http.ResponseWriter, status int, query, typ string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("x-amzn-query-error", query)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"__type":"`+typ+`","message":"injected fault"}`)
}

// reset ends the connection of a request without an answer.
func reset(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if conn, _, err := h.Hijack(); err == nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				// the client is told by a reset, and not by an end that looks orderly
				_ = tcp.SetLinger(0)
			}
			_ = conn.Close()
			return
		}
	}
	panic(http.ErrAbortHandler)
}

// pause waits, and reports false when the client goes away meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	return d <= 0 || backoff.Sleep(ctx, d) == nil
}
