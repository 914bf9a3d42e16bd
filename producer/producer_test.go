package producer_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/testing/sqstest"
	"tenaq/internal/work/trail"
	"tenaq/producer"
	"tenaq/records"
	"tenaq/records/recordstest"
)

// A message arrives as it was given, with its key beside it, and once.
func TestSendOnce(t *testing.T) {
	for _, queue := range []string{"orders", "orders.fifo"} {
		t.Run(queue, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := at(t, queue)
				m := producer.Message{Key: "order-17", Body: "<b>&</b>", Group: "g", Attributes: map[string]types.MessageAttributeValue{
					"entity": text("accounts"), "raw": {DataType: aws.String("Binary"), BinaryValue: []byte{0, 255}},
				}}
				sent := send(t, p.producer(nil, nil, producer.Config{}), m)
				wantNew(t, sent, true)
				if sent.Key != "order-17" || sent.Attempts != 1 || sent.Differs || sent.Age != 0 || sent.Work != "" {
					t.Errorf("receipt %+v", sent)
				}
				time.Sleep(24 * time.Hour) // by another process, long after any window
				again := send(t, p.producer(nil, nil, producer.Config{}), m)
				wantNew(t, again, false)
				if again.MessageID != sent.MessageID || again.SequenceNumber != sent.SequenceNumber || again.Age != 24*time.Hour ||
					again.Attempts != 1 || again.Differs {
					t.Errorf("receipt %+v, want a duplicate of %+v", again, sent)
				}

				got := p.wantMessages(1)[0]
				tr, err := trail.Of(got.MessageAttributes)
				must(t, err)
				if *got.Body != m.Body || *got.MessageId != sent.MessageID || tr.Key != "order-17" || tr.Generation != 0 || tr.Lineage != "" {
					t.Errorf("body %q, message %s, trail %v", *got.Body, *got.MessageId, tr)
				}
				if a := got.MessageAttributes; len(a) != 3 || *a["entity"].StringValue != "accounts" || string(a["raw"].BinaryValue) != "\x00\xff" {
					t.Errorf("attributes %v", a)
				}
				if fifo := queue == "orders.fifo"; (got.Attributes["MessageDeduplicationId"] == "once/order-17") != fifo || (sent.SequenceNumber != "") != fifo {
					t.Errorf("system attributes %v, sequence number %q", got.Attributes, sent.SequenceNumber)
				}
				if len(m.Attributes) != 2 {
					t.Errorf("the caller's attributes are %v now", m.Attributes)
				}
			})
		})
	}
}

// A key is forgotten when its retention ends, and can then be sent again.
func TestRetention(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		made := p.producer(nil, nil, producer.Config{})
		wantNew(t, send(t, made, file("a")), true)
		time.Sleep(15*24*time.Hour - 1)
		wantNew(t, send(t, made, file("a")), false)
		time.Sleep(time.Nanosecond)
		wantNew(t, send(t, made, file("a")), true)
	})
}

func TestDelay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		m := file("a")
		m.Delay = 90*time.Second + 1
		send(t, p.producer(nil, nil, producer.Config{}), m)
		time.Sleep(89 * time.Second)
		p.wantMessages(0) // which takes a second
		time.Sleep(time.Second)
		p.wantMessages(1)
	})
}

// An invalid message is refused before anything is registered.
func TestCheck(t *testing.T) {
	attributes := func(n int) map[string]types.MessageAttributeValue {
		m := make(map[string]types.MessageAttributeValue)
		for i := range n {
			m["a"+strconv.Itoa(i)] = text("x")
		}
		return m
	}
	good := producer.Message{Key: "k", Body: "b", Group: "g"}
	with := func(change func(*producer.Message)) producer.Message {
		m := good
		change(&m)
		return m
	}
	attribute := func(name string, a types.MessageAttributeValue) producer.Message {
		return with(func(m *producer.Message) { m.Attributes = map[string]types.MessageAttributeValue{name: a} })
	}
	for _, row := range []struct {
		name string
		m    producer.Message
		want string // part of the error of a FIFO queue; empty is none
		also bool   // of a standard queue as well
	}{
		{"good", good, "", true},
		{"no key", with(func(m *producer.Message) { m.Key = "" }), "name the work", true},
		{"longest key", with(func(m *producer.Message) { m.Key = strings.Repeat("k", 512) }), "", true},
		{"longer key", with(func(m *producer.Message) { m.Key = strings.Repeat("k", 513) }), "512 are allowed", true},
		{"key not UTF-8", with(func(m *producer.Message) { m.Key = "\xff" }), "not UTF-8", true},
		{"key with a zero byte", with(func(m *producer.Message) { m.Key = "a\x00" }), "zero byte", true},
		{"key like a generation", with(func(m *producer.Message) { m.Key = "a#01" }), "later generations", true},
		{"key of a generation only", with(func(m *producer.Message) { m.Key = "#7" }), "later generations", true},
		{"key with # and more", with(func(m *producer.Message) { m.Key = "a#1b" }), "", true},
		{"key that ends in #", with(func(m *producer.Message) { m.Key = "a#" }), "", true},
		{"negative generation", with(func(m *producer.Message) { m.Generation = -1 }), "0 or more", true},
		{"no body", with(func(m *producer.Message) { m.Body = "" }), "no body", true},
		{"body not UTF-8", with(func(m *producer.Message) { m.Body = "\xff" }), "base64", true},
		{"negative delay", with(func(m *producer.Message) { m.Delay = -1 }), "0 to 15m0s", true},
		{"long delay", with(func(m *producer.Message) { m.Delay = 15*time.Minute + 1 }), "0 to 15m0s", true},
		{"delay on a FIFO queue", with(func(m *producer.Message) { m.Delay = time.Second }), "set DelaySeconds on the queue", false},
		{"no group", with(func(m *producer.Message) { m.Group = "" }), "no group", false},
		{"nine attributes", with(func(m *producer.Message) { m.Attributes = attributes(9) }), "", true},
		{"ten attributes", with(func(m *producer.Message) { m.Attributes = attributes(10) }), "one of them holds the key", true},
		{"our attribute", attribute("tenaq", text("x")), "use another name", true},
		{"attribute not UTF-8", attribute("a", text("\xff")), "make it a binary attribute", true},
		{"list attribute", attribute("a", types.MessageAttributeValue{DataType: aws.String("String"), StringListValues: []string{"x"}}), "is a list", true},
	} {
		for _, queue := range []string{"orders", "orders.fifo"} {
			t.Run(row.name+"/"+queue, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					p := at(t, queue)
					client, store := p.server.Client(), &recordstest.Faulty{Store: p.store}
					r, err := p.producer(client, store, producer.Config{}).SendOnce(t.Context(), row.m)
					if row.want == "" || !row.also && queue == "orders" {
						must(t, err)
						wantNew(t, r, true)
						return
					}
					if err == nil || !strings.Contains(err.Error(), row.want) {
						t.Errorf("error %v, want one with %q", err, row.want)
					}
					if client.Calls("SendMessage") != 0 || store.Calls() != 0 {
						t.Error("something was registered or sent")
					}
				})
			})
		}
	}
}

// A key may be anything that is text: it arrives as it is, and as a deduplication id that SQS
// takes.
func TestUnusualKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders.fifo")
		made := p.producer(nil, nil, producer.Config{})
		keys := map[string]bool{} // whether the deduplication id is the key itself
		for _, key := range []string{"a", "A", "a#", "a/b?c=d&e=%20", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", strings.Repeat("k", 123), "sha256-"} {
			keys[key] = true
		}
		for _, key := range []string{
			" ", "a b", "a\n", "\x7f", "ключ", "鍵", "é", "e\u0301", strings.Repeat("k", 124), strings.Repeat("k", 512),
			strings.Repeat("鍵", 170),
		} {
			keys[key] = false
		}
		for key := range keys {
			for generation := range 2 {
				m := producer.Message{Key: key, Body: "b", Group: "g", Generation: generation}
				wantNew(t, send(t, made, m), true)
				wantNew(t, send(t, made, m), false)
				if r, err := made.Lookup(t.Context(), key, generation); err != nil || r.Key != key || r.Generation != generation {
					t.Errorf("looked up %q, %d: %q, %d, %v", key, generation, r.Key, r.Generation, err)
				}
			}
		}
		seen := make(map[string]bool)
		for _, got := range p.wantMessages(2 * len(keys)) {
			tr, err := trail.Of(got.MessageAttributes)
			must(t, err)
			id := got.Attributes["MessageDeduplicationId"]
			if seen[id] {
				t.Errorf("%q has the id of another: %s", tr.Key, id)
			}
			seen[id] = true
			want := "once/" + claims.EffectKey(tr.Key, tr.Generation)
			if plain := keys[tr.Key] && len(want) <= 128; (id == want) != plain {
				t.Errorf("%q, %d has the id %s", tr.Key, tr.Generation, id)
			}
		}
	})
}

// A message is not dropped because another program has sent one with the key as its deduplication
// id.
func TestOthersIDs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders.fifo")
		_, err := p.server.Client().SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: &p.url, MessageBody: aws.String("theirs"), MessageGroupId: aws.String("g"), MessageDeduplicationId: aws.String("order-17"),
		})
		must(t, err)
		wantNew(t, send(t, p.producer(nil, nil, producer.Config{}), producer.Message{Key: "order-17", Body: "ours", Group: "g"}), true)
		if got := p.wantMessages(2); *got[0].Body != "theirs" || *got[1].Body != "ours" {
			t.Errorf("the queue has %s and %s", *got[0].Body, *got[1].Body)
		}
	})
}

// A registration of an earlier version keeps its deduplication id, the key alone. So if a send from
// before an upgrade got no answer, the queue still drops the second one.
func TestEarlierID(t *testing.T) {
	for _, again := range []struct {
		name string
		by   func(context.Context, *producer.Producer) (producer.Receipt, error)
	}{
		{"send", func(ctx context.Context, p *producer.Producer) (producer.Receipt, error) {
			return p.SendOnce(ctx, producer.Message{Key: "order-17", Body: "b", Group: "g"})
		}},
		{"resend", func(ctx context.Context, p *producer.Producer) (producer.Receipt, error) {
			r, err := p.Lookup(ctx, "order-17", 0)
			must(t, err)
			return p.Resend(ctx, r)
		}},
	} {
		t.Run(again.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := at(t, "orders.fifo")
				ledger, err := claims.New(claims.Config{Store: p.store, Prefix: "send/orders.fifo/"})
				must(t, err)
				claim, err := ledger.AcquireWith(t.Context(), "order-17", claims.Note{
					Memo: []byte(`{"v":1,"key":"order-17","at":1,"sum":"of everything","message":{"body":"b","group":"g"}}`),
				})
				must(t, err)
				sent, err := p.server.Client().SendMessage(t.Context(), &sqs.SendMessageInput{
					QueueUrl: &p.url, MessageBody: aws.String("b"), MessageGroupId: aws.String("g"), MessageDeduplicationId: aws.String("order-17"),
				})
				must(t, err)
				must(t, claim.Fail(t.Context(), "unknown whether it was sent"))

				r, err := again.by(t.Context(), p.producer(nil, nil, producer.Config{}))
				must(t, err)
				if r.MessageID != *sent.MessageId {
					t.Errorf("message %s was sent, want %s, which is in the queue", r.MessageID, *sent.MessageId)
				}
				p.wantMessages(1)
			})
		})
	}
}

// While another process sends a key, SendOnce waits for its answer.
func TestBusyWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		slow := p.producer(&hook{SQS: p.server.Client(), before: func(context.Context) { time.Sleep(10 * time.Second) }}, nil, producer.Config{})
		done := make(chan producer.Receipt)
		go func() { done <- send(t, slow, file("a")) }()
		time.Sleep(time.Second)
		began := time.Now()
		second := send(t, p.producer(nil, nil, producer.Config{}), file("a"))
		if waited := time.Since(began); waited < 9*time.Second || waited > 9*time.Second+lease/4 {
			t.Errorf("answered after %v", waited)
		}
		sent := <-done
		wantNew(t, sent, true)
		wantNew(t, second, false)
		if second.MessageID != sent.MessageID {
			t.Errorf("receipts %+v and %+v", sent, second)
		}
		p.wantMessages(1)
	})
}

// It waits for as long as its context says, and for a lease and a quarter when it says nothing.
func TestBusyWaitEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		ledger, err := claims.New(claims.Config{Store: p.store, Prefix: "send/orders/", Lease: time.Hour})
		must(t, err)
		_, err = ledger.Acquire(t.Context(), "a")
		must(t, err)
		made := p.producer(nil, nil, producer.Config{})
		wait := func(ctx context.Context, want time.Duration, cause string) {
			began := time.Now()
			r, err := made.SendOnce(ctx, file("a"))
			if !errors.Is(err, claims.Busy) || !strings.Contains(err.Error(), cause) || time.Since(began) != want || r.New {
				t.Errorf("after %v: %+v, error %v, want busy and %q after %v", time.Since(began), r, err, cause, want)
			}
		}
		wait(t.Context(), lease+lease/4, "longer than one lease")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		wait(ctx, 2*time.Minute, context.DeadlineExceeded.Error())
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		wait(ctx, time.Second, context.Canceled.Error())
		p.wantMessages(0)
	})
}

// In a store without a clock, waiting is how a producer sees that a lease has expired.
func TestNoClock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		dead := p.producer(&hook{before: func(context.Context) { panic("power cut") }}, nil, producer.Config{})
		crashes(t, func() { dead.SendOnce(t.Context(), file("a")) })
		time.Sleep(time.Hour)
		store := &recordstest.Faulty{Store: p.store, NoClock: true}
		made := p.producer(nil, store, producer.Config{})
		began := time.Now()
		wantNew(t, send(t, made, file("a")), true)
		if waited := time.Since(began); waited != lease {
			t.Errorf("sent after %v, want a lease", waited)
		}
		time.Sleep(time.Hour)
		if r := send(t, made, file("a")); r.New || r.Age != time.Hour {
			t.Errorf("receipt %+v", r)
		}
	})
}

// If a message is too large to be kept, the ledger has only its checksum.
func TestLargeMessage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		m := producer.Message{Key: "large", Body: strings.Repeat("<x/>", claims.MemoMax/4)}
		dead := p.producer(&hook{before: func(context.Context) { panic("power cut") }}, nil, producer.Config{})
		crashes(t, func() { dead.SendOnce(t.Context(), m) })
		time.Sleep(lease)
		made := p.producer(nil, nil, producer.Config{})
		stuck, err := made.Stuck(t.Context(), 0)
		must(t, err)
		if len(stuck) != 1 || stuck[0].Message != nil || stuck[0].Key != "large" {
			t.Fatalf("stuck: %+v", stuck)
		}
		if r, err := made.Resend(t.Context(), stuck[0]); err == nil || r.New || !strings.Contains(err.Error(), "call SendOnce where the message comes from") {
			t.Errorf("resent what is not there: %+v, error %v", r, err)
		}
		wantNew(t, send(t, made, m), true)
		if r := send(t, made, m); r.Differs {
			t.Error("the same message differs")
		}
		m.Body += "!"
		if r, err := made.SendOnce(t.Context(), m); !r.Differs || !errors.Is(err, producer.ErrDiffers) {
			t.Errorf("another message: receipt %+v, error %v", r, err)
		}
		if got := p.wantMessages(1); len(*got[0].Body) != len(m.Body)-1 {
			t.Errorf("a body of %d bytes", len(*got[0].Body))
		}
	})
}

// The first message of a key is the one that is sent, whichever producer sends it.
func TestFirstMessageCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		client := p.server.Client()
		client.SetFault(first(1, sqstest.Dropped))
		made := p.producer(client, nil, producer.Config{})
		m := file("a")
		m.Delay, m.Attributes = time.Minute, map[string]types.MessageAttributeValue{"n": {DataType: aws.String("Binary"), BinaryValue: []byte("b")}}
		_, err := made.SendOnce(t.Context(), m)
		wantError(t, err, producer.ErrUnknown)
		other := file("a")
		other.Body = `{"FileID": "a", "BatchID": 2}`
		r, err := made.SendOnce(t.Context(), other)
		wantError(t, err, producer.ErrDiffers)
		if !r.New || !r.Differs || r.Attempts != 2 || !strings.Contains(err.Error(), "message "+r.MessageID+" is the registered one") {
			t.Errorf("receipt %+v, error %v", r, err)
		}
		p.wantMessages(0)
		time.Sleep(time.Minute)
		got := p.wantMessages(1)[0]
		if *got.Body != m.Body || string(got.MessageAttributes["n"].BinaryValue) != "b" {
			t.Errorf("message %q with %v", *got.Body, slices.Sorted(maps.Keys(got.MessageAttributes)))
		}
	})
}

// A registration that a person settled is a duplicate without ids.
func TestSettled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		client := p.server.Client()
		client.SetFault(always(sqstest.Dropped))
		made := p.producer(client, nil, producer.Config{})
		made.SendOnce(t.Context(), file("a"))
		ledger, err := claims.New(claims.Config{Store: p.store, Prefix: "send/orders/"})
		must(t, err)
		must(t, ledger.Settle(t.Context(), "a", []byte("sent by hand"), "the console was quicker"))
		if r := send(t, made, file("a")); r.New || r.MessageID != "" {
			t.Errorf("receipt %+v", r)
		}
	})
}

// When the ledger of the work cannot be read, the receipt is good and the error says so.
func TestWorkUnreadable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		work, err := claims.New(claims.Config{Store: &recordstest.Faulty{Store: p.store, Fault: func(recordstest.Call) recordstest.Fault {
			return recordstest.Fault{How: recordstest.Before}
		}}})
		must(t, err)
		made := p.producer(nil, nil, producer.Config{Work: work})
		sent := send(t, made, file("a"))
		r, err := made.SendOnce(t.Context(), file("a"))
		wantError(t, err, recordstest.ErrInjected)
		if r.New || r.MessageID != sent.MessageID {
			t.Errorf("receipt %+v", r)
		}
		if _, err := made.Stuck(t.Context(), 0); !errors.Is(err, recordstest.ErrInjected) {
			t.Errorf("stuck: error %v", err)
		}
	})
}

func TestNew(t *testing.T) {
	store := recordstest.NewMemory()
	work, err := claims.New(claims.Config{Store: store, Retention: time.Hour})
	must(t, err)
	for name, row := range map[string]struct {
		cfg  producer.Config
		want string
	}{
		"no client":          {producer.Config{QueueURL: "q"}, "set it to a client of SQS"},
		"no store":           {producer.Config{QueueURL: "q"}, "set it to the store of the registrations"},
		"no queue":           {producer.Config{}, "set Config.QueueURL"},
		"no name":            {producer.Config{QueueURL: "http://localhost/1/"}, "set Config.QueueURL"},
		"an ARN":             {producer.Config{QueueURL: "arn:aws:sqs:us-east-1:000000000000:q"}, "to the URL or the name of the queue"},
		"negative parallel":  {producer.Config{QueueURL: "q", Parallel: -1}, "at least 1"},
		"short lease":        {producer.Config{QueueURL: "q", Lease: time.Millisecond}, "too short"},
		"work forgets":       {producer.Config{QueueURL: "q", Work: work}, "look as if it had never begun"},
		"work remembers":     {producer.Config{QueueURL: "q", Work: work, Retention: time.Hour}, ""},
		"a name is as good":  {producer.Config{QueueURL: "q"}, ""},
		"impossible to keep": {producer.Config{QueueURL: "q", Prefix: strings.Repeat("p", records.KeyMax+1)}, "prefix"},
	} {
		if name != "no client" {
			row.cfg.Client = &sqs.Client{}
		}
		if name != "no store" {
			row.cfg.Store = store
		}
		_, err := producer.New(row.cfg)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: error %v, want %q", name, err, row.want)
		}
	}
}

// A queue that is given by its name is the one with its URL, also for the registrations.
func TestQueueByName(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders.fifo")
		m := producer.Message{Key: "o-17", Body: "x", Group: "g"}
		p.url = "orders.fifo"
		byName, err := p.producer(nil, nil, producer.Config{}).SendOnce(t.Context(), m)
		must(t, err)
		p.url = p.server.Queue(t, "orders.fifo")
		byURL, err := p.producer(nil, nil, producer.Config{}).SendOnce(t.Context(), m)
		must(t, err)
		if !byName.New || byURL.New || byURL.MessageID != byName.MessageID {
			t.Errorf("by name %+v, by URL %+v: want one message, sent by name", byName, byURL)
		}
	})
}

// A duplicate is compared by what its effect depends on: the body and the attributes, not values
// that differ between calls.
func TestDiffers(t *testing.T) {
	attributes := func(pairs ...string) map[string]types.MessageAttributeValue {
		made := make(map[string]types.MessageAttributeValue)
		for i := 0; i < len(pairs); i += 2 {
			made[pairs[i]] = text(pairs[i+1])
		}
		return made
	}
	for name, row := range map[string]struct {
		change func(*producer.Message)
		want   bool
	}{
		"same":               {func(*producer.Message) {}, false},
		"body":               {func(m *producer.Message) { m.Body += " " }, true},
		"attribute":          {func(m *producer.Message) { m.Attributes = attributes("kind", "refund") }, true},
		"one more attribute": {func(m *producer.Message) { m.Attributes["amount"] = text("5") }, true},
		"no attributes":      {func(m *producer.Message) { m.Attributes = nil }, true},
		"trace context": {func(m *producer.Message) {
			m.Attributes = attributes("kind", "charge", "traceparent", "00-2", "tracestate", "a=1", "baggage", "b")
		}, false},
		"group":               {func(m *producer.Message) { m.Group = "another" }, false},
		"delay":               {func(m *producer.Message) { m.Delay = time.Minute }, false},
		"the next generation": {func(m *producer.Message) { m.Body, m.Generation = "corrected", 1 }, false},
	} {
		for _, size := range []int{10, claims.MemoMax} { // with its message, and without
			bubble(t, func(t *testing.T) {
				p := at(t, "orders")
				made := p.producer(nil, nil, producer.Config{})
				m := producer.Message{Key: "order-17", Body: strings.Repeat("x", size), Group: "g", Attributes: attributes("kind", "charge", "traceparent", "00-1")}
				wantNew(t, send(t, made, m), true)
				row.change(&m)
				r, err := made.SendOnce(t.Context(), m)
				if r.Differs != row.want || errors.Is(err, producer.ErrDiffers) != row.want || !row.want && err != nil {
					t.Errorf("%s of %d bytes: receipt %+v, error %v", name, size, r, err)
				}
			})
		}
	}
}

// A message that is too large to be kept is not replaced by another one: whether the first was sent
// is unknown.
func TestDiffersUnsent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "orders")
		m := producer.Message{Key: "large", Body: strings.Repeat("x", claims.MemoMax)}
		dead := p.producer(&hook{before: func(context.Context) { panic("power cut") }}, nil, producer.Config{})
		crashes(t, func() { dead.SendOnce(t.Context(), m) })
		time.Sleep(lease)
		made := p.producer(nil, nil, producer.Config{})
		other := m
		other.Body += "!"
		r, err := made.SendOnce(t.Context(), other)
		wantError(t, err, producer.ErrDiffers)
		if r.New || r.MessageID != "" || !r.Differs || !strings.Contains(err.Error(), "nothing was sent") {
			t.Errorf("receipt %+v, error %v", r, err)
		}
		p.wantMessages(0)
		wantNew(t, send(t, made, m), true) // at once: the claim was given back
		if got := p.wantMessages(1); *got[0].Body != m.Body {
			t.Error("another body was sent")
		}
	})
}

// Registrations of earlier versions have no digest of the effect. Those that kept the message are
// compared with it, and those without any digest are accepted.
func TestDiffersFromEarlierVersion(t *testing.T) {
	small, large := producer.Message{Key: "k", Body: "b"}, producer.Message{Key: "k", Body: strings.Repeat("x", claims.MemoMax)}
	for name, row := range map[string]struct {
		memo string
		m    producer.Message
		want bool
	}{
		"its message":      {`{"v":1,"key":"k","at":1,"sum":"of everything","message":{"body":"b","group":"g"}}`, small, false},
		"another message":  {`{"v":1,"key":"k","at":1,"sum":"of everything","message":{"body":"a"}}`, small, true},
		"another sum":      {`{"v":1,"key":"k","at":1,"sum":"of everything"}`, large, true},
		"no digest":        {`{"v":1,"key":"k","at":1}`, large, false},
		"by another hand":  {`by hand`, small, false},
		"no memo":          {``, small, false},
		"of a later form":  {`{"v":2,"key":"k","effect":"of everything"}`, small, false},
		"effect and a sum": {`{"v":1,"key":"k","at":1,"sum":"of everything","effect":"another"}`, large, true},
	} {
		bubble(t, func(t *testing.T) {
			p := at(t, "orders")
			ledger, err := claims.New(claims.Config{Store: p.store, Prefix: "send/orders/"})
			must(t, err)
			claim, err := ledger.AcquireWith(t.Context(), "k", claims.Note{Memo: []byte(row.memo)})
			must(t, err)
			must(t, claim.Complete(t.Context(), []byte(`{"v":1,"message_id":"first","at":1}`)))
			r, err := p.producer(nil, nil, producer.Config{}).SendOnce(t.Context(), row.m)
			if r.New || r.Differs != row.want || errors.Is(err, producer.ErrDiffers) != row.want {
				t.Errorf("%s: receipt %+v, error %v", name, r, err)
			}
		})
	}
}
