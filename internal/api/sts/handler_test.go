package sts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"tenaq/internal/door/auth"
	"tenaq/internal/door/credentials"
)

const form = "application/x-www-form-urlencoded; charset=utf-8"

// open lets every request in as the root user of an account.
var open = auth.New(auth.Config{Account: "1111&2222"})

func post(body string) *http.Request {
	r := httptest.NewRequest("POST", "/", strings.NewReader(body))
	r.Header.Set("Content-Type", form)
	return r
}

var idPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

// [AUTH-49]
func TestAnswers(t *testing.T) {
	const (
		ask     = "Action=GetCallerIdentity&Version=2011-06-15"
		xmlns   = ` xmlns="https://sts.amazonaws.com/doc/2011-06-15/">`
		success = `200 text/xml <GetCallerIdentityResponse` + xmlns +
			`<GetCallerIdentityResult><Arn>arn:aws:iam::1111&amp;2222:root</Arn><UserId>1111&amp;2222</UserId><Account>1111&amp;2222</Account></GetCallerIdentityResult>` +
			`<ResponseMetadata><RequestId>ID</RequestId></ResponseMetadata></GetCallerIdentityResponse>`
	)
	failure := func(status, code, message string) string {
		return status + ` text/xml <ErrorResponse` + xmlns + `<Error><Type>Sender</Type><Code>` + code + `</Code><Message>` + message +
			`</Message></Error><RequestId>ID</RequestId></ErrorResponse>`
	}
	with := func(r *http.Request, header, value string) *http.Request {
		r.Header.Set(header, value)
		return r
	}
	for _, test := range []struct {
		name string
		r    *http.Request
		want string
	}{
		{"form", post(ask), success},
		{"no version", post("Action=GetCallerIdentity"), success},
		{"GET", httptest.NewRequest("GET", "/?"+ask, nil), success},
		{"action in the address of a POST", httptest.NewRequest("POST", "/?"+ask, nil), success},
		{"JSON", with(post(ask), "Accept", "application/json"), `200 application/json {"GetCallerIdentityResponse":{"GetCallerIdentityResult":` +
			`{"Account":"1111\u00262222","Arn":"arn:aws:iam::1111\u00262222:root","UserId":"1111\u00262222"},"ResponseMetadata":{"RequestId":"ID"}}}`},
		{"refused before the body", with(post(ask), "Origin", "http://elsewhere"), failure("403", "AccessDenied", "Requests from web pages of other origins are refused.")},
		{"refused before the body, JSON", with(with(post(ask), "Origin", "http://elsewhere"), "Accept", "application/json"),
			`403 application/json {"Error":{"Code":"AccessDenied","Message":"Requests from web pages of other origins are refused.","Type":"Sender"},"RequestId":"ID"}`},
		{"another action, escaped", post("Action=%3Cx%3E&Version=2011-06-15"),
			failure("400", "InvalidAction", "Could not find operation &lt;x&gt; for version 2011-06-15: this server has GetCallerIdentity of version 2011-06-15 only.")},
		{"another action", post("Action=AssumeRole&Version=2011-06-15"),
			failure("400", "InvalidAction", "Could not find operation AssumeRole for version 2011-06-15: this server has GetCallerIdentity of version 2011-06-15 only.")},
		{"another version", post("Action=GetCallerIdentity&Version=2012-11-05"),
			failure("400", "InvalidAction", "Could not find operation GetCallerIdentity for version 2012-11-05: this server has GetCallerIdentity of version 2011-06-15 only.")},
		{"no action", post("x=%zz"), failure("400", "MissingAction", "The request is not a form with the parameter Action.")},
		{"PUT", httptest.NewRequest("PUT", "/?"+ask, nil), failure("400", "MissingAction", "The request is not a form with the parameter Action.")},
		{"too large", post(ask + strings.Repeat("&", bodyMax)), failure("413", "MalformedInput", "The body of the request is larger than 16 KiB.")},
		{"cut off", httptest.NewRequest("POST", "/", iotest.ErrReader(io.ErrUnexpectedEOF)), failure("400", "MalformedInput", "The body ended early.")},
	} {
		w := httptest.NewRecorder()
		New(open).ServeHTTP(w, test.r)
		id := map[string][]string(w.Header())["x-amzn-RequestId"][0] // with its name as it is written
		got := w.Result().Status[:3] + " " + w.Header().Get("Content-Type") + " " + strings.ReplaceAll(w.Body.String(), id, "ID")
		if got != test.want || !idPattern.MatchString(id) {
			t.Errorf("%s:\ngot  %s\nwant %s", test.name, got, test.want)
		}
		if strings.Contains(got, "text/xml") && xml.Unmarshal(w.Body.Bytes(), new(struct{})) != nil || strings.Contains(got, "application/json") && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: cannot be parsed: %s", test.name, w.Body)
		}
	}
}

// The signature is of the body, and is verified before the body is decoded: a changed body is not
// told which action it has.
func TestChangedBody(t *testing.T) {
	keys, err := credentials.Open(credentials.Config{ID: "TQALL001", Secret: credentials.NewSecret("canary-of-everything"), Account: "000000000000"})
	if err != nil {
		t.Fatal(err)
	}
	h := New(auth.New(auth.Config{Credentials: keys, Account: "000000000000", Region: "us-east-1"}))
	const ask = "Action=GetCallerIdentity&Version=2011-06-15"
	for body, want := range map[string]string{
		ask:                 "<Arn>arn:aws:iam::000000000000:user/TQALL001</Arn>",
		"Action=AssumeRole": "<Code>SignatureDoesNotMatch</Code>",
		"":                  "<Code>SignatureDoesNotMatch</Code>",
	} {
		r, sum := post(body), sha256.Sum256([]byte(ask))
		if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: "TQALL001", SecretAccessKey: "canary-of-everything"}, r,
			hex.EncodeToString(sum[:]), "sts", "us-east-1", time.Now()); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%q: got %d %s, want %s", body, w.Code, w.Body, want)
		}
	}
}

// [AUTH-49]
func TestIs(t *testing.T) {
	signed := func(service string) *http.Request {
		r := post("Action=GetCallerIdentity")
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=TQ01/20260101/us-east-1/"+service+"/aws4_request, SignedHeaders=host, Signature=00")
		return r
	}
	target := signed("sts")
	target.Header.Set("X-Amz-Target", "AmazonSQS.ListQueues")
	for name, test := range map[string]struct {
		r    *http.Request
		want bool
	}{
		"for STS":           {signed("sts"), true},
		"for SQS":           {signed("sqs"), false},
		"presigned for STS": {httptest.NewRequest("GET", "/?Action=GetCallerIdentity&X-Amz-Credential=TQ01%2F20260101%2Fus-east-1%2Fsts%2Faws4_request", nil), true},
		"presigned for SQS": {httptest.NewRequest("GET", "/?Action=ListQueues&X-Amz-Credential=TQ01%2F20260101%2Fus-east-1%2Fsqs%2Faws4_request", nil), false},
		"GET":               {httptest.NewRequest("GET", "/?Action=GetCallerIdentity&Version=2011-06-15", nil), true},
		"GET of another":    {httptest.NewRequest("GET", "/?Action=ListQueues&QueueNamePrefix=Action=GetCallerIdentity", nil), false},
		"a target":          {target, false},
		"not signed":        {post("Action=GetCallerIdentity"), false},
	} {
		if got := Is(test.r); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

// Reading a body in advance leaves it as it was.
func TestIsUnsigned(t *testing.T) {
	const send = "Action=SendMessage&MessageBody=Action%3DGetCallerIdentity"
	json, authorized, get := post("Action=GetCallerIdentity"), post("Action=GetCallerIdentity"), httptest.NewRequest("GET", "/", nil)
	json.Header.Set("Content-Type", "application/x-amz-json-1.0")
	authorized.Header.Set("Authorization", "x")
	chunked := post("Action=GetCallerIdentity")
	chunked.ContentLength = -1
	for name, test := range map[string]struct {
		r    *http.Request
		want bool
		body string
	}{
		"form":       {post("Version=2011-06-15&Action=GetCallerIdentity"), true, "Version=2011-06-15&Action=GetCallerIdentity"},
		"escaped":    {post("Action=Get%43allerIdentity"), true, "Action=Get%43allerIdentity"},
		"for SQS":    {post(send), false, send},
		"no form":    {post("%zz"), false, "%zz"},
		"large":      {post("Action=GetCallerIdentity&x=" + strings.Repeat("x", peekMax)), false, "Action=GetCallerIdentity&x=" + strings.Repeat("x", peekMax)},
		"empty":      {post(""), false, ""},
		"JSON":       {json, false, "Action=GetCallerIdentity"},
		"signed":     {authorized, false, "Action=GetCallerIdentity"},
		"chunked":    {chunked, false, "Action=GetCallerIdentity"},
		"not a POST": {get, false, ""},
	} {
		got := IsUnsigned(test.r)
		body, err := io.ReadAll(test.r.Body)
		if got != test.want || string(body) != test.body || err != nil {
			t.Errorf("%s: got %v with the body %q, %v, want %v with %q", name, got, body, err, test.want, test.body)
		}
	}
	broken := post("")
	broken.ContentLength = 10
	broken.Body = io.NopCloser(io.MultiReader(strings.NewReader("Action="), iotest.ErrReader(io.ErrUnexpectedEOF)))
	got := IsUnsigned(broken)
	body, err := io.ReadAll(broken.Body)
	if got || string(body) != "Action=" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut off: got %v, %q, %v, want what came and the same error", got, body, err)
	}
}
