package worker_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tenaq/internal/testing/faultproxy"
	"tenaq/internal/testing/sqstest"
)

// A wire is to a bubble what a fault proxy is to a network.
type wire struct {
	server *sqstest.Client
	plan   func(faultproxy.Request) faultproxy.Fault
	out    atomic.Bool    // nothing gets through
	late   sync.WaitGroup // requests whose clients are gone

	mu       sync.Mutex
	requests map[string]int
	count    map[faultproxy.How]int
}

var errWire = errors.New("the connection was reset")

// counts are how many requests came to each end.
func (w *wire) counts() map[faultproxy.How]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.count)
}

// Do carries a request to the server, or not. If a batch would be carried out in part, it is
// carried out as a whole.
func (w *wire) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	w.mu.Lock()
	w.requests[operation]++
	n := w.requests[operation]
	w.mu.Unlock()
	f := w.plan(faultproxy.Request{N: n, Operation: operation, Body: body})
	ask := func(ctx context.Context) (*http.Response, error) {
		out := r.Clone(ctx)
		out.Body = io.NopCloser(bytes.NewReader(body))
		return w.server.Do(out)
	}
	if w.out.Load() || !sleep(r.Context(), f.Before) {
		return nil, errWire
	}
	w.mu.Lock()
	if w.count == nil {
		w.count = make(map[faultproxy.How]int)
	}
	w.count[f.How]++
	w.mu.Unlock()
	switch f.How {
	case faultproxy.Drop:
		return nil, errWire
	case faultproxy.Late:
		w.late.Go(func() {
			time.Sleep(f.LateBy)
			_, _ = ask(context.WithoutCancel(r.Context()))
		})
		return nil, errWire
	case faultproxy.Fail, faultproxy.Unavailable:
		return refusal(http.StatusServiceUnavailable, "com.amazon.coral.service#ServiceUnavailable"), nil
	case faultproxy.Throttle:
		return refusal(http.StatusForbidden, "com.amazonaws.sqs#RequestThrottled"), nil
	case faultproxy.Twice:
		if _, err := ask(r.Context()); err != nil {
			return nil, err
		}
	}
	resp, err := ask(r.Context())
	if err != nil || f.How == faultproxy.Lose || !sleep(r.Context(), f.After) || w.out.Load() {
		return nil, errWire
	}
	return resp, nil
}

func refusal(status int, kind string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(strings.NewReader(`{"__type":"` + kind + `","message":"injected fault"}`)),
	}
}

// sleep waits, and reports false when ctx ends meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	wait(ctx, d)
	return ctx.Err() == nil
}
