package forward

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A cluster is what a node knows about the others: which one leads.
type cluster struct {
	leader atomic.Pointer[string]
	t      *testing.T
}

func (c *cluster) leads(address string) { c.leader.Store(&address) }

func (c *cluster) forwarder(hold time.Duration) *Forwarder {
	f := New(Config{
		Leader: func() (string, bool) {
			if a := c.leader.Load(); a != nil {
				return *a, true
			}
			return "", false
		},
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		},
	})
	f.hold = hold
	c.t.Cleanup(f.Close)
	return f
}

// node runs a node that gets forwarded requests, and returns its address.
func node(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(Receive(h))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// edge runs the node that clients ask: it forwards everything.
func edge(t *testing.T, f *Forwarder, start func(*httptest.Server)) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		res, err := f.Do(r, body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer res.Body.Close()
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	}))
	start(s)
	t.Cleanup(s.Close)
	return s
}

// A request arrives as the client has sent it.
func TestUnchanged(t *testing.T) {
	c := &cluster{t: t}
	got := make(chan *http.Request, 1)
	bodies := make(chan string, 1)
	c.leads(node(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r
		bodies <- string(body)
	}))
	for name, start := range map[string]func(*httptest.Server){
		"plain": (*httptest.Server).Start, "TLS": (*httptest.Server).StartTLS,
	} {
		for _, tt := range []struct{ method, path, body string }{
			{"POST", "/", "Action=SendMessage&MessageBody=a%20b"},
			{"POST", "/", ""},
			{"GET", "/000000000000/a%2Fb//c?Action=ListQueues&b=2&a=1&a=%7e&empty=", ""},
			{"DELETE", "/v1/x?", "text"},
		} {
			t.Run(name+" "+tt.method+" "+tt.path, func(t *testing.T) {
				s := edge(t, c.forwarder(time.Second), start)
				req, err := http.NewRequest(tt.method, s.URL+tt.path, strings.NewReader(tt.body))
				if err != nil {
					t.Fatal(err)
				}
				req.Host = "queue.example:9324"
				req.Header = http.Header{"X-Amz-Target": {"AmazonSQS.SendMessage"},
					"Idempotency-Key": {"order-7"},
					"User-Agent":      nil,
					"X-Many":          {"one", "two"}, clientHeader: {"192.0.2.9:1"},
					secureHeader: {"1"}}
				req.Header["Accept-Encoding"] = []string{"identity"}
				res, err := s.Client().Do(req)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				r, body := <-got, <-bodies
				if r.Method != tt.method || r.RequestURI != tt.path || r.Host != req.Host ||
					body != tt.body {
					t.Errorf("got %s %s of %s with %q, want %+v", r.Method, r.RequestURI, r.Host,
						body, tt)
				}
				if r.ContentLength != int64(len(tt.body)) || r.TransferEncoding != nil {
					t.Errorf("got the length %d and the encoding %v, want %d", r.ContentLength,
						r.TransferEncoding, len(tt.body))
				}
				for _, name := range []string{clientHeader, secureHeader, "User-Agent",
					"Connection"} {
					if v := r.Header.Values(name); len(v) > 0 {
						t.Errorf("got the header %s: %q", name, v)
					}
				}
				if v := r.Header.Get("Idempotency-Key"); v != "order-7" {
					t.Errorf("got Idempotency-Key: %q", v)
				}
				if v := r.Header.Values("X-Many"); strings.Join(v, " ") != "one two" {
					t.Errorf("got X-Many: %q", v)
				}
				if host, _, err := net.SplitHostPort(r.RemoteAddr); host != "127.0.0.1" ||
					err != nil {
					t.Errorf("got the client %q, want the one at 127.0.0.1", r.RemoteAddr)
				}
				if (r.TLS != nil) != (name == "TLS") {
					t.Errorf("got TLS %v", r.TLS != nil)
				}
			})
		}
	}
}

// request makes a request as the edge has it.
func request(t *testing.T, method string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), method, "/", nil)
	r.RemoteAddr = "192.0.2.1:4711"
	return r
}

func text(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	res.Body.Close()
	return string(b)
}

// A request waits for an election, and passes over nodes that do not take it.
func TestHoldsForLeader(t *testing.T) {
	c := &cluster{t: t}
	gone := httptest.NewServer(nil)
	dead := gone.Listener.Addr().String()
	gone.Close()
	leader := node(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "done")
	})
	deposed := node(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(NotTaken, "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		c.leads(leader)
	})
	asked := 0
	f := c.forwarder(time.Minute)
	known := f.cfg.Leader
	f.cfg.Leader = func() (string, bool) {
		switch asked++; asked {
		case 3:
			c.leads(dead)
		case 5:
			c.leads(deposed)
		}
		return known()
	}
	res, err := f.Do(request(t, "POST"), []byte("body"))
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, res); got != "done" || asked < 6 {
		t.Errorf("got %q after %d looks for the leader", got, asked)
	}
}

// A request that waits for a leader ends when its own node becomes the leader.
func TestHere(t *testing.T) {
	c := &cluster{t: t}
	f := c.forwarder(time.Minute)
	asked := 0
	f.cfg.Here = func() bool { asked++; return asked == 3 }
	if _, err := f.Do(request(t, "POST"), nil); !errors.Is(err, ErrHere) {
		t.Errorf("got %v, want ErrHere", err)
	}
}

func TestNoLeader(t *testing.T) {
	c := &cluster{t: t}
	if _, err := c.forwarder(50*time.Millisecond).Do(request(t, "POST"), nil); !errors.Is(err,
		ErrNoLeader) {
		t.Errorf("got %v, want ErrNoLeader", err)
	}
	c.leads("127.0.0.1:1")
	_, err := c.forwarder(50*time.Millisecond).Do(request(t, "POST"), nil)
	if !errors.Is(err, ErrNoLeader) || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v, want ErrNoLeader and what was tried", err)
	}
}

// A leader that dies with a request has perhaps carried it out. It is not sent again, on a new
// connection or on one that was used before, whatever the method is.
func TestOutcomeUnknown(t *testing.T) {
	for _, method := range []string{"POST", "GET"} {
		for _, reused := range []bool{false, true} {
			t.Run(fmt.Sprint(method, " reused ", reused), func(t *testing.T) {
				c := &cluster{t: t}
				var requests atomic.Int64
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				go func() {
					for {
						conn, err := l.Accept()
						if err != nil {
							return
						}
						go func() {
							defer conn.Close()
							for in := bufio.NewReader(conn); ; {
								r, err := http.ReadRequest(in)
								if err != nil {
									return
								}
								_, _ = io.Copy(io.Discard, r.Body)
								if n := requests.Add(1); n > 1 || !reused {
									return // it dies
								}
								_, _ = io.WriteString(conn,
									"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
							}
						}()
					}
				}()
				c.leads(l.Addr().String())
				f := c.forwarder(time.Minute)
				want := int64(1)
				if reused {
					want = 2
					res, err := f.Do(request(t, method), nil)
					if err != nil {
						t.Fatal(err)
					}
					text(t, res)
				}
				r := request(t, method)
				r.Header.Set("Idempotency-Key", "1") // by which the transport would send it again
				r.Header.Set("X-Idempotency-Key", "1")
				if _, err := f.Do(r, nil); !errors.Is(err, ErrOutcomeUnknown) {
					t.Errorf("got %v, want ErrOutcomeUnknown", err)
				}
				if n := requests.Load(); n != want {
					t.Errorf("the leader got %d requests, want %d", n, want)
				}
			})
		}
	}
}

// A request to a leader that does not answer, and was replaced, has an unknown outcome and is not
// sent again. One that was not replaced may take its time.
func TestLeaderIsReplaced(t *testing.T) {
	c := &cluster{t: t}
	arrived, over := make(chan bool, 2), make(chan bool)
	c.leads(node(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- true
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}))
	go func() { <-arrived; c.leads("127.0.0.1:1") }()
	if _, err := c.forwarder(20*time.Millisecond).Do(request(t, "POST"), nil); !errors.Is(err,
		ErrOutcomeUnknown) {
		t.Errorf("got %v, want ErrOutcomeUnknown", err)
	}
	if len(arrived) > 0 {
		t.Error("the request was sent twice")
	}
	close(over)
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t}
		c.leads("a")
		f := c.forwarder(3 * time.Second)
		given := make(chan time.Time, 1)
		stop := f.watch("a", func() { given <- time.Now() })
		time.Sleep(time.Minute + time.Second)
		c.leads("b") // and back, as in an election that changes nothing
		time.Sleep(4 * time.Second)
		c.leads("a")
		time.Sleep(time.Minute)
		if len(given) > 0 {
			t.Errorf("given up at %v, although it leads", <-given)
		}
		c.leads("b")
		from := time.Now()
		if after := (<-given).Sub(from); after < 3*time.Second || after > 6*time.Second {
			t.Errorf("given up %v after it was replaced", after)
		}
		stop()
		f.watch("a", func() { t.Error("given up after its end") })()
		time.Sleep(time.Minute)
	})
}

// A stream of events ends when its leader was replaced and sends nothing more.
func TestLeaderIsReplacedDuringStream(t *testing.T) {
	c := &cluster{t: t}
	noticed := make(chan bool)
	c.leads(node(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(noticed)
	}))
	res, err := c.forwarder(20*time.Millisecond).Do(request(t, "GET"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	c.leads("127.0.0.1:1")
	if n, err := res.Body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("got %d bytes and %v, want context.Canceled", n, err)
	}
	<-noticed
}

// A client that goes away during a long poll is noticed by the leader.
func TestClientGone(t *testing.T) {
	c := &cluster{t: t}
	waiting, noticed := make(chan bool), make(chan bool)
	c.leads(node(t, func(_ http.ResponseWriter, r *http.Request) {
		waiting <- true
		<-r.Context().Done()
		close(noticed)
	}))
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-waiting; leave() }()
	if _, err := c.forwarder(time.Minute).Do(request(t, "POST").WithContext(ctx),
		nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	<-noticed
}

// However many requests wait, one at a time tries a node again that has not taken one. All may ask
// when that one is taken, or takes longer than a refusal does.
func TestRefusalIsTriedByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Config{})
		mayAsk := func(address string) (n int) {
			for range 100 {
				if f.mayAsk(address) {
					n++
				}
			}
			return n
		}
		refuse := func() { f.refused.Store(&refusal{address: "a", until: time.Now().Add(lookAt)}) }
		want := func(what string, got, want int) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %d of 100 may ask, want %d", what, got, want)
			}
		}
		want("at first", mayAsk("a"), 100)
		refuse()
		want("after a refusal", mayAsk("a"), 0)
		want("another node", mayAsk("b"), 100)
		time.Sleep(lookAt)
		want("later", mayAsk("a"), 1)
		refuse()
		want("after another refusal", mayAsk("a"), 0)
		time.Sleep(lookAt)
		want("later again", mayAsk("a"), 1)
		time.Sleep(lookAt)
		want("without another refusal", mayAsk("a"), 100)
	})
}

// A request that another node forwards cannot take over the connection, on which the next one is of
// another client. Deadlines work as without.
func TestConnectionStays(t *testing.T) {
	c := &cluster{t: t}
	errs := make(chan error, 3)
	c.leads(node(t, func(w http.ResponseWriter, _ *http.Request) {
		control := http.NewResponseController(w)
		_, _, err := control.Hijack()
		errs <- err
		errs <- errors.Join(control.SetReadDeadline(time.Now().Add(time.Hour)),
			control.SetWriteDeadline(time.Now().Add(time.Hour)))
		errs <- control.Flush()
	}))
	res, err := c.forwarder(time.Second).Do(request(t, "POST"), nil)
	if err != nil {
		t.Fatal(err)
	}
	text(t, res)
	if err := <-errs; !errors.Is(err, http.ErrNotSupported) {
		t.Errorf("taking over: got %v, want ErrNotSupported", err)
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Error(err)
	}
}
