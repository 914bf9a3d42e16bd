package redrive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/testing/proof"
	"tenaq/internal/testing/sqstest"
	"tenaq/records/recordstest"
	"tenaq/redrive"
	"tenaq/worker"
)

// Despite faults of redrivers, queues and store, and however often the consumer fails, in the end
// each message is done once or parked, and none is lost.
func TestFaults(t *testing.T) {
	seed := proof.Seed(t)
	for i := range uint64(4) {
		suffix := []string{"", ".fifo"}[i%2]
		if proof.Short() && i != seed%2 {
			continue
		}
		inBubble(t, suffix, func(t *testing.T, r *rig) {
			r.amazon = i >= 2
			trouble := &trouble{random: rand.New(rand.NewPCG(seed, i))}
			r.client.SetFault(func(string) sqstest.Fault {
				return oneOf(trouble, sqstest.None,
					sqstest.Dropped, sqstest.Unanswered, sqstest.Broken, sqstest.Throttled, sqstest.Doubled)
			})
			steady := r.store
			r.poisonIs(func(b string) error {
				if strings.HasPrefix(b, "bad") {
					return errors.New("no such customer")
				}
				return nil
			})
			r.startWorker()
			r.setSick(true)
			const messages = 40
			for n := range messages {
				r.send(fmt.Sprintf("g%d-%d", n%7, n))
			}
			r.send("bad-1")
			r.sleep(10 * time.Minute)
			for range 2 {
				d := r.redriver(func(c *redrive.Config) {
					c.Store = &recordstest.Faulty{Store: steady, Fault: func(recordstest.Call) (f recordstest.Fault) {
						f.How = oneOf(trouble, recordstest.Works, recordstest.Before, recordstest.After)
						return f
					}}
				})
				r.run(d.Run)
			}
			for range 8 {
				r.setSick(trouble.die(2) == 0)
				for range 30 {
					live(t, r)
					r.sleep(time.Minute)
				}
			}
			r.setSick(false)
			trouble.end()
			for range 8 * 60 {
				if r.count(r.work)+r.count(r.dead) == 0 {
					break
				}
				live(t, r)
				r.sleep(time.Minute)
			}
			if n := r.count(r.work) + r.count(r.dead); n != 0 {
				s, err := r.redriver(nil).State(t.Context())
				t.Errorf("%d messages are neither done nor parked; the state is %+v, error %v", n, s, err)
			}
			for n := range messages {
				body := fmt.Sprintf("g%d-%d", n%7, n)
				if r.sawTimes()[body] == 0 {
					t.Errorf("%s was never seen", body)
				}
			}
			once := 0
			for key, n := range r.didTimes() {
				if once++; n != 1 {
					t.Errorf("%s was done %d times", key, n)
				}
			}
			// Each begin of an outage may cost a message one strike, when what succeeded before it
			// is heard of late. So with this many outages a few healthy ones may be parked beside
			// the poison.
			parked := r.count(r.parked)
			if once < messages || parked < 1 || parked > messages/5 {
				t.Errorf("%d done, %d parked", once, parked)
			}
		})
		if t.Failed() {
			t.Fatalf("case %d, suffix %q", i, suffix)
		}
	}
}

// trouble decides for the queues' client and the store alike what goes wrong next, until it ends.
type trouble struct {
	mu     sync.Mutex
	random *rand.Rand
	ended  bool
}

func (t *trouble) die(sides int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.random.IntN(sides)
}

func (t *trouble) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

// oneOf is one of the faults, one time in eight.
func oneOf[F any](t *trouble, none F, faults ...F) F {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.random.IntN(8) != 0 {
		return none
	}
	return faults[t.random.IntN(len(faults))]
}

// While the store cannot be reached nothing is redriven, and nothing is lost.
func TestStoreDown(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.letters(3, "timeout")
		d := r.redriver(func(c *redrive.Config) {
			c.Store = &recordstest.Faulty{Store: r.store, Fault: func(recordstest.Call) (f recordstest.Fault) {
				f.How = recordstest.Before
				return f
			}}
		})
		for range 5 {
			if _, err := d.Step(t.Context()); err == nil {
				t.Error("a step without a store succeeded")
			}
			r.sleep(time.Minute)
		}
		r.wantCounts(0, 3, 0)
	})
}

// While the ledger does not answer, dead letters are held, and the reason is known by its cause.
func TestLedgerDown(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.letters(1, "timeout")
		down := &recordstest.Faulty{Store: r.store, Fault: func(recordstest.Call) (f recordstest.Fault) {
			f.How = recordstest.Before
			return f
		}}
		ledger, err := claims.New(claims.Config{Store: down})
		if err != nil {
			t.Fatal(err)
		}
		d := r.redriver(func(c *redrive.Config) { c.Claims = ledger })
		report, err := d.Step(t.Context())
		if err != nil || report.Count(redrive.Hold) != 1 || report.Decisions[0].Held != redrive.HeldLedger {
			t.Errorf("step: %+v, %v; want one message held because of the ledger", report.Decisions, err)
		}
	})
}

// A message with ten attributes keeps them, and stays the same work although no attribute can name
// it.
func TestTenAttributes(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		attributes := make(map[string]types.MessageAttributeValue)
		for _, name := range strings.Split("a b c d e f g h i j", " ") {
			attributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String("x")}
		}
		r.setSick(true)
		r.startWorker()
		out, err := r.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &r.work, MessageBody: aws.String("full"), MessageAttributes: attributes})
		if err != nil {
			t.Fatal(err)
		}
		r.sleep(6 * time.Hour)
		r.wantCounts(0, 1, 0)
		r.run(r.redriver(nil).Run)
		r.sleep(time.Hour)
		r.setSick(false)
		r.sleep(6 * time.Hour)
		r.wantCounts(0, 0, 0)
		if len(r.didTimes()) != 1 || r.didTimes()[aws.ToString(out.MessageId)] != 1 {
			t.Errorf("done %v, want %s, which it was at first", r.didTimes(), aws.ToString(out.MessageId))
		}
	})
}

// Contradicting settings are refused, with what to do.
func TestSettings(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		for want, change := range map[string]func(*redrive.Config){
			"Client is missing":                func(c *redrive.Config) { c.Client = nil },
			"Store is missing":                 func(c *redrive.Config) { c.Store = nil },
			"ParkingURL is missing":            func(c *redrive.Config) { c.ParkingURL = "" },
			"give it a queue of its own":       func(c *redrive.Config) { c.ParkingURL = c.DeadLetterURL },
			"make both FIFO queues":            func(c *redrive.Config) { c.ParkingURL += ".fifo" },
			"Interval and Look are":            func(c *redrive.Config) { c.Look = time.Hour },
			"RateFirst and RateMax are 5 and ": func(c *redrive.Config) { c.Policy.RateMax = 2 },
			"DelayBase and DelayMax are":       func(c *redrive.Config) { c.Policy.DelayMax = time.Hour },
			"Redrives and Strikes are":         func(c *redrive.Config) { c.Policy.Strikes = 9 },
		} {
			cfg := redrive.Config{Client: r.client, Store: r.store, DeadLetterURL: r.dead, ParkingURL: r.parked}
			change(&cfg)
			if _, err := redrive.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want %q", err, want)
			}
		}
	})
}

// On a tenaq server, a letter is in one queue, whatever happens to the request that moves it: when
// the server does not see it, carries it out without an answer, or carries it out twice. It is one
// message with one lineage, and is counted once. [NACK-21, ID-2]
func TestOneStep(t *testing.T) {
	for _, suffix := range []string{"", ".fifo"} {
		for _, fault := range []sqstest.Fault{sqstest.None, sqstest.Dropped, sqstest.Unanswered, sqstest.Broken, sqstest.Doubled} {
			for _, poison := range []bool{false, true} {
				inBubble(t, suffix, func(t *testing.T, r *rig) {
					r.setSick(true)
					r.poisonIs(func(string) error {
						if poison {
							return worker.Poison(errors.New("no such customer"))
						}
						return nil
					})
					r.startWorker()
					r.send("g-1")
					r.sleep(10 * time.Minute)
					r.wantCounts(0, 1, 0)
					r.setSick(false)
					first := r.look(r.dead)[0]
					r.sleep(2 * time.Minute) // a letter of a FIFO queue waits for its time
					r.client.SetFault(func(o string) sqstest.Fault {
						if o == "POST /v1/replace" {
							return fault
						}
						return sqstest.None
					})
					d := r.redriver(nil)
					_, err := d.Step(t.Context())
					// If the answer is lost, the worker may end the message before the redriver
					// asks where it is.
					failed := fault == sqstest.Dropped || fault == sqstest.Broken
					if failed != (err != nil) && fault != sqstest.Unanswered {
						t.Errorf("fault %d: the step ended with %v", fault, err)
					}
					r.sleep(time.Second)
					if n := r.count(r.work) + r.count(r.dead) + r.count(r.parked) + len(r.didTimes()); n != 1 {
						t.Errorf("fault %d: %d messages are in the queues or done", fault, n)
					}
					r.client.SetFault(nil)
					r.sleep(time.Minute)
					r.step(r.redriver(nil))
					r.sleep(10 * time.Minute)
					s := r.step(d).State
					if n := r.client.Calls("SendMessage") + r.client.Calls("DeleteMessage"); n != 0 {
						t.Errorf("fault %d: %d sends and deletes", fault, n)
					}
					if poison {
						r.wantCounts(0, 0, 1)
						parked := r.look(r.parked)[0]
						if s.Parked < 1 || *parked.MessageId != *first.MessageId || parked.Attributes["SentTimestamp"] != first.Attributes["SentTimestamp"] {
							t.Errorf("parked %d times, %v", s.Parked, parked)
						}
						r.sleep(time.Minute)
						if one := r.list()[0]; one.Lineage != *first.MessageId || time.Since(one.Since) > time.Hour || one.Since.UnixMilli() <= one.FirstSent.UnixMilli() {
							t.Errorf("parked %v ago: %+v", time.Since(one.Since), one)
						}
						return
					}
					r.wantCounts(0, 0, 0)
					if s.Redriven != 1 || r.didTimes()[*first.MessageId]+r.didTimes()["g-1"] != 1 {
						t.Errorf("fault %d: redriven %d times, done %v", fault, s.Redriven, r.didTimes())
					}
				})
			}
		}
	}
}

// denied is a client of a server whose policy denies to move what was received.
type denied struct {
	*sqstest.Client
	times int
}

func (c *denied) Do(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/v1/replace" {
		return c.Client.Do(r)
	}
	c.times++
	w := httptest.NewRecorder()
	w.Header().Set("Tenaq-Api", "1")
	w.WriteHeader(http.StatusForbidden)
	return w.Result(), nil
}

// A redriver that a policy denies the one step sends and deletes, and asks again later. [NACK-21]
func TestOneStepIsDenied(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.letters(3, "timeout")
		c := &denied{Client: r.client}
		var log bytes.Buffer
		d := r.redriver(func(cfg *redrive.Config) {
			options := r.client.Options()
			options.HTTPClient = c
			cfg.Client, cfg.Logger = sqs.New(options), slog.New(slog.NewTextHandler(&log, nil))
		})
		r.step(d)
		r.wantCounts(3, 0, 0)
		if n := strings.Count(log.String(), "sends copies and deletes"); c.times != 1 || n != 1 || r.client.Calls("SendMessage") != 3 {
			t.Errorf("asked %d times, sent %d messages:\n%s", c.times, r.client.Calls("SendMessage"), &log)
		}
		r.startWorker()
		r.sleep(6 * time.Minute)
		r.letters(1, "timeout")
		if r.step(d); c.times != 2 {
			t.Errorf("asked %d times, want again after five minutes", c.times)
		}
	})
}

// A mover that takes messages itself, and remembers where to.
type mover struct {
	*sqstest.Client
	dead  string
	moved []string
}

func (m *mover) Move(ctx context.Context, send *sqs.SendMessageInput, receiptHandle string) error {
	m.moved = append(m.moved, aws.ToString(send.MessageAttributes["tenaq"].StringValue))
	if _, err := m.Client.SendMessage(ctx, send); err != nil {
		return err
	}
	_, err := m.Client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &m.dead, ReceiptHandle: &receiptHandle})
	return err
}

// A server that can move messages is asked to, and nothing is sent or deleted beside it.
func TestMover(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.letters(3, "timeout")
		m := &mover{Client: r.server.Client(), dead: r.dead}
		r.step(r.redriver(func(c *redrive.Config) { c.Mover = m }))
		r.wantCounts(3, 0, 0)
		if n := r.client.Calls("SendMessage") + r.client.Calls("DeleteMessage"); n != 0 || len(m.moved) != 3 || !strings.Contains(m.moved[0], "redrives=1") {
			t.Errorf("%d calls beside the mover, moved %q", n, m.moved)
		}
	})
}

// Without a ledger, the mark of a redriven message is how the redriver learns that a consumer
// deleted it. An answer that is lost does not lose the mark: not if the server can be asked at
// once, not if the redriver has to ask in a later step, and not that of an earlier letter of the
// same look. [NACK-21, PEEK-9]
func TestLostAnswerKeepsTheMark(t *testing.T) {
	for name, lost := range map[string]struct {
		at    int                         // the request to move that has no answer
		also  func(operation string) bool // what the server cannot be asked meanwhile
		fails bool
	}{
		"asked at once":         {at: 1, also: func(string) bool { return false }},
		"asked in a later step": {1, func(o string) bool { return strings.HasPrefix(o, "GET /v1/messages/") }, true},
		"an earlier letter":     {2, func(o string) bool { return strings.HasPrefix(o, "GET /v1/messages/") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, "", func(t *testing.T, r *rig) {
				r.letters(2, "timeout")
				d := r.redriver(func(c *redrive.Config) { c.Claims = nil })
				moves := 0
				r.client.SetFault(func(o string) sqstest.Fault {
					if o == "POST /v1/replace" {
						if moves++; moves == lost.at {
							return sqstest.Unanswered
						}
					}
					if lost.also(o) {
						return sqstest.Dropped
					}
					return sqstest.None
				})
				report, err := d.Step(t.Context())
				if failed := err != nil; failed != lost.fails {
					t.Fatalf("the step ended with %v", err)
				}
				if f := report.State.Flights; lost.at == 2 && (len(f) != 2 || f[0].Mark == "") {
					t.Errorf("the mark of the first letter is lost: %+v", f)
				}
				r.client.SetFault(nil)
				if lost.at == 2 { // a redriver that has only what is stored goes on
					r.sleep(2 * time.Minute)
					done := r.finish()
					report = r.step(r.redriver(func(c *redrive.Config) { c.Claims = nil }))
					if done != 2 || len(report.Outcomes) != 1 || report.Outcomes[0].Result != redrive.Succeeded {
						t.Errorf("%d done, and of the first letter %+v", done, report.Outcomes)
					}
					return
				}
				r.sleep(30 * time.Second)
				report = r.step(r.redriver(func(c *redrive.Config) { c.Claims = nil }))
				for _, f := range report.State.Flights {
					if f.Mark == "" || f.Queue != "work" {
						t.Errorf("a flight without its mark: %+v", f)
					}
				}
				r.sleep(time.Minute)
				done := r.finish()
				report = r.step(d)
				if report.Depth != 0 || done != 2 && done != len(report.Outcomes) {
					t.Errorf("%d done, %+v", done, report)
				}
				for _, o := range report.Outcomes {
					if o.Result != redrive.Succeeded {
						t.Errorf("a message that was deleted is %v", o.Result)
					}
				}
			})
		})
	}
}
