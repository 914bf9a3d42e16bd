package sqs

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/api/intake"
	"tenaq/internal/engine"
)

// dialMany opens connections and sends the same on each, without reading anything.
func dialMany(t *testing.T, w *world, n int, text string) (conns []net.Conn) {
	t.Helper()
	for range n {
		conn := w.listener.dial()
		t.Cleanup(func() { conn.Close() })
		conns = append(conns, conn)
		go io.WriteString(conn, text)
	}
	synctest.Wait()
	return conns
}

// timed asks, and checks what is answered and after what time.
func timed(t *testing.T, w *world, name, action, body, want string, after time.Duration) {
	t.Helper()
	from := time.Now()
	got := told(t, w, "AmazonSQS."+action, body)
	if took := time.Since(from); !strings.Contains(got, want) || took != after {
		t.Errorf("%s: got %.200s after %v, want %s after %v", name, got, took, want, after)
	}
}

// sendLarge sends n messages of a size.
func (w *world) sendLarge(t *testing.T, account, queue string, n, size int) {
	t.Helper()
	for range n {
		draft := engine.NewDraft(engine.Entry{Body: engine.Text{Value: strings.Repeat("x", size), Set: true}})
		op := &engine.SendMessage{Queue: engine.QueueName{Account: account, Name: queue}, Draft: draft}
		if err := w.broker.Do(t.Context(), op); err != nil {
			t.Fatal(err)
		}
	}
}

// Clients that ask for large messages and read nothing hold no more than the share of their
// account. Small receives are answered at once. Large ones of the same account are given back
// uncounted what they have no room for. The clients are cut off after ten seconds.
// [WIRE-29, WIRE-31, RCV-24]
func TestHostileReaders(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		const size = 1_000_000
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"large","Attributes":{"VisibilityTimeout":"0","MaximumMessageSize":"1048576"}}`)
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"other","Attributes":{"MaximumMessageSize":"1048576"}}`)
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"small"}`)
		w.sendLarge(t, account, "large", 10, size)
		w.sendLarge(t, account, "other", 1, size)
		told(t, w, "AmazonSQS.SendMessage", `{"QueueUrl":"small","MessageBody":"1"}`)

		dialMany(t, w, 40, request("AmazonSQS.ReceiveMessage", `{"QueueUrl":"large","MaxNumberOfMessages":10}`))
		if got, most := w.intake.Answers.Total(), int64(intake.AnswerBudget-intake.AnswerReserve)/2; got > most {
			t.Errorf("the clients hold %d bytes, want at most %d", got, most)
		}
		time.Sleep(time.Second) // in which the clients take what room there is again
		start := time.Now()
		timed(t, w, "a small receive", "ReceiveMessage", `{"QueueUrl":"small"}`, `"Body":"1"`, 0)
		got := told(t, w, "AmazonSQS.ReceiveMessage", `{"QueueUrl":"other","WaitTimeSeconds":20,"AttributeNames":["All"]}`)
		if took := time.Since(start); !strings.Contains(got, `"ApproximateReceiveCount":"1"`) || took == 0 || took > intake.StallMax+time.Second {
			t.Errorf("a large receive: got %.200s after %v, want the message for the first time when the clients have been cut off", got, took)
		}
		time.Sleep(3 * intake.StallMax)
		synctest.Wait()
		if got := w.intake.Answers.Total(); got != 0 {
			t.Errorf("%d bytes are held when the clients have been cut off, want none", got)
		}
	})
}

// One account cannot take the room of another. [WIRE-29]
func TestHostileReadersOfOneAccount(t *testing.T) {
	b := intake.New(intake.Config{}).Answers
	var all int64
	for range 100 {
		all += b.Hold("a").Reserve(intake.AnswerMost)
	}
	if most := int64(intake.AnswerBudget / 2); all > most {
		t.Errorf("one account holds %d bytes, want at most %d", all, most)
	}
	if got := b.Hold("b").Reserve(intake.AnswerMost); got != intake.AnswerMost {
		t.Errorf("another account has room for %d bytes, want %d", got, intake.AnswerMost)
	}
}

// A client that reads, but too slowly, is cut off; one that reads at the least rate gets all of its
// answer. [WIRE-31]
func TestSlowReaders(t *testing.T) {
	for _, c := range []struct {
		rate int // bytes a second
		cut  bool
	}{{rateMin / 2, true}, {rateMin + rateMin/8, false}} {
		inBubble(t, settings{}, func(t *testing.T, w *world) {
			told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"q","Attributes":{"MaximumMessageSize":"1048576"}}`)
			w.sendLarge(t, account, "q", 1, 1_000_000)
			conn := w.listener.dial()
			defer conn.Close()
			io.WriteString(conn, request("AmazonSQS.ReceiveMessage", `{"QueueUrl":"q"}`))
			n, buf := 0, make([]byte, c.rate)
			for n < 1_000_000 {
				got, err := io.ReadAtLeast(conn, buf, min(c.rate, 1_000_000-n))
				if n += got; err != nil {
					break
				}
				time.Sleep(time.Second)
			}
			if cut := n < 1_000_000; cut != c.cut {
				t.Errorf("at %d bytes a second the client read %d bytes, cut off %v, want %v", c.rate, n, cut, c.cut)
			}
		})
	}
}

// A client that does not read its answer is cut off after ten seconds, however small the answer is
// and whatever wrote it. [WIRE-31]
func TestUnreadAnswers(t *testing.T) {
	for name, s := range map[string]settings{"the loop": {}, "net/http": {inHTTP: true}, "a refusal": {queue: 1}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, s, func(t *testing.T, w *world) {
				late, never := w.listener.dial(), w.listener.dial()
				defer late.Close()
				defer never.Close()
				io.WriteString(late, request("AmazonSQS.ListQueues", "{}"))
				io.WriteString(never, request("AmazonSQS.ListQueues", "{}"))
				time.Sleep(intake.StallMax - time.Second)
				if _, err := http.ReadResponse(bufio.NewReader(late), nil); err != nil {
					t.Errorf("a second before the end: %v, want the answer", err)
				}
				time.Sleep(3 * time.Second)
				wantClosed(t, never)
			})
		})
	}
}

// Clients that promise bodies and send none, or a part, hold what they have sent and no more: a
// large body is taken at once beside hundreds of them. They are cut off after ten seconds. Those
// that waited ten seconds for room are refused, and cut off when they do not read that either.
// [WIRE-27, WIRE-30, WIRE-31]
func TestHostileWriters(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		head := request("AmazonSQS.ListQueues", "", "Content-Length", "8388608")
		none := dialMany(t, w, 200, head)
		synctest.Wait()
		if got := w.intake.Bodies.Total(); got != 0 {
			t.Errorf("clients that have sent nothing hold %d bytes, want none", got)
		}
		half := dialMany(t, w, 200, head+strings.Repeat("x", 2*intake.Small))
		time.Sleep(fastTime) // until the room for what does not come has been given back
		synctest.Wait()
		start := time.Now()
		large := `{"Unknown":"` + strings.Repeat("x", 2*intake.Small) + `"}`
		timed(t, w, "a small body", "ListQueues", "{}", "200 {}", 0)
		timed(t, w, "a large body", "ListQueues", large, "200 {}", 0)
		if got, most := w.intake.Bodies.Total(), int64(len(half)*2*intake.Small); got > most {
			t.Errorf("the clients hold %d bytes, want at most %d", got, most)
		}
		time.Sleep(2*intake.StallMax - time.Since(start))
		synctest.Wait()
		if got := w.intake.Bodies.Total(); got != 0 {
			t.Errorf("%d bytes are held when the clients have been cut off, want none", got)
		}
		time.Sleep(intake.StallMax)
		for _, conn := range append(none, half...) {
			wantClosed(t, conn)
		}
	})
}

// Bodies up to 64 KiB are charged too. When clients that stop in the middle of them have used up
// what one address may have, the next waits until they are cut off; tiny ones do not wait.
// [WIRE-30]
func TestHostileSmallWriters(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		part := request("AmazonSQS.ListQueues", "", "Content-Length", itoa(intake.Small)) + strings.Repeat("x", intake.Small-1)
		dialMany(t, w, 2000, part)
		time.Sleep(fastTime)
		synctest.Wait()
		if got := w.intake.Bodies.Total(); got > intake.BodyBudget/2 || got < intake.BodyBudget/4 {
			t.Errorf("the clients hold %d bytes, want about %d", got, intake.BodyBudget/2)
		}
		timed(t, w, "a tiny body", "ListQueues", "{}", "200 {}", 0)
		from := time.Now()
		got := told(t, w, "AmazonSQS.ListQueues", `{"Unknown":"`+strings.Repeat("x", 2*tiny)+`"}`)
		if took := time.Since(from); took > 2*intake.StallMax {
			t.Errorf("another body was answered %s after %v, want an answer within %v", got, took, 2*intake.StallMax)
		}
	})
}

// A body that comes too slowly is refused, one that comes at the least rate is read. [WIRE-30]
func TestSlowWriters(t *testing.T) {
	for _, c := range []struct {
		rate int // bytes a second
		cut  bool
	}{{rateMin / 2, true}, {rateMin + rateMin/8, false}} {
		inBubble(t, settings{}, func(t *testing.T, w *world) {
			body := `{"Unknown":"` + strings.Repeat("x", 1<<20) + `"}`
			conn := w.listener.dial()
			defer conn.Close()
			go func() {
				io.WriteString(conn, strings.TrimSuffix(request("AmazonSQS.ListQueues", body), body))
				for len(body) > 0 {
					n := min(len(body), c.rate)
					if _, err := io.WriteString(conn, body[:n]); err != nil {
						return
					}
					body = body[n:]
					time.Sleep(time.Second)
				}
			}()
			if _, err := http.ReadResponse(bufio.NewReader(conn), nil); (err != nil) != c.cut {
				t.Errorf("at %d bytes a second: cut off with %v, want it %v", c.rate, err, c.cut)
			}
		})
	}
}

// Thousands of large sends at the same time stay within the budget, all that is made of them
// included, and small ones are taken beside them. [WIRE-30]
func TestHostileSends(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"q","Attributes":{"MaximumMessageSize":"1048576"}}`)
		body := `{"QueueUrl":"q","MessageBody":"` + strings.Repeat("x", 1_000_000) + `"}`
		whole := request("AmazonSQS.SendMessage", body)
		dialMany(t, w, 200, whole[:len(whole)-1])
		if got := w.intake.Bodies.Total(); got > intake.BodyBudget-intake.BodyReserve {
			t.Errorf("%d bytes are held, want at most %d", got, intake.BodyBudget-intake.BodyReserve)
		}
		timed(t, w, "a small send", "SendMessage", `{"QueueUrl":"q","MessageBody":"hello"}`, "200", 0)
	})
}

// An addressed connection comes from an address of its own.
type addressed struct {
	net.Conn
	from net.IP
}

func (c addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: c.from, Port: 1} }

// Large sends from several addresses, far more at once than there is room for, are all carried out
// in turn. [WIRE-30]
func TestLargeSendsOfMany(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"q","Attributes":{"MaximumMessageSize":"1048576"}}`)
		text := request("AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"`+strings.Repeat("x", 1_040_000)+`"}`)
		var sends sync.WaitGroup
		var refused atomic.Int64
		for i := range 120 {
			client, server := net.Pipe()
			w.listener.conns <- addressed{server, net.IPv4(10, 0, 0, byte(i%4))}
			sends.Go(func() {
				defer client.Close()
				go func() {
					for rest := text; len(rest) > 0; time.Sleep(time.Millisecond) {
						n := min(len(rest), 64<<10)
						if _, err := io.WriteString(client, rest[:n]); err != nil {
							return
						}
						rest = rest[n:]
					}
				}()
				if resp, err := http.ReadResponse(bufio.NewReader(client), nil); err != nil || resp.StatusCode != http.StatusOK {
					refused.Add(1)
				}
			})
		}
		sends.Wait()
		if n := refused.Load(); n > 0 {
			t.Errorf("%d of 120 sends were refused, want none", n)
		}
	})
}

// The request of a poll is charged for as long as it waits, since the poll refers to its text.
// [WIRE-30]
func TestBodiesOfPolls(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		told(t, w, "AmazonSQS.CreateQueue", `{"QueueName":"q"}`)
		const size = 1 << 20
		text := request("AmazonSQS.ReceiveMessage", `{"QueueUrl":"q","WaitTimeSeconds":20,"X":"`+strings.Repeat("x", size)+`"}`)
		conn := w.listener.dial()
		defer conn.Close()
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		go io.Copy(io.Discard, conn)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := w.intake.Bodies.Total(); got < size {
			t.Errorf("while the poll waits %d bytes are charged, want at least %d", got, size)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if got := w.intake.Bodies.Total(); got != 0 {
			t.Errorf("after its answer %d bytes are charged, want none", got)
		}
	})
}
