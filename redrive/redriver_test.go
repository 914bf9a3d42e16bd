package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/testing/proof"
	"tenaq/internal/testing/sqstest"
	"tenaq/records"
	"tenaq/records/recordstest"
	"tenaq/redrive"
	"tenaq/redrive/breaker"
	"tenaq/worker"
)

// A rig is a server with a queue, its dead-letter queue and a parking lot, a worker and a redriver,
// in a bubble.
type rig struct {
	t                  *testing.T
	server             *sqstest.Server
	client             *sqstest.Client
	store              records.Store
	work, dead, parked string

	mu     sync.Mutex
	sick   bool // everything fails
	poison func(b string) error
	seen   map[string]int // how often each body was handled
	done   map[string]int
	lives  int // see live

	amazon bool // redrivers and parking lots know nothing of tenaq
}

func inBubble(t *testing.T, suffix string, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{
			t: t, server: sqstest.New(t), store: recordstest.NewMemory(),
			seen: make(map[string]int), done: make(map[string]int), poison: func(string) error { return nil },
		}
		r.client = r.server.Client()
		r.parked = r.server.Queue(t, "parked"+suffix, "MessageRetentionPeriod", "1209600")
		r.dead = r.server.Queue(t, "dead"+suffix, "MessageRetentionPeriod", "1209600")
		r.work = r.server.Queue(t, "work"+suffix, "RedrivePolicy", sqstest.RedrivePolicy("dead"+suffix, "10"))
		test(t, r)
	})
}

func (r *rig) ledger() *claims.Ledger {
	l, err := claims.New(claims.Config{Store: r.store})
	if err != nil {
		r.t.Fatal(err)
	}
	return l
}

func (r *rig) redriver(change func(*redrive.Config)) *redrive.Redriver {
	r.t.Helper()
	cfg := redrive.Config{
		Client: r.client, Store: r.store, Claims: r.ledger(), DeadLetterURL: r.dead, ParkingURL: r.parked,
		Interval: time.Minute, Look: 20 * time.Second, Logger: slog.New(slog.DiscardHandler),
	}
	if r.amazon {
		cfg.Client = amazon{r.client}
	}
	if change != nil {
		change(&cfg)
	}
	d, err := redrive.New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

// run runs until the end of the test.
func (r *rig) run(run func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	r.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
}

func (r *rig) startWorker() {
	r.t.Helper()
	w, err := worker.New(worker.Config{
		Client: r.server.Client(), QueueURL: r.work, Claims: r.ledger(), Concurrency: 100, Attempts: 2,
		Logger: slog.New(slog.DiscardHandler),
		Handler: worker.HandlerFunc(func(_ context.Context, m *worker.Message) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.seen[m.Body]++
			if err := r.poison(m.Body); err != nil {
				return err
			}
			if r.sick {
				return errors.New("dial tcp 10.0.0.7:5432: connection refused")
			}
			r.done[m.EffectKey()]++
			return nil
		}),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.run(w.Run)
}

func (r *rig) setSick(sick bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sick = sick
}

// sawTimes is how often each body was handled, didTimes how often each work was done.
func (r *rig) sawTimes() map[string]int { return r.copyOf(&r.seen) }
func (r *rig) didTimes() map[string]int { return r.copyOf(&r.done) }

func (r *rig) copyOf(counts *map[string]int) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(*counts)
}

// poisonIs sets which messages fail from now on, whatever happens to the others.
func (r *rig) poisonIs(poison func(body string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.poison = poison
}

func (r *rig) send(body string) {
	r.t.Helper()
	in := &sqs.SendMessageInput{QueueUrl: &r.work, MessageBody: &body, MessageAttributes: map[string]types.MessageAttributeValue{
		"colour": {DataType: aws.String("String"), StringValue: aws.String("blue")},
	}}
	if strings.HasSuffix(r.work, ".fifo") {
		group, _, _ := strings.Cut(body, "-")
		in.MessageGroupId, in.MessageDeduplicationId = &group, &body
	}
	if _, err := r.server.Client().SendMessage(r.t.Context(), in); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) count(url string) (n int) {
	r.t.Helper()
	out, err := r.server.Client().GetQueueAttributes(r.t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, name := range []string{"", "NotVisible", "Delayed"} {
		one, _ := strconv.Atoi(out.Attributes["ApproximateNumberOfMessages"+name])
		n += one
	}
	return n
}

func (r *rig) wantCounts(work, dead, parked int) {
	r.t.Helper()
	if w, d, p := r.count(r.work), r.count(r.dead), r.count(r.parked); w != work || d != dead || p != parked {
		r.t.Errorf("%d messages to be done, %d dead, %d parked; want %d, %d, %d", w, d, p, work, dead, parked)
	}
}

func (r *rig) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// An outage ends, and everything is done, once each; nothing is parked, and while it lasted little
// was tried.
func TestOutageEnds(t *testing.T) {
	proof.Unraced(t)
	inBubble(t, "", func(t *testing.T, r *rig) {
		const messages = 200
		r.setSick(true)
		r.startWorker()
		for i := range messages {
			r.send(fmt.Sprint("m", i))
		}
		r.sleep(10 * time.Minute)
		r.wantCounts(0, messages, 0)
		r.run(r.redriver(nil).Run)
		before := 0
		for _, n := range r.sawTimes() {
			before += n
		}
		r.sleep(6 * time.Hour)
		tried := -before
		for _, n := range r.sawTimes() {
			tried += n
		}
		if most := 2 * (5 + 6 + 6); tried > most { // two attempts each
			t.Errorf("%d tries in six hours of outage, want at most %d", tried, most)
		}
		r.setSick(false)
		r.sleep(4 * time.Hour)
		r.wantCounts(0, 0, 0)
		if len(r.didTimes()) != messages {
			t.Errorf("%d done, want %d", len(r.didTimes()), messages)
		}
		for key, n := range r.didTimes() {
			if n != 1 {
				t.Errorf("%s was done %d times", key, n)
			}
		}
		s, err := r.redriver(nil).State(t.Context())
		if err != nil || s.Breaker.State != breaker.Closed || len(s.Flights) != 0 {
			t.Errorf("in the end the state is %+v, error %v", s, err)
		}
	})
}

// A message that fails while others succeed is parked with its reason, body and attributes.
func TestPoisonIsParked(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.poisonIs(func(b string) error {
			switch {
			case strings.HasPrefix(b, "bad"):
				return errors.New("no customer " + b)
			case b == "broken":
				return worker.Poison(errors.New("it is no JSON"))
			}
			return nil
		})
		r.setSick(true)
		r.startWorker()
		r.send("bad1")
		r.send("bad2")
		r.send("broken")
		for i := range 50 {
			r.send(fmt.Sprint("m", i))
		}
		r.sleep(5 * time.Minute)
		r.setSick(false)
		r.run(r.redriver(nil).Run)
		for i := range 300 { // other work goes on
			r.send(fmt.Sprint("failing-first", i))
			if i%10 == 0 {
				r.setSick(true)
				r.sleep(20 * time.Second)
				r.setSick(false)
			}
			r.sleep(time.Minute)
		}
		r.sleep(time.Hour)
		r.wantCounts(0, 0, 3)
		out, err := r.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: &r.parked, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range out.Messages {
			got = append(got, aws.ToString(m.Body))
			if aws.ToString(m.MessageAttributes["colour"].StringValue) != "blue" {
				t.Errorf("%s has lost its attribute", aws.ToString(m.Body))
			}
			if v := aws.ToString(m.MessageAttributes["tenaq"].StringValue); !strings.Contains(v, "poison") {
				t.Errorf("%s says %s", aws.ToString(m.Body), v)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, []string{"bad1", "bad2", "broken"}) {
			t.Errorf("parked %q", got)
		}
	})
}

// If only poison is left among the dead letters, the other successes of the workers tell it from an
// outage.
func TestPoisonAlone(t *testing.T) {
	for _, traffic := range []bool{true, false} {
		inBubble(t, "", func(t *testing.T, r *rig) {
			r.poisonIs(func(b string) error {
				if b == "bad" {
					return errors.New("no such customer")
				}
				return nil
			})
			r.startWorker()
			r.send("bad")
			r.sleep(time.Minute)
			r.run(r.redriver(nil).Run)
			for i := range 240 {
				if traffic {
					r.send(fmt.Sprint("m", i))
				}
				r.sleep(time.Minute)
			}
			if traffic {
				r.wantCounts(0, 0, 1)
				return
			}
			if r.count(r.parked) != 0 {
				t.Error("it was parked, although it is unknown whether the consumer works")
			}
			if n := r.sawTimes()["bad"]; n > 2*(1+3+6) {
				t.Errorf("it was tried %d times in four hours", n)
			}
		})
	}
}

// A failure is known from the ledger, however many other dead letters lie before the one that tells
// of it.
func TestLongBacklog(t *testing.T) {
	proof.Unraced(t)
	inBubble(t, "", func(t *testing.T, r *rig) {
		const letters = 3 * 1000
		r.poisonIs(func(b string) error {
			if b == "g0-dead" {
				return errors.New("no such customer")
			}
			return nil
		})
		r.startWorker()
		r.letters(letters, "timeout")
		d := r.redriver(nil)
		for minute := 0; ; minute++ {
			report := r.step(d)
			failed := slices.IndexFunc(report.Outcomes, func(o redrive.Outcome) bool { return o.Result == redrive.Failed })
			if failed >= 0 {
				if o := report.Outcomes[failed]; o.Reason != "no such customer" {
					t.Errorf("it failed because of %q", o.Reason)
				}
				if report.Depth < letters/2 {
					t.Errorf("only %d dead letters were left when it was known", report.Depth)
				}
				return
			}
			if minute == 10 {
				t.Fatalf("that it failed is not known after %d minutes, %d dead letters are left", minute, report.Depth)
			}
			r.sleep(time.Minute)
		}
	})
}

// Work that was completed already is not a sign of a healthy consumer.
func TestCompletedBefore(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.letters(5, "timeout")
		for i := range 5 {
			claim, err := r.ledger().Acquire(t.Context(), fmt.Sprint("k", i))
			if err != nil {
				t.Fatal(err)
			}
			if err := claim.Complete(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		d := r.redriver(nil)
		if report := r.step(d); report.Count(redrive.Redrive) != 5 {
			t.Fatalf("decided %+v, want five redrives", report.Decisions)
		}
		r.startWorker()
		r.sleep(5 * time.Minute)
		s := r.step(d).State
		if s.Successes != 0 || len(s.Flights) != 0 {
			t.Errorf("%d successes, %d on their way", s.Successes, len(s.Flights))
		}
		r.wantCounts(0, 0, 0)
	})
}

// However far apart the steps of a redriver are, it finds poison, and what only an outage kept from
// being done is none.
func TestPoisonAtAnyInterval(t *testing.T) {
	proof.Unraced(t)
	for _, every := range []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour} {
		inBubble(t, "", func(t *testing.T, r *rig) {
			r.poisonIs(func(b string) error {
				if b == "bad" {
					return errors.New("no such customer")
				}
				return nil
			})
			r.setSick(true)
			r.startWorker()
			for _, b := range []string{"bad", "m1", "m2", "m3"} {
				r.send(b)
			}
			r.sleep(10 * time.Minute)
			r.run(r.redriver(func(c *redrive.Config) { c.Interval, c.Look = every, 0 }).Run)
			r.sleep(12 * time.Hour)
			r.setSick(false)
			for i := range 200 {
				if r.count(r.parked) == 1 && r.count(r.dead) == 0 && r.count(r.work) == 0 {
					break
				}
				r.send(fmt.Sprint("live", i))
				r.sleep(max(time.Minute, every/4))
			}
			r.sleep(time.Minute)
			r.wantCounts(0, 0, 1)
			if len(r.look(r.parked)) == 0 || len(r.didTimes()) < 3 {
				t.Errorf("a step every %v: %d done", every, len(r.didTimes()))
			}
		})
	}
}

// Work that awaits a decision is not sent back: it would be a dead letter again at once.
func TestClaimWaitsForPerson(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		ledger, err := claims.New(claims.Config{Store: r.store, Lost: func(context.Context, claims.Entry) (claims.Decision, error) {
			return claims.Park("was the card charged?"), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ledger.Acquire(t.Context(), "k0"); err != nil {
			t.Fatal(err)
		}
		r.sleep(time.Hour)
		if _, err := ledger.Acquire(t.Context(), "k0"); !errors.Is(err, claims.NeedsPerson) {
			t.Fatalf("got %v", err)
		}
		r.letters(1, "timeout")
		report := r.step(r.redriver(nil))
		if d := report.Decisions; len(d) != 1 || d[0].Action != redrive.Park || !strings.Contains(d[0].Why, "was the card charged?") {
			t.Errorf("decided %+v", d)
		}
		r.wantCounts(0, 0, 1)
	})
}
