package sqsd

import (
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
)

func itoa(n int) string { return strconv.Itoa(n) }

// told asks on a connection of its own and returns status and query error.
func told(t *testing.T, w *world, target, body string) string {
	t.Helper()
	conn := w.listener.dial()
	defer conn.Close()
	_, resp, answer, err := exchange(conn, "POST", request(target, body))
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	if resp.StatusCode == 200 {
		return "200 " + answer
	}
	return itoa(resp.StatusCode) + " " + resp.Header.Get("X-Amzn-Query-Error")
}

// More requests at work than may be are throttled; those that wait for messages are not at work. [WIRE-27]
func TestRequestMax(t *testing.T) {
	inBubble(t, settings{sqsd: Config{RequestMax: 2}}, func(t *testing.T, w *world) {
		w.handler.content = semaphore.NewWeighted(1)
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"q"}`)
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"empty"}`)
		told(t, w, "AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"a"}`)
		var polls []net.Conn
		for range 5 {
			conn := w.listener.dial()
			defer conn.Close()
			polls = append(polls, conn)
			io.WriteString(conn, request("AmazonSQS.ReceiveMessage", `{"QueueUrl":"empty","WaitTimeSeconds":20}`))
		}
		synctest.Wait()
		if got := told(t, w, "AmazonSQS.ListQueueTags", `{"QueueUrl":"q"}`); got != "200 {}" {
			t.Errorf("beside %d polls: got %s, want 200 {}", len(polls), got)
		}
		// Two receives that wait for their part of the budget are at work.
		if err := w.handler.content.Acquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		told(t, w, "AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"b"}`)
		for range 2 {
			conn := w.listener.dial()
			defer conn.Close()
			io.WriteString(conn, request("AmazonSQS.ReceiveMessage", `{"QueueUrl":"q"}`))
		}
		synctest.Wait()
		if got, want := told(t, w, "AmazonSQS.ListQueueTags", `{"QueueUrl":"q"}`), "403 RequestThrottled;Sender"; got != want {
			t.Errorf("beside two requests at work: got %s, want %s", got, want)
		}
		v1 := func(want int) {
			t.Helper()
			conn := w.listener.dial()
			defer conn.Close()
			_, resp, body, err := exchange(conn, "GET", "GET /v1/queues HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
			if err != nil || resp.StatusCode != want {
				t.Errorf("/v1/queues: got %v, %s, %v, want %d", resp, body, err, want)
			}
		}
		v1(429)
		w.handler.content.Release(1)
		time.Sleep(2 * time.Minute) // until the polls have ended and those that do not read their answers are given up
		synctest.Wait()
		for range 10 {
			if got := told(t, w, "AmazonSQS.ListQueueTags", `{"QueueUrl":"q"}`); got != "200 {}" {
				t.Errorf("when they are answered: got %s, want 200 {}", got)
			}
		}
		v1(200)
		if got := w.handler.working.Load(); got != 0 {
			t.Errorf("%d requests are said to be at work, want none", got)
		}
	})
}

// Clients that promise bodies and send none hold their part of the budget for a minute and not longer. Who comes in the
// meantime with a large body is throttled after a while, and with a small one is not held up at all. [WIRE-27]
func TestSlowBodiesGiveWay(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		for range readBudget / bodyMax {
			conn := w.listener.dial()
			defer conn.Close()
			io.WriteString(conn, request("AmazonSQS.ListQueues", "", "Content-Length", "8388608"))
		}
		synctest.Wait()
		start := time.Now()
		timed := func(body, want string, after time.Duration) {
			t.Helper()
			from := time.Now()
			got := told(t, w, "AmazonSQS.ListQueues", body)
			if took := time.Since(from); got != want || took != after {
				t.Errorf("a body of %d bytes: got %s after %v, want %s after %v", len(body), got, took, want, after)
			}
		}
		large := `{"Unknown":"` + strings.Repeat("x", 2*small) + `"}`
		timed("{}", "200 {}", 0)
		timed(large, "403 RequestThrottled;Sender", readWait)
		timed("{}", "200 {}", 0)
		time.Sleep(transferMax - time.Since(start) - time.Second)
		timed(large, "200 {}", time.Second)
	})
}
