package order

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"tenaq/cmd/tenaq/demo/stage"
)

// A bank stands for a payment provider. It charges a card for each request without an idempotency
// key, and once for all requests with the same key, until it forgets the key. Charges it does not
// forget. It is slow, and it finishes what it has begun, whether or not the caller still waits.
type bank struct {
	p *play

	mu       sync.Mutex
	keys     map[string]*charge
	charges  map[string][]*charge // by order
	made     int
	played   map[string]bool
	tomorrow bool
}

// A charge is what a request leads to.
type charge struct {
	ID      string `json:"id"`
	refused bool
	ended   chan struct{} // closed when there is an answer
}

// newBank serves a bank to the workers.
func newBank(p *play) *bank {
	b := &bank{p: p, keys: make(map[string]*charge), charges: make(map[string][]*charge),
		played: make(map[string]bool)}
	p.crew.Mux.HandleFunc("POST /charges/{order}", b.create)
	p.crew.Mux.HandleFunc("GET /charges/{order}", b.find)
	return b
}

// once reports whether a thing happens to an order for the first time.
func (b *bank) once(what, order string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.played[what+order]
	b.played[what+order] = true
	return !was
}

func (b *bank) create(w http.ResponseWriter, r *http.Request) {
	order, key := r.PathValue("order"), r.Header.Get("Idempotency-Key")
	b.mu.Lock()
	c := b.keys[key]
	if c == nil {
		c = &charge{ended: make(chan struct{})}
		if key != "" {
			b.keys[key] = c
		}
		b.charges[order] = append(b.charges[order], c)
		go b.make(c, key, order, len(b.charges[order]) == 1)
	}
	b.mu.Unlock()
	select {
	case <-c.ended:
	case <-r.Context().Done():
		return
	}
	if c.refused {
		http.Error(w, "no money on the card", http.StatusPaymentRequired)
		return
	}
	b.p.charged(r.Header.Get("Worker"), order)
	if b.p.out.Fates[order] == unanswered && b.once("hang up", order) {
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(c)
}

// make charges the card, half-way through the time that it takes.
func (b *bank) make(c *charge, key, order string, first bool) {
	takes := lease / 6
	if f := b.p.out.Fates[order]; first && (f == plain || f == copied) {
		takes = lease * 3 / 2
	}
	ctx := b.p.crew.Ctx
	stage.Pause(ctx, takes/2)
	b.mu.Lock()
	if c.refused = b.p.out.Fates[order] == refused && !b.tomorrow; c.refused {
		delete(b.keys, key) // it may be tried again
	} else {
		b.made++
		c.ID = fmt.Sprintf("ch-%d", b.made)
	}
	b.mu.Unlock()
	stage.Pause(ctx, takes/2)
	close(c.ended)
}

// find looks a charge up: 404 if there is none.
func (b *bank) find(w http.ResponseWriter, r *http.Request) {
	order := r.PathValue("order")
	b.mu.Lock()
	var found *charge
	for _, c := range b.charges[order] {
		if c.ID != "" {
			found = c
		}
	}
	b.mu.Unlock()
	if found == nil {
		http.NotFound(w, r)
		return
	}
	b.p.charged(r.Header.Get("Worker"), order)
	_ = json.NewEncoder(w).Encode(found)
}

// nextDay puts money on the cards and forgets the idempotency keys, as providers do after a day or
// so. It reports whether it was not the next day before.
func (b *bank) nextDay() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.tomorrow
	b.tomorrow = true
	if !was {
		clear(b.keys)
	}
	return !was
}

func (b *bank) isTomorrow() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tomorrow
}

// counts returns how often each card was charged.
func (b *bank) counts() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := make(map[string]int)
	for order, all := range b.charges {
		for _, c := range all {
			if c.ID != "" {
				n[order]++
			}
		}
	}
	return n
}

// A bankClient is the bank of a worker. Each request has its own connection: Go repeats a request
// with an idempotency key by itself if an old connection turns out to be closed, and the demo wants
// to see the error.
type bankClient struct {
	worker, url string
	keyless     bool
	http        http.Client
}

func newBankClient(c *stage.Child, url string) *bankClient {
	return &bankClient{c.Name, url, c.Broken == "key",
		http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// Find looks for the charge of an order.
func (b *bankClient) Find(ctx context.Context, key string) (string, error) {
	if b.keyless {
		return "", nil
	}
	return b.ask(ctx, http.MethodGet, key)
}

// Charge charges the card of an order.
func (b *bankClient) Charge(ctx context.Context, key string, _ int) (string, error) {
	return b.ask(ctx, http.MethodPost, key)
}

func (b *bankClient) ask(ctx context.Context, method, key string) (id string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, b.url+"/charges/"+key, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Worker", b.worker)
	if !b.keyless {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := b.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return "", err
	case resp.StatusCode == http.StatusNotFound:
		return "", nil
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("the bank answers %d: %s", resp.StatusCode,
			strings.TrimSpace(string(bytes.TrimSpace(body))))
	}
	var c charge
	err = json.Unmarshal(body, &c)
	return c.ID, err
}

// usualTimeout is the visibility timeout of the usual workers, and usualTakes is how long the bank
// takes there. The timeout was long enough when it was chosen.
const (
	usualTimeout = 2 * time.Second
	usualTakes   = 3 * time.Second
)
