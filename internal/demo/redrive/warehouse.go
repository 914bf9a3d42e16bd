package redrive

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// A warehouse is what the workers need: it books what an order takes from the shelves. It books whatever it is
// asked for, however often, so it knows what was done twice. It is down at first.
type warehouse struct {
	url    string
	server *http.Server

	poison map[string]string // why it refuses orders, for ever

	mu     sync.Mutex
	up     bool
	orders map[string]*account
}

// An account is what the warehouse knows of an order.
type account struct {
	calls  int // in all
	sick   int // of these, while it was down
	booked int
}

// A booking is a request.
type booking struct {
	Order string `json:"order"`
}

func newWarehouse(poison map[string]string) (*warehouse, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &warehouse{url: "http://" + l.Addr().String(), poison: poison, orders: make(map[string]*account)}
	w.server = &http.Server{Handler: w}
	go func() { _ = w.server.Serve(l) }()
	return w, nil
}

func (w *warehouse) close() { _ = w.server.Close() }

// slow is how long the warehouse takes for an answer when it is down.
const slow = 5 * time.Millisecond

// ServeHTTP books.
func (w *warehouse) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	var b booking
	if err := json.NewDecoder(in.Body).Decode(&b); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	status, text := w.book(b.Order)
	if status == http.StatusServiceUnavailable {
		time.Sleep(slow)
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
	case isShaky(order) && a.calls-a.sick == 1:
		return http.StatusBadGateway, hiccup
	case poison != "":
		return http.StatusUnprocessableEntity, fmt.Sprintf("%s, in %s", poison, order)
	}
	a.booked++
	return http.StatusOK, "booked"
}

// open ends the outage.
func (w *warehouse) open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.up = true
}

// look calls back with the account of every order that was ever booked or refused.
func (w *warehouse) look(see func(order string, a account)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for order, a := range w.orders {
		see(order, *a)
	}
}

// account is that of one order.
func (w *warehouse) account(order string) account {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.orders[order]; a != nil {
		return *a
	}
	return account{}
}

// What the warehouse says when it is down, to some orders the first time that they reach it, and to orders that
// nobody can fulfil. While it is down these look like everything else.
const (
	overloaded = "overloaded, try again later"
	hiccup     = "a connection was reset"
	noArticle  = "there is no such article"
	noCountry  = "the address is in no country"
)
