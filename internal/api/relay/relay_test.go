package relay

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/api/intake"
	"tenaq/internal/broker"
	"tenaq/internal/cluster/forward"
	"tenaq/internal/door/auth"
	"tenaq/internal/door/credentials"
	"tenaq/internal/engine"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Requests of every API and protocol.
const (
	chunks = "POST / HTTP/1.1\r\nHost: a\r\nX-Amz-Target: AmazonSQS.ListQueues\r\nTransfer-Encoding: chunked\r\n" +
		"Content-Type: application/x-amz-json-1.0\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
	cloudwatchTarget = "GraniteServiceVersion20100801.DescribeAlarms"
	cborPath         = "/service/GraniteServiceVersion20100801/operation/DescribeAlarms"
	monitoring       = "Authorization: AWS4-HMAC-SHA256 Credential=a/20000101/us-east-1/monitoring/aws4_request, SignedHeaders=host, Signature=00"
)

// protocols have a request in each protocol of each API, and what an error in it looks like.
var protocols = []struct{ name, request, kind, failure string }{
	{"SQS JSON", json("AmazonSQS.ListQueues", "{}"), "application/x-amz-json-1.0", `"__type":"com.amazon.coral.service#`},
	{"SQS Query", form("Action=ListQueues&Version=2012-11-05"), "text/xml", `<Code>`},
	{"SQS Query, JSON", form("Action=ListQueues&Version=2012-11-05", "Accept: application/json"), "application/json", `"Code":"`},
	{"CloudWatch Query", form("Action=DescribeAlarms&Version=2010-08-01", monitoring), "text/xml", `<Code>`},
	{"CloudWatch JSON", json(cloudwatchTarget, "{}"), "application/x-amz-json-1.0", `"__type":"com.amazon`},
	{"CloudWatch CBOR", post(cborPath, "\xa0", "smithy-protocol: rpc-v2-cbor", "Content-Type: application/cbor"), "application/cbor", "__type"},
	{"/v1", get("GET", "/v1/queues"), "application/problem+json", `"code":"`},
}

var random = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

// comparable makes equal responses equal: without random ids, the order of headers and of maps in
// CBOR, and what is between a server and its client.
func comparable(raw string) string {
	raw = strings.TrimPrefix(random.ReplaceAllString(raw, "ID"), "HTTP/1.1 100 Continue\r\n\r\n")
	head, body, _ := strings.Cut(raw, "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	slices.Sort(lines)
	lines = slices.DeleteFunc(lines, func(l string) bool { return l == "Connection: close" })
	if slices.Contains(lines, "Content-Type: application/cbor") {
		parts := []byte(body)
		slices.Sort(parts)
		body = string(parts)
	}
	return strings.Join(lines, "\n") + "\n\n" + body
}

// A response arrives as the leader has sent it, byte for byte. [WIRE-34]
func TestUnchanged(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	requests := map[string]string{
		"send":           json("AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"a"}`),
		"1 MiB":          json("AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"`+large+`"}`),
		"receive":        json("AmazonSQS.ReceiveMessage", `{"QueueUrl":"empty"}`),
		"no such queue":  json("AmazonSQS.SendMessage", `{"QueueUrl":"none","MessageBody":"a"}`),
		"no such action": form("Action=Dance"),
		"path of a queue": "GET /000000000000/q?Action=GetQueueAttributes&AttributeName.1=QueueArn HTTP/1.1\r\n" +
			"Host: queue.example:9324\r\n\r\n",
		"in chunks":           chunks,
		"with an expectation": json("AmazonSQS.ListQueues", "{}", "Expect: 100-continue"),
		"a HEAD":              get("HEAD", "/v1/queues"),
		"no such path":        get("GET", "/v1/nothing"),
		"wrong method":        post("/v1/queues", "", "X-A: b"),
		"no request of SQS":   get("DELETE", "/"),
		"too much for CloudWatch": post(cborPath, "\xa0"+large+large, "smithy-protocol: rpc-v2-cbor",
			"Content-Type: application/cbor"),
		"too many headers": get("GET", "/v1/queues\r\nX-A: "+strings.Repeat("a", 70_000)),
	}
	for _, p := range protocols {
		requests[p.name] = p.request
	}
	inRig(t, setup{}, func(r *rig) {
		for _, queue := range []string{"q", "empty"} {
			r.ask(r.atLeader, json("AmazonSQS.CreateQueue", `{"QueueName":"`+queue+`"}`))
		}
		for name, request := range requests {
			direct, relayed := r.ask(r.atLeader, request), r.ask(r.here, request)
			if direct.err != nil || relayed.err != nil {
				t.Errorf("%s: %v, %v", name, direct.err, relayed.err)
			}
			if got, want := comparable(relayed.raw), comparable(direct.raw); got != want {
				t.Errorf("%s: got\n%q\nwant\n%q", name, got, want)
			}
		}
		if s := r.log.String(); strings.Contains(s, "level=ERROR") {
			t.Errorf("the log says: %s", s)
		}
	})
}

// A request that every node would refuse does not go to the leader. [WIRE-26]
func TestRefusedHere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(path, []byte(`{"credentials": [{"id": "TQTEST01", "secret": "0123456789abcdef", "allow": ["*"]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := credentials.Open(credentials.Config{File: path})
	if err != nil {
		t.Fatal(err)
	}
	signature := func(service string) string {
		return "Authorization: AWS4-HMAC-SHA256 Credential=STRANGER/20000101/us-east-1/" + service +
			"/aws4_request, SignedHeaders=host;x-amz-date, Signature=" + strings.Repeat("0", 64) + "\r\nX-Amz-Date: 20000101T000000Z"
	}
	for _, tt := range []struct {
		name, request string
		door          auth.Config
		want          int
	}{
		{"headers", json("AmazonSQS.ListQueues", "{}", "X-A: "+strings.Repeat("a", 70_000)), auth.Config{}, 431},
		{"headers, CloudWatch", json(cloudwatchTarget, "{}", "X-A: "+strings.Repeat("a", 70_000)), auth.Config{}, 431},
		{"body", json("AmazonSQS.ListQueues", strings.Repeat(" ", 9<<20)), auth.Config{}, 413},
		{"web page", json("AmazonSQS.ListQueues", "{}", "Origin: https://evil.example"), auth.Config{}, 403},
		{"no API", get("DELETE", "/"), auth.Config{}, 404},
		{"unsigned", json("AmazonSQS.ListQueues", "{}"), auth.Config{Credentials: keys}, 403},
		{"unknown key", json("AmazonSQS.ListQueues", "{}", signature("sqs")), auth.Config{Credentials: keys}, 403},
		{"unknown key, CloudWatch", json(cloudwatchTarget, "{}", signature("monitoring")), auth.Config{Credentials: keys}, 403},
		{"unknown key, /v1", get("GET", "/v1/queues"), auth.Config{Credentials: keys}, 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, setup{door: tt.door}, func(r *rig) {
				if a := r.ask(r.here, tt.request); a.StatusCode != tt.want {
					t.Errorf("got %d %s, want %d", a.StatusCode, a.body, tt.want)
				}
				if n := r.forwarded.Load(); n > 0 {
					t.Errorf("the leader was asked %d times", n)
				}
			})
		})
	}
}

// The leader judges the header of a proxy by the address of the peer that the other node is
// connected to, which no client can forge. [CONSOLE-19]
func TestProxyHeader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, []byte(`{"credentials": [{"id": "TQOPS00001", "secret": "the-secret-of-the-operators", "allow": ["*"]}],
		"proxy": {"user-header": "X-Forwarded-Email", "peers": ["10.1.2.3"], "rules": [{"user": "*", "key": "TQOPS00001"}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := credentials.Open(credentials.Config{File: path})
	if err != nil {
		t.Fatal(err)
	}
	inRig(t, setup{door: auth.Config{Credentials: keys, Sessions: true}}, func(r *rig) {
		request := strings.TrimSuffix(get("GET", "/v1"), "\r\n") + "Sec-Fetch-Site: same-origin\r\nX-Forwarded-Email: ann@example.com\r\n"
		for peer, want := range map[string]int{"10.1.2.3": 200, "192.0.2.1": 400} {
			r.here.from = &net.TCPAddr{IP: net.ParseIP(peer), Port: 5000}
			before := r.forwarded.Load()
			a := r.ask(r.here, request+"Tenaq-Client: 10.1.2.3:5000\r\n\r\n")
			if a.StatusCode != want || want == 200 && !strings.Contains(a.body, `"proxyUser":"ann@example.com"`) {
				t.Errorf("from %s: got %d %s, want %d", peer, a.StatusCode, a.body, want)
			}
			if n := r.forwarded.Load() - before; (n > 0) != (want == 200) {
				t.Errorf("from %s: the leader was asked %d times", peer, n)
			}
		}
		// whatever the other node has let through
		r.there.from = &net.TCPAddr{IP: net.ParseIP("10.1.2.3"), Port: 5000}
		if a := r.ask(r.there, request+"Tenaq-Client: 192.0.2.1:5000\r\n\r\n"); a.StatusCode != 400 || !strings.Contains(a.body, "came from 192.0.2.1") {
			t.Errorf("the leader says %d %s of a client that is no proxy", a.StatusCode, a.body)
		}
	})
}

// checkFailure holds the response to an error to the form of its protocol.
func checkFailure(t *testing.T, name string, a reply, status int, kind, failure string) {
	t.Helper()
	if a.StatusCode != status || a.Header.Get("Content-Type") != kind ||
		!strings.Contains(a.body, failure) || random.FindString(a.Header.Get("X-Amzn-Requestid")) == "" {
		t.Errorf("%s: got %s with %q, want status %d of type %s with %s", name, a.Status, a.raw, status, kind, failure)
	}
}

// Without a leader a request waits three seconds and is refused, in the form of its protocol. It
// continues when a node leads.
func TestNoLeader(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			inRig(t, setup{}, func(r *rig) {
				r.leads.Store(false)
				from := time.Now()
				a := r.ask(r.here, p.request)
				checkFailure(t, p.name, a, 503, p.kind, p.failure)
				if took := time.Since(from); took < 3*time.Second || took > 4*time.Second {
					t.Errorf("it took %v", took)
				}
				time.AfterFunc(2*time.Second, func() { r.leads.Store(true) })
				if a := r.ask(r.here, p.request); a.StatusCode != 200 {
					t.Errorf("with a leader after two seconds: got %q", a.raw)
				}
			})
		})
	}
}

// A request that waits for a leader is answered here when this node becomes it, body and all.
func TestHere(t *testing.T) {
	inRig(t, setup{}, func(r *rig) {
		r.create("q")
		for name, request := range map[string]string{
			"small":     json("AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"a"}`),
			"large":     json("AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"`+strings.Repeat("x", 1<<20)+`"}`),
			"in chunks": chunks,
			"/v1":       get("GET", "/v1/queues"),
		} {
			r.tookOver.Store(false)
			r.leads.Store(false)
			time.AfterFunc(2*time.Second, func() { r.tookOver.Store(true) })
			if a := r.ask(r.here, request); a.StatusCode != 200 {
				t.Errorf("%s: got %q", name, a.raw)
			}
		}
		if n := r.forwarded.Load(); n > 0 {
			t.Errorf("%d requests were forwarded", n)
		}
		if held, working := r.intake.Bodies.Total(), r.intake.Working(); held != 0 || working != 0 {
			t.Errorf("%d bytes are held and %d requests in progress, want none", held, working)
		}
	})
}

// A node that stops ends the receives that wait at the leader, which hand out nothing afterwards.
func TestDrain(t *testing.T) {
	inRig(t, setup{}, func(r *rig) {
		r.create("q")
		time.AfterFunc(5*time.Second, r.edge.Drain)
		from := time.Now()
		a := r.ask(r.here, json("AmazonSQS.ReceiveMessage", poll))
		if took := time.Since(from); a.StatusCode != 500 || !strings.Contains(a.body, "receive again") || took > 6*time.Second {
			t.Errorf("got %q after %v", a.raw, took)
		}
		synctest.Wait()
		r.send("q", "hello")
		before := r.forwarded.Load()
		if a := r.ask(r.here, json("AmazonSQS.ReceiveMessage", poll)); a.StatusCode != 500 || r.forwarded.Load() != before {
			t.Errorf("a receive after that: got %q, forwarded %d times", a.raw, r.forwarded.Load()-before)
		}
		if a := r.ask(r.here, json("AmazonSQS.ListQueues", "{}")); a.StatusCode != 200 {
			t.Errorf("another request after that: got %q", a.raw)
		}
		a = r.ask(r.atLeader, json("AmazonSQS.ReceiveMessage",
			`{"QueueUrl":"q","AttributeNames":["ApproximateReceiveCount"]}`))
		if !strings.Contains(a.body, `"ApproximateReceiveCount":"1"`) {
			t.Errorf("got %q, want the message, received for the first time", a.raw)
		}
	})
}

// A node that stops ends the live streams that it passes on, and says so. [V1-13]
func TestDrainEndsLiveStreams(t *testing.T) {
	inRig(t, setup{}, func(r *rig) {
		time.AfterFunc(5500*time.Millisecond, r.edge.Drain)
		from := time.Now()
		a := r.ask(r.here, get("GET", "/v1/live"))
		if took := time.Since(from); a.err != nil || took > 6*time.Second ||
			strings.Count(a.body, "event: tick") < 4 ||
			!strings.HasSuffix(a.body, "event: bye\ndata: {\"reason\":\"stopping\",\"retryMs\":2000}\n\n") {
			t.Errorf("got %v after %v and\n%s", a.err, took, a.body)
		}
		before := r.forwarded.Load()
		if a := r.ask(r.here, get("GET", "/v1/live")); a.StatusCode != 503 || r.forwarded.Load() != before {
			t.Errorf("a stream after that: got %q, forwarded %d times", a.raw, r.forwarded.Load()-before)
		}
		if s := r.log.String(); strings.Contains(s, "leader was lost") {
			t.Errorf("the log says: %s", s)
		}
	})
}

// A stream that is in the middle of an event when its node stops is cut off.
func TestDrainInsideEvent(t *testing.T) {
	half := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: hello\ndata: {")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	inRig(t, setup{leader: half}, func(r *rig) {
		time.AfterFunc(time.Second, r.edge.Drain)
		if a := r.ask(r.here, get("GET", "/v1/live")); a.err == nil || strings.Contains(a.body, "bye") {
			t.Errorf("got %v and %q, want a connection that was cut", a.err, a.body)
		}
	})
}

// When the leader is lost with a request, the client learns that the outcome is unknown, and is
// never told to try again. When it is lost before, the request has not been carried out.
func TestLeaderIsLost(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			lost := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				panic(http.ErrAbortHandler)
			})
			inRig(t, setup{leader: lost}, func(r *rig) {
				a := r.ask(r.here, p.request)
				checkFailure(t, p.name, a, 500, p.kind, p.failure)
				if n := r.forwarded.Load(); n != 1 || a.Header.Get(forward.NotTaken) != "" {
					t.Errorf("the request was sent %d times, and marked with %q", n, a.Header.Get(forward.NotTaken))
				}
				r.there.Close()
				checkFailure(t, p.name, r.ask(r.here, p.request), 503, p.kind, p.failure)
			})
		})
	}
}

// A response that ends early is cut off, and so is its client.
func TestLeaderIsLostInTheResponse(t *testing.T) {
	for _, length := range []string{"10", ""} {
		half := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		inRig(t, setup{leader: half}, func(r *rig) {
			conn, err := r.here.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, json("AmazonSQS.ListQueues", "{}")); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err == nil {
				_, err = io.ReadAll(res.Body)
			}
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("length %q: got %v, want the loss of the connection", length, err)
			}
			synctest.Wait()
			if !strings.Contains(r.log.String(), "connection to a client cut") {
				t.Errorf("length %q: the log says %s", length, r.log.String())
			}
		})
	}
}

// A leader that was replaced, or stops, says that it has not carried the request out, and so the
// next one is asked. It never says so of an outcome that is unknown. [ERR-14]
func TestNotTaken(t *testing.T) {
	for _, p := range protocols {
		for _, tt := range []struct {
			err  error
			want string
		}{
			{broker.ErrNotLeader, "503 1"}, {broker.ErrStopped, "503 1"},
			{fmt.Errorf("store the alarms: %w", broker.ErrNotLeader), "503 1"},
			{forward.ErrNoLeader, "503 "}, {broker.ErrNoSpace, "503 "},
			{broker.ErrOutcomeUnknown, "500 "}, {forward.ErrOutcomeUnknown, "500 "},
			{errors.New("a secret"), "500 "},
		} {
			inRig(t, setup{leader: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				Refuse(w, r, tt.err)
			})}, func(r *rig) {
				a := r.ask(r.atLeader, p.request)
				got := itoa(a.StatusCode) + " " + a.Header.Get("Tenaq-Not-Taken")
				if got != tt.want || strings.Contains(a.body, "secret") {
					t.Errorf("%s, %v: got %s in %q, want %s", p.name, tt.err, got, a.raw, tt.want)
				}
			})
		}
	}
	inRig(t, setup{}, func(r *rig) {
		r.broker.Abandon()
		synctest.Wait()
		for _, p := range protocols {
			if strings.HasPrefix(p.name, "CloudWatch") {
				continue // reads nothing but memory
			}
			a := r.ask(r.atLeader, p.request)
			if a.StatusCode != 503 || a.Header.Get(forward.NotTaken) == "" {
				t.Errorf("%s: got %q of a leader that was replaced", p.name, a.raw)
			}
			checkFailure(t, p.name, r.ask(r.here, p.request), 503, p.kind, p.failure)
		}
	})
}

// do carries out an operation at the leader.
func (r *rig) do(op engine.Op) {
	r.t.Helper()
	if err := r.broker.Do(r.t.Context(), op); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) create(queue string) {
	r.do(&engine.CreateQueue{Queue: engine.QueueName{Account: account, Name: queue}, NameSet: true})
}

func (r *rig) send(queue, body string) {
	r.do(&engine.SendMessage{Queue: engine.QueueName{Account: account, Name: queue},
		Draft: engine.NewDraft(engine.Entry{Body: engine.Text{Value: body, Set: true}})})
}

const poll = `{"QueueUrl":"q","WaitTimeSeconds":20,"VisibilityTimeout":1000}`

// A poll waits at the leader for its whole time, and gets a message when there is one.
func TestPoll(t *testing.T) {
	inRig(t, setup{}, func(r *rig) {
		r.create("q")
		from := time.Now()
		a := r.ask(r.here, json("AmazonSQS.ReceiveMessage", poll))
		if took := time.Since(from); a.StatusCode != 200 || a.body != "{}" || took < 20*time.Second || took > 21*time.Second {
			t.Errorf("got %q after %v, want nothing after 20s", a.raw, took)
		}
		time.AfterFunc(5*time.Second, func() { r.send("q", "hello") })
		from = time.Now()
		a = r.ask(r.here, form("Action=ReceiveMessage&QueueUrl=q&WaitTimeSeconds=20"))
		if took := time.Since(from); !strings.Contains(a.body, "<Body>hello</Body>") || took > 6*time.Second {
			t.Errorf("got %q after %v, want the message after 5s", a.raw, took)
		}
	})
}

// A client that leaves during a poll gets no message later. [POLL-10]
func TestClientLeaves(t *testing.T) {
	inRig(t, setup{}, func(r *rig) {
		r.create("q")
		conn, err := r.here.dial()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, json("AmazonSQS.ReceiveMessage", poll)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		conn.Close()
		synctest.Wait()
		if n := r.intake.Working(); n != 0 {
			t.Errorf("%d requests are in progress after their client left", n)
		}
		r.send("q", "hello")
		a := r.ask(r.here, json("AmazonSQS.ReceiveMessage",
			`{"QueueUrl":"q","AttributeNames":["ApproximateReceiveCount"]}`))
		if !strings.Contains(a.body, `"ApproximateReceiveCount":"1"`) {
			t.Errorf("got %q, want the message, received for the first time", a.raw)
		}
	})
}

// The bodies of requests in progress count against the budget, and nothing stays counted.
func TestBodiesAreCounted(t *testing.T) {
	var arrived, goOn chan bool
	prepare := func() { arrived, goOn = make(chan bool), make(chan bool) }
	waits := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		if n != 1<<20 {
			t.Errorf("%d bytes arrived", n)
		}
		arrived <- true
		<-goOn
	})
	body := strings.Repeat("x", 1<<20)
	inRig(t, setup{leader: waits, prepare: prepare}, func(r *rig) {
		done := make(chan reply)
		go func() { done <- r.ask(r.here, json("AmazonSQS.SendMessage", body)) }()
		<-arrived
		if got := r.intake.Bodies.Total(); got != 1<<20 {
			t.Errorf("%d bytes are held, want 1 MiB", got)
		}
		goOn <- true
		<-done
		synctest.Wait()
		if held, working := r.intake.Bodies.Total(), r.intake.Working(); held != 0 || working != 0 {
			t.Errorf("%d bytes are held and %d requests in progress, want none", held, working)
		}
	})
}

// Consumers that wait leave room for other requests, and excess requests are throttled.
func TestBounds(t *testing.T) {
	inRig(t, setup{}, func(r *rig) {
		r.create("q")
		r.edge.receives.most, r.edge.forwards.most = 2, 3
		var waiting []net.Conn
		for _, request := range []string{json("AmazonSQS.ReceiveMessage", poll),
			form("Action=ReceiveMessage&QueueUrl=q&WaitTimeSeconds=20")} {
			conn, err := r.here.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			waiting = append(waiting, conn)
		}
		synctest.Wait()
		throttled := func(name, request string, want bool) {
			t.Helper()
			if a := r.ask(r.here, request); (a.Header.Get("X-Amzn-Query-Error") == "RequestThrottled;Sender") != want {
				t.Errorf("%s beside %d polls: got %q", name, len(waiting), a.raw)
			}
		}
		throttled("a poll", json("AmazonSQS.ReceiveMessage", poll), true)
		throttled("a poll by its address", get("GET", "/000000000000/q?Action=ReceiveMessage"), true)
		throttled("a listing", json("AmazonSQS.ListQueues", "{}"), false)
		r.edge.forwards.most = 2
		throttled("too much", json("AmazonSQS.ListQueues", "{}"), true)
		waiting[0].Close()
		synctest.Wait()
		throttled("a listing with room", json("AmazonSQS.ListQueues", "{}"), false)
	})
}

// A slowBackup writes a part when it is told to.
type slowBackup struct{ parts chan string }

func (b *slowBackup) WriteTo(w io.Writer) (n int64, err error) {
	for part := range b.parts {
		wrote, err := io.WriteString(w, part)
		if n += int64(wrote); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (*slowBackup) Close() error { return nil }

// A backup arrives as it is written, over any time, as long as its client reads. [DUR-30]
func TestStream(t *testing.T) {
	part := strings.Repeat("x", 64<<10) // more than what servers gather
	b := &slowBackup{}
	inRig(t, setup{backup: b, prepare: func() { b.parts = make(chan string) }}, func(r *rig) {
		conn, err := r.here.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, post("/v1/backup", "")); err != nil {
			t.Fatal(err)
		}
		go func() {
			for range 5 {
				b.parts <- part
				time.Sleep(time.Hour)
			}
			close(b.parts)
		}()
		from := time.Now()
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		buf := make([]byte, len(part))
		for i := range 5 {
			if _, err := io.ReadFull(res.Body, buf); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(from).Round(time.Minute); took != time.Duration(i)*time.Hour {
				t.Errorf("part %d came after %v", i, took)
			}
		}
		if n, err := res.Body.Read(buf); n != 0 || err != io.EOF {
			t.Errorf("after the last part: %d bytes and %v", n, err)
		}
	})
}

// A client that reads nothing is cut off after the time that it has, and so is its request at the
// leader.
func TestClientDoesNotRead(t *testing.T) {
	var ended chan time.Duration
	prepare := func() { ended = make(chan time.Duration, 1) }
	for name, length := range map[string]int{"with a length": 10 << 20, "without": 0} {
		endless := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			from := time.Now()
			if length > 0 {
				w.Header().Set("Content-Length", itoa(length))
			}
			for sent := 0; length == 0 || sent < length; {
				n, err := w.Write(make([]byte, 64<<10))
				if sent += n; err != nil {
					break
				}
			}
			ended <- time.Since(from)
		})
		inRig(t, setup{leader: endless, prepare: prepare}, func(r *rig) {
			conn, err := r.here.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, json("AmazonSQS.ListQueues", "{}")); err != nil {
				t.Fatal(err)
			}
			want := streamPause
			if length > 0 {
				want = intake.StallMax
			}
			if took := <-ended; took < want || took > want+time.Second {
				t.Errorf("%s: the leader wrote for %v, want %v", name, took, want)
			}
		})
	}
}
