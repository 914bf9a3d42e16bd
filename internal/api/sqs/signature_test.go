package sqs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"tenaq/internal/api/refusal"
	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/door/auth"
	"tenaq/internal/door/credentials"
	"tenaq/internal/door/sigv4"
	"tenaq/internal/engine"
)

const (
	keyID    = "TQTEST01"
	secret   = "canary-of-the-first-key"
	signHost = "queue.example.com"
)

// keysFile writes a file with one key and its rights.
func keysFile(t testing.TB, path, allow string) {
	t.Helper()
	text := fmt.Sprintf(`{"credentials": [
		{"id": %q, "secret": %q, "account": "111122223333", "name": "orders", "allow": [%s]},
		{"id": "TQENDED1", "secret": "canary-of-the-ended-key", "expires": "2001-01-01T00:00:00Z", "allow": ["*"]}]}`, keyID, secret, allow)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func newDoor(t testing.TB, allow string) (*auth.Door, *credentials.Set, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials.json")
	keysFile(t, path, allow)
	set, err := credentials.Open(credentials.Config{File: path})
	if err != nil {
		t.Fatal(err)
	}
	return auth.New(auth.Config{Credentials: set, Account: account, Region: "eu-central-1"}), set, path
}

// signedRequest returns a request of the JSON protocol, signed.
func signedRequest(t testing.TB, id, secret, service, body string, change func(*http.Request)) *http.Request {
	t.Helper()
	r := httptest.NewRequest("POST", "http://"+signHost+"/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "AmazonSQS.ListQueues")
	if change != nil {
		change(r)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
	creds := aws.Credentials{AccessKeyID: id, SecretAccessKey: secret}
	if err := v4.NewSigner().SignHTTP(context.Background(), creds, r, sum, service, "eu-central-1", time.Now()); err != nil {
		t.Fatal(err)
	}
	return r
}

// enter sends a request through a door. It returns the outcome as a client of SQS sees it: code,
// status and the beginning of the text.
func enter(d *auth.Door, r *http.Request, service, body string) (auth.Principal, string) {
	pending, err := d.Authenticate(r, service)
	var p auth.Principal
	if err == nil {
		p, err = pending.Finish([]byte(body))
	}
	if err == nil {
		return p, ""
	}
	w := httptest.NewRecorder()
	h := New(Config{})
	(&attempt{h: h, from: time.Now(), protocol: awsJSON}).refuse(w, err)
	header := map[string][]string(w.Header()) // with names as they are written
	return p, fmt.Sprintf("%s %d %s", header["x-amzn-query-error"][0], w.Code, w.Body)
}

// [AUTH-5, AUTH-10, AUTH-12, AUTH-14]
func TestDoorWithCredentials(t *testing.T) {
	d, _, _ := newDoor(t, `"*"`)
	const mismatch = "SignatureDoesNotMatch;Sender 403 {\"__type\":\"com.amazon.coral.service#InvalidSignatureException\",\"message\":\""
	for _, test := range []struct {
		name, id, secret, signedFor, service string
		after                                func(*http.Request)
		want                                 string
	}{
		{name: "signed"},
		{name: "for CloudWatch", signedFor: "monitoring", service: "monitoring"},
		{name: "for STS", signedFor: "sts", service: "sts"},
		{name: "for SQS, to CloudWatch", service: "monitoring", want: mismatch + "Credential should be scoped to correct service: 'monitoring'."},
		{name: "for CloudWatch, to SQS", signedFor: "monitoring", want: mismatch + "Credential should be scoped to correct service: 'sqs'."},
		{name: "not signed", after: func(r *http.Request) { r.Header.Del("Authorization") },
			want: `MissingAuthenticationToken;Sender 403 {"__type":"com.amazon.coral.service#MissingAuthenticationTokenException","message":"Request is missing Authentication Token"}`},
		{name: "half signed", after: func(r *http.Request) { r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a") },
			want: `IncompleteSignature;Sender 400 {"__type":"com.amazon.coral.service#IncompleteSignatureException","message":"Authorization header requires 'Signature'`},
		{name: "unknown key", id: "TQOTHER1",
			want: `InvalidClientTokenId;Sender 403 {"__type":"com.amazon.coral.service#UnrecognizedClientException","message":"The security token included in the request is invalid."}`},
		{name: "wrong secret", secret: "canary-of-nobody", want: mismatch + "The request signature we calculated does not match"},
		{name: "ended key", id: "TQENDED1", secret: "canary-of-the-ended-key",
			want: `ExpiredToken;Sender 403 {"__type":"com.amazon.coral.service#ExpiredTokenException","message":"The security token included in the request is expired"}`},
		{name: "target of another action", after: func(r *http.Request) { r.Header.Set("X-Amz-Target", "AmazonSQS.PurgeQueue") }, want: mismatch},
		{name: "page of another origin, signed", after: func(r *http.Request) { r.Header.Set("Origin", "https://elsewhere.example.com") }},
	} {
		if test.id == "" {
			test.id = keyID
		}
		if test.secret == "" {
			test.secret = secret
		}
		if test.service == "" {
			test.service = "sqs"
		}
		if test.signedFor == "" {
			test.signedFor = "sqs"
		}
		r := signedRequest(t, test.id, test.secret, test.signedFor, "{}", nil)
		if test.after != nil {
			test.after(r)
		}
		p, got := enter(d, r, test.service, "{}")
		if !strings.HasPrefix(got, test.want) || test.want == "" && got != "" || strings.Contains(got, "canary") {
			t.Errorf("%s: got  %q\nwant %q", test.name, got, test.want)
		}
		if (p == auth.Principal{}) != (test.want != "") {
			t.Errorf("%s: got principal %v, want one only without a refusal", test.name, p)
		}
	}
	if _, got := enter(d, signedRequest(t, keyID, secret, "sqs", "{}", nil), "sqs", "{ }"); !strings.HasPrefix(got, mismatch) {
		t.Errorf("another body: got %q, want %q", got, mismatch)
	}
}

// [AUTH-16]
func TestDoorPresigned(t *testing.T) {
	d, _, _ := newDoor(t, `"*"`)
	presigned := func(age time.Duration) *http.Request {
		r := httptest.NewRequest("GET", "http://"+signHost+"/?Action=ListQueues&X-Amz-Expires=60", nil)
		signed, _, err := v4.NewSigner().PresignHTTP(context.Background(), aws.Credentials{AccessKeyID: keyID, SecretAccessKey: secret}, r,
			fmt.Sprintf("%x", sha256.Sum256(nil)), "sqs", "eu-central-1", time.Now().Add(-age))
		if err != nil {
			t.Fatal(err)
		}
		return httptest.NewRequest("GET", signed, nil)
	}
	if p, got := enter(d, presigned(0), "sqs", ""); got != "" || p.Account() != "111122223333" {
		t.Errorf("got %v, %q, want the principal of the key", p, got)
	}
	const want = `RequestExpired;Sender 400 {"__type":"com.amazon.coral.service#RequestExpiredException","message":"Request has expired."}`
	if _, got := enter(d, presigned(2*time.Minute), "sqs", ""); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// [AUTH-40]
func TestPrincipal(t *testing.T) {
	d, set, _ := newDoor(t, `"*"`)
	p, got := enter(d, signedRequest(t, keyID, secret, "sqs", "", nil), "sqs", "")
	key := set.Find(keyID)
	if got != "" || p.Account() != "111122223333" || p.UserID() != key.UserID() || p.ARN() != key.ARN() || !p.Signed() || !strings.HasPrefix(p.UserID(), "AIDA") {
		t.Errorf("got %v, %q, want the principal of the key", p, got)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, p) + fmt.Sprintf(verb, auth.Config{Credentials: set}); strings.Contains(text, "canary") {
			t.Errorf("%s shows a secret: %s", verb, text)
		}
	}
}

// A forgotten error must not turn an unauthenticated caller into an authenticated one.
func TestZeroPending(t *testing.T) {
	if p, err := (auth.Pending{}).Finish(nil); err == nil || p != (auth.Principal{}) {
		t.Errorf("got %v, %v, want a refusal", p, err)
	}
	d, _, _ := newDoor(t, `"*"`)
	pending, err := d.Authenticate(httptest.NewRequest("POST", "/", nil), "sqs")
	if p, again := pending.Finish(nil); err == nil || again == nil || p != (auth.Principal{}) {
		t.Errorf("got %v, %v, %v, want two refusals", p, err, again)
	}
}

// TestDoorWithoutCredentials holds a door without credentials to what Handler does.
// [AUTH-2, AUTH-3, AUTH-4]
func TestDoorWithoutCredentials(t *testing.T) {
	hosts := []string{signHost}
	d := auth.New(auth.Config{Account: account, Region: "eu-central-1", Hosts: hosts})
	for _, test := range []struct {
		host, origin, authorization string
		fine                        bool
	}{
		{signHost, "", "", true},
		{"localhost:9324", "", "", true},
		{signHost, "", "AWS4-HMAC-SHA256 whatever", true},
		{signHost, "https://" + signHost, "", true},
		{signHost, "https://elsewhere.example.com", "", false},
		{"elsewhere.example.com", "", "", false},
		{"localhost:9324", "", "", true},
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Host = test.host
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		r.Header.Set("Authorization", test.authorization)
		p, got := enter(d, r, "sqs", "anything")
		if (got == "") != test.fine {
			t.Errorf("%v: got %q, want fine %v", test, got, test.fine)
		}
		if test.fine && (p.Account() != account || p.UserID() != account || p.Signed() || p.Authorize("sqs:PurgeQueue", "") != nil) {
			t.Errorf("%v: got %v, want the account of the server, which may do everything", test, p)
		}
	}
}

// The content of a message must not become parameters because a header that is not signed was
// changed. [AUTH-41]
func TestAmbiguousBody(t *testing.T) {
	d, _, _ := newDoor(t, `"*"`)
	const body = `{"MessageBody":"&Action=PurgeQueue&QueueUrl=orders&"}`
	unsigned := func(kind string) *http.Request {
		// As the AWS SDK for PHP does it.
		r := signedRequest(t, keyID, secret, "sqs", body, func(r *http.Request) { r.Header.Del("Content-Type") })
		r.Header.Set("Content-Type", kind)
		return r
	}
	for kind, fine := range map[string]bool{
		"application/x-amz-json-1.0":                        true,
		"application/json":                                  true,
		"application/x-www-form-urlencoded":                 false,
		"APPLICATION/x-www-form-urlencoded ; charset=utf-8": false,
	} {
		if _, got := enter(d, unsigned(kind), "sqs", body); (got == "") != fine {
			t.Errorf("%s: got %q, want fine %v", kind, got, fine)
		}
		// The handler must agree on what is a form.
		if p := protocolOf(unsigned(kind)); (p == awsJSON) != fine {
			t.Errorf("%s: got protocol %v, want JSON %v", kind, p, fine)
		}
	}
}

// [AUTH-39]
func TestDoorAfterReload(t *testing.T) {
	d, set, path := newDoor(t, `"sqs:SendMessage"`)
	before, _ := enter(d, signedRequest(t, keyID, secret, "sqs", "", nil), "sqs", "")
	keysFile(t, path, `"sqs:ReceiveMessage"`)
	if err := set.Reload(); err != nil {
		t.Fatal(err)
	}
	after, _ := enter(d, signedRequest(t, keyID, secret, "sqs", "", nil), "sqs", "")
	if before.Authorize("sqs:SendMessage", "") != nil || after.Authorize("sqs:SendMessage", "") == nil || after.Authorize("sqs:ReceiveMessage", "") != nil {
		t.Error("got the same rights after another file was read")
	}
}

// TestEverySignatureErrorIsKnown: a code that the catalogue does not have would be answered as a
// failure of the server.
func TestEverySignatureErrorIsKnown(t *testing.T) {
	for _, code := range []string{sigv4.ExpiredToken, sigv4.IncompleteSignature, sigv4.InvalidClientTokenID, sigv4.MissingAuthenticationToken,
		sigv4.RequestExpired, sigv4.SignatureDoesNotMatch} {
		if got := refusal.Of(&auth.Error{Code: code, Message: "x"}); got.Info().Fault != sqswire.Sender || got.Message != "x" {
			t.Errorf("%s: got %v, want a fault of the sender", code, got)
		}
	}
}

// principalWith is one whose key may do what patterns say.
func principalWith(t testing.TB, allow string) auth.Principal {
	t.Helper()
	d, _, _ := newDoor(t, allow)
	p, refusal := enter(d, signedRequest(t, keyID, secret, "sqs", "{}", nil), "sqs", "{}")
	if refusal != "" {
		t.Fatal(refusal)
	}
	return p
}

// A policyMap is the policies of some queues.
type policyMap struct{ texts map[engine.QueueName]string }

func (m *policyMap) Policy(name engine.QueueName) string { return m.texts[name] }
func (m *policyMap) PolicyVersion() uint64               { return 0 }

// callWith is a call of a principal whose key may do what patterns say.
func callWith(t testing.TB, texts map[engine.QueueName]string, allow string) *call {
	t.Helper()
	h := &Handler{cfg: Config{Policies: auth.NewPolicies(&policyMap{texts: texts}, slog.New(slog.DiscardHandler))}}
	return &call{Context: t.Context(), h: h, http: httptest.NewRequest("POST", "/", nil), principal: principalWith(t, allow)}
}

// [AUTH-20, AUTH-21]
func TestDenials(t *testing.T) {
	c := callWith(t, nil, `"sqs:ReceiveMessage", "sqs:StartMessageMoveTask", "sqs:DeleteMessage", "sqs:GetQueue*"`)
	const user = "AccessDenied: User: arn:aws:iam::111122223333:user/orders is not authorized to perform: "
	text := func(s string) sqswire.Opt[string] { return sqswire.Some(s) }
	for _, test := range []struct {
		operation string
		req       sqswire.Shape
		want      string
	}{
		{"ReceiveMessage", &sqswire.ReceiveMessageRequest{OnQueue: sqswire.OnQueue{QueueURL: text("https://x/111122223333/q")}}, ""},
		{"ReceiveMessage", &sqswire.ReceiveMessageRequest{OnQueue: sqswire.OnQueue{QueueURL: text("q")}}, ""},
		{"ReceiveMessage", &sqswire.ReceiveMessageRequest{OnQueue: sqswire.OnQueue{QueueURL: text("https://x/queue/q")}}, ""}, // the engine says that there is none
		{"ReceiveMessage", &sqswire.ReceiveMessageRequest{OnQueue: sqswire.OnQueue{QueueURL: text("https://x/999999999999/q")}},
			user + "sqs:receivemessage on resource: arn:aws:sqs:eu-central-1:999999999999:q because no resource-based policy allows the sqs:receivemessage action"},
		{"GetQueueUrl", &sqswire.GetQueueURLRequest{QueueName: text("q")}, ""},
		{"GetQueueUrl", &sqswire.GetQueueURLRequest{QueueName: text("q"), QueueOwnerAWSAccountID: text("999999999999")},
			user + "sqs:getqueueurl on resource: arn:aws:sqs:eu-central-1:999999999999:q because no resource-based policy allows the sqs:getqueueurl action"},
		{"CreateQueue", &sqswire.CreateQueueRequest{QueueName: text("q")},
			user + "sqs:createqueue on resource: arn:aws:sqs:eu-central-1:111122223333:q because no identity-based policy allows the sqs:createqueue action"},
		{"ListQueues", &sqswire.ListQueuesRequest{},
			user + "sqs:listqueues on resource: arn:aws:sqs:eu-central-1:111122223333: because no identity-based policy allows the sqs:listqueues action"},
		{"SendMessageBatch", &sqswire.SendMessageBatchRequest{OnQueue: sqswire.OnQueue{QueueURL: text("q")}},
			user + "sqs:sendmessage on resource: arn:aws:sqs:eu-central-1:111122223333:q because no identity-based policy allows the sqs:sendmessage action"},
		{"SendMessage", &sqswire.SendMessageRequest{OnQueue: sqswire.OnQueue{QueueURL: text(strings.Repeat("q", 1000))}}, user + "sqs:sendmessage on resource: arn:aws:sqs:eu-central-1:111122223333:qqq"},
		{"StartMessageMoveTask", &sqswire.StartMessageMoveTaskRequest{SourceARN: text("arn:aws:sqs:eu-central-1:111122223333:q-dlq"), DestinationARN: text("arn:aws:sqs:eu-central-1:111122223333:q")},
			user + "sqs:sendmessage on resource: arn:aws:sqs:eu-central-1:111122223333:q because"},
	} {
		err := c.permit(operations[test.operation], test.req)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, test.want) || test.want == "" && got != "" || len(got) > 500 {
			t.Errorf("%s: got  %q\nwant %q", test.operation, got, test.want)
		}
	}
}

// TestRights goes through all operations: each needs its own right and the others that are said
// here, on its queue. [AUTH-18, AUTH-19]
func TestRights(t *testing.T) {
	more := map[string]string{
		"CreateQueue":          "TagQueue",
		"StartMessageMoveTask": "ReceiveMessage DeleteMessage GetQueueAttributes SendMessage",
	}
	c := callWith(t, nil, `"*"`)
	const arn = "arn:aws:sqs:eu-central-1:111122223333:orders"
	for _, op := range sortedOperations() {
		req := op.newRequest()
		fields := reflect.ValueOf(req).Elem()
		named := false
		for _, name := range []string{"QueueURL", "QueueName", "SourceARN", "DestinationARN"} {
			if f := fields.FieldByName(name); f.IsValid() {
				value := map[bool]string{true: arn, false: "orders"}[strings.HasSuffix(name, "ARN")]
				f.Set(reflect.ValueOf(sqswire.Some(value)))
				named = true
			}
		}
		if create, ok := req.(*sqswire.CreateQueueRequest); ok {
			create.Tags = sqswire.Pairs{{Name: "a", Value: "b"}}
		}
		var got []string
		for _, r := range op.rights(c, req) {
			got = append(got, r.action)
			want := engine.QueueName{Account: "111122223333"}
			if named {
				want.Name = "orders"
			}
			if r.queue != want {
				t.Errorf("%s: got a right on %v, want one on %v", op.Name, r.queue, want)
			}
		}
		want := append([]string{strings.TrimSuffix(op.Name, "Batch")}, strings.Fields(more[op.Name])...)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got rights %v, want %v", op.Name, got, want)
		}
		for _, without := range want {
			others := slices.Sorted(maps.Keys(actionsBut(without)))
			denied := callWith(t, nil, `"sqs:`+strings.Join(others, `", "sqs:`)+`"`)
			if denied.permit(op, req) == nil {
				t.Errorf("%s without the right to %s: got no refusal, want one", op.Name, without)
			}
		}
		if err := c.permit(op, req); err != nil {
			t.Errorf("%s with every right: got %v, want no refusal", op.Name, err)
		}
	}
}

// A move task without a destination needs the right to send to every queue of the account, also to
// those that come late in the listing, by the key itself. [AUTH-48]
func TestReturn(t *testing.T) {
	const returnPage = 1000 // queues of a page
	w := newWorld(settings{})
	t.Cleanup(w.stop)
	name := func(i int) engine.QueueName {
		return engine.QueueName{Account: "111122223333", Name: fmt.Sprintf("q%04d", i)}
	}
	for i := range returnPage + 2 {
		if err := w.broker.Do(t.Context(), &engine.CreateQueue{Queue: name(i), NameSet: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.broker.Do(t.Context(), &engine.CreateQueue{Queue: foreign, NameSet: true}); err != nil {
		t.Fatal(err)
	}
	const rights = `"sqs:StartMessageMoveTask", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"`
	denies, allows := statements(says("Deny", `"*"`, "sqs:SendMessage")), statements(says("Allow", `"*"`, "sqs:SendMessage"))
	for _, test := range []struct {
		allow string
		queue engine.QueueName
		text  string
		want  string // part of the refusal
	}{
		{`"*"`, name(0), "", ""},
		{`"*"`, name(1), denies, "q0001 with an explicit deny"},
		{`"*"`, name(returnPage - 1), denies, "with an explicit deny"},
		{`"*"`, name(returnPage + 1), denies, "q1001 with an explicit deny"},
		{`"*"`, name(returnPage + 1), "{", "with an explicit deny"},
		{`"*"`, foreign, denies, ""},
		{`"*"`, name(1), statements(says("Deny", `"*"`, "sqs:ReceiveMessage")), ""},
		{rights + `, "sqs:SendMessage"`, name(1), allows, ""},
		{rights, name(1), allows, "on resource: arn:aws:sqs:eu-central-1:111122223333: because no identity-based policy allows the sqs:sendmessage action"},
	} {
		c := callWith(t, map[engine.QueueName]string{test.queue: test.text}, test.allow)
		c.h.cfg.Broker = w.broker
		// The dead-letter queue itself need not have any queue that names it.
		err := c.permit(operations["StartMessageMoveTask"], &sqswire.StartMessageMoveTaskRequest{SourceARN: sqswire.Some("arn:aws:sqs:eu-central-1:111122223333:q0000")})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s with %s on %v: got %v, want %q", test.allow, test.text, test.queue, err, test.want)
		}
	}
}

func actionsBut(without string) map[string]bool {
	actions := map[string]bool{}
	for _, op := range sortedOperations() {
		if action := strings.TrimSuffix(op.Name, "Batch"); action != without {
			actions[action] = true
		}
	}
	return actions
}

// BenchmarkDoor is the cost of a signed request of the usual size, from its headers to the right to
// send.
func BenchmarkDoor(b *testing.B) {
	d, _, _ := newDoor(b, `"sqs:ReceiveMessage", "sqs:Send*"`)
	body := bytes.Repeat([]byte("x"), 1024)
	r := signedRequest(b, keyID, secret, "sqs", string(body), nil)
	req := &sqswire.SendMessageRequest{OnQueue: sqswire.OnQueue{QueueURL: sqswire.Some("http://" + signHost + "/111122223333/orders")}}
	c := callWith(b, nil, `"*"`)
	b.ReportAllocs()
	for b.Loop() {
		pending, err := d.Authenticate(r, "sqs")
		if err != nil {
			b.Fatal(err)
		}
		p, err := pending.Finish(body)
		if err != nil {
			b.Fatal(err)
		}
		c.principal = p
		if err := c.permit(operations["SendMessage"], req); err != nil {
			b.Fatal(err)
		}
	}
}
