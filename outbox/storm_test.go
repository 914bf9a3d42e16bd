package outbox_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/testing/proof"
	"tenaq/internal/testing/sqstest"
	"tenaq/outbox"
	"tenaq/outbox/outboxtest"
)

// Two relays, calls of the database and of the queue that fail, are carried out twice or lose their
// answers: everything arrives, what shares a group in its order, and the queue sees no row as two
// messages.
func TestStorm_FD1_FD2(t *testing.T) {
	seed := proof.Seed(t)
	for i := range uint64(3) {
		inBubble(t, func(t *testing.T, r *rig) {
			url := r.server.Queue(t, "orders.fifo")
			standard := r.server.Queue(t, "mails")
			dice := &dice{random: rand.New(rand.NewPCG(seed, i))}
			r.box.SetFault(func(call string) error {
				if dice.one(8) {
					return outboxtest.ErrInjected
				}
				return nil
			})
			var stops []func()
			run := func() {
				client := r.server.Client()
				client.SetFault(func(string) sqstest.Fault {
					if !dice.one(6) {
						return sqstest.None
					}
					return []sqstest.Fault{sqstest.Dropped, sqstest.Unanswered, sqstest.Broken, sqstest.Throttled, sqstest.Doubled}[dice.die(5)]
				})
				slow := &slowly{client, func(*sqs.SendMessageBatchInput) error {
					time.Sleep(time.Duration(dice.die(200)) * time.Millisecond)
					return nil
				}}
				stops = append(stops, r.start(func(c *outbox.Config) { c.Client, c.Parallel, c.Rows = slow, 3, 20 }))
			}
			run()
			run()
			want := make(map[string][]string)
			n := 0
			for range 80 {
				for range dice.die(20) {
					group, body := fmt.Sprint("g", dice.die(6)), fmt.Sprint(n)
					n++
					want[group] = append(want[group], body)
					r.enqueue(outbox.Message{Queue: "orders.fifo", Key: group, Body: body}, outbox.Message{Queue: "mails", Body: body})
				}
				r.sleep(time.Duration(dice.die(300)) * time.Millisecond)
				if dice.one(20) { // one ends, another begins
					stops[0]()
					stops = stops[1:]
					run()
				}
			}
			dice.end()
			r.sleep(2 * time.Minute)
			r.wantStats(0, 0)
			got := make(map[string][]string)
			for _, m := range r.received(url) {
				g := m.Attributes["MessageGroupId"]
				got[g] = append(got[g], aws.ToString(m.Body))
			}
			mails := make(map[string]bool)
			for _, b := range bodies(r.received(standard)) {
				mails[b] = true
			}
			if len(mails) != n {
				t.Errorf("case %d: %d mails of %d were sent", i, len(mails), n)
			}
			for group := range want {
				if !slices.Equal(got[group], want[group]) {
					t.Errorf("case %d: %s received %v\nwant %v", i, group, got[group], want[group])
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

// dice is thrown by several goroutines, until the trouble is over.
type dice struct {
	mu     sync.Mutex
	random *rand.Rand
	over   bool
}

func (d *dice) die(sides int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.random.IntN(sides)
}

// one is true with a probability of one in in, until it is over.
func (d *dice) one(in int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.over && d.random.IntN(in) == 0
}

func (d *dice) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
}
