package redrive

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/worker"
)

// A warehouse books orders as often as it is asked to, so it knows which were booked twice. It is
// down at first.
type warehouse struct {
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

// Errors of the warehouse: when it is down, for some orders at their first call, and for orders
// that can never be fulfilled. While it is down, these orders get the same error as all others.
const (
	overloaded = "overloaded, try again later"
	hiccup     = "a connection was reset"
	noArticle  = "there is no such article"
	noCountry  = "the address is in no country"
)

// shaky is the prefix of orders whose first call fails.
const shaky = "live-shaky-"

func newWarehouse(orders []string, rng *rand.Rand) *warehouse {
	w := &warehouse{poison: make(map[string]string), orders: make(map[string]*account)}
	some := orders[len(orders)/5 : len(orders)/2] // not the first ones
	for i, n := range rng.Perm(len(some))[:poisoned] {
		w.poison[some[n]] = []string{noArticle, noCountry, noArticle}[i]
	}
	return w
}

// handle is the handler of the workers. It does not know that an answer is final.
func (w *warehouse) handle(ctx context.Context, b booking, _ *worker.Message) error {
	status, text := w.book(b.Order)
	switch status {
	case http.StatusOK:
		return nil
	case http.StatusServiceUnavailable:
		stage.Pause(ctx, 5*time.Millisecond) // it is slow as well
	}
	return answer(status, text)
}

// answer is the error of a worker that gets such an answer.
func answer(status int, text string) error {
	return fmt.Errorf("the warehouse answers %d %s: %s", status, http.StatusText(status), text)
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
	return http.StatusOK, ""
}

// begin notes that the redriver begins.
func (w *warehouse) begin() {
	w.sum(func(_ string, a *account) int { a.before = a.sick; return 0 })
}

// open ends the outage.
func (w *warehouse) open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.up = true
}

// sum adds up what an order counts for.
func (w *warehouse) sum(count func(order string, a *account) int) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for order, a := range w.orders {
		n += count(order, a)
	}
	return n
}

// sick is how often redriven messages called while the warehouse was down. The first call of a new
// order is not counted, because that message was not redriven.
func (w *warehouse) sick() int {
	return w.sum(func(order string, a *account) int {
		if a.before == 0 && strings.HasPrefix(order, "live-") {
			return max(0, a.sick-1)
		}
		return a.sick - a.before
	})
}

// rounds is how often the poison that was tried least was tried since the warehouse is up.
func (w *warehouse) rounds() int {
	least := 1 << 30
	w.sum(func(order string, a *account) int {
		if w.poison[order] != "" {
			least = min(least, a.calls-a.sick)
		}
		return 0
	})
	return least
}

// booked is how many orders with a prefix are booked, and doubled how many were booked twice or
// more.
func (w *warehouse) booked(prefix string) int {
	return w.sum(func(order string, a *account) int {
		return stage.One(a.booked > 0 && strings.HasPrefix(order, prefix))
	})
}

func (w *warehouse) doubled() int {
	return w.sum(func(_ string, a *account) int { return stage.One(a.booked > 1) })
}

// isHealthy reports whether an order can be booked.
func (w *warehouse) isHealthy(order string) bool { return w.poison[order] == "" }
