package sdk

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/server"
)

// same checks that a send was answered as a duplicate of another.
func same(t *testing.T, what string, got, first *sqs.SendMessageOutput) {
	t.Helper()
	if *got.MessageId != *first.MessageId || aws.ToString(got.SequenceNumber) != aws.ToString(first.SequenceNumber) {
		t.Errorf("%s: got message %s, %s, want %s, %s of the first", what, *got.MessageId, aws.ToString(got.SequenceNumber),
			*first.MessageId, aws.ToString(first.SequenceNumber))
	}
}

// A second send with a key adds nothing, whatever has become of the first message and of the
// server. The SDK checks that the checksum is that of the body in its own request.
// [DEDUP-9, DEDUP-11, DEDUP-12, DEDUP-13, DEDUP-14, DEDUP-15, DEDUP-17]
func TestDuplicates(t *testing.T) {
	eachRestart(t, func(t *testing.T, n *node, again restart) {
		url, ctx := n.fifo("orders.fifo"), t.Context()
		first := n.put(url, "g", "key", "first")
		duplicate := n.put(url, "h", "key", "second")
		same(t, "while it waits", duplicate, first)
		if sum := md5.Sum([]byte("second")); *duplicate.MD5OfMessageBody != hex.EncodeToString(sum[:]) {
			t.Errorf("checksum %s, want that of the duplicate's own body", *duplicate.MD5OfMessageBody)
		}
		if got := n.counters(url); got != [3]int{1, 0, 0} {
			t.Errorf("counters: got %v, want one message", got)
		}
		n = again(n, nil)
		url = "orders.fifo"
		same(t, "after a restart", n.put(url, "g", "key", "third"), first)
		m := n.one(url)
		if *m.Body != "first" || m.Attributes["MessageGroupId"] != "g" {
			t.Errorf("received %q of group %s, want what was sent first", *m.Body, m.Attributes["MessageGroupId"])
		}
		same(t, "while it is in flight", n.put(url, "g", "key", "fourth"), first)
		n.delete(url, m.ReceiptHandle)
		same(t, "after its delete", n.put(url, "g", "key", "fifth"), first)
		n = again(n, nil)
		same(t, "after its delete and a restart", n.put(url, "g", "key", "sixth"), first)
		if got := n.counters(url); got != [3]int{} {
			t.Errorf("counters: got %v, want none", got)
		}

		batch, err := n.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: []types.SendMessageBatchRequestEntry{
			entry("a", "g", "key", "x"), entry("b", "g", "new", "y"), entry("c", "g", "new", "z"),
		}})
		if err != nil || len(batch.Successful) != 3 {
			t.Fatalf("batch: got %v, %v", describe(batch), err)
		}
		if a, b, c := *batch.Successful[0].MessageId, *batch.Successful[1].MessageId, *batch.Successful[2].MessageId; a != *first.MessageId || b == a || c != b {
			t.Errorf("batch: got ids %s, %s, %s, want that of the first and twice that of the new one", a, b, c)
		}
		if got := n.counters(url); got != [3]int{1, 0, 0} {
			t.Errorf("counters: got %v, want the one new message", got)
		}

		if _, err := n.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: &url}); err != nil {
			t.Fatal(err)
		}
		n = again(n, nil)
		if got := n.put(url, "g", "key", "x"); *got.MessageId == *first.MessageId || *got.SequenceNumber <= *first.SequenceNumber {
			t.Errorf("after a purge: got %s, %s, want a new message", *got.MessageId, *got.SequenceNumber)
		}
	})
}

// [DEDUP-16]
func TestRacingDuplicates(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url := n.fifo("orders.fifo")
	const senders, rounds = 8, 10
	ids := map[string]bool{}
	for round := range rounds {
		var mu sync.Mutex
		var racing sync.WaitGroup
		ofRound := map[string]bool{}
		ready := make(chan struct{})
		for i := range senders {
			racing.Go(func() {
				<-ready
				out, err := n.SendMessage(t.Context(), &sqs.SendMessageInput{
					QueueUrl: &url, MessageBody: aws.String(fmt.Sprint(i)), MessageGroupId: aws.String(fmt.Sprint(i)),
					MessageDeduplicationId: aws.String(fmt.Sprint("key-", round)),
				})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				ofRound[*out.MessageId] = true
				ids[*out.MessageId] = true
			})
		}
		close(ready)
		racing.Wait()
		if len(ofRound) != 1 {
			t.Errorf("round %d: the senders were told %d ids, want one", round, len(ofRound))
		}
	}
	if got := n.counters(url); got != [3]int{rounds, 0, 0} {
		t.Errorf("counters: got %v, want %d messages", got, rounds)
	}
	for _, m := range n.receive(url) {
		if !ids[*m.MessageId] {
			t.Errorf("received %s, which no sender was told", *m.MessageId)
		}
	}
}

// The content makes the key where the queue says so and the sender does not; the consumer sees it
// either way. [DEDUP-2, DEDUP-3, DEDUP-18]
func TestContentBasedDeduplication(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url := n.fifo("orders.fifo", "ContentBasedDeduplication", "true")
	sum := sha256.Sum256([]byte("x"))
	hash := hex.EncodeToString(sum[:])
	first := n.put(url, "a", "", "x")
	same(t, "the same body", n.put(url, "b", "", "x"), first)
	same(t, "the hash as explicit id", n.put(url, "c", hash, "y"), first)
	explicit := n.put(url, "d", "key", "x")
	if *explicit.MessageId == *first.MessageId {
		t.Error("an explicit id did not win over the content")
	}
	got := n.get(url, "both", "x x")
	for i, want := range []string{hash, "key"} {
		if id := got[i].Attributes["MessageDeduplicationId"]; id != want {
			t.Errorf("message %d: deduplication id %q, want %q", i, id, want)
		}
	}
}

// [DEDUP-5, DEDUP-7, DEDUP-8]
func TestDeduplicationScopeAndWindow(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *server.Config) { c.TimeScale = 200 })
	url := n.fifo("orders.fifo", "DeduplicationScope", "messageGroup", "FifoThroughputLimit", "perMessageGroupId", "ContentBasedDeduplication", "true")
	first := n.put(url, "a", "", "x")
	if other := n.put(url, "b", "", "x"); *other.MessageId == *first.MessageId {
		t.Error("another group: got the id of the first, want another message")
	}
	eventually(t, "the window ends although there are duplicates in it", func() bool {
		return *n.put(url, "a", "", "x").MessageId != *first.MessageId
	})
	got := n.receive(url)
	if len(got) != 3 {
		t.Fatalf("received %d messages, want 3", len(got))
	}
	var sent [2]int64
	for i, m := range []types.Message{got[0], got[1]} {
		fmt.Sscan(m.Attributes["SentTimestamp"], &sent[i])
	}
	if window := sent[1] - sent[0]; window < 300_000 {
		t.Errorf("the window lasted %d ms, want five minutes", window)
	}
}
