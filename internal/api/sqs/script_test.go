package sqs

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"tenaq/internal/kv"
)

// TestScripts runs the scripts in testdata. Each is one server on an empty store, at midnight of
// the first day of 2000, and a twin of it that is asked the same things at the same time in the
// Query protocol. The commands:
//
//	call ACTION [trace=TEXT] [path=PATH] [invocation=ID] [attempt=N]
//
// sends the input as the body of a request and prints status, query error and body of the answer.
// The answer in the Query protocol must say the same, unless the request can only be said in JSON.
// Invocation and attempt are the headers of the SDKs of AWS about the attempts of a call.
//
//	both ACTION [trace=TEXT] [path=PATH]
//
// does so and prints the request and the answer in the Query protocol too.
//
//	http
//
// sends the input as it stands, request line and headers and after an empty line the body, and
// prints the whole answer. Lines end as HTTP wants; Content-Length is supplied unless the request
// has it, and a body that is said to be chunked is sent in chunks.
//
//	get PATH [host=HOST] [origin=ORIGIN] [method=METHOD]
//
// asks for something under /v1 and prints the status and the body of the answer. Places to continue
// from appear as p1, p2 and so on.
//
//	begin NAME ACTION / end NAME / leave NAME
//
// do the same as call in two steps; leave closes the connection instead of reading the answer.
//
//	queues NAME... / advance DURATION / drain
//	server [account=A] [public-url=U] [hosts=H,...|any] [in-flight-max=N] [queue-max=N] [purge-interval=D] [recreate-delay=D] [full] [keys]
//	restart
//
// create queues, let time pass, ask the broker to drain, begin again with another server, or stop
// this one and start it again with the settings and the store that it has.
//
//	as NAME
//
// signs the calls from now on with a key of scriptKeys, or with none when NAME is nobody. The
// server must have been begun with keys.
//
// In input <x*1000> stands for a thousand letters x. See masks for the names m1, r1 and t1.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("scripts: %v, %v", paths, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := new(script)
				s.begin(settings{hosts: []string{}})
				// The server takes half a second to close a connection whose request it did not
				// read.
				defer func() { s.stop(); time.Sleep(time.Second) }()
				datadriven.RunTest(t, path, s.run)
			})
		})
	}
}

// A script is a world and what has happened in it, and its twin.
type script struct {
	*side
	twin    *side
	chosen  settings
	stores  [2]kv.Store
	ids     sync.Map // of requests
	waiting map[string]*waiter
	as      string // whose key calls are signed with; empty for none
}

// A side is one of the two worlds.
type side struct {
	*world
	*masks
}

// A waiter is a call between begin and end.
type waiter struct {
	conns [2]net.Conn
	done  chan pair
}

func (s *script) begin(c settings) {
	s.chosen, s.stores = c, [2]kv.Store{kv.NewMemory(), kv.NewMemory()}
	s.side, s.twin = &side{s.open(0), newMasks()}, &side{s.open(1), newMasks()}
	s.waiting, s.as = map[string]*waiter{}, ""
}

// open starts one of the two worlds on its store.
func (s *script) open(i int) *world {
	c := s.chosen
	c.store = s.stores[i]
	return newWorld(c)
}

func (s *script) stop() {
	s.side.stop()
	s.twin.stop()
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	input := expand(d.Input)
	switch d.Cmd {
	case "call":
		return s.ask(t, d, input).String()
	case "both":
		return s.ask(t, d, input).both()
	case "http":
		s.twin.http(t, d, s.twin.show(input), &s.ids)
		return s.http(t, d, s.show(input), &s.ids)
	case "get":
		return s.get(t, d)
	case "post":
		return s.post(t, d, input)
	case "begin":
		w := &waiter{conns: [2]net.Conn{s.listener.dial(), s.twin.listener.dial()}, done: make(chan pair, 1)}
		s.waiting[d.CmdArgs[0].Key] = w
		go func() { w.done <- s.askOn(t, w.conns, d.CmdArgs[1].Key, "", input) }()
		synctest.Wait()
		return ""
	case "end":
		synctest.Wait()
		select {
		case answer := <-s.waiting[d.CmdArgs[0].Key].done:
			return s.settle(t, answer).String()
		default:
			return "waits\n"
		}
	case "leave":
		for _, conn := range s.waiting[d.CmdArgs[0].Key].conns {
			conn.Close()
		}
		synctest.Wait()
		return ""
	case "queues":
		for _, arg := range d.CmdArgs {
			conns := [2]net.Conn{s.listener.dial(), s.twin.listener.dial()}
			if got := s.askOn(t, conns, "CreateQueue", "", `{"QueueName":"`+arg.Key+`"}`); got.json.status != http.StatusOK {
				d.Fatalf(t, "queue %s: %s", arg.Key, got)
			}
		}
		return ""
	case "advance":
		length, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		time.Sleep(length)
		synctest.Wait()
		return ""
	case "as":
		s.as = d.CmdArgs[0].Key
		if _, ok := scriptKeys[s.as]; !ok && s.as != "nobody" {
			d.Fatalf(t, "there is no key of %s", s.as)
		} else if !ok {
			s.as = ""
		}
		return ""
	case "drain":
		s.broker.Drain()
		s.twin.broker.Drain()
		return ""
	case "server":
		s.stop()
		s.begin(readSettings(t, d))
		return ""
	case "restart":
		s.stop()
		s.side.world, s.twin.world = s.open(0), s.open(1)
		return ""
	}
	d.Fatalf(t, "unknown command %q", d.Cmd)
	return ""
}

func readSettings(t *testing.T, d *datadriven.TestData) settings {
	c := settings{hosts: []string{}, refuse: d.HasArg("full")}
	if d.HasArg("keys") {
		c.sqs.Door = scriptDoor(t)
	}
	d.MaybeScanArgs(t, "account", &c.account)
	d.MaybeScanArgs(t, "public-url", &c.sqs.PublicURL)
	for _, arg := range d.CmdArgs {
		if arg.Key == "hosts" {
			c.hosts = arg.Vals
			if arg.Vals[0] == "any" {
				c.hosts = nil
			}
		}
	}
	d.MaybeScanArgs(t, "in-flight-max", &c.engine.InFlightMax)
	d.MaybeScanArgs(t, "queue-max", &c.queue)
	interval := func(name string, ms *int64) {
		var text string
		if d.MaybeScanArgs(t, name, &text) {
			length, err := time.ParseDuration(text)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			*ms = length.Milliseconds()
		}
	}
	interval("purge-interval", &c.engine.PurgeInterval)
	interval("recreate-delay", &c.engine.RecreateDelay)
	return c
}

// http does the command of that name.
func (s *side) http(t *testing.T, d *datadriven.TestData, input string, ids *sync.Map) string {
	head, body, _ := strings.Cut(input, "\n\n")
	lower := strings.ToLower(head)
	switch {
	case strings.Contains(lower, "transfer-encoding: chunked"):
		body = chunked(body)
	case !strings.Contains(lower, "content-length:") && body != "":
		head += "\nContent-Length: " + strconv.Itoa(len(body))
	}
	method, _, _ := strings.Cut(head, " ")
	conn := s.listener.dial()
	defer conn.Close()
	raw, resp, text, err := exchange(conn, method, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n\r\n"+body)
	if err != nil {
		d.Fatalf(t, "%v after %q", err, raw)
	}
	if method != http.MethodHead {
		checkHeaders(t, resp, text, ids)
	}
	raw = requestIDPattern.ReplaceAllString(raw, "${1}<id>")
	return s.hide(strings.ReplaceAll(raw, "\r\n", "\n")) + "\n"
}

var requestIDPattern = regexp.MustCompile(`(x-amzn-RequestId: |<RequestId>|"RequestId":")` + uuidPattern.String())

func chunked(body string) string {
	var b strings.Builder
	for size := max(7, len(body)/100); len(body) > 0; {
		n := min(size, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}

var repeatPattern = regexp.MustCompile(`<(.)\*([0-9]+)>`)

// expand writes out repetitions.
func expand(s string) string {
	return repeatPattern.ReplaceAllStringFunc(s, func(m string) string {
		part := repeatPattern.FindStringSubmatch(m)
		n, _ := strconv.Atoi(part[2])
		return strings.Repeat(part[1], n)
	})
}
