package sqs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/api/intake"
	"tenaq/internal/engine"
	"tenaq/internal/observe/metric"
)

// suspended is how many polls are suspended, and connections that wait for the next request after
// one.
func (w *world) suspended() int {
	synctest.Wait()
	return w.handler.suspended.Len()
}

// poll begins a poll of 20 seconds on a connection of its own and waits until it is suspended.
func (w *world) poll(t *testing.T, queue string) net.Conn {
	t.Helper()
	conn, before := w.listener.dial(), w.suspended()
	t.Cleanup(func() { conn.Close() })
	io.WriteString(conn, request("AmazonSQS.ReceiveMessage", `{"QueueUrl":"`+queue+`","WaitTimeSeconds":20}`))
	time.Sleep(suspendAfter)
	if got := w.suspended(); got != before+1 {
		t.Fatalf("%d polls are suspended, want %d", got, before+1)
	}
	return conn
}

// answered reads the answer to a poll.
func answered(t *testing.T, conn net.Conn) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// wantClosed checks that the server has closed a connection.
func wantClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(time.Second))
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("read %d bytes and %v, want the connection closed", n, err)
	}
}

// A poll that was suspended is answered as one that was not, to the byte, whatever the protocol and
// the answer. [WIRE-18, WIRE-20]
func TestSuspendedPollAnswersAsAnyOther(t *testing.T) {
	const poll = `{"QueueUrl":"q","WaitTimeSeconds":20,"MessageAttributeNames":["All"],"AttributeNames":["All"]}`
	const form = "Action=ReceiveMessage&QueueUrl=q&WaitTimeSeconds=20&AttributeName.1=All"
	http10 := strings.Replace(request("AmazonSQS.ReceiveMessage", poll), "HTTP/1.1", "HTTP/1.0", 1)
	large := fmt.Sprintf(`{"QueueUrl":"q","Entries":[{"Id":"a","MessageBody":%q}]}`, strings.Repeat("x", 2*intake.Small))
	for _, test := range []struct {
		name, request, send string
		suspended, last     bool
	}{
		{"JSON", request("AmazonSQS.ReceiveMessage", poll), "", true, false},
		{"JSON, a message", request("AmazonSQS.ReceiveMessage", poll), `{"QueueUrl":"q","Entries":[{"Id":"a","MessageBody":"hello"}]}`, true, false},
		{"JSON, a large message", request("AmazonSQS.ReceiveMessage", poll), large, true, false},
		{"JSON, the last", request("AmazonSQS.ReceiveMessage", poll, "Connection", "close"), "", true, true},
		{"JSON, HTTP/1.0", http10, "", false, true},
		{"XML", queryRequest("", form), "", true, false},
		{"XML, a message", queryRequest("", form), `{"QueueUrl":"q","Entries":[{"Id":"a","MessageBody":"hello"}]}`, true, false},
		{"Query in JSON", queryRequest("", form, "Accept", "application/json"), "", true, false},
		// The second of two polls is refused: as many messages as may be are in flight.
		{"JSON, refused", request("AmazonSQS.ReceiveMessage", poll), `{"QueueUrl":"q","Entries":[{"Id":"a","MessageBody":"1"},{"Id":"b","MessageBody":"2"}]}`, true, false},
		{"XML, refused", queryRequest("", form), `{"QueueUrl":"q","Entries":[{"Id":"a","MessageBody":"1"},{"Id":"b","MessageBody":"2"}]}`, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type answer struct {
					raw   string
					after time.Duration
				}
				ask := func(inHTTP bool) answer {
					w := newWorld(settings{inHTTP: inHTTP, engine: engine.Config{InFlightMax: 1}})
					defer func() { w.stop(); time.Sleep(time.Second) }()
					told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"q"}`)
					if strings.HasSuffix(test.name, "refused") {
						first := w.listener.dial()
						defer first.Close()
						io.WriteString(first, request("AmazonSQS.ReceiveMessage", poll))
						go io.Copy(io.Discard, first)
						synctest.Wait()
					}
					before := w.suspended()
					conn := w.listener.dial()
					defer conn.Close()
					start, got := time.Now(), make(chan answer)
					go func() {
						raw, _, _, err := exchange(conn, "POST", test.request)
						if err != nil {
							t.Error(err)
						}
						got <- answer{newMasks().hide(raw), time.Since(start)}
					}()
					time.Sleep(5 * time.Second)
					if suspended := w.suspended() > before; suspended != (test.suspended && !inHTTP) {
						t.Errorf("suspended: %v, in the HTTP server: %v", suspended, inHTTP)
					}
					if test.send != "" {
						told(t, w, "AmazonSQS.SendMessageBatch", test.send)
					}
					a := <-got
					if test.last {
						wantClosed(t, conn)
					}
					return a
				}
				// The second begins a day after the first, to the second.
				start := time.Now()
				want := ask(true)
				time.Sleep(time.Until(start.Add(24 * time.Hour)))
				got := ask(false)
				want.raw = undated(want.raw)
				if got.raw = undated(got.raw); got != want {
					t.Errorf("suspended:\n%.2000s\nafter %v; not suspended:\n%.2000s\nafter %v", got.raw, got.after, want.raw, want.after)
				}
			})
		})
	}
}

var timestampPattern = regexp.MustCompile(`9[0-9]{11}`) // of a bubble, in milliseconds

// undated hides what differs a day later.
func undated(raw string) string {
	for _, day := range []string{"Sat, 01", "Sun, 02"} {
		raw = strings.ReplaceAll(raw, "Date: "+day+" Jan 2000", "Date: today")
	}
	return timestampPattern.ReplaceAllString(raw, "timestamp")
}

// A connection whose poll was suspended serves the next request, and the next poll, and is closed
// only when nothing comes for long. [WIRE-23]
func TestSuspendedConnectionGoesOn(t *testing.T) {
	inBubble(t, settings{sqs: Config{IdleMax: time.Minute}}, func(t *testing.T, w *world) {
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"q","Attributes":{"VisibilityTimeout":"0"}}`)
		conn := w.poll(t, "q")
		for i := range 3 {
			told(t, w, "AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"hello"}`)
			if _, body := answered(t, conn); !strings.Contains(body, `"Body":"hello"`) {
				t.Fatalf("round %d: the poll was answered %s, want the message", i, body)
			}
			told(t, w, "AmazonSQS.PurgeQueue", `{"QueueUrl":"q"}`)
			time.Sleep(59 * time.Second)
			next := request("AmazonSQS.ListQueueTags", `{"QueueUrl":"q"}`)
			io.WriteString(conn, next[:1])
			time.Sleep(5 * time.Second) // beyond the limits of the answer
			if _, resp, body, err := exchange(conn, "POST", next[1:]); err != nil || resp.StatusCode != 200 || body != "{}" {
				t.Fatalf("round %d: the next request was answered %v, %s, %v", i, resp, body, err)
			}
			time.Sleep(5 * time.Minute) // no limit of an answered poll is left
			io.WriteString(conn, request("AmazonSQS.ReceiveMessage", `{"QueueUrl":"q","WaitTimeSeconds":20}`))
			if time.Sleep(suspendAfter); w.suspended() != 1 {
				t.Fatalf("round %d: the next poll is not suspended", i)
			}
		}
		answered(t, conn)
		time.Sleep(61 * time.Second)
		wantClosed(t, conn)
		if got := w.suspended(); got != 0 {
			t.Errorf("%d connections are kept, want none", got)
		}
	})
}

// Requests that a client sends before the answer to a poll are served after it, in whatever pieces
// they arrive. [WIRE-23]
func TestRequestBehindSuspendedPoll(t *testing.T) {
	poll := request("AmazonSQS.ReceiveMessage", `{"QueueUrl":"q","WaitTimeSeconds":20}`)
	next := request("AmazonSQS.ListQueueTags", `{"QueueUrl":"q"}`)
	for _, test := range []struct{ name, first, suspended, answered string }{
		{"all with the poll", poll + next, "", ""},
		{"a byte with the poll", poll + next[:1], "", next[1:]},
		{"all while it is suspended", poll, next, ""},
		{"a byte while it is suspended", poll, next[:1], next[1:]},
		{"a part with the poll, more while it is suspended", poll + next[:20], next[20:30], next[30:]},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, settings{}, func(t *testing.T, w *world) {
				told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"q"}`)
				conn := w.listener.dial()
				defer conn.Close()
				go func() {
					io.WriteString(conn, test.first)
					time.Sleep(2 * time.Second)
					io.WriteString(conn, test.suspended)
				}()
				time.Sleep(3 * time.Second)
				if got := w.suspended(); got != 1 {
					t.Fatalf("%d polls are suspended, want 1", got)
				}
				r := bufio.NewReader(conn)
				for _, when := range []string{"the poll", "the next request"} {
					resp, err := http.ReadResponse(r, nil)
					if err != nil {
						t.Fatalf("%s: %v", when, err)
					}
					if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || string(body) != "{}" {
						t.Errorf("%s: got %d, %s, %v, want 200, {}", when, resp.StatusCode, body, err)
					}
					if when == "the poll" {
						go io.WriteString(conn, test.answered)
					}
				}
				if got := w.suspended(); got != 0 {
					t.Errorf("%d connections are kept, want none", got)
				}
			})
		})
	}
}

// A client that goes away while its poll is suspended is given no message: the next receive has it
// at once and for the first time. [POLL-10]
func TestSuspendedClientGone(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"q"}`)
		w.poll(t, "q").Close()
		if got := w.suspended(); got != 0 {
			t.Errorf("%d polls are suspended, want none", got)
		}
		if got := w.broker.Metrics().Polls; got != 0 {
			t.Errorf("%d polls wait, want none", got)
		}
		told(t, w, "AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"hello"}`)
		got := told(t, w, "AmazonSQS.ReceiveMessage", `{"QueueUrl":"q","AttributeNames":["ApproximateReceiveCount"]}`)
		if !strings.Contains(got, `"ApproximateReceiveCount":"1"`) {
			t.Errorf("the next receive was answered %s, want the message for the first time", got)
		}
		w.wantCount(t, "ClientGone", 1)
	})
}

// wantCount checks how many receives ended with a code, and that no request is in progress.
func (w *world) wantCount(t *testing.T, code string, want int64) (found *intake.End) {
	t.Helper()
	for _, c := range w.intake.Ends.All() {
		if c.Action == "ReceiveMessage" && c.Code == code {
			found = c
		}
	}
	if found == nil {
		found = new(intake.End)
	}
	if n := found.N.Value(); n != want {
		t.Errorf("%d receives ended with the code %q, want %d", n, code, want)
	}
	if got := w.intake.Working(); got != 0 {
		t.Errorf("%d requests are said to be at work, want none", got)
	}
	return found
}

// A client that goes away while its answer waits for room leaves the message as it was. [RCV-24]
func TestSuspendedClientGoneBeforeBudget(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"q"}`)
		conn := w.poll(t, "q")
		full := w.fillAnswers()
		told(t, w, "AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"hello"}`)
		conn.Close()
		if got := w.suspended(); got != 0 {
			t.Errorf("%d polls are suspended, want none", got)
		}
		w.wantCount(t, "ClientGone", 1)
		full.Release()
		if got := told(t, w, "AmazonSQS.ReceiveMessage", `{"QueueUrl":"q","AttributeNames":["All"]}`); !strings.Contains(got, `"ApproximateReceiveCount":"1"`) {
			t.Errorf("the next receive was told %s, want the message, received once", got)
		}
	})
}

// A poll counts once, with its whole duration, and does not count as in progress while it waits.
func TestSuspendedPollIsCounted(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"q"}`)
		answered(t, w.poll(t, "q"))
		synctest.Wait()
		c := w.wantCount(t, "", 1)
		var times bytes.Buffer
		out := metric.NewWriter(&times)
		out.Histogram(c.Times)
		if err := out.Flush(); err != nil || !strings.Contains(times.String(), `_sum 20`) && !strings.Contains(times.String(), `_sum 19.99`) {
			t.Errorf("counted\n%s%v, want one of 20 seconds", times.String(), err)
		}
	})
}

// A client that does not read its answer is cut off after ten seconds, and its part of the budget
// is free again. [WIRE-31]
func TestSuspendedClientDoesNotRead(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"q"}`)
		conn := w.poll(t, "q")
		told(t, w, "AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"hello"}`)
		time.Sleep(intake.StallMax - time.Second)
		if w.suspended() != 1 || w.intake.Answers.Total() == 0 {
			t.Errorf("the client was cut off early, or holds nothing")
		}
		time.Sleep(2 * time.Second)
		if w.suspended() != 0 || w.intake.Answers.Total() != 0 {
			t.Errorf("the client was not cut off, or still holds its part of the budget")
		}
		wantClosed(t, conn)
	})
}

// A stop answers all suspended requests, says that there will be no more, and closes. A client that
// does not read is cut off when the time is over. [POLL-11, DUR-24]
func TestSuspendedPollsAtStop(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"q"}`)
		idle := w.poll(t, "q")
		answered(t, idle)
		pipelined, deaf := w.poll(t, "q"), w.poll(t, "q")
		io.WriteString(pipelined, "P")
		var conns []net.Conn
		for range 10 {
			conns = append(conns, w.poll(t, "q"))
		}
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"other"}`)
		slow := w.poll(t, "other")
		told(t, w, "AmazonSQS.SendMessage", `{"QueueUrl":"other","MessageBody":"hello"}`)
		w.handler.Drain()
		wantClosed(t, idle)
		answered(t, slow) // was begun before the stop, and does not say that it is the last
		wantClosed(t, slow)
		late := w.listener.dial()
		defer late.Close()
		io.WriteString(late, request("AmazonSQS.ReceiveMessage", `{"QueueUrl":"q","WaitTimeSeconds":20}`))
		time.Sleep(2 * suspendAfter)
		if got := w.suspended(); got != 12 {
			t.Errorf("%d polls are suspended, want 12: none after the begin of the stop", got)
		}
		w.broker.Drain()
		for i, conn := range append(conns, pipelined) {
			if resp, body := answered(t, conn); body != "{}" || !resp.Close {
				t.Errorf("poll %d was answered %s, and to be the last: %v, want {} and true", i, body, resp.Close)
			}
			wantClosed(t, conn)
		}
		answered(t, late)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		if err := w.handler.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 8*time.Second {
			t.Errorf("with a client that does not read: got %v after %v, want %v after 8s", err, time.Since(start), context.DeadlineExceeded)
		}
		wantClosed(t, deaf)
		if err := w.handler.Shutdown(t.Context()); err != nil {
			t.Errorf("when all is over: got %v", err)
		}
	})
}

// An answer whose client left before it began waits for nothing.
func TestSuspendedClientGoneBeforeAnswer(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		p := &suspendedPoll{attempt: attempt{h: w.handler, action: "ReceiveMessage"},
			receive: &engine.ReceiveMessage{Received: engine.Received{Messages: []engine.Delivery{{Size: 1}}}}}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		written := p.write(ctx, httptest.NewRecorder(), nil)
		if took := time.Since(start); took != 0 || written {
			t.Errorf("the answer took %v and was written: %v, want neither", took, written)
		}
		w.wantCount(t, "ClientGone", 1)
	})
}

// If there is no connection to take over, a poll waits in its handler.
func TestPollThatCannotBeSuspended(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"q"}`)
		r := httptest.NewRequest("POST", "http://"+host, strings.NewReader(`{"QueueUrl":"q","WaitTimeSeconds":20}`))
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
		r.Header.Set("X-Amz-Target", "AmazonSQS.ReceiveMessage")
		answer, start := httptest.NewRecorder(), time.Now()
		w.handler.ServeHTTP(answer, r)
		if took := time.Since(start).Round(time.Second); answer.Code != 200 || answer.Body.String() != "{}" || took != 20*time.Second {
			t.Errorf("got %d, %s after %v, want 200, {} after 20s", answer.Code, answer.Body, took)
		}
		if got := w.suspended(); got != 0 {
			t.Errorf("%d polls are suspended, want none", got)
		}
		w.wantCount(t, "", 1)
	})
}

// Thousands that wait do not wait in the HTTP server even for a second, beyond the first thousand.
func TestCrowdIsSuspendedSoon(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"q"}`)
		for range crowd + 100 {
			conn := w.listener.dial()
			defer conn.Close()
			io.WriteString(conn, request("AmazonSQS.ReceiveMessage", `{"QueueUrl":"q","WaitTimeSeconds":20}`))
			go io.Copy(io.Discard, conn)
		}
		for _, at := range []struct {
			after time.Duration
			want  int
		}{{0, 0}, {suspendSoon, 100}, {suspendAfter - suspendSoon, crowd + 100}} {
			if time.Sleep(at.after); w.suspended() != at.want {
				t.Errorf("%d polls are suspended, want %d", w.suspended(), at.want)
			}
		}
		if got := w.handler.waiting.Load(); got != 0 {
			t.Errorf("%d polls are said to wait in handlers, want none", got)
		}
	})
}

// A failure within an answer ends its connection, not the server.
func TestSuspendedPollFails(t *testing.T) {
	var log bytes.Buffer
	inBubble(t, settings{log: &log}, func(t *testing.T, w *world) {
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"q"}`)
		conn := w.poll(t, "q")
		w.handler.cfg.Sealer = nil
		told(t, w, "AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"hello"}`)
		wantClosed(t, conn)
		w.wantCount(t, "", 0)
	})
	if got := log.String(); !strings.Contains(got, `msg="request failed"`) || !strings.Contains(got, "panic") {
		t.Errorf("the log says %q, want the panic", got)
	}
}

// A stop refuses a poll that waits for room for its answer, and hides nothing for it.
// [RCV-24, POLL-11]
func TestStopBeforeRoom(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"q"}`)
		conn := w.poll(t, "q")
		w.fillAnswers()
		told(t, w, "AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"hello"}`)
		w.handler.Drain()
		w.broker.Drain()
		if resp, body := answered(t, conn); resp.StatusCode != 403 || !strings.Contains(body, "RequestThrottled") || !resp.Close {
			t.Errorf("got %d, %s, closed %v, want RequestThrottled and the connection closed", resp.StatusCode, body, resp.Close)
		}
		if err := w.handler.Shutdown(t.Context()); err != nil {
			t.Errorf("the stop ended with %v", err)
		}
	})
}

// A request that has reached the HTTP server is answered, even if a stop begins at the moment of
// its handover. [DUR-24]
func TestDrainWhileRejoining(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"q"}`)
		rejoin := w.handler.cfg.Rejoin
		w.handler.cfg.Rejoin = func(c net.Conn, ahead []byte) {
			rejoin(c, ahead)
			time.Sleep(time.Millisecond)
		}
		conn := w.poll(t, "q")
		answered(t, conn)
		synctest.Wait()
		go io.WriteString(conn, request("AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"hello"}`))
		synctest.Wait()
		w.handler.Drain()
		answered(t, conn)
	})
}
