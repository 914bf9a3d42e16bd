package redrive

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A warehouse books orders, as often as it is asked to, so it knows what was done twice. It is down
// at first.
type warehouse struct {
	url    string
	server *http.Server
	client *http.Client

	mu     sync.Mutex
	up     bool
	poison map[string]string // why it refuses orders for ever
	orders map[string]*account
}

// An account is what the warehouse knows of an order.
type account struct {
	calls  int // in all
	sick   int // of these, while it was down
	before int // of those, before the redriver began
	booked int
}

// poisoned is how many orders can never be fulfilled: two for one reason, one for another.
const poisoned = 3

// What the warehouse says when it is down, to some orders at their first call, and to orders that
// can never be fulfilled. While it is down these look like all others.
const (
	overloaded = "overloaded, try again later"
	hiccup     = "a connection was reset"
	noArticle  = "there is no such article"
	noCountry  = "the address is in no country"
)

// shaky is the prefix of orders whose first call fails.
const shaky = "live-shaky-"

func newWarehouse(orders []string, rng *rand.Rand) (*warehouse, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &warehouse{
		url: "http://" + l.Addr().String(), poison: make(map[string]string),
		orders: make(map[string]*account),
		client: &http.Client{Timeout: 30 * time.Second,
			Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
	}
	some := orders[len(orders)/5 : len(orders)/2] // not the first ones
	for i, n := range rng.Perm(len(some))[:poisoned] {
		w.poison[some[n]] = []string{noArticle, noCountry, noArticle}[i]
	}
	w.server = &http.Server{Handler: w}
	go func() { _ = w.server.Serve(l) }()
	return w, nil
}

func (w *warehouse) close() { _ = w.server.Close() }

// ServeHTTP books.
func (w *warehouse) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	body, err := io.ReadAll(in.Body)
	if err != nil {
		return
	}
	status, text := w.book(orderOf(string(body)))
	if status == http.StatusServiceUnavailable {
		time.Sleep(5 * time.Millisecond) // it is slow as well
	}
	out.WriteHeader(status)
	_, _ = out.Write([]byte(text))
}

func (w *warehouse) book(order string) (status int, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.orders[order]
	if a == nil {
		a = &account{}
		w.orders[order] = a
	}
	a.calls++
	switch poison := w.poison[order]; {
	case !w.up:
		a.sick++
		return http.StatusServiceUnavailable, overloaded
	case poison != "":
		return http.StatusUnprocessableEntity, poison + ", in " + order
	case strings.HasPrefix(order, shaky) && a.calls == 1:
		return http.StatusBadGateway, hiccup
	}
	a.booked++
	return http.StatusOK, "booked"
}

// call books an order, as a handler does. That an answer is final it does not know.
func (w *warehouse) call(ctx context.Context, b booking) error {
	in, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(b.body()))
	if err != nil {
		return err
	}
	out, err := w.client.Do(in)
	if err != nil {
		return err
	}
	defer out.Body.Close()
	text, err := io.ReadAll(out.Body)
	if err == nil && out.StatusCode != http.StatusOK {
		err = answer(out.StatusCode, string(text))
	}
	return err
}

// answer is the error that an answer of the warehouse is.
func answer(status int, text string) error {
	return fmt.Errorf("the warehouse answers %d %s: %s", status, http.StatusText(status), text)
}

// begin notes that the redriver begins.
func (w *warehouse) begin() {
	w.each(func(_ string, a *account) { a.before = a.sick })
}

// open ends the outage.
func (w *warehouse) open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.up = true
}

func (w *warehouse) each(see func(order string, a *account)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for order, a := range w.orders {
		see(order, a)
	}
}

// sick is how often redriven messages called while the warehouse was down. The first call of an
// order that came in meanwhile is none.
func (w *warehouse) sick() (n int) {
	w.each(func(order string, a *account) {
		if a.before == 0 && strings.HasPrefix(order, "live-") {
			n += max(0, a.sick-1)
			return
		}
		n += a.sick - a.before
	})
	return n
}

// booked is how many of some orders are booked.
func (w *warehouse) booked(orders []string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, order := range orders {
		if a := w.orders[order]; a != nil && a.booked > 0 {
			n++
		}
	}
	return n
}

// doubled is how many orders were booked twice or more.
func (w *warehouse) doubled() (n int) {
	w.each(func(_ string, a *account) {
		if a.booked > 1 {
			n++
		}
	})
	return n
}

// isHealthy reports whether an order can be booked.
func (w *warehouse) isHealthy(order string) bool { return w.poison[order] == "" }
