package sqs

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// A hostile request is sent byte for byte and must end as it says.
type hostile struct {
	name    string
	request string
	status  int
	code    string // of the error; empty for success
	plain   bool   // package http answers by itself: it has not found a request to give an id to
	closes  bool   // the connection
}

// withBody puts a length and a body after the lines of a head.
func withBody(head, body string) string {
	return head + "Content-Length: " + itoa(len(body)) + "\r\n\r\n" + body
}

const (
	jsonHead = "POST / HTTP/1.1\r\nHost: " + host + "\r\nContent-Type: application/x-amz-json-1.0\r\n"
	formHead = "POST / HTTP/1.1\r\nHost: " + host + "\r\nContent-Type: application/x-www-form-urlencoded\r\n"
	target   = "X-Amz-Target: AmazonSQS."
	send     = `{"QueueUrl":"q","MessageBody":"x"}`
	sendForm = "Action=SendMessage&QueueUrl=q&MessageBody=x"
)

// run sends each of the requests to a server with one queue, called q, and then looks whether any
// has changed something although it was refused.
func run(t *testing.T, sends int, cases []hostile) {
	t.Helper()
	inBubble(t, settings{hosts: []string{}}, func(t *testing.T, w *world) {
		var ids sync.Map
		ask := func(action, body string) string {
			conn := w.listener.dial()
			defer conn.Close()
			_, _, answer, err := exchange(conn, "POST", request("AmazonSQS."+action, body))
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
		ask("CreateQueue", `{"QueueName":"q"}`)
		for _, c := range cases {
			conn := w.listener.dial()
			go io.WriteString(conn, c.request)
			r := bufio.NewReader(conn)
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Errorf("%s: no answer: %v", c.name, err)
				conn.Close()
				continue
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			code, _, _ := strings.Cut(resp.Header.Get("X-Amzn-Query-Error"), ";")
			if resp.StatusCode != c.status || code != c.code {
				t.Errorf("%s: got %d %s: %.300s, want %d %s", c.name, resp.StatusCode, code, body, c.status, c.code)
			}
			if !c.plain {
				checkHeaders(t, resp, string(body), &ids)
			} else if id := resp.Header.Get("X-Amzn-Requestid"); id != "" {
				t.Errorf("%s: got the request id %s, want an answer of package http", c.name, id)
			}
			// A connection whose bytes may be misunderstood takes no other request.
			conn.SetReadDeadline(time.Now().Add(time.Second))
			_, err = r.ReadByte()
			if closed := !errors.Is(err, os.ErrDeadlineExceeded); closed != c.closes {
				t.Errorf("%s: closed %v (%v), want %v", c.name, closed, err, c.closes)
			}
			conn.Close()
		}
		if got, want := ask("ListQueues", "{}"), `{"QueueUrls":["http://`+host+`/`+account+`/q"]}`; got != want {
			t.Errorf("afterwards there are the queues %s, want %s", got, want)
		}
		got := ask("GetQueueAttributes", `{"QueueUrl":"q","AttributeNames":["ApproximateNumberOfMessages"]}`)
		if want := `{"Attributes":{"ApproximateNumberOfMessages":"` + itoa(sends) + `"}}`; got != want {
			t.Errorf("afterwards the queue has %s, want %s", got, want)
		}
	})
}

// A request is read in one way, the one that its first line and its headers say, or not at all.
// [WIRE-2, WIRE-6, WIRE-24, WIRE-25, XML-1, XML-31, XML-36, ERR-8]
func TestOneReading(t *testing.T) {
	run(t, 2, []hostile{
		{name: "JSON that calls itself a form", request: withBody(formHead, send), status: 404, code: "InvalidAction"},
		{name: "form that calls itself JSON", request: withBody(jsonHead+target+"SendMessage\r\n", sendForm), status: 400, code: "MalformedInput"},
		{name: "form that calls itself JSON, without a target", request: withBody(jsonHead, sendForm), status: 400, code: "InvalidAction"},
		{name: "form with a target", request: withBody(formHead+target+"ListQueues\r\n", sendForm), status: 404, code: "InvalidAction"},
		{name: "JSON form with a target", request: withBody(formHead+target+"SendMessage\r\n", send), status: 404, code: "InvalidAction"},
		{name: "form with an empty target", request: withBody(formHead+"X-Amz-Target:\r\n", sendForm), status: 404, code: "InvalidAction"},
		{name: "GET with a target", request: "GET /?Action=ListQueues HTTP/1.1\r\nHost: " + host + "\r\n" + target + "ListQueues\r\n\r\n", status: 404, code: "InvalidAction"},
		{name: "two targets", request: withBody(jsonHead+target+"SendMessage\r\n"+target+"ListQueues\r\n", send), status: 400, code: "InvalidAction"},
		{name: "the same target twice", request: withBody(jsonHead+target+"SendMessage\r\n"+target+"SendMessage\r\n", send), status: 400, code: "InvalidAction"},
		{name: "two targets in one line", request: withBody(jsonHead+target+"SendMessage, AmazonSQS.ListQueues\r\n", send), status: 400, code: "InvalidAction"},
		{name: "target of another service", request: withBody(jsonHead+"X-Amz-Target: DynamoDB_20120810.ListTables\r\n", "{}"), status: 400, code: "InvalidAction"},
		{name: "two content types", request: withBody(jsonHead+target+"SendMessage\r\nContent-Type: application/x-www-form-urlencoded\r\n", send), status: 404, code: "InvalidAction"},
		{name: "two content types in one line", request: withBody(
			"POST / HTTP/1.1\r\nHost: "+host+"\r\nContent-Type: application/x-www-form-urlencoded, application/x-amz-json-1.0\r\n", sendForm), status: 404, code: "InvalidAction"},
		{name: "Action in the address of JSON", request: withBody(
			strings.Replace(jsonHead, "POST /", "POST /?Action=SendMessage&QueueUrl=q&MessageBody=x", 1)+target+"ListQueues\r\n", "{}"), status: 200},
		{name: "Action in the address and in the form", request: withBody(strings.Replace(formHead, "POST /", "POST /?Action=ListQueues", 1), sendForm), status: 400, code: "MalformedInput"},
		{name: "the same Action in both", request: withBody(strings.Replace(formHead, "POST /", "POST /?Action=SendMessage", 1), sendForm), status: 400, code: "MalformedInput"},
		{name: "Action twice", request: withBody(formHead, sendForm+"&Action=ListQueues"), status: 400, code: "MalformedInput"},
		{name: "Action twice, once escaped", request: withBody(formHead, sendForm+"&%41ction=ListQueues"), status: 400, code: "MalformedInput"},
		{name: "a queue twice", request: withBody(formHead, sendForm+"&QueueUrl=other"), status: 400, code: "MalformedInput"},
		{name: "a body twice", request: withBody(formHead, sendForm+"&MessageBody=y"), status: 400, code: "MalformedInput"},
		{name: "action in lower case", request: withBody(formHead, "action=SendMessage&QueueUrl=q&MessageBody=x"), status: 404, code: "InvalidAction"},
		{name: "semicolons for ampersands", request: withBody(formHead, "Action=SendMessage;QueueUrl=q;MessageBody=x"), status: 400, code: "InvalidAction"},
		{name: "GET with a form behind it", request: withBody("GET /?Action=ListQueues HTTP/1.1\r\nHost: "+host+"\r\nContent-Type: application/x-www-form-urlencoded\r\n", sendForm), status: 200},
		{name: "charset of a form is ignored", request: withBody(strings.Replace(formHead, "urlencoded", "urlencoded; charset=utf-16", 1), sendForm), status: 200},
		{name: "charset of JSON is ignored", request: withBody(strings.Replace(jsonHead, "1.0\r\n", "1.0; charset=utf-16\r\n", 1)+target+"SendMessage\r\n", send), status: 200},
		{name: "JSON in UTF-16", request: withBody(jsonHead+target+"SendMessage\r\n", "\xff\xfe{\x00}\x00"), status: 400, code: "MalformedInput"},
		{name: "JSON behind a byte order mark", request: withBody(jsonHead+target+"SendMessage\r\n", "\ufeff"+send), status: 400, code: "MalformedInput"},
		{name: "compressed JSON", request: withBody(jsonHead+target+"SendMessage\r\nContent-Encoding: gzip\r\n", "\x1f\x8b\x08\x00\x00\x00\x00\x00"), status: 400, code: "MalformedInput"},
		{name: "multipart form", request: withBody(strings.Replace(formHead, "application/x-www-form-urlencoded", "multipart/form-data; boundary=b", 1),
			"--b\r\nContent-Disposition: form-data; name=\"Action\"\r\n\r\nListQueues\r\n--b--\r\n"), status: 404, code: "InvalidAction"},
		{name: "method override", request: withBody(jsonHead+target+"ListQueues\r\nX-HTTP-Method-Override: DELETE\r\n", "{}"), status: 200},
		{name: "an action under /v1 is one of SQS", request: withBody(strings.Replace(formHead, "POST /", "POST /v1/queues?Action=ListQueueTags", 1), ""), status: 400, code: "AWS.SimpleQueueService.NonExistentQueue"},
		{name: "and so is one in JSON", request: withBody(strings.Replace(jsonHead, "POST /", "POST /v1/queues", 1)+target+"ListQueueTags\r\n", `{"QueueUrl":"none"}`), status: 400, code: "AWS.SimpleQueueService.NonExistentQueue"},
	})
}

// Malformed HTTP is refused before it is interpreted, and a request that two servers could read in
// two ways closes the connection. [WIRE-18, WIRE-21, WIRE-23, WIRE-24, WIRE-26]
func TestHostileHTTP(t *testing.T) {
	sendHead := jsonHead + target + "SendMessage\r\n"
	listHead := jsonHead + target + "ListQueues\r\n"
	chunks := "Transfer-Encoding: chunked\r\n\r\n"
	first := func(line string) string {
		return withBody(strings.Replace(listHead, "POST / HTTP/1.1", line, 1), "{}")
	}
	run(t, 2, []hostile{
		{name: "length and chunks", request: sendHead + "Content-Length: 5\r\n" + chunks + "22\r\n" + send + "\r\n0\r\n\r\n", status: 400, code: "MalformedInput", closes: true},
		{name: "length and chunks, the other way round", request: sendHead + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n22\r\n" + send + "\r\n0\r\n\r\n", status: 400, code: "MalformedInput", closes: true},
		{name: "length and chunks in another case", request: sendHead + "content-length:5\r\nTRANSFER-ENCODING: chunked\r\n\r\n22\r\n" + send + "\r\n0\r\n\r\n", status: 400, code: "MalformedInput", closes: true},
		{name: "length and chunks of HTTP/1.0", request: strings.Replace(sendHead, "HTTP/1.1", "HTTP/1.0", 1) + "Content-Length: 34\r\n" + chunks + send, status: 400, code: "MalformedInput", closes: true},
		{name: "chunks with a length in them", request: sendHead + chunks + "22\r\n" + send + "\r\n2\r\n\r\n\r\n0\r\nContent-Length: 1\r\n\r\n", status: 200},
		{name: "two lengths", request: sendHead + "Content-Length: 34\r\nContent-Length: 2\r\n\r\n" + send, status: 400, plain: true, closes: true},
		{name: "two lengths in one line", request: sendHead + "Content-Length: 34, 2\r\n\r\n" + send, status: 400, plain: true, closes: true},
		{name: "negative length", request: sendHead + "Content-Length: -1\r\n\r\n" + send, status: 400, plain: true, closes: true},
		{name: "length with a sign", request: sendHead + "Content-Length: +34\r\n\r\n" + send, status: 400, plain: true, closes: true},
		{name: "length in hexadecimal", request: sendHead + "Content-Length: 0x22\r\n\r\n" + send, status: 400, plain: true, closes: true},
		{name: "length of 400 digits", request: sendHead + "Content-Length: " + strings.Repeat("9", 400) + "\r\n\r\n" + send, status: 400, plain: true, closes: true},
		{name: "length over the limit", request: sendHead + "Content-Length: 8388609\r\n\r\n" + send, status: 413, code: "MalformedInput", closes: true},
		{name: "chunked twice", request: sendHead + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n22\r\n" + send + "\r\n0\r\n\r\n", status: 501, plain: true, closes: true},
		{name: "chunked, chunked", request: sendHead + "Transfer-Encoding: chunked, chunked\r\n\r\n22\r\n" + send + "\r\n0\r\n\r\n", status: 501, plain: true, closes: true},
		{name: "another coding", request: sendHead + "Transfer-Encoding: gzip\r\n\r\n" + send, status: 501, plain: true, closes: true},
		{name: "a coding that looks like chunked", request: sendHead + "Transfer-Encoding: xchunked\r\n\r\n" + send, status: 501, plain: true, closes: true},
		{name: "chunk extension", request: sendHead + chunks + "22;name=value\r\n" + send + "\r\n0\r\n\r\n", status: 200},
		{name: "chunk that says too little", request: sendHead + chunks + "21\r\n" + send + "\r\n0\r\n\r\n", status: 400, code: "MalformedInput", closes: true},
		{name: "chunk with a sign", request: sendHead + chunks + "-1\r\n" + send + "\r\n0\r\n\r\n", status: 400, code: "MalformedInput", closes: true},
		{name: "chunk that is endless", request: sendHead + chunks + "ffffffffffffffffff\r\n" + send + "\r\n0\r\n\r\n", status: 400, code: "MalformedInput", closes: true},
		{name: "bare line feed behind a chunk size", request: sendHead + chunks + "22\n" + send + "\r\n0\r\n\r\n", status: 400, code: "MalformedInput", closes: true},
		{name: "no chunks", request: sendHead + chunks + "0\r\n\r\n", status: 400, code: "MalformedInput"},

		{name: "blank behind the name of a header", request: withBody(strings.Replace(listHead, "X-Amz-Target:", "X-Amz-Target :", 1), "{}"), status: 400, plain: true, closes: true},
		{name: "high bytes in the name of a header", request: withBody(listHead+"X-\xff: 1\r\n", "{}"), status: 400, plain: true, closes: true},
		{name: "NUL in the name of a header", request: withBody(listHead+"X-\x00: 1\r\n", "{}"), status: 400, plain: true, closes: true},
		{name: "brackets in the name of a header", request: withBody(listHead+"X(a): 1\r\n", "{}"), status: 400, plain: true, closes: true},
		{name: "NUL in a header", request: withBody(listHead+"X-A: \x00\r\n", "{}"), status: 400, plain: true, closes: true},
		{name: "high bytes in a header", request: withBody(listHead+"X-A: \xff\xfe\r\n", "{}"), status: 200},
		{name: "header without a colon", request: withBody(listHead+"X-A\r\n", "{}"), status: 400, plain: true, closes: true},
		{name: "header without a name", request: withBody(listHead+": 1\r\n", "{}"), status: 400, plain: true, closes: true},
		{name: "no host", request: "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", status: 400, plain: true, closes: true},
		{name: "two hosts", request: withBody(listHead+"Host: evil.example.com\r\n", "{}"), status: 400, plain: true, closes: true},
		{name: "odd bytes in the host", request: "POST / HTTP/1.1\r\nHost: local\x00host\r\n\r\n", status: 400, plain: true, closes: true},

		{name: "HTTP/1.0", request: first("POST / HTTP/1.0"), status: 200, closes: true},
		{name: "HTTP/1.0 without a host", request: "POST / HTTP/1.0\r\nContent-Length: 0\r\n\r\n", status: 403, code: "AccessDenied", closes: true},
		{name: "HTTP/0.9", request: "GET /\r\n\r\n", status: 400, plain: true, closes: true},
		{name: "HTTP/2 without its start", request: first("POST / HTTP/2.0"), status: 505, plain: true, closes: true},
		{name: "HTTP/9.9", request: first("POST / HTTP/9.9"), status: 505, plain: true, closes: true},
		{name: "no HTTP", request: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", status: 400, plain: true, closes: true},
		{name: "method in lower case", request: first("post / HTTP/1.1"), status: 404, code: "InvalidAction"},
		{name: "unknown method", request: first("SEND / HTTP/1.1"), status: 404, code: "InvalidAction"},
		{name: "TRACE", request: "TRACE / HTTP/1.1\r\nHost: " + host + "\r\n\r\n", status: 404, code: "InvalidAction"},
		{name: "OPTIONS of everything", request: "OPTIONS * HTTP/1.1\r\nHost: " + host + "\r\n\r\n", status: 404, code: "InvalidAction"},
		{name: "CONNECT", request: "CONNECT " + host + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n", status: 404, code: "InvalidAction"},

		{name: "whole address", request: first("POST http://localhost:9324/ HTTP/1.1"), status: 200},
		{name: "whole address of another host", request: first("POST http://evil.example.com/ HTTP/1.1"), status: 403, code: "AccessDenied"},
		{name: "user in an address", request: first("POST http://user:password@localhost:9324/ HTTP/1.1"), status: 200},
		{name: "two slashes", request: first("POST // HTTP/1.1"), status: 200},
		{name: "dots", request: first("POST /../ HTTP/1.1"), status: 200},
		{name: "dots behind a queue", request: first("POST /000000000000/q/../.. HTTP/1.1"), status: 404, code: "InvalidAction"},
		{name: "escaped dots", request: first("POST /%2e%2e/%2e%2e HTTP/1.1"), status: 200},
		{name: "escaped slash", request: first("POST /000000000000%2fq%2fa HTTP/1.1"), status: 404, code: "InvalidAction"},
		{name: "escaped NUL", request: first("POST /%00 HTTP/1.1"), status: 200},
		{name: "broken escape", request: first("POST /%zz HTTP/1.1"), status: 400, plain: true, closes: true},
		{name: "no slash", request: first("POST queue HTTP/1.1"), status: 400, plain: true, closes: true},
		{name: "long path", request: first("POST /" + strings.Repeat("x", 60<<10) + " HTTP/1.1"), status: 200},
		{name: "path over the limit", request: first("POST /" + strings.Repeat("x", 65<<10) + " HTTP/1.1"), status: 431, code: "MalformedInput"},
		{name: "a large header", request: withBody(listHead+"X-A: "+strings.Repeat("x", 60<<10)+"\r\n", "{}"), status: 200},
		{name: "header over the limit", request: withBody(listHead+"X-A: "+strings.Repeat("x", 64<<10)+"\r\n", "{}"), status: 431, code: "MalformedInput"},
		{name: "headers over the limit", request: withBody(listHead+strings.Repeat("X-A: x\r\n", 10_000), "{}"), status: 431, code: "MalformedInput"},
		{name: "many headers", request: withBody(listHead+strings.Repeat("X-A: x\r\n", 5_000), "{}"), status: 200},
		{name: "more than anybody reads", request: withBody(listHead+"X-A: "+strings.Repeat("x", 300<<10)+"\r\n", "{}"), status: 431, plain: true, closes: true},
	})
}

// JSON is refused if parsers disagree about it or if it costs too much to read; odd but legal JSON
// is read as it says. [WIRE-4, WIRE-6, WIRE-7, WIRE-8, WIRE-10, SEND-2]
func TestHostileJSON(t *testing.T) {
	ask := func(action, body string) string { return withBody(jsonHead+target+action+"\r\n", body) }
	wide := `"` + strings.Repeat("x", 1000) + `"`
	var cases []hostile
	refused := func(name, action, body, code string) {
		cases = append(cases, hostile{name: name, request: ask(action, body), status: 400, code: code})
	}
	malformed := func(name, body string) { refused(name, "SendMessage", body, "MalformedInput") }
	taken := func(name, action, body string) {
		cases = append(cases, hostile{name: name, request: ask(action, body), status: 200})
	}
	malformed("lists of 10,000 levels", strings.Repeat("[", 10_000))
	malformed("objects of 10,000 levels", strings.Repeat(`{"a":`, 10_000))
	malformed("lists of 10,000 levels in a member that nobody knows", `{"QueueUrl":"q","MessageBody":"x","a":`+strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000)+`}`)
	malformed("33 levels", `{"QueueUrl":"q","MessageBody":"x","a":`+strings.Repeat("[", 32)+strings.Repeat("]", 32)+`}`)
	malformed("a million levels", strings.Repeat("[", 1_000_000))
	malformed("10,000 members", `{"QueueUrl":"q","MessageBody":"x"`+strings.Repeat(`,"a":1`, 10_000)+`}`)
	malformed("10 million elements", `{"a":[`+strings.Repeat("1,", 4_000_000)+`1]}`)
	malformed("the same member twice", `{"QueueUrl":"q","MessageBody":"x","MessageBody":"y"}`)
	malformed("the same member twice, once escaped", `{"QueueUrl":"q","MessageBody":"x","\u004dessageBody":"y"}`)
	malformed("the same member twice, once null", `{"QueueUrl":"q","MessageBody":null,"MessageBody":"x"}`)
	malformed("the same attribute twice", `{"QueueUrl":"q","MessageBody":"x","MessageAttributes":{"a":{"DataType":"String","StringValue":"x"},"a":{"DataType":"String","StringValue":"y"}}}`)
	malformed("invalid UTF-8", "{\"QueueUrl\":\"q\",\"MessageBody\":\"\xff\"}")
	malformed("overlong UTF-8", "{\"QueueUrl\":\"q\",\"MessageBody\":\"\xc0\x80\"}")
	malformed("surrogate in UTF-8", "{\"QueueUrl\":\"q\",\"MessageBody\":\"\xed\xa0\x80\"}")
	malformed("high surrogate alone", `{"QueueUrl":"q","MessageBody":"\ud800"}`)
	malformed("low surrogate alone", `{"QueueUrl":"q","MessageBody":"\udc00"}`)
	malformed("surrogates in the wrong order", `{"QueueUrl":"q","MessageBody":"\udc00\ud800"}`)
	malformed("NUL byte in a text", "{\"QueueUrl\":\"q\",\"MessageBody\":\"\x00\"}")
	malformed("NUL byte behind the object", send+"\x00")
	malformed("something behind the object", send+"x")
	malformed("a second object", send+send)
	malformed("comments", `{"QueueUrl":"q",/* */"MessageBody":"x"}`)
	malformed("comma at the end", `{"QueueUrl":"q","MessageBody":"x",}`)
	malformed("single quotes", `{'QueueUrl':'q','MessageBody':'x'}`)
	malformed("names without quotes", `{QueueUrl:"q",MessageBody:"x"}`)
	malformed("NaN", `{"QueueUrl":"q","MessageBody":"x","DelaySeconds":NaN}`)
	malformed("Infinity", `{"QueueUrl":"q","MessageBody":"x","DelaySeconds":-Infinity}`)
	malformed("1e999", `{"QueueUrl":"q","MessageBody":"x","DelaySeconds":1e999}`)
	malformed("400 digits", `{"QueueUrl":"q","MessageBody":"x","DelaySeconds":`+strings.Repeat("9", 400)+`}`)
	malformed("more than 64 bits", `{"QueueUrl":"q","MessageBody":"x","DelaySeconds":9223372036854775808}`)
	malformed("a fraction", `{"QueueUrl":"q","MessageBody":"x","DelaySeconds":0.5}`)
	malformed("zero in front", `{"QueueUrl":"q","MessageBody":"x","DelaySeconds":00}`)
	malformed("plus in front", `{"QueueUrl":"q","MessageBody":"x","DelaySeconds":+1}`)
	malformed("hexadecimal", `{"QueueUrl":"q","MessageBody":"x","DelaySeconds":0x1}`)
	malformed("unknown escape", `{"QueueUrl":"q","MessageBody":"\x41"}`)
	malformed("an attribute without end", `{"QueueUrl":"q","MessageBody":"x","MessageAttributes":{"a":{"DataType":`+wide)
	refused("64 bits", "SendMessage", `{"QueueUrl":"q","MessageBody":"x","DelaySeconds":9223372036854775807}`, "InvalidParameterValue")
	refused("NUL in a body", "SendMessage", `{"QueueUrl":"q","MessageBody":"a\u0000b"}`, "InvalidMessageContents")
	refused("NUL in a name", "CreateQueue", `{"QueueName":"a\u0000b"}`, "InvalidParameterValue")
	refused("NUL in an attribute of a queue", "SetQueueAttributes", `{"QueueUrl":"q","Attributes":{"DelaySeconds\u0000":"1"}}`, "InvalidAttributeName")
	refused("members in another case", "SendMessage", `{"QueueUrl":"q","messagebody":"x"}`, "MissingParameter")
	taken("32 levels", "SendMessage", `{"QueueUrl":"q","MessageBody":"x","a":`+strings.Repeat("[", 31)+strings.Repeat("]", 31)+`}`)
	taken("members in another case beside", "SendMessage", `{"QueueUrl":"q","MessageBody":"x","messageBody":"y"}`)
	taken("400 digits as a text", "SendMessage", `{"QueueUrl":"q","MessageBody":`+strings.Repeat("9", 400)+`}`)
	taken("1e999 as a text", "SendMessage", `{"QueueUrl":"q","MessageBody":1e999}`)
	taken("zero with a sign", "SendMessage", `{"QueueUrl":"q","MessageBody":"x","DelaySeconds":-0}`)
	taken("a number with an exponent", "SendMessage", `{"QueueUrl":"q","MessageBody":"x","DelaySeconds":0e5}`)
	taken("a name that is none", "SendMessage", `{"QueueUrl":"q","MessageBody":"x","__proto__":{"a":1},"":0}`)
	run(t, 7, cases)
}

// A foreign web page can make a browser send a form, with an Origin or without one. A form that
// says in any way where it comes from is refused, like a GET. [AUTH-3, XML-37]
func TestHostileForms(t *testing.T) {
	form := func(headers string) string { return withBody(formHead+headers, sendForm) }
	refused := func(name, headers string) hostile {
		return hostile{name: name, request: form(headers), status: 403, code: "AccessDenied"}
	}
	taken := func(name, headers string) hostile { return hostile{name: name, request: form(headers), status: 200} }
	run(t, 3, []hostile{
		refused("of another site", "Sec-Fetch-Site: cross-site\r\n"),
		refused("of the same site", "Sec-Fetch-Site: same-site\r\n"),
		refused("of another page", "Referer: http://elsewhere.example/\r\n"),
		refused("of a page at another port", "Origin: http://localhost:3000\r\n"),
		refused("of a page at another port that says so", "Sec-Fetch-Site: same-site\r\nOrigin: http://localhost:3000\r\n"),
		refused("of a page at another port, without an Origin", "Referer: http://localhost:3000/\r\n"),
		{name: "WebSocket of a page at another port", status: 403, code: "AccessDenied", request: "GET /?Action=PurgeQueue&QueueUrl=q HTTP/1.1\r\nHost: " + host +
			"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://localhost:3000\r\n\r\n"},
		refused("of another site with an Origin that is none", "Sec-Fetch-Site: cross-site\r\nOrigin: null\r\n"),
		{name: "JSON of another site", request: withBody(jsonHead+target+"SendMessage\r\nSec-Fetch-Site: cross-site\r\n", send),
			status: 403, code: "AccessDenied"},
		taken("of this server", "Sec-Fetch-Site: same-origin\r\n"),
		taken("of nobody", "Sec-Fetch-Site: none\r\n"),
		taken("of a page here", "Referer: http://"+host+"/\r\n"),
	})
}
