package producer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"tenaq/claims"
	"tenaq/internal/testing/sqstest"
	"tenaq/internal/work/trail"
	"tenaq/producer"
	"tenaq/records"
	"tenaq/records/recordstest"
)

// If any number of sweeps see the same registrations, each sends some, and every message is sent
// once, whatever trouble the sweeps have with the store.
func TestSweepsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		work := p.newWork()
		config := producer.Config{Work: work}
		made := p.producer(nil, nil, config)
		const keys = 20
		for i := range keys { // half of them were sent in vain, of the others the sender died
			key := fmt.Sprint("key-", i)
			if i%2 == 0 {
				send(t, made, file(key))
			} else {
				dead := p.producer(&hook{before: func(context.Context) { panic("power cut") }}, nil, producer.Config{})
				crashes(t, func() { dead.SendOnce(t.Context(), file(key)) })
			}
		}
		p.wantMessages(keys / 2) // and lost
		time.Sleep(time.Hour)

		const sweeps = 4
		sent := make(chan string, sweeps*keys)
		var running sync.WaitGroup
		begin := make(chan struct{})
		for range sweeps {
			store := &recordstest.Faulty{Store: p.store, Fault: recordstest.Sometimes(t, recordstest.Chances{
				Before: 0.1, After: 0.1, Slow: 0.5, DelayMax: 300 * time.Millisecond,
			})}
			sweep := p.producer(nil, store, config)
			seen := stuckAnyhow(t, sweep)
			if len(seen) != keys {
				t.Errorf("%d stuck, want %d", len(seen), keys)
			}
			running.Go(func() {
				<-begin
				for _, r := range seen {
					receipt, err := sweep.Resend(context.Background(), r)
					switch {
					case errors.Is(err, producer.ErrUnrecorded):
						t.Errorf("unrecorded: %v", err)
					case receipt.New:
						sent <- r.Key
					}
				}
			})
		}
		close(begin)
		running.Wait()
		close(sent)
		times := make(map[string]int)
		for key := range sent {
			times[key]++
		}
		for key, n := range times {
			if n != 1 {
				t.Errorf("%s was sent again %d times", key, n)
			}
		}
		// The next sweep finds messages that were not sent because the store failed.
		time.Sleep(time.Hour)
		late := 0
		for key, r := range stuck(t, made, 30*time.Minute) {
			if r.State == claims.Completed && times[key] > 0 {
				continue // no worker runs here
			}
			receipt, err := made.Resend(t.Context(), r)
			must(t, err)
			wantNew(t, receipt, true)
			late++
		}
		if len(times)+late != keys {
			t.Errorf("%d sent and %d late, want %d", len(times), late, keys)
		}
		p.wantMessages(keys)
	})
}

// stuckAnyhow asks until the store answers.
func stuckAnyhow(t *testing.T, p *producer.Producer) []producer.Registration {
	for range 100 {
		if found, err := p.Stuck(t.Context(), time.Minute); err == nil {
			return found
		}
	}
	t.Fatal("the store never answers")
	return nil
}

// A message that was sent and never begun can be sent again deliberately, once, and records its
// origin.
func TestResendCompleted(t *testing.T) {
	for _, queue := range []string{"orders", "orders.fifo"} {
		t.Run(queue, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := at(t, queue)
				made := p.producer(nil, nil, producer.Config{Work: p.newWork()})
				sentAt := time.Now()
				sent := send(t, made, file("a"))
				p.wantMessages(1)
				time.Sleep(time.Hour)
				seen := stuck(t, made, time.Hour)["a"]
				again, err := made.Resend(t.Context(), seen)
				must(t, err)
				wantNew(t, again, true)
				if again.MessageID == sent.MessageID {
					t.Errorf("message %s again", again.MessageID)
				}
				twice, err := made.Resend(t.Context(), seen) // a sweep that looked at the same time
				must(t, err)
				wantNew(t, twice, false)
				if twice.MessageID != again.MessageID || send(t, made, file("a")).MessageID != again.MessageID {
					t.Errorf("receipt %+v, want a duplicate of %+v", twice, again)
				}

				time.Sleep(time.Hour)
				third, err := made.Resend(t.Context(), stuck(t, made, time.Hour)["a"])
				must(t, err)
				wantNew(t, third, true)
				for _, m := range p.wantMessages(2) {
					tr, err := trail.Of(m.MessageAttributes)
					must(t, err)
					if tr.Key != "a" || tr.Generation != 0 || tr.Lineage != sent.MessageID || !tr.FirstSent.Equal(sentAt) {
						t.Errorf("trail %v, want the lineage of %s", tr, sent.MessageID)
					}
					if id := m.Attributes["MessageDeduplicationId"]; id != "" && id != "once/a" {
						t.Errorf("deduplication id %s", id)
					}
				}
			})
		})
	}
}

// Within its window a FIFO queue drops the second message, and the receipt says that it did.
func TestResendWithinTheWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders.fifo")
		made := p.producer(nil, nil, producer.Config{Work: p.newWork()})
		sentAt := time.Now()
		sent := send(t, made, file("a"))
		for range 2 {
			time.Sleep(time.Minute)
			r, err := made.Resend(t.Context(), stuck(t, made, time.Minute)["a"])
			must(t, err)
			wantNew(t, r, false)
			if r.MessageID != sent.MessageID {
				t.Errorf("receipt %+v, want that of %+v", r, sent)
			}
		}
		p.wantMessages(1)
		time.Sleep(window)
		r, err := made.Resend(t.Context(), stuck(t, made, window)["a"])
		must(t, err)
		wantNew(t, r, true)
		tr, err := trail.Of(p.wantMessages(1)[0].MessageAttributes)
		must(t, err)
		if tr.Lineage != sent.MessageID || !tr.FirstSent.Equal(sentAt) {
			t.Errorf("trail %v, want the lineage of %s", tr, sent.MessageID)
		}
	})
}

// Between a sweep's look at a registration and its word another one may have sent it.
func TestResendRace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		made := p.producer(nil, nil, producer.Config{})
		send(t, made, file("a"))
		seen, err := made.Lookup(t.Context(), "a", 0)
		must(t, err)
		var other producer.Receipt
		late := p.producer(nil, &afterGet{Memory: p.store, do: func() {
			other, err = made.Resend(t.Context(), seen)
			must(t, err)
		}}, producer.Config{})
		r, err := late.Resend(t.Context(), seen)
		must(t, err)
		wantNew(t, other, true)
		wantNew(t, r, false)
		if r.MessageID != other.MessageID {
			t.Errorf("receipt %+v, want a duplicate of %+v", r, other)
		}
		p.wantMessages(2)
	})
}

// An afterGet is a store with something happening after its first read.
type afterGet struct {
	*recordstest.Memory
	do func()
}

func (s *afterGet) Get(ctx context.Context, key string) (records.Record, error) {
	r, err := s.Memory.Get(ctx, key)
	if do := s.do; do != nil {
		s.do = nil
		do()
	}
	return r, err
}

// If a completed registration cannot be sent again, it stays as it was.
func TestResendRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		client := p.server.Client()
		made := p.producer(client, nil, producer.Config{})
		sent := send(t, made, file("a"))
		look := func() producer.Registration {
			r, err := made.Lookup(t.Context(), "a", 0)
			must(t, err)
			return r
		}
		client.SetFault(always(sqstest.Throttled))
		_, err := made.Resend(t.Context(), look())
		if err == nil || errors.Is(err, producer.ErrUnknown) {
			t.Errorf("error %v, want that it was not sent", err)
		}
		if r := look(); r.State != claims.Completed || r.MessageID != sent.MessageID {
			t.Errorf("throttled: %+v", r)
		}
		client.SetFault(nil)
		good := p.url
		p.url += "x"
		elsewhere := p.producer(nil, nil, producer.Config{Prefix: "send/orders/"})
		p.url = good
		_, err = elsewhere.Resend(t.Context(), look())
		wantError(t, err, producer.ErrRefused)
		if r := look(); r.State != claims.Completed || r.MessageID != sent.MessageID {
			t.Errorf("refused: %+v", r)
		}
		client.SetFault(always(sqstest.Unanswered))
		_, err = made.Resend(t.Context(), look())
		wantError(t, err, producer.ErrUnknown)
		p.wantState("a", claims.Failed) // so the next sweep sees to it
	})
}

// A sender that is alive is not disturbed, and Resend does not wait for it.
func TestResendBusy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		client := p.server.Client()
		client.SetFault(first(1, sqstest.Dropped))
		made := p.producer(client, nil, producer.Config{})
		made.SendOnce(t.Context(), file("a"))
		seen := stuck(t, made, 0)["a"]
		slow := p.producer(&hook{SQS: client, before: func(context.Context) { time.Sleep(10 * time.Second) }}, nil, producer.Config{})
		done := make(chan producer.Receipt)
		go func() { done <- send(t, slow, file("a")) }()
		time.Sleep(time.Second)
		_, err := made.Resend(t.Context(), seen)
		busy, ok := errors.AsType[*claims.Refused](err)
		if !ok || busy.Why != claims.Busy || busy.RetryIn != lease-time.Second {
			t.Errorf("error %v", err)
		}
		sent := <-done
		r, err := made.Resend(t.Context(), seen)
		must(t, err)
		if r.New || r.MessageID != sent.MessageID || r.Differs {
			t.Errorf("receipt %+v, want a duplicate of %+v", r, sent)
		}
		p.wantMessages(1)
	})
}

// If a sweep dies between reopening and sending, its message is not lost.
func TestResendCrash(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		made := p.producer(nil, nil, producer.Config{})
		send(t, made, file("a"))
		seen, err := made.Lookup(t.Context(), "a", 0)
		must(t, err)
		dying := p.producer(nil, &afterPut{Memory: p.store, do: func(context.Context) { panic("power cut") }}, producer.Config{})
		crashes(t, func() { dying.Resend(t.Context(), seen) })
		p.wantState("a", claims.Released)
		r, err := made.Resend(t.Context(), stuck(t, made, 0)["a"])
		must(t, err)
		wantNew(t, r, true)
		p.wantMessages(2)
	})
}

func TestResendGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		made := p.producer(nil, nil, producer.Config{Retention: time.Hour})
		send(t, made, file("a"))
		seen, err := made.Lookup(t.Context(), "a", 0)
		must(t, err)
		time.Sleep(time.Hour)
		_, err = made.Lookup(t.Context(), "a", 0)
		wantError(t, err, claims.ErrNoEntry)
		if _, err := made.Resend(t.Context(), seen); !errors.Is(err, claims.ErrNoEntry) {
			t.Errorf("error %v, want that there is no such registration any more", err)
		}
	})
}
