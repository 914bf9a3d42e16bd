package bench

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

var body = strings.Repeat("x", 200)

func sendRequest(queue string) []byte {
	return request("SendMessage", fmt.Sprintf(`{"QueueUrl":"http://127.0.0.1/000000000000/%s","MessageBody":"%s"}`, queue, body))
}

// BenchmarkSendMessage compares durable single sends with a handler that does nothing, taking turns so
// that both see the same machine.
func BenchmarkSendMessage(b *testing.B) {
	addr := start(b)
	dial(b, addr).must(b, request("CreateQueue", `{"QueueName":"q"}`))
	req := sendRequest("q")
	noop := startNoop(b, string(dial(b, addr).must(b, req)))
	const slice = 500 * time.Millisecond
	rate(b, noop, slice, once(req))
	rate(b, addr, slice, once(req))
	b.ResetTimer()
	var ours, theirs float64
	n := 0
	for b.Loop() {
		theirs += rate(b, noop, slice, once(req))
		ours += rate(b, addr, slice, once(req))
		n++
	}
	b.ReportMetric(ours/float64(n), "sends/s")
	b.ReportMetric(theirs/float64(n), "noop/s")
	b.ReportMetric(ours/theirs, "ratio")
}

// BenchmarkDepth compares send, receive and delete on a queue with a million messages waiting with the
// same on an empty queue, and reports how much memory the backlog takes.
func BenchmarkDepth(b *testing.B) {
	addr := start(b)
	c := dial(b, addr)
	for _, q := range []string{"shallow", "deep"} {
		c.must(b, request("CreateQueue", `{"QueueName":"`+q+`"}`))
	}
	before := heap()
	const depth = 1_000_000
	fill(b, addr, "deep", depth, func() string { return `"MessageBody":"` + body + `"` })
	waiting := heap() - before
	const slice = 500 * time.Millisecond
	var shallow, deep float64
	plain := func(queue string) func(*conn) error {
		req := sendRequest(queue)
		return life(queue, func() []byte { return req })
	}
	inShallow, inDeep := plain("shallow"), plain("deep")
	b.ResetTimer()
	n := 0
	for b.Loop() {
		shallow += rate(b, addr, slice, inShallow)
		deep += rate(b, addr, slice, inDeep)
		n++
	}
	b.ReportMetric(shallow/float64(n), "lives/s-empty")
	b.ReportMetric(deep/float64(n), "lives/s-million")
	b.ReportMetric(deep/shallow, "ratio")
	b.ReportMetric(float64(waiting)/(1<<20), "MiB-for-million")
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// fill sends n messages in batches of ten. Entry returns what a batch says about its next message, without
// the id, and is called from many goroutines.
func fill(tb testing.TB, addr, queue string, n int, entry func() string) {
	const workers = 8
	errs := make(chan error, workers)
	for range workers {
		go func() {
			c := dial(tb, addr)
			defer c.c.Close()
			for range n / 10 / workers {
				entries := make([]string, 10)
				for i := range entries {
					entries[i] = fmt.Sprintf(`{"Id":"%d",%s}`, i, entry())
				}
				req := request("SendMessageBatch", fmt.Sprintf(`{"QueueUrl":"%s","Entries":[%s]}`, queue, strings.Join(entries, ",")))
				if err := once(req)(c); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range workers {
		if err := <-errs; err != nil {
			tb.Fatal(err)
		}
	}
}

// life is the work of sending what send returns, and receiving and deleting one message.
func life(queue string, send func() []byte) func(c *conn) error {
	receive := request("ReceiveMessage", fmt.Sprintf(`{"QueueUrl":"%s"}`, queue))
	return func(c *conn) error {
		if err := once(send())(c); err != nil {
			return err
		}
		_, answer, err := c.do(receive)
		if err != nil {
			return err
		}
		_, rest, ok := strings.Cut(string(answer), `"ReceiptHandle":"`)
		if !ok {
			return nil // another client was quicker, or has locked the group
		}
		handle, _, _ := strings.Cut(rest, `"`)
		return once(request("DeleteMessage", fmt.Sprintf(`{"QueueUrl":"%s","ReceiptHandle":"%s"}`, queue, handle)))(c)
	}
}
