package sqs

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/engine"
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

// Requests beyond the limit of those in progress are throttled; polls that wait for messages do not
// count as in progress. [WIRE-27]
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
		// Two receives whose clients do not read are in progress.
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

// reads reads the next answer on a connection and returns status and query error.
func reads(r *bufio.Reader) (end string, resp *http.Response, err error) {
	for resp == nil || resp.StatusCode == http.StatusContinue {
		if resp, err = http.ReadResponse(r, nil); err != nil {
			return "", nil, err
		}
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return itoa(resp.StatusCode) + " " + resp.Header.Get("X-Amzn-Query-Error"), resp, err
}

const (
	refused = "403 RequestThrottled;Sender"
	noQueue = "400 AWS.SimpleQueueService.NonExistentQueue;Sender"
)

// Under overload, sends are refused before their bodies are decoded or kept, whether these arrive
// at once, in parts or late, and whatever they look like: decoded, these would be malformed.
// Deletes pass meanwhile. The connection takes the next request where it begins, unless its body is
// too large or too slow. [DUR-25, WIRE-27, WIRE-31, WIRE-32]
func TestRefusedBodies(t *testing.T) {
	// one that is not JSON, and that a server which had lost its place would take for a request
	body := "\r\n\r\n" + request("AmazonSQS.DeleteMessage", `{"QueueUrl":"hidden"}`)
	large := strings.Repeat("x", 1<<20) + body
	for _, c := range []struct {
		name    string
		request string
		pause   time.Duration // before the second half of the body
		want    string
		closes  bool
	}{
		{name: "at once", request: request("AmazonSQS.SendMessage", body), want: refused},
		{name: "in parts", request: request("AmazonSQS.SendMessage", body), pause: time.Second, want: refused},
		{name: "late", request: request("AmazonSQS.SendMessage", body), pause: 9 * time.Second, want: refused},
		{name: "large", request: request("AmazonSQS.SendMessageBatch", large), pause: time.Second, want: refused},
		{name: "large and late", request: request("AmazonSQS.SendMessageBatch", large), pause: 9 * time.Second, want: refused},
		{name: "too late", request: request("AmazonSQS.SendMessage", body), pause: 11 * time.Second, closes: true},
		{name: "too large", request: request("AmazonSQS.SendMessage", strings.Repeat(large, 9)), want: "413 MalformedInput;Sender", closes: true},
		{name: "in chunks", request: request("AmazonSQS.SendMessage", "", "Content-Length", "", "Transfer-Encoding", "chunked") + chunked(body), pause: time.Second, want: refused},
		{name: "in chunks, without an end", request: request("AmazonSQS.SendMessage", "", "Content-Length", "", "Transfer-Encoding", "chunked") + chunked(strings.Repeat(large, 9)), want: refused, closes: true},
		{name: "with an expectation", request: request("AmazonSQS.SendMessage", body, "Expect", "100-continue"), pause: time.Second, want: refused},
		{name: "none", request: request("AmazonSQS.SendMessage", ""), want: refused},
		{name: "of a listing", request: request("AmazonSQS.ListQueues", body), want: refused},
		{name: "of a receive", request: request("AmazonSQS.ReceiveMessage", body), want: refused},
		{name: "of a delete", request: request("AmazonSQS.DeleteMessage", body), want: "400 MalformedInput;Sender"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, settings{queue: 1}, func(t *testing.T, w *world) { // a place for deletes alone
				conn := w.listener.dial()
				defer conn.Close()
				next := request("AmazonSQS.DeleteMessage", `{"QueueUrl":"q","ReceiptHandle":"h"}`)
				half := strings.Index(c.request, "\r\n\r\n") + 4
				half += (len(c.request) - half) / 2
				go func() {
					io.WriteString(conn, c.request[:half])
					time.Sleep(c.pause)
					io.WriteString(conn, c.request[half:]+next)
				}()
				synctest.Wait()
				if got := w.intake.Bodies.Total(); got != 0 {
					t.Errorf("%d bytes of the body are kept, want none", got)
				}
				r := bufio.NewReader(conn)
				got, resp, err := reads(r)
				if c.want == "" { // [WIRE-31]
					if err != io.ErrUnexpectedEOF {
						t.Errorf("got %s, %v, want the connection closed without an answer", got, err)
					}
					return
				}
				if err != nil || got != c.want || resp.Close != c.closes {
					t.Errorf("got %s, closing %v, %v, want %s, %v", got, resp != nil && resp.Close, err, c.want, c.closes)
				}
				if !c.closes {
					if got, _, err = reads(r); err != nil || got != noQueue {
						t.Errorf("a delete behind it: got %s, %v, want %s", got, err, noQueue)
					}
				}
				conn.SetReadDeadline(time.Now().Add(time.Second))
				switch rest, err := r.ReadByte(); {
				case err == nil:
					t.Errorf("there is another answer, which begins with %q", rest)
				case errors.Is(err, os.ErrDeadlineExceeded) == c.closes:
					t.Errorf("the connection ended with %v, want it closed: %v", err, c.closes)
				}
			})
		})
	}
}

// An unknown sender learns under overload that it is unknown, and with a known key id that the
// server is busy. [DUR-25, AUTH-34]
func TestRefusedSenders(t *testing.T) {
	inBubble(t, settings{queue: 1, sqs: Config{Door: scriptDoor(t)}}, func(t *testing.T, w *world) {
		send := request("AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"a"}`)
		signed := sign(t, "root", send)
		for _, c := range []struct{ name, request, want string }{
			{"unsigned", send, "403 MissingAuthenticationToken;Sender"},
			{"unknown", strings.Replace(signed, "Credential=", "Credential=X", 1), "403 InvalidClientTokenId;Sender"},
			{"wrongly signed", strings.Replace(signed, "Signature=", "Signature=0", 1), refused},
			{"signed for another body", strings.Replace(signed, `"a"`, `"b"`, 1), refused},
			{"signed", signed, refused},
		} {
			conn := w.listener.dial()
			defer conn.Close()
			go io.WriteString(conn, c.request)
			if got, _, err := reads(bufio.NewReader(conn)); err != nil || got != c.want {
				t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
			}
		}
	})
}

// The classes by which requests are refused early are those by which the broker refuses them.
// [DUR-25]
func TestClasses(t *testing.T) {
	ops := map[string]interface{ Class() engine.Class }{
		"SendMessage":                  new(engine.SendMessage),
		"SendMessageBatch":             new(engine.SendMessageBatch),
		"ReceiveMessage":               new(engine.ReceiveMessage),
		"ChangeMessageVisibility":      new(engine.ChangeMessageVisibility),
		"ChangeMessageVisibilityBatch": new(engine.ChangeMessageVisibilityBatch),
		"DeleteMessage":                new(engine.DeleteMessage),
		"DeleteMessageBatch":           new(engine.DeleteMessageBatch),
	}
	for name, op := range operations {
		want := engine.ClassListing
		if of, ok := ops[name]; ok {
			want = of.Class()
		}
		if op.class != want {
			t.Errorf("%s is of class %d, want %d", name, op.class, want)
		}
	}
}

// A refused request is counted under its action, like every other one.
func TestRefusalsAreCounted(t *testing.T) {
	inBubble(t, settings{queue: 1}, func(t *testing.T, w *world) {
		for range 3 {
			told(t, w, "AmazonSQS.SendMessage", "{}")
		}
		for _, end := range w.intake.Ends.All() {
			if end.Action != "SendMessage" || end.Code != "RequestThrottled" || end.N.Value() != 3 {
				t.Errorf("%d requests of action %q ended with %q, want 3 of SendMessage with RequestThrottled", end.N.Value(), end.Action, end.Code)
			}
		}
	})
}
