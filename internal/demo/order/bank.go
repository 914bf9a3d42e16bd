package order

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// A bank stands for a payment provider. It charges a card for each request without an idempotency key, and
// once for all requests with the same key, until it forgets the key; charges it does not forget, and they can
// be looked up by the reference that they were made with. It is slow, and what it has begun it finishes,
// whether or not somebody still waits for the answer.
type bank struct {
	ctx  context.Context
	plan func(reference string) plan

	mu      sync.Mutex
	keys    map[string]*charge
	charges map[string][]*charge // by reference
	made    int
}

// A plan is how the bank deals with a request.
type plan struct {
	takes  time.Duration
	until  func() // returns when the answer may be given at last; nil for at once
	refuse bool   // no money is on the card
	hangUp bool   // the card is charged, and there is no answer
}

// A charge is what a request leads to.
type charge struct {
	ID string `json:"id"`

	made    bool          // the card is charged
	plan    plan          // how
	refused bool          // there will be none
	ended   chan struct{} // closed when there is an answer
}

func newBank(ctx context.Context, plan func(string) plan) *bank {
	return &bank{ctx: ctx, plan: plan, keys: make(map[string]*charge), charges: make(map[string][]*charge)}
}

func (b *bank) serve(mux *http.ServeMux) {
	mux.HandleFunc("POST /charges", b.create)
	mux.HandleFunc("GET /charges/{reference}", b.find)
}

// A chargeRequest is the body of a request.
type chargeRequest struct {
	Reference string `json:"reference"`
	Cents     int    `json:"cents"`
}

func (b *bank) create(w http.ResponseWriter, r *http.Request) {
	var in chargeRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c, first := b.begin(r.Header.Get("Idempotency-Key"), in.Reference)
	select {
	case <-c.ended:
	case <-r.Context().Done():
		return
	}
	switch {
	case c.refused:
		http.Error(w, "no money on the card", http.StatusPaymentRequired)
	case c.plan.hangUp && first:
		panic(http.ErrAbortHandler)
	default:
		_ = json.NewEncoder(w).Encode(c)
	}
}

// begin begins a charge, unless the request is known.
func (b *bank) begin(key, reference string) (c *charge, first bool) {
	b.mu.Lock()
	c, known := b.keys[key]
	if known {
		b.mu.Unlock()
		return c, false
	}
	c = &charge{ended: make(chan struct{})}
	if key != "" {
		b.keys[key] = c
	}
	b.charges[reference] = append(b.charges[reference], c)
	b.mu.Unlock()
	go b.make(c, key, reference)
	return c, true
}

// make charges the card, half-way through the time that it takes.
func (b *bank) make(c *charge, key, reference string) {
	p := b.plan(reference)
	sleep(b.ctx, p.takes/2)
	b.mu.Lock()
	c.plan = p
	if p.refuse {
		c.refused = true
		delete(b.keys, key) // it may be tried again
	} else {
		b.made++
		c.made, c.ID = true, fmt.Sprintf("ch-%d", b.made)
	}
	b.mu.Unlock()
	sleep(b.ctx, p.takes/2)
	if p.until != nil {
		p.until()
	}
	close(c.ended)
}

// find looks a charge up: 404 when there is none, 409 when the card is about to be charged.
func (b *bank) find(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	status := http.StatusNotFound
	for _, c := range b.charges[r.PathValue("reference")] {
		switch {
		case c.made:
			_ = json.NewEncoder(w).Encode(c)
			return
		case !c.refused:
			status = http.StatusConflict
		}
	}
	w.WriteHeader(status)
}

// forget forgets the idempotency keys, as providers do after a day or so.
func (b *bank) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.keys)
}

// count returns how many charges there are with a reference.
func (b *bank) count(reference string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.charges[reference] {
		if c.made {
			n++
		}
	}
	return n
}

// sleep waits, unless ctx ends first.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
