package bench

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkFIFO compares send, receive and delete on FIFO queues with one group, with a thousand, and with
// a message waiting in each of a million, with the same on a standard queue, in turns.
func BenchmarkFIFO(b *testing.B) {
	addr := start(b)
	c := dial(b, addr)
	groups := []int{0, 1, 1_000, 1_000_000} // 0 is the standard queue
	works := make([]func(*conn) error, len(groups))
	for i, n := range groups {
		queue := fmt.Sprintf("fifo-%d.fifo", n)
		attributes := `"Attributes":{"FifoQueue":"true"}`
		if n == 0 {
			queue, attributes = "standard", `"Attributes":{}`
		}
		c.must(b, request("CreateQueue", fmt.Sprintf(`{"QueueName":"%s",%s}`, queue, attributes)))
		l := &lives{queue: queue, groups: n}
		if n == groups[len(groups)-1] {
			fill(b, addr, queue, n, l.entry)
		}
		works[i] = life(queue, l.send)
	}
	const slice = 500 * time.Millisecond
	sums := make([]float64, len(groups))
	b.ResetTimer()
	for b.Loop() {
		for i, work := range works {
			sums[i] += rate(b, addr, slice, work)
		}
	}
	for i, n := range groups {
		if n > 0 {
			b.ReportMetric(sums[i]/sums[0], fmt.Sprintf("of-standard-%d-groups", n))
		}
	}
}

// lives are lives of messages on one queue, each message with a deduplication id of its own on a FIFO
// queue.
type lives struct {
	queue  string
	groups int
	sent   atomic.Int64
}

// entry is the part of a request that describes the next message.
func (l *lives) entry() string {
	n := int(l.sent.Add(1))
	if l.groups == 0 {
		return fmt.Sprintf(`"MessageBody":"%s%010d"`, body, n)
	}
	return fmt.Sprintf(`"MessageBody":"%s","MessageGroupId":"g%d","MessageDeduplicationId":"%d"`, body, n%l.groups, n)
}

// send is the request that sends the next message.
func (l *lives) send() []byte {
	return request("SendMessage", fmt.Sprintf(`{"QueueUrl":"%s",%s}`, l.queue, l.entry()))
}
