package broker

import (
	"context"
	"time"

	"tenaq/internal/engine"
)

// A Pending is an operation that was taken up and whose answer has not been fetched. Fetch it once:
// with Wait, with Then, or with WaitFor until that reports true. Do not use a Pending after that,
// nor after Abandon.
type Pending struct {
	b *Broker
	r *request
}

// Submit submits an operation, or says why it is not taken up. It is Do without the wait.
func (b *Broker) Submit(op engine.Op) (Pending, error) {
	return b.enqueue(b.requests.get(op))
}

func (b *Broker) enqueue(r *request) (Pending, error) {
	waiting, err := b.intake.put(r)
	if err != nil {
		return Pending{}, err
	}
	// otherwise the writer would find that it has to wait
	if !b.putOff.Load() || b.isMany(waiting) {
		b.signal()
	}
	return Pending{b, r}, nil
}

// Wait waits for the answer, as Do does.
func (p Pending) Wait(ctx context.Context) error {
	_, limited := ctx.Deadline()
	if _, ok := p.r.op.(*engine.ReceiveMessage); !ok && !limited {
		<-p.r.done
		return p.fetch()
	}
	select {
	case <-p.r.done:
		return p.fetch()
	case <-ctx.Done():
		p.Abandon()
		return ctx.Err()
	}
}

// WaitFor waits for the answer like Do, but at most for d. It reports false when the operation is
// still pending.
func (p Pending) WaitFor(ctx context.Context, d time.Duration) (answered bool, err error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.r.done:
		return true, p.fetch()
	case <-ctx.Done():
		p.Abandon()
		return true, ctx.Err()
	case <-timer.C:
		return false, nil
	}
}

func (p Pending) fetch() error {
	err := p.r.err
	p.b.requests.put(p.r)
	return err
}

// Then calls f once the operation is answered, with the error of Do, on a goroutine of its own.
// Waiting itself takes no goroutine. f is called once, unless Abandon comes first.
func (p Pending) Then(f func(error)) {
	// The request does not return to the pool: Abandon may come at any time and must find it.
	call := func() { f(p.r.err) }
	if !p.r.then.CompareAndSwap(nil, &call) {
		go call()
	}
}

// Abandon gives the operation up, like the end of the context of Do. It reports false if the
// operation is answered already; the function passed to Then is then called.
func (p Pending) Abandon() bool {
	if p.r.then.Swap(&settled) == &settled {
		return false
	}
	p.r.abandon()
	p.b.intake.giveUp(p.r)
	p.b.signal()
	return true
}
