package producer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/producer"
	"tenaq/records/recordstest"
)

// The usual ways to enqueue each file of a batch once have known flaws. Each test here is named
// after one, says what the usual solution does, and shows that a producer does otherwise.

// Usual: a row is written, then the message sent; after a crash in between, every replay finds the
// row and never sends. Ours: the registration ends with the lease of its sender, and the next call
// sends its message.
func TestCrashBetweenRegisterAndSend_FA1(t *testing.T) {
	for _, again := range []struct {
		name string
		by   func(context.Context, *producer.Producer) (producer.Receipt, error)
	}{
		{"the next replay", func(ctx context.Context, p *producer.Producer) (producer.Receipt, error) {
			return p.SendOnce(ctx, file("a"))
		}},
		{"a sweep", func(ctx context.Context, p *producer.Producer) (producer.Receipt, error) {
			stuck, err := p.Stuck(ctx, lease)
			if err != nil || len(stuck) != 1 {
				return producer.Receipt{}, fmt.Errorf("stuck %v, error %w", stuck, err)
			}
			return p.Resend(ctx, stuck[0])
		}},
	} {
		t.Run(again.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := at(t, "data-download-queue.fifo")
				dead := p.producer(&hook{before: func(context.Context) { panic("power cut") }}, nil, producer.Config{})
				crashes(t, func() { dead.SendOnce(t.Context(), file("a")) })
				p.wantState("a", claims.Held)
				time.Sleep(lease)
				r, err := again.by(t.Context(), p.producer(nil, nil, producer.Config{}))
				must(t, err)
				wantNew(t, r, true)
				if m := p.wantMessages(1); *m[0].Body != file("a").Body {
					t.Errorf("body %s", *m[0].Body)
				}
			})
		})
	}
}

// Usual: a repair that sends the bare file id again within five minutes is dropped in silence.
// Ours: a second send is answered as the duplicate it is, with what became of the first; and one
// that is meant is another generation, which no window knows.
func TestRepairWithinTheWindow_FA10(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "data-download-queue.fifo")
		work, err := claims.New(claims.Config{Store: p.store})
		must(t, err)
		made := p.producer(nil, nil, producer.Config{Work: work})
		sent := send(t, made, file("a"))
		time.Sleep(time.Minute)
		c, err := work.Acquire(t.Context(), "a")
		must(t, err)
		must(t, c.Complete(t.Context(), nil))

		again := send(t, made, file("a"))
		wantNew(t, again, false)
		if again.MessageID != sent.MessageID || again.SequenceNumber != sent.SequenceNumber || again.SequenceNumber == "" ||
			again.Age != time.Minute || again.Work != claims.Completed {
			t.Errorf("receipt %+v of a duplicate of %+v", again, sent)
		}
		repair := file("a")
		repair.Generation = 1
		wantNew(t, send(t, made, repair), true)
		wantNew(t, send(t, made, repair), false)
		got := p.wantMessages(2)
		if a, b := got[0].Attributes["MessageDeduplicationId"], got[1].Attributes["MessageDeduplicationId"]; a != "once/a" || b != "once/a#1" {
			t.Errorf("deduplication ids %s and %s", a, b)
		}
	})
}

// Usual: content-based deduplication hides a producer that forgot the id, merges twins that are
// both meant, and does not see attributes. Ours: no key, no send; twins have two keys; and a caller
// that sends different content under a used key gets an error.
func TestContentIsNoKey_FA11(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "data-download-queue.fifo")
		client := p.server.Client()
		made := p.producer(client, nil, producer.Config{})
		if r, err := made.SendOnce(t.Context(), producer.Message{Body: "b", Group: "g"}); err == nil || client.Calls("SendMessage") != 0 {
			t.Errorf("sent without a key: %+v, error %v", r, err)
		}
		twin := producer.Message{Body: "the same", Group: "g"}
		for _, key := range []string{"twin-1", "twin-2"} {
			twin.Key = key
			wantNew(t, send(t, made, twin), true)
		}
		other := file("a")
		send(t, made, other)
		if r := send(t, made, other); r.New || r.Differs {
			t.Errorf("the same again: %+v", r)
		}
		other.Attributes = map[string]types.MessageAttributeValue{"entity": text("accounts")}
		if r, err := made.SendOnce(t.Context(), other); r.New || !r.Differs || !errors.Is(err, producer.ErrDiffers) {
			t.Errorf("with another attribute: %+v, error %v", r, err)
		}
		p.wantMessages(3)
	})
}

// Usual: an id counts as expected although nothing was sent for it. Ours: the receipts say what was
// sent, and expected = new + duplicate, whatever goes wrong meanwhile.
func TestCountFromReceipts_FA18(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := at(t, "data-download-queue.fifo")
		store := &recordstest.Faulty{Store: p.store, Fault: recordstest.Sometimes(t, recordstest.Chances{Before: 0.2, After: 0.2})}
		made := p.producer(nil, store, producer.Config{})
		var batch []producer.Message
		for i := range 30 {
			batch = append(batch, file(fmt.Sprint("file-", i%20))) // ten are there twice
		}
		var fresh, duplicate, failed int
		for range 100 {
			failed = 0
			for _, r := range made.SendAll(t.Context(), batch) {
				switch {
				case r.Err != nil:
					failed++
				case r.New:
					fresh++
				default:
					duplicate++
				}
			}
			if failed == 0 {
				break
			}
		}
		if fresh != 20 || failed != 0 || duplicate < 10 {
			t.Errorf("%d new, %d duplicates, %d failed", fresh, duplicate, failed)
		}
		p.wantMessages(20)
	})
}
