package sqs

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/engine"
)

// [QUEUE-33, QUEUE-34, QUEUE-35]
func TestQueueOfURL(t *testing.T) {
	c := &call{principal: principalWith(t, `"*"`)}
	none := engine.QueueName{}
	own := engine.QueueName{Account: "111122223333", Name: "q"}
	other := engine.QueueName{Account: "000000000000", Name: "q"}
	for _, test := range []struct {
		url  string
		want engine.QueueName
	}{
		{"http://localhost:9324/000000000000/q", other},
		{"http://localhost:9324/000000000000/q/", other},
		{"https://a/b/c/000000000000/q", other},
		{"HTTPS://A/000000000000/q", other},
		{"/000000000000/q", other},
		{"000000000000/q", other},
		{"q", own},
		{"q/", own},
		{"http://localhost/q", own},
		{"http://localhost", none},
		{"http://localhost/", none},
	} {
		if got := c.queue(sqswire.Some(test.url)); got != test.want {
			t.Errorf("queue(%q): got %v, want %v", test.url, got, test.want)
		}
	}
	// A text that is not a queue URL gives no name or no valid account.
	for _, url := range []string{"", "/", "//", "/q", "http://", "://", "http://a//", "http://a/000000000000/q//"} {
		got := c.queue(sqswire.Some(url))
		if got.Name != "" && len(got.Account) == 12 {
			t.Errorf("queue(%q): got %v, want a name that no queue has", url, got)
		}
	}
	if got := c.queue(sqswire.Opt[string]{}); got.Name != "" {
		t.Errorf("queue of no URL: got %v, want no name", got)
	}
}

// [QUEUE-36]
func TestURLOfQueue(t *testing.T) {
	name := engine.QueueName{Account: "000000000000", Name: "q"}
	for _, test := range []struct {
		public, host string
		tls          bool
		want         string
	}{
		{"", "localhost:9324", false, "http://localhost:9324/000000000000/q"},
		{"", "[::1]:9324", false, "http://[::1]:9324/000000000000/q"},
		{"", "queue.example.com", true, "https://queue.example.com/000000000000/q"},
		{"https://q.example.com", "localhost", false, "https://q.example.com/000000000000/q"},
		{"https://q.example.com/", "localhost", false, "https://q.example.com/000000000000/q"},
		{"https://q.example.com/sqs", "localhost", false, "https://q.example.com/sqs/000000000000/q"},
	} {
		c := &call{h: &Handler{cfg: Config{PublicURL: test.public}}, http: &http.Request{Host: test.host}}
		if test.tls {
			c.http.TLS = new(tls.ConnectionState)
		}
		if got := c.url(name); got != test.want {
			t.Errorf("url with public URL %q, host %q: got %q, want %q", test.public, test.host, got, test.want)
		}
	}
}

// [RCV-15 to RCV-18]
func TestWants(t *testing.T) {
	for _, test := range []struct {
		wanted []string
		name   string
		want   bool
	}{
		{nil, "Hello", false},
		{[]string{"All"}, "Hello", true},
		{[]string{"*"}, "Hello", true},
		{[]string{".*"}, "Hello", true},
		{[]string{"all"}, "Hello", false},
		{[]string{"Hello"}, "Hello", true},
		{[]string{"hello"}, "Hello", false},
		{[]string{"Hell"}, "Hello", false},
		{[]string{"Hello.Me"}, "Hello", false},
		{[]string{"Hel.*"}, "Hello", true},
		{[]string{"Hel.*"}, "Help.Me", true},
		{[]string{"Help.*"}, "Help.Me", true},
		{[]string{"Help.Me.*"}, "Help.Me", true},
		{[]string{"Hello.*"}, "Help.Me", false},
		{[]string{"Hel*"}, "Hello", false},
		{[]string{"*.*"}, "Hello", false},
		{[]string{""}, "Hello", false},
		{[]string{"AWS.", "..foo"}, "Hello", false},
		{[]string{"x", "y", "Hello"}, "Hello", true},
	} {
		w := wantedAttributes{user: test.wanted}
		if got := w.wants(test.name); got != test.want {
			t.Errorf("wants %q of %q: got %v, want %v", test.name, test.wanted, got, test.want)
		}
	}
}

// [RCV-7, RCV-8, RCV-10, FIFO-12, DEDUP-18, DLQ-24]
func TestSystemOf(t *testing.T) {
	standard := &engine.Delivery{Sent: 1, FirstReceive: 2, Receives: 3, Group: "g"}
	fifo := &engine.Delivery{Sent: 1, FirstReceive: 2, Receives: 3, Group: "g", Dedup: "d", Sequence: 7, Source: "arn"}
	c := &engine.Content{Trace: "t", Sender: "s"}
	all := sqswire.Pairs{
		{Name: "AWSTraceHeader", Value: "t"}, {Name: "ApproximateFirstReceiveTimestamp", Value: "2"},
		{Name: "ApproximateReceiveCount", Value: "3"}, {Name: "MessageGroupId", Value: "g"},
		{Name: "SenderId", Value: "s"}, {Name: "SentTimestamp", Value: "1"},
	}
	rest := sqswire.Pairs{
		{Name: "DeadLetterQueueSourceArn", Value: "arn"}, {Name: "MessageDeduplicationId", Value: "d"},
		{Name: "SequenceNumber", Value: "10000000000000000007"},
	}
	worn := *standard
	worn.Fence, worn.FirstSent, worn.Lineage = 9, 1, engine.MessageID{15: 1}
	identities := sqswire.Pairs{ // [ID-6]
		{Name: "TenaqFence", Value: "9"}, {Name: "TenaqFirstSent", Value: "1"}, {Name: "TenaqGeneration", Value: "0"},
		{Name: "TenaqLineageId", Value: "00000000-0000-0000-0000-000000000001"},
	}
	for _, test := range []struct {
		d      *engine.Delivery
		wanted []string
		want   sqswire.Pairs
	}{
		{standard, nil, nil},
		{standard, []string{"All"}, all},
		{standard, []string{"SenderId", "All", "SenderId"}, all},
		{standard, []string{"SentTimestamp", "SentTimestamp"}, all[5:]},
		{standard, []string{"SequenceNumber", "MessageDeduplicationId", "DeadLetterQueueSourceArn"}, nil},
		{&worn, []string{"All"}, all},
		{&worn, []string{"TenaqLineageId", "TenaqGeneration", "TenaqFence", "TenaqFirstSent"}, identities},
		{&worn, []string{"TenaqFence", "All", "TenaqFence"}, slices.Concat(all, identities[:1])},
		{fifo, nil, nil},
		{fifo, []string{"SequenceNumber", "MessageDeduplicationId", "DeadLetterQueueSourceArn"}, rest},
		{fifo, []string{"SequenceNumber"}, rest[2:]},
		{fifo, []string{"All"}, slices.Concat(all[:3], rest[:2], all[3:], rest[2:])},
	} {
		w := wantedAttributes{system: test.wanted}
		if got := w.systemOf(test.d, c); !slices.Equal(got, test.want) {
			t.Errorf("system attributes %q: got %v, want %v", test.wanted, got, test.want)
		}
	}
}

// [WIRE-2, WIRE-3, WIRE-24, XML-1, XML-26]
func TestProtocolOf(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	for _, test := range []struct {
		method, path, kind, accept string
		want                       protocol
	}{
		{"POST", "/", "application/x-amz-json-1.0", "", awsJSON},
		{"POST", "", "application/x-amz-json-1.0", "", awsJSON},
		{"POST", "/000000000000/q", "application/x-amz-json-1.0", "", awsJSON},
		{"POST", "/000000000000/q/", "application/x-amz-json-1.0", "", awsJSON},
		{"POST", "/", "application/x-amz-json-1.1", "", awsJSON},
		{"POST", "/", "application/json; charset=utf-8", "", awsJSON},
		{"POST", "/", "APPLICATION/JSON", "text/xml", awsJSON},
		{"POST", "/?Action=ListQueues", "application/json", "", awsJSON},
		{"GET", "/", "application/x-amz-json-1.0", "", noProtocol},
		{"POST", "/a/b/c", "application/x-amz-json-1.0", "", noProtocol},
		{"POST", "/", "", "", noProtocol},
		{"POST", "/?Action=ListQueues", "", "", noProtocol},
		{"POST", "/", "text/plain", "", noProtocol},
		{"POST", "/", "application/jsonx", "", noProtocol},
		{"POST", "/", ";", "", noProtocol},

		{"POST", "/", form, "", queryXML},
		{"POST", "/", form + "; charset=UTF-8", "", queryXML},
		{"POST", "/", form + ";charset", "", queryXML},
		{"POST", "/", "Application/X-WWW-Form-urlencoded ; charset=ISO-8859-1", "", queryXML},
		{"POST", "/000000000000/q", form, "", queryXML},
		{"POST", "/a/b/c", form, "", noProtocol},
		{"GET", "/?Action=ListQueues", "", "", queryXML},
		{"GET", "/?Version=2012-11-05&Action", "", "", queryXML},
		{"GET", "/000000000000/q?Action=ReceiveMessage", form, "", queryXML},
		{"GET", "/000000000000/q", "", "", queryXML},
		{"GET", "/q", "", "", noProtocol},
		{"GET", "/?action=ListQueues", "", "", noProtocol},
		{"GET", "/a/b/c?Action=ListQueues", "", "", noProtocol},
		{"HEAD", "/?Action=ListQueues", "", "", noProtocol},
		{"PUT", "/?Action=ListQueues", form, "", noProtocol},
		{"OPTIONS", "/", form, "", noProtocol},

		{"POST", "/", form, "application/json", queryJSON},
		{"GET", "/?Action=ListQueues", "", "application/json, text/plain, */*", queryJSON},
		{"POST", "/", form, "Application/JSON;q=0.5", queryJSON},
		{"POST", "/", form, "application/json;q=0", queryXML},
		{"POST", "/", form, "*/*", queryXML},
		{"POST", "/", form, "text/html,application/xhtml+xml,application/xml;q=0.9,application/json;q=0.8", queryXML},
		{"POST", "/", form, "text/xml, application/json", queryXML},
	} {
		r, err := http.NewRequest(test.method, "http://localhost"+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", test.kind)
		if test.accept != "" {
			r.Header.Set("Accept", test.accept)
		}
		if got := protocolOf(r); got != test.want {
			t.Errorf("%s %q as %q for %q: got protocol %v, want %v", test.method, test.path, test.kind, test.accept, got, test.want)
		}
	}
}

// The header X-Amz-Target names an action exactly. [WIRE-1]
func TestTarget(t *testing.T) {
	for target, want := range map[string]string{
		"AmazonSQS.SendMessage":  "SendMessage",
		"AmazonSQS.GetQueueUrl":  "GetQueueUrl",
		"":                       "",
		"SendMessage":            "",
		"AmazonSQS.":             "",
		"AmazonSQS.sendMessage":  "",
		"AmazonSQS.SendMessage ": "",
		"AmazonSQS.NoSuchAction": "",
		"AmazonSNS.SendMessage":  "",
		"amazonsqs.SendMessage":  "",
	} {
		r := &http.Request{URL: new(url.URL), Header: http.Header{"X-Amz-Target": {target}}}
		op, req, err := awsJSON.decode(new(Handler), r, []byte(`{"QueueUrl": "q"}`))
		got := ""
		if op != nil {
			got = op.Name
		}
		if got != want {
			t.Errorf("%q: got the action %q, want %q", target, got, want)
		}
		refusal, _ := err.(*sqswire.Error)
		invalid := refusal != nil && refusal.Code == sqswire.InvalidAction
		if want == "" && !invalid || want != "" && (err != nil || req == nil) {
			t.Errorf("%q: got the request %v and the error %v", target, req, err)
		}
	}
}

// SQS has 23 actions, and each request is a new one.
func TestOperationsAreComplete(t *testing.T) {
	if got := len(operations); got != 23 {
		t.Errorf("got %d operations, want 23", got)
	}
	for name, op := range operations {
		if a, b := op.newRequest(), op.newRequest(); a == b {
			t.Errorf("%s: two requests are the same", name)
		}
	}
}
