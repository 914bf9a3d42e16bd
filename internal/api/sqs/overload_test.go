package sqs

import (
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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

// More requests at work than may be are throttled; those that wait for messages are not at work.
// [WIRE-27]
func TestRequestMax(t *testing.T) {
	inBubble(t, settings{most: 2}, func(t *testing.T, w *world) {
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"q"}`)
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"empty"}`)
		told(t, w, "AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"`+strings.Repeat("a", 2*tiny)+`"}`)
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
		// Two receives whose clients do not read are at work.
		told(t, w, "AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"`+strings.Repeat("b", 2*tiny)+`"}`)
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
		time.Sleep(2 * time.Minute) // until the polls have ended and those that do not read their answers are given up
		synctest.Wait()
		for range 10 {
			if got := told(t, w, "AmazonSQS.ListQueueTags", `{"QueueUrl":"q"}`); got != "200 {}" {
				t.Errorf("when they are answered: got %s, want 200 {}", got)
			}
		}
		v1(200)
		if got := w.intake.Working(); got != 0 {
			t.Errorf("%d requests are said to be at work, want none", got)
		}
	})
}
