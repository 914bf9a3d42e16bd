package sweep

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/internal/testing/sqstest"
	"tenaq/producer"
	"tenaq/records"
	"tenaq/records/recordstest"
)

// A sweepRig is a store, the ledger of the work in it, and a queue.
type sweepRig struct {
	*testing.T
	store  records.Store
	work   *claims.Ledger
	server *sqstest.Server
	url    string
}

// sweepBubble runs a test in virtual time, over a store with a clock and over one without.
func sweepBubble(t *testing.T, test func(*sweepRig)) {
	for name, clock := range map[string]bool{"clock": true, "no clock": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var store records.Store = recordstest.NewMemory()
				if !clock {
					store = clockless{store}
				}
				work, err := claims.New(claims.Config{Store: store, Owner: "worker"})
				if err != nil {
					t.Fatal(err)
				}
				server := sqstest.New(t)
				test(&sweepRig{t, store, work, server, server.Queue(t, "orders")})
			})
		})
	}
}

// clockless is a store without a clock, like DynamoDB: the age of a record is unknown.
type clockless struct{ records.Store }

func (s clockless) Get(ctx context.Context, key string) (records.Record, error) {
	r, err := s.Store.Get(ctx, key)
	r.Age = records.AgeUnknown
	return r, err
}

func (s clockless) Put(ctx context.Context, w records.Write) (records.Record, error) {
	r, err := s.Store.Put(ctx, w)
	r.Age = records.AgeUnknown
	var conflict *records.Conflict
	if errors.As(err, &conflict) {
		conflict.Current.Age = records.AgeUnknown
	}
	return r, err
}

func (s clockless) List(ctx context.Context, prefix, after string, limit int) ([]records.Record, error) {
	list, err := s.Store.List(ctx, prefix, after, limit)
	for i := range list {
		list[i].Age = records.AgeUnknown
	}
	return list, err
}

func (rig *sweepRig) hasClock() bool { _, without := rig.store.(clockless); return !without }

// sweeper is that of "tenaq claims sweep --stuck 15m --watch 5m".
func (rig *sweepRig) sweeper(watch time.Duration) *Sweeper {
	rig.Helper()
	store := &cli.RecordStore{Store: rig.store, Place: &cli.SQLitePlace{Path: "memory"}}
	work, err := claims.New(claims.Config{Store: store, Owner: "operator"})
	if err != nil {
		rig.Fatal(err)
	}
	s, err := New(rig.Context(), Config{Ledger: &cli.Ledger{Ledger: work, Store: store}, Stuck: 15 * time.Minute, Watch: watch})
	if err != nil {
		rig.Fatal(err)
	}
	return s
}

const watch = 5 * time.Minute

// find returns what a sweep finds: key, state and action.
func (rig *sweepRig) find() string {
	rig.Helper()
	found, err := rig.sweeper(watch).Find(rig.Context())
	if err != nil {
		rig.Fatal(err)
	}
	var lines []string
	for _, w := range found {
		lines = append(lines, w.Key+": "+w.State+", "+w.Action)
	}
	return strings.Join(lines, "; ")
}

// run sweeps, and sends by client.
func (rig *sweepRig) run(client producer.SQS) []*Work {
	rig.Helper()
	s := rig.sweeper(watch)
	found, err := s.Find(rig.Context())
	if err != nil {
		rig.Fatal(err)
	}
	rig.act(s, client, found)
	return found
}

func (rig *sweepRig) act(s *Sweeper, client producer.SQS, found []*Work) {
	rig.Helper()
	open := func(context.Context, string) (producer.SQS, string, error) { return client, rig.url, nil }
	if err := s.Act(rig.Context(), found, open); err != nil {
		rig.Fatal(err)
	}
}

// send sends a message once, by a client on which faults may be set.
func (rig *sweepRig) send(key string, fault sqstest.Fault) {
	rig.Helper()
	client := rig.server.Client()
	client.SetFault(func(string) sqstest.Fault { return fault })
	p, err := producer.New(producer.Config{Client: client, Store: rig.store, QueueURL: rig.url, Owner: "producer"})
	if err != nil {
		rig.Fatal(err)
	}
	_, err = p.SendOnce(rig.Context(), producer.Message{Key: key, Body: "body of " + key})
	if (err != nil) != (fault != sqstest.None) {
		rig.Fatalf("send %s with fault %v: error %v", key, fault, err)
	}
}

// begin claims the work of a key, as a worker does.
func (rig *sweepRig) begin(key string) *claims.Claim {
	rig.Helper()
	c, err := rig.work.AcquireWith(rig.Context(), key, claims.Note{Message: "m-" + key})
	if err != nil {
		rig.Fatal(err)
	}
	return c
}

// bodies takes all messages out of the queue.
func (rig *sweepRig) bodies() string {
	rig.Helper()
	var bodies []string
	for {
		out, err := rig.server.Client().ReceiveMessage(rig.Context(), &sqs.ReceiveMessageInput{QueueUrl: &rig.url, VisibilityTimeout: 43200})
		if err != nil {
			rig.Fatal(err)
		}
		if len(out.Messages) == 0 {
			return strings.Join(bodies, "; ")
		}
		bodies = append(bodies, aws.ToString(out.Messages[0].Body))
	}
}

func (rig *sweepRig) want(what, got, want string) {
	rig.Helper()
	if got != want {
		rig.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// Work is stuck if no holder has worked on it for long: not while a holder renews its claim, and
// not once it is done.
func TestFindsWhatNobodyIsAt(t *testing.T) {
	sweepBubble(t, func(rig *sweepRig) {
		for _, key := range []string{"alive", "dead", "done", "exhausted", "failed", "released"} {
			rig.send(key, sqstest.None)
		}
		_, stop := rig.begin("alive").Hold(rig.Context())
		defer stop()
		dead := rig.begin("dead")
		for _, err := range []error{
			rig.begin("done").Complete(rig.Context(), nil),
			rig.begin("exhausted").Exhaust(rig.Context(), "poison"),
			rig.begin("failed").Fail(rig.Context(), "declined"),
			rig.begin("released").Release(rig.Context()),
			rig.begin("stranger").Fail(rig.Context(), "declined"),
		} {
			if err != nil {
				rig.Fatal(err)
			}
		}
		if rig.hasClock() { // without one, old and new entries look the same
			rig.want("at once", rig.find(), "")
			time.Sleep(15*time.Minute - time.Second)
			rig.want("a second too early", rig.find(), "")
			time.Sleep(2 * time.Second)
			rig.want("after that long", rig.find(), "failed: failed, resend; released: released, resend; stranger: failed, none")
			time.Sleep(time.Minute) // the lease
		} else {
			time.Sleep(16*time.Minute + time.Second)
		}
		rig.want("and a lease", rig.find(), "dead: held, resend; failed: failed, resend; released: released, resend; stranger: failed, none")
		if err := dead.Complete(rig.Context(), nil); err != nil {
			rig.Fatal(err)
		}
		rig.want("with one done", rig.find(), "failed: failed, resend; released: released, resend; stranger: failed, none")
	})
}

// Without a clock an entry that changes while it is watched is not stuck.
func TestWatches(t *testing.T) {
	sweepBubble(t, func(rig *sweepRig) {
		if rig.hasClock() {
			return
		}
		if err := rig.begin("order-1").Fail(rig.Context(), "declined"); err != nil {
			rig.Fatal(err)
		}
		go func() {
			time.Sleep(4 * time.Minute)
			if err := rig.begin("order-1").Fail(context.Background(), "declined"); err != nil {
				rig.Error(err)
			}
		}()
		began := time.Now()
		rig.want("while it is worked on", rig.find(), "")
		if took := time.Since(began); took != 5*time.Minute {
			rig.Errorf("it took %v, want 5m", took)
		}
		rig.want("afterwards", rig.find(), "order-1: failed, none")

		if _, err := rig.sweeper(0).Find(rig.Context()); !errors.Is(err, ErrNoClock) {
			rig.Errorf("without a second look: error %v, want ErrNoClock", err)
		}
	})
}

// Work that was registered and never sent, or sent and never begun, is sent.
func TestSendsWhatWasRegistered(t *testing.T) {
	sweepBubble(t, func(rig *sweepRig) {
		rig.send("lost", sqstest.None)
		rig.send("unsent", sqstest.Dropped)
		rig.send("unknown", sqstest.Unanswered)
		rig.send("worked", sqstest.Unanswered)
		if err := rig.begin("worked").Complete(rig.Context(), nil); err != nil {
			rig.Fatal(err)
		}
		rig.want("the queue at first", rig.bodies(), "body of lost; body of unknown; body of worked")
		rig.want("at once", rig.find(), "")
		time.Sleep(15*time.Minute + time.Second)
		rig.want("later", rig.find(), "lost: not begun, resend; unknown: not sent, resend; unsent: not sent, resend")
		rig.want("the queue after a look", rig.bodies(), "")

		for _, w := range rig.run(rig.server.Client()) {
			if w.Sent == "" || w.Error != "" {
				rig.Errorf("%s: sent as %q, error %q, want an id", w.Key, w.Sent, w.Error)
			}
		}
		rig.want("the queue after the sweep", rig.bodies(), "body of lost; body of unknown; body of unsent")
		rig.want("after the sweep", rig.find(), "")
	})
}

// A message that was sent again gets its time before it is sent once more, although the entry of
// the work is as old as before: a sweep every few minutes must not fill the queue.
func TestSendsOnceInAWhile(t *testing.T) {
	sweepBubble(t, func(rig *sweepRig) {
		rig.send("order-1", sqstest.None)
		if err := rig.begin("order-1").Fail(rig.Context(), "declined"); err != nil {
			rig.Fatal(err)
		}
		rig.bodies()
		time.Sleep(time.Hour)
		rig.run(rig.server.Client())
		rig.want("the queue after a sweep", rig.bodies(), "body of order-1")
		time.Sleep(5 * time.Minute)
		rig.want("soon after it", rig.find(), "")
		time.Sleep(15 * time.Minute)
		rig.want("later", rig.find(), "order-1: failed, resend")
	})
}

// A producer that died while it held the registration: its lease has to be over, which a store
// without a clock cannot tell at once.
func TestTakesOverADeadProducer(t *testing.T) {
	sweepBubble(t, func(rig *sweepRig) {
		rig.send("order-1", sqstest.Dropped)
		sends, err := claims.New(claims.Config{Store: rig.store, Prefix: "send/orders/", Lease: 30 * time.Second})
		if err != nil {
			rig.Fatal(err)
		}
		if _, err := sends.Acquire(rig.Context(), "order-1"); err != nil {
			rig.Fatal(err)
		}
		time.Sleep(16 * time.Minute)
		began := time.Now()
		found := rig.run(rig.server.Client())
		if len(found) != 1 || found[0].Sent == "" {
			rig.Fatalf("found %+v, want one that was sent", found)
		}
		waited := time.Duration(0)
		if !rig.hasClock() {
			waited = 30 * time.Second
		}
		if got := time.Since(began); got != waited {
			rig.Errorf("it took %v, want %v", got, waited)
		}
		rig.want("the queue", rig.bodies(), "body of order-1")
	})
}

// Work that is taken up between the look and the act is left alone, and so is what another sweep
// has sent.
func TestLeavesWhatHasChanged(t *testing.T) {
	sweepBubble(t, func(rig *sweepRig) {
		for _, key := range []string{"order-1", "order-2"} {
			rig.send(key, sqstest.None)
			if err := rig.begin(key).Fail(rig.Context(), "declined"); err != nil {
				rig.Fatal(err)
			}
		}
		rig.send("order-3", sqstest.None)
		rig.bodies()
		time.Sleep(time.Hour)
		s := rig.sweeper(watch)
		found, err := s.Find(rig.Context())
		if err != nil || len(found) != 3 {
			rig.Fatalf("found %d, error %v, want 3", len(found), err)
		}
		_, stop := rig.begin("order-1").Hold(rig.Context())
		defer stop()
		rig.run(rig.server.Client())
		rig.want("the queue after the other sweep", rig.bodies(), "body of order-2; body of order-3")
		rig.act(s, rig.server.Client(), found)
		for _, w := range found {
			if w.Sent != "" || w.Error != "" || w.Action != None {
				rig.Errorf("%s: sent as %q, error %q, action %s, want none of it", w.Key, w.Sent, w.Error, w.Action)
			}
		}
		rig.want("the queue", rig.bodies(), "")
	})
}

// Work that could not be sent has an error.
func TestFails(t *testing.T) {
	sweepBubble(t, func(rig *sweepRig) {
		rig.send("order-1", sqstest.None)
		rig.send("order-2", sqstest.None)
		time.Sleep(time.Hour)
		client := rig.server.Client()
		n := 0
		client.SetFault(func(string) sqstest.Fault {
			if n++; n == 1 {
				return sqstest.None
			}
			return sqstest.Throttled
		})
		failed := 0
		for _, w := range rig.run(client) {
			if w.Error != "" {
				failed++
			}
			if (w.Error == "") != (w.Sent != "") {
				rig.Errorf("%s: sent as %q, error %q, want one of the two", w.Key, w.Sent, w.Error)
			}
		}
		if failed != 1 {
			rig.Errorf("%d failed, want 1 of 2", failed)
		}
	})
}

// A key that several queues know belongs to the one whose message the worker had.
func TestFindsTheQueue(t *testing.T) {
	sweepBubble(t, func(rig *sweepRig) {
		rig.send("order-1", sqstest.None)
		parcels := *rig
		parcels.url = rig.server.Queue(rig, "parcels")
		parcels.send("order-1", sqstest.None)
		time.Sleep(time.Hour)
		note := claims.Note{Message: "another"}
		claim, err := rig.work.AcquireWith(rig.Context(), "order-1", note)
		if err == nil {
			err = claim.Fail(rig.Context(), "declined")
		}
		if err != nil {
			rig.Fatal(err)
		}
		time.Sleep(time.Hour)
		rig.want("of an unknown message", rig.find(), "order-1: failed, none")

		p, err := producer.New(producer.Config{Client: unconnected{}, Store: rig.store, QueueURL: rig.url})
		if err != nil {
			rig.Fatal(err)
		}
		r, err := p.Lookup(rig.Context(), "order-1", 0)
		if err != nil {
			rig.Fatal(err)
		}
		note.Message = r.MessageID
		if claim, err = rig.work.AcquireWith(rig.Context(), "order-1", note); err == nil {
			err = claim.Fail(rig.Context(), "declined")
		}
		if err != nil {
			rig.Fatal(err)
		}
		time.Sleep(time.Hour)
		found, err := rig.sweeper(watch).Find(rig.Context())
		if err != nil || len(found) != 1 || found[0].Queue != "orders" || found[0].Action != Resend {
			rig.Fatalf("found %+v, error %v, want one to send to orders", found, err)
		}
	})
}

// Queues whose names begin alike are told apart, and other entries do not count as registrations.
func TestRegisteredQueues(t *testing.T) {
	store := recordstest.NewMemory()
	for _, key := range []string{"claim/a", "send", "send/", "send/loose", "send/a/1", "send/a/2", "send/a-b/1", "send/a0/1", "send/b.fifo/x/y", "sends/c/1"} {
		if _, err := store.Put(t.Context(), records.Write{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	names, err := registeredQueues(t.Context(), &cli.RecordStore{Store: store, Place: &cli.SQLitePlace{Path: "memory"}})
	if got := strings.Join(names, " "); err != nil || got != "a-b a a0 b.fifo" {
		t.Errorf("got %q, error %v, want a-b a a0 b.fifo", got, err)
	}
}
