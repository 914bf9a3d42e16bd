package redrivehost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/spf13/pflag"
	"tenaq/claims"

	"tenaq/internal/cli"
	"tenaq/internal/testing/sqstest"
	"tenaq/records/recordstest"
	"tenaq/redrive"
	"tenaq/worker"
)

// A loopRig has what redrivers need, in a bubble.
type loopRig struct {
	t      *testing.T
	server *sqstest.Server
	client *sqstest.Client
	host   *Host

	mu    sync.Mutex
	steps []Step
}

func inLoopRig(t *testing.T, test func(t *testing.T, r *loopRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &loopRig{t: t, server: sqstest.New(t)}
		r.client = r.server.Client()
		store := recordstest.NewMemory()
		ledger, err := claims.New(claims.Config{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		r.host = &Host{
			Client: &cli.Client{Client: r.client.Client, Endpoint: cli.Endpoint{URL: "http://127.0.0.1:9324"}, Timeout: 15 * time.Second},
			store:  store, claims: ledger, logger: slog.New(slog.DiscardHandler),
		}
		r.server.Queue(t, "parking")
		test(t, r)
	})
}

func (r *loopRig) loop(deadLetter, text string) *Loop {
	r.t.Helper()
	s, err := ParseSchedule(text)
	if err != nil {
		r.t.Fatal(err)
	}
	spec := Spec{DeadLetter: deadLetter, Parking: "parking", Schedule: s, Policy: DefaultPolicy()}
	if err := spec.Check(); err != nil {
		r.t.Fatal(err)
	}
	return NewLoop(r.host, spec, func(step Step) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.steps = append(r.steps, step)
	})
}

// run runs loops for some time.
func (r *loopRig) run(d time.Duration, loops ...*Loop) {
	ctx, cancel := context.WithTimeout(r.t.Context(), d)
	defer cancel()
	Run(ctx, loops)
}

// die puts messages into a dead-letter queue, as a worker does.
func (r *loopRig) die(url string, n int) {
	r.t.Helper()
	for i := range n {
		value := fmt.Sprintf("v=1&key=k%d&lineage=m%d&attempts=3&reason=timeout&source=%s", i, i, sqstest.ARN("work"))
		_, err := r.server.Client().SendMessage(r.t.Context(), &sqs.SendMessageInput{
			QueueUrl: &url, MessageBody: aws.String("x"),
			MessageAttributes: map[string]types.MessageAttributeValue{"tenaq": {DataType: aws.String("String"), StringValue: &value}},
		})
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// work has a worker do what is in a queue, until stop.
func (r *loopRig) work(url string, do func() error) (stop func()) {
	r.t.Helper()
	w, err := worker.New(worker.Config{
		Client: r.server.Client(), QueueURL: url, Claims: r.host.claims, Concurrency: 20, Attempts: 1, Logger: r.host.logger,
		Handler: worker.HandlerFunc(func(context.Context, *worker.Message) error { return do() }),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	var working sync.WaitGroup
	working.Go(func() {
		if err := w.Run(ctx); err != nil {
			r.t.Error(err)
		}
	})
	return func() { cancel(); working.Wait() }
}

func (r *loopRig) wantSteps(least, most int) {
	r.t.Helper()
	if n := len(r.steps); n < least || n > most {
		r.t.Errorf("%d steps, want %d to %d", n, least, most)
	}
}

// The requests to SQS that an idle queue costs in a day are in docs/redrive.md.
func TestIdleDay(t *testing.T) {
	for _, test := range []struct {
		schedule    string
		least, most int // steps
	}{
		{"rate(5 minutes)", 274, 288},
		{"*/5 * * * *", 287, 287}, // the first at five past
		{"rate(15 minutes)", 91, 96},
		{"continuous", 1440, 1440},
	} {
		inLoopRig(t, func(t *testing.T, r *loopRig) {
			r.server.Queue(t, "dead")
			r.run(24*time.Hour-time.Second, r.loop("dead", test.schedule))
			r.wantSteps(test.least, test.most)
			steps := len(r.steps)
			for operation, want := range map[string]int{
				"GetQueueUrl": 2, "GetQueueAttributes": steps, "ReceiveMessage": steps, "SendMessage": 0, "ChangeMessageVisibility": 0,
			} {
				if got := r.client.Calls(operation); got != want {
					t.Errorf("%s: %d requests %s in %d steps, want %d", test.schedule, got, operation, steps, want)
				}
			}
		})
	}
}

// The requests to SQS that a redriven message costs are in docs/redrive.md.
func TestRedriveRequests(t *testing.T) {
	for _, test := range []struct {
		target string
		tenaq  bool
	}{{"", false}, {"work", false}, {"", true}, {"work", true}} {
		inLoopRig(t, func(t *testing.T, r *loopRig) {
			dead := r.server.Queue(t, "dead")
			r.server.Queue(t, "work")
			r.die(dead, 20)
			copies, moves, urls := 20, 0, 1
			if test.tenaq {
				copies, moves = 0, 20
			} else {
				r.client.SetFault(func(operation string) sqstest.Fault {
					if operation == "GET /v1" {
						return sqstest.Throttled // which is no answer of a tenaq server
					}
					return sqstest.None
				})
			}
			if test.target != "" {
				urls = 0
			}
			l := r.loop("dead", "rate(5 minutes)")
			l.Spec.Target, l.Spec.Policy.RateFirst = test.target, 20
			if err := l.Find(t.Context()); err != nil {
				t.Fatal(err)
			}
			found := r.client.Calls("GetQueueUrl")
			if s := l.Step(t.Context()); s.Report.Count(redrive.Redrive) != 20 {
				t.Fatalf("got %+v", s)
			}
			for operation, want := range map[string]int{
				"GetQueueAttributes": 2, "ReceiveMessage": 3, "SendMessage": copies, "DeleteMessage": copies,
				"POST /v1/replace": moves, "GetQueueUrl": found + urls,
			} {
				if got := r.client.Calls(operation); got != want {
					t.Errorf("to %q, tenaq %t: %d requests %s, want %d", test.target, test.tenaq, got, operation, want)
				}
			}
		})
	}
}

// A missing queue, or a failing server, is reported at each step and does not stop the others.
func TestLoopsAreApart(t *testing.T) {
	inLoopRig(t, func(t *testing.T, r *loopRig) {
		dead := r.server.Queue(t, "dead")
		r.server.Queue(t, "work")
		r.die(dead, 3)
		late := r.loop("late", "rate(5 minutes)")
		stop := time.AfterFunc(30*time.Minute, func() { r.server.Queue(t, "late") })
		defer stop.Stop()
		r.run(time.Hour, r.loop("dead", "rate(5 minutes)"), late)
		failed, fine := 0, 0
		for _, s := range r.steps {
			switch {
			case s.Queue == "dead" && s.Err != nil:
				t.Errorf("a step failed: %v", s.Err)
			case s.Queue == "late" && s.Err != nil:
				failed++
				if cli.ExitCode(s.Err) != cli.ExitNotFound || !strings.Contains(s.Err.Error(), `has no queue "late"`) {
					t.Errorf("got %v", s.Err)
				}
			case s.Queue == "late":
				fine++
			}
		}
		if failed < 5 || failed > 7 || fine < 5 {
			t.Errorf("%d steps without the queue and %d with it, want half and half", failed, fine)
		}
		if r.steps[0].Report.Count(redrive.Redrive)+r.steps[1].Report.Count(redrive.Redrive) != 3 {
			t.Error("the first step redrove nothing")
		}
	})
	inLoopRig(t, func(t *testing.T, r *loopRig) {
		r.server.Queue(t, "dead")
		l := r.loop("dead", "continuous")
		if err := l.Find(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.client.SetFault(func(string) sqstest.Fault { return sqstest.Broken })
		r.run(10*time.Minute, l)
		r.wantSteps(9, 11) // not in a hurry
		for _, s := range r.steps {
			if s.Err == nil || strings.Contains(s.Err.Error(), "operation error") || !strings.Contains(s.Err.Error(), "fault in a test (InternalFailure)") {
				t.Errorf("got %v", s.Err)
			}
		}
	})
}

// All redriven work is done, and its progress is reported on the way.
func TestLoopDrains(t *testing.T) {
	inLoopRig(t, func(t *testing.T, r *loopRig) {
		dead := r.server.Queue(t, "dead")
		work := r.server.Queue(t, "work", "RedrivePolicy", sqstest.RedrivePolicy("dead", "10"))
		r.die(dead, 120)
		stop := r.work(work, func() error { return nil })
		r.run(2*time.Hour, r.loop("dead", "continuous"))
		stop()
		last := r.steps[len(r.steps)-1].Report.State
		if last.Successes != 120 || last.Parked != 0 {
			t.Errorf("%d done, %d parked, want 120 and 0", last.Successes, last.Parked)
		}
		told := 0
		for i, s := range r.steps {
			if s.Err != nil {
				t.Errorf("a step failed: %v", s.Err)
			}
			if i > 0 {
				if apart := s.began.Sub(r.steps[i-1].Ended); apart < continuousLeast {
					t.Errorf("step %d began %v after the one before", i, apart)
				}
			}
			if s.Drain > 0 {
				told++
			}
		}
		if told == 0 {
			t.Error("nobody was told how long it takes")
		}
		t.Logf("%d steps, of which %d say how long it takes", len(r.steps), told)

		v, err := r.host.View(t.Context(), &Spec{DeadLetter: "dead", Schedule: Schedule{Every: RateMost}})
		if err != nil {
			t.Fatal(err)
		}
		p := DefaultPolicy()
		s, err := v.Status(t.Context(), &p)
		if err != nil || s.Successes != 120 || s.Depth != 0 {
			t.Errorf("got %+v, error %v", s, err)
		}

		// A tenaq server tells how old the oldest dead letter is.
		r.server.Queue(t, "dead-letters") // has the prefix
		r.die(dead, 1)
		time.Sleep(time.Hour)
		if s, err = v.Status(t.Context(), &p); err != nil || s.Oldest == nil || *s.Oldest != 3600 {
			t.Errorf("the oldest dead letter has the age %v, error %v, want 3600 s", s.Oldest, err)
		}
	})
}

// An open breaker has its next step when it is half open, and not a whole interval later.
func TestLoopWakesForBreaker(t *testing.T) {
	inLoopRig(t, func(t *testing.T, r *loopRig) {
		dead := r.server.Queue(t, "dead")
		work := r.server.Queue(t, "work", "RedrivePolicy", sqstest.RedrivePolicy("dead", "10"))
		r.die(dead, 5)
		stop := r.work(work, func() error { return errors.New("timeout") })
		r.run(2*time.Hour+10*time.Minute, r.loop("dead", "rate(1 hour)"))
		stop()
		for i, s := range r.steps {
			if s.Report.Changed && s.Open() {
				if i+1 == len(r.steps) || r.steps[i+1].began.Sub(s.Ended) > 62*time.Second {
					t.Errorf("the breaker opened at %v, the steps after it are %+v", s.Ended, r.steps[i+1:])
				}
				return
			}
		}
		t.Error("the breaker did not open")
	})
}

// The defaults that the flags show are those of package redrive, which refuses a text that it
// cannot read.
func TestPolicyFields(t *testing.T) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	if p := PolicyFlags(flags); *p != DefaultPolicy() {
		t.Errorf("without flags: got %+v, want the default", *p)
	}
	for _, field := range PolicyFields {
		var p redrive.Policy
		if def := flags.Lookup(field.Name).DefValue; def != "" && field.Apply(&p, def) != nil {
			t.Errorf("%s: the default %q cannot be read", field.Name, def)
		}
		for _, bad := range []string{"", "-1", "x", "0", "0s"} {
			if field.Apply(&p, bad) == nil {
				t.Errorf("%s: %q was taken", field.Name, bad)
			}
		}
	}
	got, want := DefaultPolicy(), redrive.Policy{
		Failures: 3, Successes: 2, CoolDown: time.Minute, CoolDownMax: time.Hour, RateFirst: 5, RateMax: 200, Redrives: 5,
		Near: 5 * time.Minute, DelayBase: time.Minute, DelayMax: 15 * time.Minute, HoldMax: 24 * time.Hour, Settle: time.Hour,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
