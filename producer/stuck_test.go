package producer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"tenaq/claims"
	"tenaq/internal/testing/sqstest"
	"tenaq/producer"
	"tenaq/records"
	"tenaq/records/recordstest"
)

// newWork is the ledger in which workers claim.
func (p *place) newWork() *claims.Ledger {
	p.Helper()
	work, err := claims.New(claims.Config{Store: p.store})
	must(p, err)
	return work
}

// stuck returns the registrations that are stuck, by key.
func stuck(t *testing.T, p *producer.Producer, olderThan time.Duration) map[string]producer.Registration {
	t.Helper()
	found, err := p.Stuck(t.Context(), olderThan)
	must(t, err)
	m := make(map[string]producer.Registration)
	for _, r := range found {
		m[r.Key] = r
	}
	return m
}

// Stuck finds messages that were never sent and those that were sent and never begun, and nothing
// else.
func TestStuck(t *testing.T) {
	for _, clock := range []bool{true, false} {
		t.Run(fmt.Sprint("clock ", clock), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := at(t, "orders")
				work := p.newWork()
				store := &recordstest.Faulty{Store: p.store, NoClock: !clock}
				client := p.server.Client()
				made := p.producer(client, store, producer.Config{Work: work, Parallel: 3})

				send(t, made, file("begun"))
				_, err := work.Acquire(t.Context(), "begun")
				must(t, err)
				send(t, made, file("in vain"))
				client.SetFault(always(sqstest.Unanswered))
				_, err = made.SendOnce(t.Context(), file("unknown"))
				wantError(t, err, producer.ErrUnknown)
				client.SetFault(nil)
				dead := p.producer(&hook{before: func(context.Context) { panic("power cut") }}, store, producer.Config{})
				crashes(t, func() { dead.SendOnce(t.Context(), file("died")) })

				if got := stuck(t, made, 0); len(got) != 2 && clock { // one still has its lease
					t.Errorf("at once: %v", got)
				}
				time.Sleep(time.Hour - 1)
				if got := stuck(t, made, time.Hour); len(got) != 0 {
					t.Errorf("before its time: %v", got)
				}
				time.Sleep(time.Nanosecond)
				send(t, made, file("young"))
				got := stuck(t, made, time.Hour)
				for key, state := range map[string]claims.State{"in vain": claims.Completed, "unknown": claims.Failed, "died": claims.Held} {
					r := got[key]
					if r.State != state || r.Message == nil || r.Message.Body != file(key).Body || r.Age != time.Hour || r.Attempts != 1 ||
						!r.Registered.Equal(time.Now().Add(-time.Hour)) || (r.MessageID != "") != (state == claims.Completed) {
						t.Errorf("%s: %+v", key, r)
					}
				}
				if len(got) != 3 || !strings.HasPrefix(got["unknown"].Reason, "unknown whether it was sent: ") {
					t.Errorf("stuck %v", got)
				}
				// Without the ledger of the work, what was in vain is unknown.
				if got := stuck(t, p.producer(nil, store, producer.Config{}), time.Hour); len(got) != 2 {
					t.Errorf("without work: %v", got)
				}
			})
		})
	}
}

// There may be more registrations than a store lists at once.
func TestStuckPages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		made := p.producer(nil, nil, producer.Config{})
		ledger, err := claims.New(claims.Config{Store: p.store, Prefix: "send/orders/"})
		must(t, err)
		n := 2*records.ListMax + 1
		for i := range n {
			c, err := ledger.Acquire(t.Context(), fmt.Sprint("key ", i))
			must(t, err)
			must(t, c.Release(t.Context()))
		}
		if got := stuck(t, made, 0); len(got) != n {
			t.Errorf("%d stuck, want %d", len(got), n)
		}
	})
}

// An entry that the ledger may just have dropped does not count as work that no worker began.
func TestStuckNearTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		const day = 24 * time.Hour
		work, err := claims.New(claims.Config{Store: p.store, Retention: day})
		must(t, err)
		made := p.producer(&hook{SQS: p.server.Client(), after: func(ctx context.Context) {
			c, err := work.Acquire(ctx, "quick") // a worker that is done before the send is recorded
			must(t, err)
			must(t, c.Complete(ctx, nil))
			time.Sleep(10 * time.Second)
		}}, nil, producer.Config{Work: work, Retention: day})
		send(t, made, file("quick"))
		time.Sleep(day - time.Second)
		p.wantState("quick", claims.Completed)
		if got := stuck(t, made, time.Hour); len(got) != 0 {
			t.Errorf("stuck: %v", got)
		}
	})
}

// Other entries in the ledger do not hide stuck work, and are shown.
func TestStuckUnreadable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		_, err := p.store.Put(t.Context(), records.Write{Key: "send/orders/other", Value: []byte("?")})
		must(t, err)
		made := p.producer(nil, nil, producer.Config{})
		got := stuck(t, made, 0)
		if r := got["other"]; len(got) != 1 || r.State != claims.Unreadable || r.Reason == "" {
			t.Errorf("stuck: %v", got)
		}
		if r, err := made.Resend(t.Context(), got["other"]); err == nil || r.New {
			t.Errorf("resent %+v, error %v", r, err)
		}
	})
}
