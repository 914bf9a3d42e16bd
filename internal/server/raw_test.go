package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// Bytes on a TCP connection, as the shipped server answers them: anything that can be understood as
// a request gets an answer with an id, whatever is wrong with it. [WIRE-18, WIRE-21, WIRE-24,
// WIRE-26, WIRE-32]
func TestRawRequests(t *testing.T) {
	s, stop := run(t, config(t))
	defer stop()
	head := "POST / HTTP/1.1\r\nHost: " + s.Addr() + "\r\nContent-Type: application/x-amz-json-1.0\r\nX-Amz-Target: AmazonSQS.ListQueues\r\n"
	for _, c := range []struct {
		name, request string
		status        int
		id            bool
	}{
		{"legal", head + "Content-Length: 2\r\n\r\n{}", 200, true},
		{"chunks", head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 200, true},
		{"length and chunks", head + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400, true},
		{"not found", strings.Replace(head, "POST / ", "POST /a/b/c ", 1) + "Content-Length: 2\r\n\r\n{}", 404, true},
		{"OPTIONS of everything", "OPTIONS * HTTP/1.1\r\nHost: " + s.Addr() + "\r\n\r\n", 404, true},
		{"too long", head + "Content-Length: " + strconv.Itoa(8<<20+1) + "\r\n\r\n", 413, true},
		{"large headers", head + "X-A: " + strings.Repeat("x", 100<<10) + "\r\nContent-Length: 2\r\n\r\n{}", 431, true},
		{"very large headers", head + "X-A: " + strings.Repeat("x", 1<<20) + "\r\nContent-Length: 2\r\n\r\n{}", 431, false},
		{"two lengths", head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400, false},
	} {
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		go io.WriteString(conn, c.request)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if id := resp.Header.Get("X-Amzn-Requestid"); resp.StatusCode != c.status || (id != "") != c.id {
			t.Errorf("%s: got %d with the request id %q, want %d, and an id: %v", c.name, resp.StatusCode, id, c.status, c.id)
		}
		conn.Close()
	}
}

// Line ends in what a client names, as they are or escaped, are refused or escaped again: no answer
// is split into two or gets a header of the client's, and no line of the log is the client's.
// [WIRE-18, WIRE-24]
func TestLineEndsInNames(t *testing.T) {
	var logged bytes.Buffer
	cfg := config(t)
	cfg.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, stop := run(t, cfg)
	const mark = "X-Forged: 1"
	request := func(line, headers, body string) string {
		return line + " HTTP/1.1\r\nHost: " + s.Addr() + "\r\n" + headers + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	target := func(action, body string) string {
		return request("POST /", "Content-Type: application/x-amz-json-1.0\r\nX-Amz-Target: AmazonSQS."+action+"\r\n", body)
	}
	form := func(body string) string {
		return request("POST /", "Content-Type: application/x-www-form-urlencoded\r\n", body)
	}
	plain := func(path, body string) string {
		return request("POST "+path, "Content-Type: application/json\r\n", body)
	}
	type ask struct {
		name, request string
		refused       bool
	}
	var cases []ask
	for what, end := range map[string]string{"CR": "\r", "LF": "\n", "CR and LF": "\r\n", "an answer": "\r\n\r\nHTTP/1.1 200 OK\r\n"} {
		name := "a" + end + mark
		b, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		text, escaped, head := string(b), url.PathEscape(name), request("GET /v1/queues", "", "")
		for _, c := range []ask{
			{"in a path", strings.Replace(head, "/v1/queues", "/v1/queues/"+name, 1), true},
			{"in a method", strings.Replace(head, "GET", "GET"+name, 1), true},
			{"in a version", strings.Replace(head, "HTTP/1.1", "HTTP/1.1"+name, 1), true},
			{"escaped in a path", request("GET /"+escaped, "", ""), true},
			{"escaped in a path of /v1", request("GET /v1/queues/"+escaped, "", ""), true},
			{"escaped in a path of the console", request("GET /console/"+escaped, "", ""), true},
			{"escaped in the path of a queue", request("GET /000000000000/"+escaped+"?Action=PurgeQueue", "", ""), true},
			{"escaped in a query", request("GET /?Action=CreateQueue&QueueName="+escaped, "", ""), true},
			{"escaped in an action", request("GET /?Action="+escaped, "", ""), true},
			{"escaped in a host", strings.Replace(head, "Host: ", "Host: "+escaped, 1), true},
			{"in a form", form("Action=CreateQueue&QueueName=" + escaped), true},
			{"in JSON", target("CreateQueue", `{"QueueName":`+text+`}`), true},
			{"in the URL of a queue", target("SendMessage", `{"MessageBody":"x","QueueUrl":`+text+`}`), true},
			{"in JSON of /v1", plain("/v1/do/CreateQueue", `{"QueueName":`+text+`}`), true},
			{"in the id of a task", plain("/v1/tasks/"+escaped+"/cancel", `{}`), true},
			{"in a reason", plain("/v1/alarms/silence", `{"match":"*","for":"1h","reason":`+text+`}`), false},
		} {
			cases = append(cases, ask{what + " " + c.name, c.request, c.refused})
		}
	}
	for _, name := range []string{"Host", "User-Agent", "Content-Type", "X-Amz-Target", "X-Amzn-Trace-Id", "Origin", "Cookie", "Authorization"} {
		for _, whole := range []string{request("GET /v1/queues", "", ""), target("ListQueues", "{}")} { // of net/http, and of http1
			with := func(line string, refused bool) ask {
				return ask{strconv.Quote(line), strings.Replace(whole, "\r\nHost", "\r\n"+line+"\r\nHost", 1), refused}
			}
			cases = append(cases, with(name+": a\r"+mark, true), with(name+"\r"+mark, true), with(name+"\n: a", true),
				with(name+": a\r\n "+mark, false), with(name+": a\n"+mark, false)) // one line, folded, and two
		}
	}
	for _, c := range cases {
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		go io.WriteString(conn, c.request)
		answers := bufio.NewReader(conn)
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || c.refused && (resp.StatusCode < 400 || resp.StatusCode > 499) {
			t.Errorf("%s: got %d %s %v, want a refusal", c.name, resp.StatusCode, body, err)
		}
		if forged := resp.Header["X-Forged"]; forged != nil {
			t.Errorf("%s: the answer has the header %q", c.name, forged)
		}
		if !resp.Close { // what comes next is the answer to the next request
			go io.WriteString(conn, request("GET /v1/queues", "Connection: close\r\n", ""))
			if resp, err = http.ReadResponse(answers, nil); err != nil || resp.Header.Get("Tenaq-Api") == "" {
				t.Errorf("%s: then got %v, %v", c.name, resp, err)
			} else if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Errorf("%s: then got %v", c.name, err)
			}
		}
		if more, err := io.ReadAll(answers); err != nil || len(more) > 0 {
			t.Errorf("%s: behind the answer is %q, %v", c.name, more, err)
		}
		conn.Close()
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(logged.String()) {
		if !strings.HasPrefix(line, "time=") {
			t.Errorf("the log has the line %q", line)
		}
	}
}
