package producer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tenaq/claims"
	"tenaq/producer"
)

// Results come in the order of the messages, each by itself; the messages of a FIFO group go in
// their order, and groups beside each other, as many at once as is allowed.
func TestSendAll(t *testing.T) {
	for queue, want := range map[string]int64{"orders": 8, "orders.fifo": 5} {
		t.Run(queue, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := at(t, queue)
				var now, most atomic.Int64
				client := &hook{SQS: p.server.Client(), before: func(context.Context) {
					n := now.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					time.Sleep(time.Second)
				}, after: func(context.Context) { now.Add(-1) }}
				var batch []producer.Message
				for i := range 50 {
					batch = append(batch, producer.Message{Key: fmt.Sprint("key-", i), Body: fmt.Sprintf("%02d", i), Group: fmt.Sprint("g", i%5)})
				}
				batch[7].Key = ""
				made := p.producer(client, nil, producer.Config{Parallel: 8})
				results := made.SendAll(t.Context(), batch)
				if len(results) != 50 || most.Load() != want {
					t.Fatalf("%d results, %d at once, want %d", len(results), most.Load(), want)
				}
				for i, r := range results {
					if (r.Err != nil) != (i == 7) || r.New != (i != 7) || i != 7 && r.Key != batch[i].Key {
						t.Errorf("result %d: %+v", i, r)
					}
				}
				groups := make(map[string][]string)
				for _, m := range p.wantMessages(49) {
					g := m.Attributes["MessageGroupId"]
					groups[g] = append(groups[g], *m.Body)
				}
				for g, bodies := range groups {
					if queue == "orders.fifo" && !slices.IsSorted(bodies) {
						t.Errorf("group %s came as %s", g, strings.Join(bodies, " "))
					}
				}
				if r := made.SendAll(t.Context(), batch[:1])[0]; r.Err != nil || r.New {
					t.Errorf("again: %+v", r)
				}
			})
		})
	}
}

// A batch whose context ends sends no more, and says of each message that it was not sent.
func TestSendAllEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		ctx, cancel := context.WithCancel(t.Context())
		client := p.server.Client()
		made := p.producer(&hook{SQS: client, after: func(context.Context) { cancel() }}, nil, producer.Config{Parallel: 1})
		results := made.SendAll(ctx, []producer.Message{file("a"), file("b"), file("c")})
		if results[0].Err != nil || results[1].Err == nil || results[2].Err == nil || client.Calls("SendMessage") != 1 {
			t.Errorf("%+v", results)
		}
		p.wantState("b", claims.State(""))
		p.wantMessages(1)
	})
}
