package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"tenaq/internal/door/credentials"
)

// keysOf reads the keys of a credentials file.
func keysOf(t *testing.T, file string) *credentials.Set {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := credentials.Open(credentials.Config{File: path, Actions: Actions()})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestCredentials uses a server with keys as programs do, and looks for a secret in all that it
// answers and logs. [AUTH-5, AUTH-12, AUTH-20, AUTH-21, AUTH-35, AUTH-38, AUTH-40]
func TestCredentials(t *testing.T) {
	file := `{"credentials": [
		{"id": "TQALL001", "secret": "canary-of-everything", "account": "111122223333", "name": "all", "allow": ["*"]},
		{"id": "TQSEND01", "secret": "canary-of-the-sender", "token": "canary-session/+=", "account": "111122223333", "name": "sender", "allow": ["sqs:SendMessage"]},
		{"id": "TQOTHER1", "secret": "canary-of-the-other-account", "account": "444455556666", "allow": ["*"]}]}`
	keys := keysOf(t, file)
	cfg := config(t)
	var log bytes.Buffer // read when the server has stopped
	cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg.Credentials, cfg.Version = keys, "0.0.1-test"
	s, stop := run(t, cfg)
	var answers strings.Builder
	as := func(id, secret, token string) *sqs.Client {
		return sqs.New(sqs.Options{
			Region: "us-east-1", BaseEndpoint: aws.String("http://" + s.Addr()), Retryer: aws.NopRetryer{}, HTTPClient: client,
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: id, SecretAccessKey: secret, SessionToken: token}, nil
			}),
		})
	}
	all := as("TQALL001", "canary-of-everything", "")
	sender := as("TQSEND01", "canary-of-the-sender", "canary-session/+=")
	ctx := t.Context()
	made, err := all.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("orders")})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(*made.QueueUrl, "/111122223333/orders") {
		t.Errorf("queue URL: got %s, want the account of the key in it", *made.QueueUrl)
	}
	send := func(c *sqs.Client) error {
		_, err := c.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: made.QueueUrl, MessageBody: aws.String("hello")})
		return err
	}
	if err := send(sender); err != nil {
		t.Error(err)
	}
	got, err := all.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: made.QueueUrl, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"SenderId"}})
	if err != nil || len(got.Messages) != 1 || got.Messages[0].Attributes["SenderId"] != keys.Find("TQSEND01").UserID() {
		t.Errorf("got %v and %v, want the message of %s", got, err, keys.Find("TQSEND01").UserID())
	}
	receive := func(c *sqs.Client) error {
		_, err := c.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: made.QueueUrl})
		return err
	}
	for name, test := range map[string]struct {
		err  error
		want string // code
	}{
		"an action that is not allowed":  {receive(sender), "AccessDenied"},
		"the queue of another account":   {receive(as("TQOTHER1", "canary-of-the-other-account", "")), "AccessDenied"},
		"a wrong secret":                 {send(as("TQALL001", "canary-of-nobody", "")), "SignatureDoesNotMatch"},
		"an unknown key":                 {send(as("TQNOBODY", "canary-of-nobody", "")), "InvalidClientTokenId"},
		"a session without its token":    {send(as("TQSEND01", "canary-of-the-sender", "")), "InvalidClientTokenId"},
		"a session with a token of ours": {send(as("TQSEND01", "canary-of-the-sender", "canary-made-up")), "InvalidClientTokenId"},
	} {
		var refusal smithy.APIError
		if !errors.As(test.err, &refusal) || refusal.ErrorCode() != test.want {
			t.Errorf("%s: got %v, want %s", name, test.err, test.want)
		}
		answers.WriteString(errors.Join(test.err, errors.New("")).Error())
	}

	// The one page without authentication says only that it is there.
	if status, body := get(t, "http://"+s.Addr()+"/_localstack/health"); status != http.StatusOK || strings.Contains(body, "0.0.1-test") {
		t.Errorf("health: got %d %s, want 200 without the version", status, body)
	}

	// No other service on the address answers requests that are not signed.
	for _, path := range []string{"/v1/queues", "/v1/alarms", "/?Action=ListQueues", "/?Action=DescribeAlarms&X-Amz-Credential=a/20260101/us-east-1/monitoring/aws4_request"} {
		status, body := get(t, "http://"+s.Addr()+path)
		if status == http.StatusOK || strings.Contains(body, "orders") {
			t.Errorf("GET %s: got %d %s, want it refused", path, status, body)
		}
		answers.WriteString(body)
	}
	// A request for /v1 may be presigned as well.
	presigned, err := http.NewRequest(http.MethodGet, "http://"+s.Addr()+"/v1/queues?X-Amz-Expires=60", nil)
	if err != nil {
		t.Fatal(err)
	}
	empty := sha256.Sum256(nil)
	link, _, err := v4.NewSigner().PresignHTTP(ctx, aws.Credentials{AccessKeyID: "TQALL001", SecretAccessKey: "canary-of-everything"}, presigned, hex.EncodeToString(empty[:]), "sqs", "us-east-1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if status, body := get(t, link); status != http.StatusOK || !strings.Contains(body, "orders") {
		t.Errorf("presigned: got %d %s, want the queues", status, body)
	}
	if status, body := call(t, s, "ListQueues", "{}"); status != http.StatusForbidden || !strings.Contains(body, "Request is missing Authentication Token") {
		t.Errorf("not signed: got %d %s, want 403", status, body)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if all := answers.String() + log.String(); strings.Contains(all, "canary") {
		t.Errorf("a secret is in the answers or in the log:\n%s", all)
	}
}

// With credentials, an address that others can reach needs no further flag. [AUTH-1]
func TestCredentialsAnywhere(t *testing.T) {
	keys, err := credentials.Open(credentials.Config{ID: "TQALL001", Secret: credentials.NewSecret("canary-of-everything")})
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(t)
	cfg.Listen = "0.0.0.0:0"
	if err := cfg.complete(); err == nil {
		t.Error("without credentials: got no error, want one")
	}
	cfg.Credentials = keys
	if err := cfg.complete(); err != nil {
		t.Errorf("with credentials: got %v, want no error", err)
	}
}

// Alarms need a key of the server's account, a signature for monitoring, and the right to the
// action. [AUTH-14, AUTH-38]
func TestCloudWatchCredentials(t *testing.T) {
	file := `{"credentials": [
		{"id": "TQALL001", "secret": "canary-of-everything", "name": "all", "allow": ["*"]},
		{"id": "TQREAD01", "secret": "canary-of-the-reader", "name": "reader", "allow": ["cloudwatch:Describe*", "tenaq:ListQueues"]},
		{"id": "TQENDED1", "secret": "canary-of-the-past", "allow": ["*"], "expires": "2020-01-01T00:00:00Z"},
		{"id": "TQOTHER1", "secret": "canary-of-the-other-account", "account": "444455556666", "allow": ["*"]}]}`
	keys := keysOf(t, file)
	cfg := config(t)
	cfg.Credentials = keys
	s, stop := run(t, cfg)
	ctx := t.Context()
	signed := func(r *http.Request, id, secret, service string) *http.Request {
		var body []byte
		if r.Body != nil {
			body, _ = io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		sum := sha256.Sum256(body)
		if err := v4.NewSigner().SignHTTP(ctx, aws.Credentials{AccessKeyID: id, SecretAccessKey: secret}, r, hex.EncodeToString(sum[:]), service, "us-east-1", time.Now()); err != nil {
			t.Fatal(err)
		}
		return r
	}
	do := func(r *http.Request) (int, string) {
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, resp.Header.Get("x-amzn-query-error") + " " + string(body)
	}
	request := func(method, path, target, body string) *http.Request {
		r, err := http.NewRequestWithContext(ctx, method, "http://"+s.Addr()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if target != "" {
			r.Header.Set("X-Amz-Target", "GraniteServiceVersion20100801."+target)
		}
		return r
	}
	const list = "/?Action=ListMetrics&Version=2010-08-01"
	for name, test := range map[string]struct {
		r      *http.Request
		status int
		want   string // begins the code and the body
	}{
		"everything":            {signed(request("POST", "/", "ListMetrics", "{}"), "TQALL001", "canary-of-everything", "monitoring"), 200, ""},
		"a form":                {signed(request("GET", list, "", ""), "TQALL001", "canary-of-everything", "monitoring"), 200, ""},
		"allowed":               {signed(request("POST", "/", "DescribeAlarms", "{}"), "TQREAD01", "canary-of-the-reader", "monitoring"), 200, ""},
		"not allowed":           {signed(request("POST", "/", "ListMetrics", "{}"), "TQREAD01", "canary-of-the-reader", "monitoring"), 403, "AccessDenied;"},
		"another account":       {signed(request("POST", "/", "ListMetrics", "{}"), "TQOTHER1", "canary-of-the-other-account", "monitoring"), 403, "AccessDenied;"},
		"another service":       {signed(request("POST", "/", "ListMetrics", "{}"), "TQALL001", "canary-of-everything", "sqs"), 403, "SignatureDoesNotMatch;"},
		"a wrong secret":        {signed(request("POST", "/", "ListMetrics", "{}"), "TQALL001", "canary-of-nobody-here", "monitoring"), 403, "SignatureDoesNotMatch;"},
		"an unknown key":        {signed(request("POST", "/", "ListMetrics", "{}"), "TQNOBODY", "canary-of-nobody-here", "monitoring"), 403, "InvalidClientTokenId;"},
		"a key that has ended":  {signed(request("POST", "/", "ListMetrics", "{}"), "TQENDED1", "canary-of-the-past", "monitoring"), 403, "ExpiredToken;"},
		"not signed":            {request("POST", "/", "ListMetrics", "{}"), 403, "MissingAuthenticationToken;"},
		"not signed, CBOR":      {request("POST", "/service/GraniteServiceVersion20100801/operation/ListMetrics", "", ""), 403, "MissingAuthenticationToken;"},
		"half a signature":      {request("GET", list+"&X-Amz-Credential=TQALL001/20260101/us-east-1/monitoring/aws4_request&X-Amz-Algorithm=AWS4-HMAC-SHA256", "", ""), 400, "IncompleteSignature;"},
		"queues, allowed":       {signed(request("GET", "/v1/queues", "", ""), "TQREAD01", "canary-of-the-reader", "sqs"), 200, ""},
		"alarms, not allowed":   {signed(request("GET", "/v1/alarms", "", ""), "TQREAD01", "canary-of-the-reader", "sqs"), 403, ""},
		"alarms of another":     {signed(request("GET", "/v1/alarms", "", ""), "TQOTHER1", "canary-of-the-other-account", "sqs"), 403, ""},
		"own queues of another": {signed(request("GET", "/v1/queues", "", ""), "TQOTHER1", "canary-of-the-other-account", "sqs"), 200, ""},
	} {
		if status, body := do(test.r); status != test.status || !strings.HasPrefix(body, test.want) || strings.Contains(body, "canary") {
			t.Errorf("%s: got %d %s, want %d %s", name, status, body, test.status, test.want)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A client that stops sending, or is gone, is not told that all went well, whichever service it
// asks. [WIRE-28]
func TestClientGone(t *testing.T) {
	cfg := config(t)
	s, stop := run(t, cfg)
	for name, request := range map[string]string{
		"a small body":        "POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.ListQueues\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: 100\r\n\r\n{",
		"a large body":        "POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.ListQueues\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: 100000\r\n\r\n{",
		"a form":              "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 3000\r\n\r\nAction=",
		"/v1":                 "POST /v1/alarms/silence HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"CloudWatch":          "POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: GraniteServiceVersion20100801.ListMetrics\r\nContent-Length: 100\r\n\r\n{",
		"CloudWatch, a large": "POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: GraniteServiceVersion20100801.ListMetrics\r\nContent-Length: 100000\r\n\r\n{",
		"STS":                 "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/sts/aws4_request, SignedHeaders=host, Signature=0\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nAction=",
	} {
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := conn.Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
		conn.(*net.TCPConn).CloseWrite()
		answer, err := io.ReadAll(conn)
		if err != nil || strings.HasPrefix(string(answer), "HTTP/1.1 200") {
			t.Errorf("%s: got %q and %v, want no success, and the connection closed", name, answer, err)
		}
		conn.Close()
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A caller without a key takes no memory for a body: it is refused when its headers have arrived.
// [AUTH-34]
func TestNoKeyNoBody(t *testing.T) {
	keys, err := credentials.Open(credentials.Config{ID: "TQALL001", Secret: credentials.NewSecret("canary-of-everything")})
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(t)
	cfg.Credentials = keys
	s, stop := run(t, cfg)
	for _, service := range []string{"sqs", "monitoring", "sts"} {
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now().UTC()
		conn.SetDeadline(now.Add(30 * time.Second))
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Date: %s\r\nContent-Length: 8000000\r\n"+
			"Authorization: AWS4-HMAC-SHA256 Credential=TQNOBODY/%s/us-east-1/%s/aws4_request, SignedHeaders=host;x-amz-date, Signature=%064d\r\n\r\n",
			now.Format("20060102T150405Z"), now.Format("20060102"), service, 0)
		answer := make([]byte, 12)
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 403" {
			t.Errorf("%s: got %q and %v, want 403 at once", service, answer, err)
		}
		conn.Close()
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A name that a stranger lets lead to this machine reaches neither the health page nor the admin
// address. [AUTH-2]
func TestStrangeHost(t *testing.T) {
	cfg := config(t)
	s, stop := run(t, cfg)
	for _, url := range []string{"http://" + s.Addr() + "/_localstack/health", "http://" + s.AdminAddr() + "/metrics", "http://" + s.AdminAddr() + "/livez"} {
		for host, want := range map[string]int{"": 200, "localhost:1": 200, "elsewhere.example": 403, "elsewhere.example:9325": 403} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s as %q: got %d, want %d", url, host, resp.StatusCode, want)
			}
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// Without credentials a page of another origin reaches no service by the GET of an image. [XML-37]
func TestImageOfAnotherOrigin(t *testing.T) {
	cfg := config(t)
	s, stop := run(t, cfg)
	for _, path := range []string{
		"/?Action=ListQueues", "/v1/queues", "/v1/alarms", "/?Action=GetCallerIdentity&Version=2011-06-15",
		"/?Action=ListMetrics&Version=2010-08-01&X-Amz-Credential=a/b/c/monitoring/aws4_request",
	} {
		for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Referer": "http://elsewhere.example/"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr()+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, from := range []string{"", value} {
				r.Header.Del(header)
				if from != "" {
					r.Header.Set(header, from)
				}
				resp, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[from == ""]; resp.StatusCode != want {
					t.Errorf("%s with %s %q: got %d, want %d", path, header, from, resp.StatusCode, want)
				}
			}
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
