package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/testing/sqstest"
	"tenaq/queuetest"
	"tenaq/redrive"
	"tenaq/redrive/breaker"
)

// The usual redrivers have known flaws. Each test here is named after one, says what the usual
// solution does, and shows that this one does otherwise. Those of the planner alone are in package
// redrive's own tests.

// letters puts dead letters of a worker's making into the dead-letter queue.
func (r *rig) letters(n int, reason string) (ids []string) {
	r.t.Helper()
	for i := range n {
		body := fmt.Sprint("g", i, "-dead")
		in := &sqs.SendMessageInput{QueueUrl: &r.dead, MessageBody: &body, MessageAttributes: map[string]types.MessageAttributeValue{
			"colour": {DataType: aws.String("String"), StringValue: aws.String("blue")},
			"tenaq": {DataType: aws.String("String"), StringValue: aws.String(fmt.Sprintf("v=1&key=k%d&lineage=first%d&attempts=3&reason=%s&source=%s",
				i, i, strings.ReplaceAll(reason, " ", "+"), sqstest.ARN(r.work[strings.LastIndexByte(r.work, '/')+1:])))},
		}}
		if strings.HasSuffix(r.dead, ".fifo") {
			in.MessageGroupId, in.MessageDeduplicationId = aws.String("g"), &body
		}
		out, err := r.server.Client().SendMessage(r.t.Context(), in)
		if err != nil {
			r.t.Fatal(err)
		}
		ids = append(ids, aws.ToString(out.MessageId))
	}
	return ids
}

// step takes a step that must not fail.
func (r *rig) step(d *redrive.Redriver) redrive.Report {
	r.t.Helper()
	report, err := d.Step(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return report
}

// look receives up to ten messages without taking them away.
func (r *rig) look(url string) []types.Message {
	r.t.Helper()
	out, err := r.server.Client().ReceiveMessage(r.t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: &url, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"}, VisibilityTimeout: 1,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	return out.Messages
}

// Usual: redrives are counted under the message id, which is new with every send, so poison is
// never found. Ours: the count travels with the message.
func TestCountSurvivesSends_FB1(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.poisonIs(func(b string) error {
			if b == "bad" {
				return errors.New("no such customer")
			}
			return nil
		})
		r.startWorker()
		r.send("bad")
		r.run(r.redriver(nil).Run)
		for i := range 60 {
			r.send(fmt.Sprint("m", i))
			r.sleep(time.Minute)
		}
		r.wantCounts(0, 0, 1)
		if t.Failed() {
			return
		}
		if v := aws.ToString(r.look(r.parked)[0].MessageAttributes["tenaq"].StringValue); !strings.Contains(v, "redrives=") || !strings.Contains(v, "strikes=3") {
			t.Errorf("it says %s, want its redrives and three strikes", v)
		}
	})
}

// Usual: the breaker closes because SQS took the message. Ours: sends tell it nothing.
func TestSendIsNoSuccess_FB2(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.letters(10, "timeout")
		d := r.redriver(nil) // and there is no worker
		for range 20 {
			r.step(d)
			r.sleep(time.Minute)
		}
		s, err := d.State(t.Context())
		if err != nil || s.Successes != 0 || s.Failures != 0 || len(s.Flights) != 5 {
			t.Errorf("after five sends without an outcome: %+v, error %v", s, err)
		}
	})
}

// Usual: an empty dead-letter queue counts as success, even if its messages are on their way. Ours:
// it is not evidence.
func TestEmptyIsNoSuccess_FB3(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.letters(2, "timeout")
		d := r.redriver(nil)
		for range 10 {
			r.step(d)
			r.sleep(time.Minute)
		}
		if s, err := d.State(t.Context()); err != nil || s.Successes != 0 || len(s.Well) != 0 {
			t.Errorf("got %+v, error %v", s, err)
		}
	})
}

// Usual: a cool-down of a minute and a run every five never block a run. Ours: the cool-down grows
// each time the breaker opens, and runs within it do nothing. They do not even look: see also
// F-B17.
func TestOpenBlocksRuns_FB4_FB17(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.setSick(true)
		r.startWorker()
		for i := range 20 {
			r.send(fmt.Sprint("m", i))
		}
		r.sleep(10 * time.Minute)
		d := r.redriver(func(c *redrive.Config) { c.Interval = 5 * time.Minute })
		blocked := 0
		var was breaker.State
		for range 100 {
			before := r.client.Calls("ReceiveMessage")
			report := r.step(d)
			is := report.State.Breaker.State
			if was, is = is, was; was == breaker.Open && is == breaker.Open {
				if n := r.client.Calls("ReceiveMessage") - before; n > 0 && len(report.State.Flights) == 0 {
					t.Errorf("%d looks at the dead letters while nothing may go", n)
				}
				blocked++
			}
			r.sleep(5 * time.Minute)
		}
		if blocked < 50 {
			t.Errorf("%d of 100 runs were blocked", blocked)
		}
	})
}

// Usual: every report writes a new "last state change". Ours: only a change does.
func TestLastChange_FB5(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.letters(3, "timeout")
		r.startWorker()
		d := r.redriver(nil)
		for range 10 {
			if s := r.step(d).State; !s.Breaker.LastChange.IsZero() {
				t.Errorf("a breaker that was always closed changed at %v", s.Breaker.LastChange)
			}
			r.sleep(time.Minute)
		}
		if s, err := d.State(t.Context()); err != nil || s.Successes != 3 {
			t.Errorf("got %+v, error %v", s, err)
		}
	})
}

// Usual: runs that overlap read, change and write the breaker, and each sends its canary. Ours: one
// of them wins, the others end with ErrOverlap.
func TestOverlap_FB6(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.setSick(true)
		r.startWorker()
		for i := range 30 {
			r.send(fmt.Sprint("m", i))
		}
		r.sleep(10 * time.Minute)
		redrivers := []*redrive.Redriver{r.redriver(nil), r.redriver(nil), r.redriver(nil), r.redriver(nil)}
		overlaps := 0
		for range 60 {
			errs := make(chan error)
			for _, d := range redrivers {
				go func() {
					_, err := d.Step(t.Context())
					errs <- err
				}()
			}
			for range redrivers {
				if err := <-errs; errors.Is(err, redrive.ErrOverlap) {
					overlaps++
				} else if err != nil {
					t.Error(err)
				}
			}
			s, err := redrivers[0].State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			canaries := 0
			for _, f := range s.Flights {
				if f.Canary {
					canaries++
				}
			}
			if canaries > 1 || len(s.Flights) > 6 {
				t.Errorf("%d canaries, %d on their way", canaries, len(s.Flights))
			}
			r.sleep(time.Minute)
		}
		if overlaps == 0 {
			t.Error("they never met")
		}
		r.wantCounts(0, 30, 0)
	})
}

// Usual: body in, body out; attributes are lost. Ours: everything is kept, and added to.
func TestAttributesStay_FB8(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.letters(1, "timeout")
		r.step(r.redriver(nil))
		r.sleep(2 * time.Minute)
		m := r.look(r.work)[0]
		if aws.ToString(m.MessageAttributes["colour"].StringValue) != "blue" || len(m.MessageAttributes) != 2 {
			t.Errorf("it has %v", m.MessageAttributes)
		}
		v := aws.ToString(m.MessageAttributes["tenaq"].StringValue)
		for _, want := range []string{"key=k0", "lineage=first0", "redrives=1"} {
			if !strings.Contains(v, want) {
				t.Errorf("it says %s, want %s", v, want)
			}
		}
	})
}

// Usual: a crash between send, count and delete loses or doubles. Ours: the message may be sent
// twice, as the same work, and is counted once. On a FIFO queue it is there once.
func TestCrashBetweenCalls_FB9_FB18(t *testing.T) {
	for _, suffix := range []string{"", ".fifo"} {
		for _, operation := range []string{"SendMessage", "DeleteMessage"} {
			for _, fault := range []sqstest.Fault{sqstest.Dropped, sqstest.Unanswered} {
				inBubble(t, suffix, func(t *testing.T, r *rig) {
					r.amazon = true
					r.letters(1, "timeout")
					r.sleep(2 * time.Minute) // a letter of a FIFO queue waits for its time
					r.client.SetFault(func(o string) sqstest.Fault {
						if o == operation {
							return fault
						}
						return sqstest.None
					})
					d := r.redriver(nil)
					if _, err := d.Step(t.Context()); err == nil {
						t.Error("a step whose calls fail succeeded")
					}
					r.client.SetFault(nil)
					r.sleep(time.Minute)
					r.step(r.redriver(nil))
					r.startWorker()
					r.sleep(10 * time.Minute)
					r.wantCounts(0, 0, 0)
					if r.didTimes()["k0"] != 1 {
						t.Errorf("%s %s fault %d: done %v", suffix, operation, fault, r.didTimes())
					}
					if suffix == ".fifo" && r.sawTimes()["g0-dead"] != 1 {
						t.Errorf("%s fault %d: it was delivered %d times", operation, fault, r.sawTimes()["g0-dead"])
					}
					s := r.step(d).State
					if s.Redriven != 1 {
						t.Errorf("%s %s fault %d: counted %d times", suffix, operation, fault, s.Redriven)
					}
				})
			}
		}
	}
}

// Usual: on a FIFO queue every send fails, because it has no group or because it has a delay. Ours:
// the group stays, its messages go one at a time, in order, each when the one before it is settled.
func TestFIFO_FB10(t *testing.T) {
	inBubble(t, ".fifo", func(t *testing.T, r *rig) {
		r.setSick(true)
		r.startWorker()
		for i := range 4 {
			r.send(fmt.Sprint("x-", i))
			r.send(fmt.Sprint("y-", i))
		}
		r.sleep(30 * time.Minute)
		r.wantCounts(0, 8, 0)
		r.setSick(false)
		var order []string
		r.poisonIs(func(b string) error {
			order = append(order, b)
			return nil
		})
		d := r.redriver(nil)
		if report := r.step(d); report.Count(redrive.Redrive) != 2 || report.State.Flights[0].Group == report.State.Flights[1].Group {
			t.Errorf("decided %+v, want one of each group redriven", report.Decisions)
		}
		r.run(d.Run)
		r.sleep(2 * time.Hour)
		r.wantCounts(0, 0, 0)
		at := map[byte]int{}
		for _, b := range order {
			if want := fmt.Sprintf("%c-%d", b[0], at[b[0]]); b != want {
				t.Errorf("%s was done before %s: %q", b, want, order)
			}
			at[b[0]]++
		}
		if len(order) != 8 {
			t.Errorf("done %q", order)
		}
	})
}

// Usual: only the body is parked. Ours: with its reason, its attempts, its source and its time.
func TestParkedSaysAll_FB14_FB20(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.poisonIs(func(string) error { return errors.New("no such customer") })
		began := time.Now()
		r.startWorker()
		r.send("bad")
		r.sleep(time.Minute)
		r.letters(1, "x")
		d := r.redriver(func(c *redrive.Config) { c.Policy.Redrives = 1 })
		r.run(d.Run)
		for range 30 {
			live(t, r)
			r.sleep(time.Minute)
		}
		for _, m := range r.look(r.parked) {
			if aws.ToString(m.Body) != "bad" {
				continue
			}
			v := aws.ToString(m.MessageAttributes["tenaq"].StringValue)
			for _, want := range []string{"reason=", "no+such+customer", "source=arn", "attempts=2", "strikes=1", fmt.Sprint("first-sent=", began.UnixMilli())} {
				if !strings.Contains(v, want) {
					t.Errorf("it says %s, want %s", v, want)
				}
			}
			return
		}
		t.Error("it is not parked")
	})
}

// live has a message processed that is not poison.
func live(t *testing.T, r *rig) {
	t.Helper()
	r.mu.Lock()
	was := r.poison
	r.poison = func(b string) error {
		if strings.HasPrefix(b, "live") {
			return nil
		}
		return was(b)
	}
	r.mu.Unlock()
	r.lives++
	r.send(fmt.Sprint("live-", r.lives))
	r.sleep(time.Second)
	r.mu.Lock()
	r.poison = was
	r.mu.Unlock()
}

// Usual: a table says that its rows expire, and nothing in it says when. Ours: the record of the
// redriver ends two weeks after its last step.
func TestBookkeepingEnds_FB15(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.letters(1, "timeout")
		r.step(r.redriver(nil))
		found, err := r.store.List(t.Context(), "redrive/", "", 0)
		if err != nil || len(found) != 1 || found[0].TTL != 14*24*time.Hour {
			t.Fatalf("got %+v, error %v", found, err)
		}
		r.sleep(14 * 24 * time.Hour)
		if found, err := r.store.List(t.Context(), "", "", 0); err != nil || len(found) != 0 {
			t.Errorf("two weeks later there is %+v, error %v", found, err)
		}
	})
}

// Usual: it redrives, or it does not. Ours: it says in advance what it would do, and an operator
// can pause it under their name.
func TestPlanAndPause_FB19(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.letters(3, "timeout")
		d := r.redriver(nil)
		report, err := d.Plan(t.Context())
		if err != nil || report.Count(redrive.Redrive) != 3 {
			t.Fatalf("the plan is %+v, error %v", report.Decisions, err)
		}
		r.wantCounts(0, 3, 0)
		if s, err := d.State(t.Context()); err != nil || s.Redriven != 0 {
			t.Errorf("a plan changed the state: %+v, error %v", s, err)
		}
		if err := d.Pause(t.Context(), "release in progress"); err != nil {
			t.Fatal(err)
		}
		report, err = d.Plan(t.Context())
		if err != nil || report.Count(redrive.Redrive) != 3 || report.State.Paused != "release in progress" {
			t.Errorf("the plan of a paused redriver is %+v, paused %q, error %v", report.Decisions, report.State.Paused, err)
		}
		r.wantCounts(0, 3, 0)
		if s, err := d.State(t.Context()); err != nil || s.Paused != "release in progress" || s.Redriven != 0 {
			t.Errorf("a plan changed the state of a paused redriver: %+v, error %v", s, err)
		}
		if report := r.step(r.redriver(nil)); report.Count(redrive.Redrive) != 0 || report.State.Paused != "release in progress" {
			t.Errorf("while paused: %+v", report)
		}
		r.wantCounts(0, 3, 0)
		if err := d.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.sleep(time.Minute)
		r.step(d)
		r.wantCounts(3, 0, 0)
	})
}

// A plan gives back the messages that it has looked at, even if it is cancelled: later looks see
// the same messages. A tenaq server counts no receive.
func TestPlanGivesBack(t *testing.T) {
	for _, suffix := range []string{"", ".fifo"} {
		for _, on := range []string{"tenaq", "another server"} {
			inBubble(t, suffix, func(t *testing.T, r *rig) {
				const letters = 12
				r.letters(letters, "timeout")
				want := func(times int) {
					t.Helper()
					for _, m := range r.server.Messages("dead" + suffix) {
						if m.State == queuetest.InFlight || on == "tenaq" && m.Receives != 0 || m.Receives > times {
							t.Errorf("on %s after %d plans there is %+v", on, times, m)
						}
					}
				}
				var first []redrive.Decided
				for i := range 3 {
					d := r.redriver(func(c *redrive.Config) {
						if on != "tenaq" {
							c.Client = amazon{c.Client}
						}
					})
					report, err := d.Plan(t.Context())
					if err != nil || report.Hidden != 0 || len(report.Decisions) == 0 {
						t.Fatalf("on %s plan %d is %+v, error %v", on, i, report, err)
					}
					if first == nil {
						first = report.Decisions
					}
					for j, d := range report.Decisions {
						if d.ID != first[j].ID || d.Action != first[j].Action {
							t.Errorf("on %s plan %d has %+v, want %+v", on, i, d, first[j])
						}
					}
					want(i + 1)
				}

				ctx, cancel := context.WithCancel(t.Context())
				d := r.redriver(func(c *redrive.Config) {
					c.Client = cancels{c.Client.(*sqstest.Client), cancel}
					if on != "tenaq" {
						c.Client = amazon{c.Client}
					}
				})
				if report, err := d.Plan(ctx); err == nil || report.Hidden != 0 {
					t.Errorf("on %s a cancelled plan is %+v, error %v", on, report, err)
				}
				want(4)

				r.client.SetFault(func(operation string) sqstest.Fault {
					if operation == "ChangeMessageVisibility" || strings.HasSuffix(operation, "/nack") {
						return sqstest.Dropped
					}
					return sqstest.None
				})
				report, err := r.redriver(nil).Plan(t.Context())
				if err != nil || report.Hidden != len(report.Decisions) {
					t.Errorf("on %s, without an answer, the plan is %+v, error %v", on, report, err)
				}
			})
		}
	}
}

// cancels is a client whose receive succeeds, and after which its user gives up.
type cancels struct {
	*sqstest.Client
	cancel context.CancelFunc
}

func (c cancels) ReceiveMessage(
	ctx context.Context, in *sqs.ReceiveMessageInput, o ...func(*sqs.Options),
) (*sqs.ReceiveMessageOutput, error) {
	defer c.cancel()
	return c.Client.ReceiveMessage(ctx, in, o...)
}

// Usual: redriven messages come as fast as they can, on top of the live ones. Ours: as many are on
// their way as the rate says, and it is five until they succeed.
func TestBoundedOnTheirWay_FB21(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.letters(100, "timeout")
		d := r.redriver(nil)
		for range 10 {
			r.step(d)
			if n := r.count(r.work); n > 5 {
				t.Errorf("%d on their way", n)
			}
			r.sleep(time.Minute)
		}
	})
}

// Usual: the canary is judged when it is sent, and one never suffices to close. Ours: a canary is
// judged when its outcome is known, and two that were processed close the breaker.
func TestCanariesAreJudgedLater_FB22(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.setSick(true)
		r.startWorker()
		for i := range 20 {
			r.send(fmt.Sprint("m", i))
		}
		r.sleep(10 * time.Minute)
		d := r.redriver(nil)
		for r.step(d).State.Breaker.State != breaker.Open {
			r.sleep(time.Minute)
		}
		r.setSick(false)
		closed := 0
		for range 200 {
			report := r.step(d)
			if report.State.Breaker.State == breaker.Closed {
				break
			}
			if report.State.Breaker.State == breaker.HalfOpen {
				if n := report.Count(redrive.Redrive); n > 1 {
					t.Errorf("%d canaries in a step", n)
				}
				closed = report.State.Successes
			}
			r.sleep(20 * time.Second)
		}
		s, err := d.State(t.Context())
		if err != nil || s.Breaker.State != breaker.Closed || s.Successes < 2 || closed > 1 {
			t.Errorf("closed after %d successes, one step before there were %d: %+v, error %v", s.Successes, closed, s.Breaker, err)
		}
	})
}
