package order

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"tenaq/cmd/tenaq/demo/stage"
)

// A bank simulates a payment provider. It charges a card for each request without an idempotency
// key, and once for all requests with the same key, until it forgets the key. It never forgets a
// charge. It is slow, and it finishes a charge even if the caller has gone. The crew's mutex guards
// it.
type bank struct {
	*play
	keys     map[string]*charge
	charges  map[string][]*charge // by order
	made     int
	tomorrow bool
}

// A charge is the result of a request.
type charge struct {
	ID      string
	refused bool
	ended   chan struct{} // closed when there is an answer
}

// newBank returns a bank that the workers reach over HTTP.
func newBank(p *play) *bank {
	b := &bank{play: p, keys: make(map[string]*charge), charges: make(map[string][]*charge)}
	p.Mux.HandleFunc("POST /charges/{order}", b.create)
	p.Mux.HandleFunc("GET /charges/{order}", b.find)
	return b
}

func (b *bank) create(w http.ResponseWriter, r *http.Request) {
	order, key := r.PathValue("order"), r.Header.Get("Idempotency-Key")
	var c *charge
	b.Do(func() {
		if c = b.keys[key]; c == nil {
			c = &charge{ended: make(chan struct{})}
			if key != "" {
				b.keys[key] = c
			}
			b.charges[order] = append(b.charges[order], c)
			go b.make(c, key, order, len(b.charges[order]) == 1)
		}
	})
	select {
	case <-c.ended:
	case <-r.Context().Done():
		return
	}
	if c.refused {
		http.Error(w, "no money on the card", http.StatusPaymentRequired)
		return
	}
	b.answer(w, r, c)
}

// make charges the card, half-way through the time that it takes.
func (b *bank) make(c *charge, key, order string, first bool) {
	takes := lease / 6
	f := b.out.Fates[order]
	if first && (f == plain || f == copied) {
		takes = lease * 3 / 2
	}
	stage.Pause(b.Ctx, takes/2)
	b.Do(func() {
		if c.refused = f == refused && !b.tomorrow; c.refused {
			delete(b.keys, key) // it may be tried again
			return
		}
		b.made++
		c.ID = fmt.Sprintf("ch-%d", b.made)
	})
	stage.Pause(b.Ctx, takes/2)
	close(c.ended)
}

// find looks a charge up: 404 if there is none.
func (b *bank) find(w http.ResponseWriter, r *http.Request) {
	var found *charge
	b.Do(func() {
		for _, c := range b.charges[r.PathValue("order")] {
			if c.ID != "" {
				found = c
			}
		}
	})
	if found == nil {
		http.NotFound(w, r)
		return
	}
	b.answer(w, r, found)
}

// answer names the charge, unless the worker is killed or the bank hangs up before.
func (b *bank) answer(w http.ResponseWriter, r *http.Request, c *charge) {
	order, times := r.PathValue("order"), 0
	b.Take(stage.Report{From: r.Header.Get("Worker"), Point: pointCharged, Key: order})
	b.Do(func() { times = b.times(pointCharged, order) })
	if b.out.Fates[order] == unanswered && times == 1 {
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(w, c.ID)
}

// nextDay puts money on the cards and forgets the idempotency keys, as providers do after a day or
// so.
func (b *bank) nextDay() {
	b.Do(func() {
		b.tomorrow = true
		clear(b.keys)
	})
}

// counts returns how often each card was charged.
func (b *bank) counts() map[string]int {
	n := make(map[string]int)
	b.Do(func() {
		for order, all := range b.charges {
			n[order] = stage.Count(all, func(c *charge) bool { return c.ID != "" })
		}
	})
	return n
}

// A bankClient is how a worker reaches the bank. Each request has its own connection. On a reused
// connection that turns out to be closed, Go would repeat a request with an idempotency key by
// itself, and the worker would not see the error.
type bankClient struct {
	*stage.Child
	http http.Client
}

func newBankClient(c *stage.Child) *bankClient {
	return &bankClient{c, http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// Find looks for the charge of an order.
func (b *bankClient) Find(ctx context.Context, key string) (string, error) {
	if b.Broken == "key" {
		return "", nil
	}
	return b.ask(ctx, http.MethodGet, key)
}

// Charge charges the card of an order.
func (b *bankClient) Charge(ctx context.Context, key string, _ int) (string, error) {
	return b.ask(ctx, http.MethodPost, key)
}

func (b *bankClient) ask(ctx context.Context, method, key string) (id string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, b.Stage+"/charges/"+key, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Worker", b.Name)
	if b.Broken != "key" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := b.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch text := strings.TrimSpace(string(body)); {
	case err != nil || resp.StatusCode == http.StatusNotFound:
		return "", err
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("the bank answers %d: %s", resp.StatusCode, text)
	default:
		return text, nil
	}
}
