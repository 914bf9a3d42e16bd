package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/testing/proof"
	"tenaq/redrive"
)

// orderOf has the rig's worker note what succeeds, in order. What fails says how often each body is
// still to fail.
func (r *rig) orderOf(fails map[string]int) *[]string {
	order := new([]string)
	r.poisonIs(func(b string) error {
		if fails[b] > 0 {
			fails[b]--
			return errors.New("not yet: " + b)
		}
		*order = append(*order, b)
		return nil
	})
	return order
}

// inOrder checks that the messages of each group succeeded in the order in which they were sent.
func inOrder(t *testing.T, order []string, groups map[string]int) {
	t.Helper()
	next := make(map[string]int)
	for _, b := range order {
		group, _, _ := strings.Cut(b, "-")
		if want := fmt.Sprint(group, "-", next[group]); b != want {
			t.Errorf("%s succeeded before %s", b, want)
			return
		}
		next[group]++
	}
	for group, n := range groups {
		if next[group] != n {
			t.Errorf("%d of %d messages of group %s succeeded: %q", next[group], n, group, order)
		}
	}
}

// A message of a group that fails again keeps the rest of the group waiting, however many of them
// stand before it among the dead letters and share their queue with other groups.
func TestGroupKeepsItsOrder(t *testing.T) {
	for _, seed := range []uint64{1, proof.Seed(t)} {
		if proof.Short() && seed == 1 {
			continue
		}
		inBubble(t, ".fifo", func(t *testing.T, r *rig) {
			random := rand.New(rand.NewPCG(seed, 0))
			r.setSick(true)
			r.startWorker()
			groups, fails := map[string]int{"x": 25, "y": 4, "z": 1 + random.IntN(12)}, make(map[string]int)
			for _, group := range []string{"x", "y", "z"} {
				for i := range groups[group] {
					r.send(fmt.Sprint(group, "-", i))
				}
			}
			for range 4 {
				fails[fmt.Sprint("x-", random.IntN(20))] = 2 // attempts, so one redrive
			}
			fails["y-1"], fails["x-2"], fails["z-0"] = 4, 4, 2
			r.sleep(time.Hour)
			r.wantCounts(0, 29+groups["z"], 0)
			r.setSick(false)
			order := r.orderOf(fails)
			r.run(r.redriver(nil).Run)
			r.sleep(5 * time.Hour)
			r.wantCounts(0, 0, 0)
			inOrder(t, *order, groups)
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
}

// A message that the others of its group wait for and that is parked waits for a person, and the
// others continue.
func TestGroupGoesOnWhenItsHeadIsParked(t *testing.T) {
	inBubble(t, ".fifo", func(t *testing.T, r *rig) {
		r.setSick(true)
		r.startWorker()
		for i := range 14 {
			r.send(fmt.Sprint("x-", i))
		}
		r.sleep(time.Hour)
		r.setSick(false)
		order := r.orderOf(map[string]int{"x-1": 1000})
		r.run(r.redriver(nil).Run)
		for i := range 300 { // by which others are known to succeed
			r.send(fmt.Sprint("live", i, "-0"))
			r.sleep(time.Minute)
		}
		r.wantCounts(0, 0, 1)
		got := slices.DeleteFunc(*order, func(b string) bool { return strings.HasPrefix(b, "live") })
		if len(got) != 13 || got[0] != "x-0" || got[12] != "x-13" || !slices.IsSortedFunc(got, func(a, b string) int { return len(a) - len(b) }) {
			t.Errorf("succeeded %q", got)
		}
	})
}

// When the message that the others wait for is taken away by hand they continue after a while, and
// when they died is not forgotten meanwhile.
func TestGroupGoesOnWithoutItsHead(t *testing.T) {
	inBubble(t, ".fifo", func(t *testing.T, r *rig) {
		r.letters(14, "timeout")
		r.poisonIs(func(b string) error {
			if b == "g0-dead" {
				return errors.New("no such customer")
			}
			return nil
		})
		r.startWorker()
		d := r.redriver(nil)
		began := time.Now()
		for range 10 {
			r.step(d)
			r.sleep(time.Minute)
			if s, err := d.State(t.Context()); err == nil && s.Failures == 1 {
				break
			}
		}
		taken := false
		for range 40 {
			out, err := r.server.Client().ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
				QueueUrl: &r.dead, MaxNumberOfMessages: 10, VisibilityTimeout: 1, MessageAttributeNames: []string{"All"},
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range out.Messages {
				if *m.Body == "g0-dead" && !taken {
					taken = true
					if _, err := r.server.Client().DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &r.dead, ReceiptHandle: m.ReceiptHandle}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if taken {
				break
			}
			r.sleep(time.Minute)
			for _, l := range r.step(d).Decisions {
				if l.Died.Sub(began) > time.Second && l.Lineage != "first0" {
					t.Fatalf("%s died %v after it was sent there", l.Lineage, l.Died.Sub(began))
				}
			}
		}
		if !taken {
			t.Fatal("it is not among the dead letters")
		}
		var s redrive.State
		for range 120 {
			s = r.step(d).State
			r.sleep(time.Minute)
		}
		if len(r.didTimes()) != 13 || len(s.Heads) != 0 {
			t.Errorf("%d of 13 done, waiting for %+v", len(r.didTimes()), s.Heads)
		}
	})
}

// If a redriver may not send to the dead-letter queue, a group whose message failed stops, and the
// others continue.
func TestGroupsGoOnWithoutPermission(t *testing.T) {
	inBubble(t, ".fifo", func(t *testing.T, r *rig) {
		r.setSick(true)
		r.startWorker()
		for i := range 13 {
			r.send(fmt.Sprint("x-", i))
		}
		for i := range 3 {
			r.send(fmt.Sprint("y-", i))
		}
		r.sleep(time.Hour)
		r.setSick(false)
		order := r.orderOf(map[string]int{"x-0": 2})
		d := r.redriver(func(c *redrive.Config) { c.Client = readOnly{c.Client, r.dead} })
		for range 120 {
			r.step(d)
			r.sleep(time.Minute)
		}
		if got := slices.DeleteFunc(*order, func(b string) bool { return strings.HasPrefix(b, "x") }); !slices.Equal(got, []string{"y-0", "y-1", "y-2"}) {
			t.Errorf("of the others succeeded %q", got)
		}
	})
}

// readOnly is a client that may not send to one queue.
type readOnly struct {
	redrive.SQS
	queue string
}

func (c readOnly) SendMessage(ctx context.Context, in *sqs.SendMessageInput, options ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	if *in.QueueUrl == c.queue {
		return nil, errors.New("AccessDenied")
	}
	return c.SQS.SendMessage(ctx, in, options...)
}
