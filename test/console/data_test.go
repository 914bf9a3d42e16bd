package console_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// exact is a number that a browser would round.
const exact = "1970670598291982290"

// A shop is a server with what a small shop has: orders and mails, dead letters of several kinds, a
// FIFO queue with a locked group, a history, tasks.
type shop struct {
	*server
	dead, inFlight string // ids of messages
}

func (s *server) create(queue string, attributes, tags object) {
	s.t.Helper()
	in := object{"QueueName": queue}
	if attributes != nil {
		in["Attributes"] = attributes
	}
	if tags != nil {
		in["tags"] = tags
	}
	s.ask("CreateQueue", in, nil)
}

func (s *server) send(queue, body string, more object) (id string) {
	s.t.Helper()
	in := object{"QueueUrl": s.url(queue), "MessageBody": body}
	for k, v := range more {
		in[k] = v
	}
	var out struct{ MessageId string }
	s.ask("SendMessage", in, &out)
	return out.MessageId
}

type received struct {
	MessageId, ReceiptHandle, Body string
}

func (s *server) receive(queue string, more object) []received {
	s.t.Helper()
	in := object{"QueueUrl": s.url(queue), "MaxNumberOfMessages": 10}
	for k, v := range more {
		in[k] = v
	}
	var out struct{ Messages []received }
	s.ask("ReceiveMessage", in, &out)
	return out.Messages
}

func (s *server) nack(queue, handle, verdict, class, text string) {
	s.t.Helper()
	s.ask("/v1/queues/"+queue+"/nack", object{"entries": []object{{"receiptHandle": handle, "verdict": verdict, "class": class, "text": text}}}, nil)
}

// redriveTo is a redrive policy.
func redriveTo(queue string, receives int) string {
	return fmt.Sprintf(`{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:%s","maxReceiveCount":%d}`, queue, receives)
}

// newShop starts a shop.
func newShop(t testing.TB, args ...string) *shop {
	t.Helper()
	return serve(t, nil, args...).shopOf()
}

// shopOf makes a shop of a server.
func (of *server) shopOf() *shop {
	t, s := of.t, &shop{server: of}
	t.Helper()
	s.create("orders-dlq", nil, nil)
	s.create("orders", object{"RedrivePolicy": redriveTo("orders-dlq", 3), "VisibilityTimeout": "900"},
		object{"team": "payments", "tenaq:history": "7d/1GiB"})
	s.create("mails", nil, object{"team": "growth"})
	s.create("returns", nil, nil)
	s.create("invoices.fifo", object{"FifoQueue": "true", "ContentBasedDeduplication": "true"}, nil)
	for i := range 30 {
		s.send("orders", fmt.Sprintf(`{"order":%d,"customer":"c-%d","total":{"amount":"%d.90","currency":"EUR"},"items":[{"sku":"A-17","quantity":%d}],"urgent":%v}`,
			4200+i, i%7, 20+i, 1+i%3, i%5 == 0), nil)
	}
	for i, failure := range []struct{ class, text string }{
		{"CardDeclined", "card declined: code 51, order 4%d"}, {"Timeout", "timeout after 30%d ms at https://pay.example/charge"}, {"", "no stock of A-17 in warehouse %d"},
	} {
		for n := range []int{6, 3, 1}[i] {
			for _, m := range s.receive("orders", object{"MaxNumberOfMessages": 1}) {
				s.nack("orders", m.ReceiptHandle, "poison", failure.class, fmt.Sprintf(failure.text, n))
			}
		}
	}
	s.receive("orders", object{"MaxNumberOfMessages": 1}) // moves what is poison
	for i, m := range s.receive("orders", nil) {
		if i < 4 {
			s.ask("DeleteMessage", object{"QueueUrl": s.url("orders"), "ReceiptHandle": m.ReceiptHandle}, nil)
		} else {
			s.inFlight = m.MessageId
		}
	}
	s.send("orders", `{"id": `+exact+`, "amount": 1e400, "half": 0.10, "text": "grüße 🎉 \u202e"}`, object{"DelaySeconds": 900,
		"MessageAttributes": object{"tenant": object{"DataType": "String", "StringValue": "7"}, "raw": object{"DataType": "Binary", "BinaryValue": "AAEC/w=="}}})
	for i := range 12 {
		s.send("mails", fmt.Sprintf("Dear customer %d,\n\nyour order is on its way.", i), nil)
	}
	for i := range 12 {
		s.send("invoices.fifo", fmt.Sprintf(`{"invoice":%d}`, i), object{"MessageGroupId": fmt.Sprintf("customer-%d", i%4)})
	}
	s.receive("invoices.fifo", object{"MaxNumberOfMessages": 1, "VisibilityTimeout": 900})
	var reasons struct {
		Grouped int
		Kinds   []struct {
			Kind   string
			Sample struct{ MessageId string }
		}
	}
	s.ask("/v1/queues/orders-dlq/reasons", nil, &reasons)
	if reasons.Grouped != 10 || len(reasons.Kinds) != 3 {
		t.Fatalf("the shop has %+v, want 10 dead letters of 3 kinds", reasons)
	}
	s.dead = reasons.Kinds[0].Sample.MessageId
	s.ask("/v1/tasks", object{"queue": "orders-dlq", "do": "park", "to": "returns", "filter": object{"kind": reasons.Kinds[2].Kind}, "note": "asked the warehouse"}, nil)
	s.ask("/v1/tasks", object{"queue": "mails", "do": "move", "to": "returns", "rate": 1, "expected": 12, "limit": 500, "filter": object{"text": "nothing has this"}}, nil)
	return s
}

// fails sends the work with a key to a queue with a history, where it becomes a dead letter.
func (s *shop) fails(key, body string) (id string) {
	s.t.Helper()
	s.create("payments", object{"RedrivePolicy": redriveTo("orders-dlq", 9), "VisibilityTimeout": "900"}, object{"tenaq:history": "7d"})
	id = s.send("payments", body, object{"MessageAttributes": object{"tenaq": object{"DataType": "String", "StringValue": "v=1&key=" + key}}})
	s.nack("payments", s.receive("payments", nil)[0].ReceiptHandle, "poison", "CardDeclined", "card declined: code 51")
	s.receive("payments", nil) // moves what is poison
	return id
}

// waits returns when the board of the server has that many queues.
func (s *server) waits(queues int) {
	s.t.Helper()
	var list struct {
		Snapshot struct {
			Complete bool
			Total    int
		}
	}
	for end := time.Now().Add(time.Minute); !list.Snapshot.Complete || list.Snapshot.Total < queues; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("the board has %+v, want %d queues", list.Snapshot, queues)
		}
		s.ask("/v1/queues?sort=name", nil, &list)
	}
}

// sendMany sends many messages, to a FIFO queue each in a group of its own.
func (s *server) sendMany(queue string, n int) {
	s.t.Helper()
	var sending sync.WaitGroup
	for worker := range 64 {
		sending.Go(func() {
			for i := worker; 10*i < n; i += 64 {
				var entries []object
				for j := 10 * i; j < min(10*i+10, n); j++ {
					entry := object{"Id": fmt.Sprint(j), "MessageBody": fmt.Sprintf(`{"order":%d}`, j)}
					if strings.HasSuffix(queue, ".fifo") {
						entry["MessageGroupId"] = fmt.Sprintf("customer-%06d", j)
					}
					entries = append(entries, entry)
				}
				s.ask("SendMessageBatch", object{"QueueUrl": s.url(queue), "Entries": entries}, nil)
			}
		})
	}
	sending.Wait()
}

// createMany creates many queues.
func (s *server) createMany(n int) {
	s.t.Helper()
	var creating sync.WaitGroup
	for worker := range 64 {
		creating.Go(func() {
			for i := worker; i < n; i += 64 {
				s.create(many(i), nil, nil)
			}
		})
	}
	creating.Wait()
}

// many are names of many queues.
func many(i int) string { return fmt.Sprintf("queue-%06d", i) }

var long = strings.Repeat("x", 1<<18)
