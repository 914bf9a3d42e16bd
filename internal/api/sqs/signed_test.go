package sqs

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"tenaq/internal/api/sqs/sqswire"
)

// A signing is how a test signs a request.
type signing struct {
	id, secret, token string
	service, region   string
	shift             time.Duration // of the clock
	presign           time.Duration // how long it is good for, when not zero
	none              bool
	change            func(r *http.Request) // after it was signed
}

// makeSigned writes a request of ListQueues in one of the protocols.
func makeSigned(t *testing.T, s signing, query bool) *http.Request {
	t.Helper()
	method, address, body := "POST", "http://"+signHost+"/", "{}"
	if query {
		body = "Action=ListQueues&Version=2012-11-05"
	}
	if s.presign > 0 { // which is what GETs are for
		method, address, body = "GET", address+"?Action=ListQueues&X-Amz-Expires="+fmt.Sprint(int(s.presign.Seconds())), ""
	}
	r, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case s.presign > 0:
	case query:
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	default:
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
		r.Header.Set("X-Amz-Target", "AmazonSQS.ListQueues")
	}
	if !s.none {
		keys := aws.Credentials{AccessKeyID: s.id, SecretAccessKey: s.secret, SessionToken: s.token}
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
		at := time.Now().Add(s.shift)
		if s.presign > 0 {
			url, _, err := v4.NewSigner().PresignHTTP(context.Background(), keys, r, sum, s.service, s.region, at)
			if err != nil {
				t.Fatal(err)
			}
			if r.URL, err = r.URL.Parse(url); err != nil {
				t.Fatal(err)
			}
		} else if err := v4.NewSigner().SignHTTP(context.Background(), keys, r, sum, s.service, s.region, at); err != nil {
			t.Fatal(err)
		}
	}
	if s.change != nil {
		s.change(r)
	}
	return r
}

// A client sees the same answer to a signature in both protocols, over a connection: the status,
// the type in JSON, the code in XML, and one text.
// [AUTH-5, AUTH-7 to AUTH-16, ERR-2, ERR-3, XML-21, XML-22]
func TestSignaturesInBothProtocols(t *testing.T) {
	unfinished := func(r *http.Request) {
		whole, _, _ := strings.Cut(r.Header.Get("Authorization"), ", Signature=")
		r.Header.Set("Authorization", whole)
	}
	body := func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader("")), 0
	}
	const wrong = "The request signature we calculated does not match the signature you provided. " +
		"Check your AWS Secret Access Key and signing method. Consult the service documentation for details.\n\nThe Canonical String"
	cases := []struct {
		name   string
		change func(s *signing)
		status int // 200 for what is let in
		code   sqswire.ErrorCode
		text   string // how it begins
	}{
		{"signed", func(s *signing) {}, 200, "", ""},
		{"presigned", func(s *signing) { s.presign = time.Minute }, 200, "", ""},
		{"15 minutes slow", func(s *signing) { s.shift = -15 * time.Minute }, 200, "", ""},
		{"15 minutes fast", func(s *signing) { s.shift = 15 * time.Minute }, 200, "", ""},
		{"unsigned", func(s *signing) { s.none = true }, 403, "MissingAuthenticationToken", "Request is missing Authentication Token"},
		{"no signature", func(s *signing) { s.change = unfinished }, 400, "IncompleteSignature",
			"Authorization header requires 'Signature' parameter."},
		{"unknown key", func(s *signing) { s.id = "TQNOBODY" }, 403, "InvalidClientTokenId", "The security token included in the request is invalid."},
		{"a session token that the key has not", func(s *signing) { s.token = "x" }, 403, "InvalidClientTokenId", "The security token included in the request is invalid."},
		{"ended key", func(s *signing) { s.id, s.secret = "TQENDED1", "canary-of-the-ended-key" }, 403, "ExpiredToken",
			"The security token included in the request is expired"},
		{"presigned, a second too late", func(s *signing) { s.presign, s.shift = time.Minute, -time.Minute-time.Second }, 400, "RequestExpired",
			"Request has expired."},
		{"wrong secret", func(s *signing) { s.secret = "other" }, 403, "SignatureDoesNotMatch", wrong},
		{"altered body", func(s *signing) { s.change = body }, 403, "SignatureDoesNotMatch", wrong},
		{"more than 15 minutes slow", func(s *signing) { s.shift = -15*time.Minute - time.Second }, 403, "SignatureDoesNotMatch",
			"Signature expired: 20020101T004459Z is now earlier than 20020101T004500Z (20020101T010000Z - 15 min.)"},
		{"more than 15 minutes fast", func(s *signing) { s.shift = 15*time.Minute + time.Second }, 403, "SignatureDoesNotMatch",
			"Signature not yet current: 20020101T011501Z is still later than 20020101T011500Z (20020101T010000Z + 15 min.)"},
		{"another region", func(s *signing) { s.region = "mars-north-1" }, 403, "SignatureDoesNotMatch", "Credential should be scoped to a valid region."},
		{"another service", func(s *signing) { s.service = "s3" }, 403, "SignatureDoesNotMatch", "Credential should be scoped to correct service: 'sqs'."},
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2002, 1, 1, 1, 0, 0, 0, time.UTC))) // when one of the keys has ended
		door, _, _ := newDoor(t, `"sqs:*"`)
		w := newWorld(settings{sqs: Config{Door: door}})
		defer func() { w.stop(); time.Sleep(time.Second) }()
		var ids sync.Map
		for _, c := range cases {
			for _, query := range []bool{false, true} {
				s := signing{id: keyID, secret: secret, service: "sqs", region: "eu-central-1"}
				c.change(&s)
				query := query || s.presign > 0
				conn := w.listener.dial()
				go makeSigned(t, s, query).Write(conn)
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				answer, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				conn.Close()
				checkHeaders(t, resp, string(answer), &ids)
				if resp.StatusCode != c.status {
					t.Errorf("%s, query %v: got %d %s, want %d", c.name, query, resp.StatusCode, answer, c.status)
				}
				if c.status == 200 {
					continue
				}
				want := (&sqswire.Error{Code: c.code}).Info()
				var inJSON struct {
					Type    string `json:"__type"`
					Message string `json:"message"`
				}
				var inXML struct {
					Code    string `xml:"Error>Code"`
					Type    string `xml:"Error>Type"`
					Message string `xml:"Error>Message"`
				}
				if query {
					err = xml.Unmarshal(answer, &inXML)
				} else {
					err = json.Unmarshal(answer, &inJSON)
				}
				if err != nil {
					t.Errorf("%s, query %v: %v: %s", c.name, query, err, answer)
				}
				if query && (inXML.Code != string(c.code) || inXML.Type != "Sender") || !query && inJSON.Type != want.Type ||
					resp.Header.Get("X-Amzn-Query-Error") != string(c.code)+";Sender" {
					t.Errorf("%s, query %v: got %s, want %s", c.name, query, answer, c.code)
				}
				if got := inXML.Message + inJSON.Message; !strings.HasPrefix(got, c.text) {
					t.Errorf("%s, query %v: got the text %q, want %q", c.name, query, got, c.text)
				}
			}
		}
	})
}
