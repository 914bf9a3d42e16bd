package producer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"tenaq/claims"
	"tenaq/producer"
	"tenaq/records/recordstest"
)

// A producer dies at each of its steps. The next one sends when the lease expires, and a FIFO queue
// stores one message within its window.
func TestCrash(t *testing.T) {
	power := func(context.Context) { panic("power cut") }
	for _, row := range []struct {
		name   string
		client hook
		cut    bool // from the store, at its first write
		state  claims.State
		waits  time.Duration
		fifo   int // messages in the end
		other  int // in a standard queue
	}{
		{"before it is registered", hook{}, true, "", 0, 1, 1},
		{"between registering and sending", hook{before: power}, false, claims.Held, lease, 1, 1},
		{"between sending and recording", hook{after: power}, false, claims.Held, lease, 1, 2},
	} {
		for queue, want := range map[string]int{"orders.fifo": row.fifo, "orders": row.other} {
			t.Run(row.name+"/"+queue, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					p := at(t, queue)
					client := row.client
					client.SQS = p.server.Client()
					store := &recordstest.Faulty{Store: p.store, Fault: func(recordstest.Call) (f recordstest.Fault) {
						if row.cut {
							panic("power cut")
						}
						return f
					}}
					crashes(t, func() { p.producer(&client, store, producer.Config{}).SendOnce(t.Context(), file("a")) })
					p.wantState("a", row.state)
					began := time.Now()
					r := send(t, p.producer(nil, nil, producer.Config{}), file("a"))
					if waited := time.Since(began); waited != row.waits {
						t.Errorf("sent after %v, want %v", waited, row.waits)
					}
					wantNew(t, r, true)
					if again := row.state != ""; (r.Attempts == 2) != again {
						t.Errorf("%d attempts", r.Attempts)
					}
					p.wantMessages(want)
				})
			})
		}
	}
}

// The caller goes away at each step. The outcome is recorded all the same, so no caller waits for a
// lease.
func TestCallerGoesAway(t *testing.T) {
	for _, row := range []struct {
		name  string
		where func(cancel context.CancelFunc) (before, after, registered func(context.Context))
		state claims.State
		err   error
		fresh bool // the next call sends
		want  int  // messages in a standard queue in the end
	}{
		{"registered, not sent", func(cancel context.CancelFunc) (_, _, r func(context.Context)) {
			return nil, nil, func(context.Context) { cancel() }
		}, claims.Released, context.Canceled, true, 1},
		{"sending", func(cancel context.CancelFunc) (b, _, _ func(context.Context)) {
			return func(context.Context) { cancel() }, nil, nil
		}, claims.Failed, context.Canceled, true, 1},
		{"sent, not recorded", func(cancel context.CancelFunc) (_, a, _ func(context.Context)) {
			return nil, func(context.Context) { cancel() }, nil
		}, claims.Completed, nil, false, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := at(t, "orders")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				before, after, registered := row.where(cancel)
				store := &afterPut{Memory: p.store, do: registered}
				client := p.server.Client()
				made := p.producer(&hook{SQS: client, before: before, after: after}, store, producer.Config{})
				r, err := made.SendOnce(ctx, file("a"))
				if row.err == nil {
					must(t, err)
				} else {
					wantError(t, err, row.err)
				}
				wantNewIf(t, r, err == nil)
				if registered != nil && client.Calls("SendMessage") != 0 {
					t.Error("sent for a caller that was gone")
				}
				p.wantState("a", row.state)
				began := time.Now()
				wantNew(t, send(t, p.producer(nil, nil, producer.Config{}), file("a")), row.fresh)
				if time.Since(began) != 0 {
					t.Errorf("the next call waited %v", time.Since(began))
				}
				p.wantMessages(row.want)
			})
		})
	}
}

// A store that is away for a while after the send is asked until it is back.
func TestStoreAwayAfterSend(t *testing.T) {
	for _, row := range []struct {
		name  string
		away  time.Duration
		err   error
		fresh bool
	}{
		{"a little", 8 * time.Second, nil, false},
		{"too long", time.Minute, producer.ErrUnrecorded, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := at(t, "orders.fifo")
				var away atomic.Bool
				store := &recordstest.Faulty{Store: p.store, Fault: func(recordstest.Call) (f recordstest.Fault) {
					if away.Load() {
						f.How = recordstest.Before
					}
					return f
				}}
				made := p.producer(&hook{SQS: p.server.Client(), after: func(context.Context) {
					away.Store(true)
					time.AfterFunc(row.away, func() { away.Store(false) })
				}}, store, producer.Config{})
				r, err := made.SendOnce(t.Context(), file("a"))
				if row.err == nil {
					must(t, err)
				} else {
					wantError(t, err, row.err)
				}
				wantNew(t, r, true) // the receipt is good either way
				time.Sleep(2 * lease)
				wantNew(t, send(t, p.producer(nil, nil, producer.Config{}), file("a")), row.fresh)
				p.wantMessages(1)
			})
		})
	}
}

// A sender so slow that another has taken over learns that the ledger has another send than its
// own.
func TestTakenOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		slow := p.producer(&hook{SQS: p.server.Client(), after: func(context.Context) { time.Sleep(2 * lease) }}, nil, producer.Config{})
		done := make(chan error)
		began := time.Now()
		go func() {
			r, err := slow.SendOnce(t.Context(), file("a"))
			wantNew(t, r, true)
			done <- err
		}()
		time.Sleep(lease)
		second := send(t, p.producer(nil, nil, producer.Config{}), file("a"))
		wantNew(t, second, true)
		if second.Attempts != 2 {
			t.Errorf("%d attempts, want that the second knows of the first", second.Attempts)
		}
		err := <-done
		wantError(t, err, producer.ErrUnrecorded)
		wantError(t, err, claims.ErrLost)
		if took := time.Since(began); took != 2*lease {
			t.Errorf("the first knows after %v", took)
		}
		if r := send(t, slow, file("a")); r.New || r.MessageID != second.MessageID {
			t.Errorf("receipt %+v, want that of the second", r)
		}
		p.wantMessages(2)
	})
}

// A store that takes a whole lease to register leaves no time to send in.
func TestSlowRegistering(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		client := p.server.Client()
		store := &recordstest.Faulty{Store: p.store, Fault: recordstest.Script(map[int]recordstest.Fault{1: {Delay: lease}})}
		_, err := p.producer(client, store, producer.Config{}).SendOnce(t.Context(), file("a"))
		if err == nil || client.Calls("SendMessage") != 0 {
			t.Errorf("sent at the end of its lease, error %v", err)
		}
		p.wantState("a", claims.Released)
	})
}
