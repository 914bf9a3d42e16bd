package workertest_test

import (
	"context"
	"errors"
	"testing"

	"tenaq/worker"
	"tenaq/workertest"
)

// provider stands for a payment provider that remembers idempotency keys.
type provider map[string]int

var errNoFunds = errors.New("no funds")

func (p provider) charge(key string, cents int) error {
	if cents > 100_00 {
		return errNoFunds
	}
	p[key] = cents
	return nil
}

// handler is what is tested: it charges, and gives up when the card has no funds for three
// attempts.
func handler(p provider) worker.Handler {
	type order struct{ Cents int }
	return worker.JSON(func(_ context.Context, o order, m *worker.Message) error {
		err := p.charge(m.EffectKey(), o.Cents)
		if errors.Is(err, errNoFunds) && m.Attempt() >= 3 {
			return worker.Poison(err)
		}
		if err != nil {
			return err
		}
		return m.SetResult([]byte("charged"))
	})
}

// A unit test of a handler, as in a test function.
func Example() {
	var t *testing.T // the parameter of the test function
	p := make(provider)
	d := workertest.New(t, workertest.Config{Key: "order-17", Body: `{"Cents": 500}`})
	if err := handler(p).Handle(t.Context(), d.Message); err != nil {
		t.Fatal(err)
	}
	if p["order-17"] != 500 || string(d.Result()) != "charged" {
		t.Errorf("charged %v, result %q", p, d.Result())
	}
}

// The third attempt of a handler can be tested without two failures before it.
func ExampleNew_attempt() {
	var t *testing.T // the parameter of the test function
	d := workertest.New(t, workertest.Config{Body: `{"Cents": 50000}`, Attempt: 3})
	err := handler(make(provider)).Handle(t.Context(), d.Message)
	if !worker.IsPoison(err) {
		t.Errorf("error %v, want poison", err)
	}
}

// The examples hold.
func TestExample(t *testing.T) {
	p := make(provider)
	d := workertest.New(t, workertest.Config{Key: "order-17", Body: `{"Cents": 500}`})
	if err := handler(p).Handle(t.Context(), d.Message); err != nil || p["order-17"] != 500 || string(d.Result()) != "charged" {
		t.Errorf("error %v, charged %v, result %q", err, p, d.Result())
	}
	d = workertest.New(t, workertest.Config{Body: `{"Cents": 50000}`, Attempt: 3})
	if err := handler(p).Handle(t.Context(), d.Message); !errors.Is(err, errNoFunds) || !worker.IsPoison(err) {
		t.Errorf("at the third attempt: %v", err)
	}
}
