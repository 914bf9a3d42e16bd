package sigv4

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// signed returns a request as a client of SQS signs it, as a server receives it. Change, if there
// is one, comes before the signature.
func signed(t testing.TB, body string, key Key, at time.Time, presign bool, change func(r *http.Request)) *http.Request {
	t.Helper()
	r := httptest.NewRequest("POST", "http://"+testHost+"/", nil)
	r.RequestURI = ""
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	if !presign {
		r.Header.Set("X-Amz-Target", "AmazonSQS.SendMessage")
	}
	if change != nil {
		change(r)
	}
	s, err := sign(r, []byte(body), key, at, presign, "sqs")
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := receive(s.wire)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// outcome is what a verifier of SQS says: a code, its status and its text, or nothing.
func outcome(v *Verifier, r *http.Request, body string, key *Key) string {
	q, err := v.Parse(r, "sqs")
	if err == nil {
		err = q.Verify(key, sha256.Sum256([]byte(body)))
	}
	var refusal *Error
	switch {
	case errors.As(err, &refusal):
		return fmt.Sprint(refusal.Code, " ", refusal.Status, " ", refusal.Message)
	case err != nil:
		return err.Error()
	}
	return ""
}

const (
	badSignature = "SignatureDoesNotMatch 403 The request signature we calculated does not match the signature you provided. " +
		"Check your AWS Secret Access Key and signing method. Consult the service documentation for details.\n\n" +
		"The Canonical String for this request should have been\n'POST\n"
	unknownKey = "InvalidClientTokenId 403 The security token included in the request is invalid."
)

// TestRefusals changes a request after it was signed, or signs it differently.
// [AUTH-5 to AUTH-16, AUTH-32 to AUTH-34]
func TestRefusals(t *testing.T) {
	set := func(name, value string) func(r *http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	inAuthorization := func(old, new string) func(r *http.Request) {
		return func(r *http.Request) {
			was := r.Header.Get("Authorization")
			r.Header.Set("Authorization", strings.Replace(was, old, new, 1))
			if r.Header.Get("Authorization") == was {
				panic("nothing replaced: " + was)
			}
		}
	}
	without := func(name string) func(r *http.Request) { return func(r *http.Request) { r.Header.Del(name) } }
	const body = `{"QueueUrl":"q","MessageBody":"b"}`
	bodyHash := fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
	for _, test := range []struct {
		name          string
		before, after func(r *http.Request)
		want          string // the beginning of the outcome
	}{
		{name: "as it should be"},
		{name: "no Authorization", after: without("Authorization"), want: "MissingAuthenticationToken 403 Request is missing Authentication Token"},
		{name: "empty Authorization", after: set("Authorization", ""), want: "MissingAuthenticationToken 403"},
		{name: "another scheme", after: set("Authorization", "Basic YTpi"), want: "MissingAuthenticationToken 403"},
		{name: "Authorization twice", after: func(r *http.Request) { r.Header.Add("Authorization", r.Header.Get("Authorization")) },
			want: "IncompleteSignature 400"},
		{name: "header and query", after: func(r *http.Request) { r.URL.RawQuery = "X-Amz-Algorithm=AWS4-HMAC-SHA256" },
			want: "SignatureDoesNotMatch 403 Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header."},
		{name: "header and credential of a query", after: func(r *http.Request) { r.URL.RawQuery = "X-Amz-Credential=x" }, want: "SignatureDoesNotMatch 403 Found both"},

		{name: "nothing but the algorithm", after: set("Authorization", "AWS4-HMAC-SHA256"),
			want: "IncompleteSignature 400 Authorization header requires 'Credential' parameter. Authorization header requires 'Signature' parameter. " +
				"Authorization header requires 'SignedHeaders' parameter. Authorization=AWS4-HMAC-SHA256"},
		{name: "no date", after: without("X-Amz-Date"),
			want: "IncompleteSignature 400 Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. Authorization=AWS4-HMAC-SHA256 Credential="},
		{name: "no credential", after: inAuthorization("Credential=", "Credential= ,x"), want: "IncompleteSignature 400 'x"},
		{name: "empty signature", after: func(r *http.Request) {
			h := r.Header.Get("Authorization")
			r.Header.Set("Authorization", h[:len(h)-64])
		}, want: "IncompleteSignature 400 Authorization header requires 'Signature' parameter. Authorization="},
		{name: "no equal sign", after: inAuthorization("Signature=", "Signature "), want: "IncompleteSignature 400 'Signature "},
		{name: "parameter twice", after: inAuthorization("Signature=", "Signature=a, Signature="), want: "IncompleteSignature 400"},
		{name: "parameter of another scheme", after: inAuthorization("Signature=", "Realm=a, Signature="), want: "IncompleteSignature 400"},
		{name: "no spaces", after: func(r *http.Request) {
			r.Header.Set("Authorization", strings.ReplaceAll(r.Header.Get("Authorization"), ", ", ","))
		}},
		{name: "large", after: set("Authorization", "AWS4-HMAC-SHA256 "+strings.Repeat("a", authorizationMax)), want: "IncompleteSignature 400"},
		{name: "SHA-1", after: inAuthorization("SHA256", "SHA1"), want: "IncompleteSignature 400 Unsupported AWS 'algorithm': 'AWS4-HMAC-SHA1' (only AWS4-HMAC-SHA256 for now). "},
		{name: "version 4A", after: inAuthorization("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"), want: "IncompleteSignature 400 Unsupported AWS 'algorithm'"},

		{name: "service", after: inAuthorization("/sqs/", "/s3/"), want: "SignatureDoesNotMatch 403 Credential should be scoped to correct service: 'sqs'."},
		{name: "region", after: inAuthorization(testRegion, "us-east-1"), want: "SignatureDoesNotMatch 403 Credential should be scoped to a valid region."},
		{name: "no region", after: inAuthorization(testRegion, ""), want: "SignatureDoesNotMatch 403 Credential should be scoped to a valid region."},
		{name: "terminator", after: inAuthorization("aws4_request", "aws5"), want: "SignatureDoesNotMatch 403 Credential should be scoped with a valid terminator: 'aws4_request', not 'aws5'."},
		{name: "day", after: inAuthorization("/20261121/", "/20261120/"),
			want: "SignatureDoesNotMatch 403 Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '20261120' != '20261121', from '20261121T120000Z'."},
		{name: "everything in the scope", after: inAuthorization("20261121/"+testRegion+"/sqs/aws4_request", "b/c/d/e"),
			want: "SignatureDoesNotMatch 403 Credential should be scoped to a valid region. Credential should be scoped to correct service: 'sqs'. " +
				"Credential should be scoped with a valid terminator: 'aws4_request', not 'e'. Date in Credential scope does not match"},
		{name: "four elements", after: inAuthorization("/sqs/", "/"),
			want: "IncompleteSignature 400 Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got '" + testKeyID + "/20261121/eu-central-1/aws4_request'"},
		{name: "no key id", after: inAuthorization(testKeyID, ""), want: "IncompleteSignature 400 Credential must have exactly 5"},

		{name: "date of another form", after: set("X-Amz-Date", "2026-11-21T12:00:00Z"),
			want: "IncompleteSignature 400 Date must be in ISO-8601 'basic format'. Got '2026-11-21T12:00:00Z'. See http://en.wikipedia.org/wiki/ISO_8601"},
		{name: "date changed", after: set("X-Amz-Date", "20261121T120001Z"), want: badSignature},

		{name: "host not signed", after: inAuthorization("host;", ""), want: "SignatureDoesNotMatch 403 'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization."},
		{name: "two hosts", after: set("Host", "other"), want: "SignatureDoesNotMatch 403 'Host'"},
		{name: "target not signed", after: inAuthorization(";x-amz-target", ""), want: "SignatureDoesNotMatch 403 'X-Amz-Target' must be a 'SignedHeader'"},
		{name: "date not signed", after: inAuthorization(";x-amz-date", ""), want: "SignatureDoesNotMatch 403 'X-Amz-Date' must be a 'SignedHeader'"},
		{name: "another header not signed", after: set("X-Amz-Anything", ""), want: "SignatureDoesNotMatch 403 'X-Amz-Anything' must be a 'SignedHeader'"},
		{name: "header of X-Ray not signed", after: set("X-Amzn-Trace-Id", "Root=1")},
		{name: "target twice", after: func(r *http.Request) { r.Header.Add("X-Amz-Target", "AmazonSQS.PurgeQueue") }, want: "SignatureDoesNotMatch 403 The header 'X-Amz-Target' is in the request more than once."},
		{name: "name twice", after: inAuthorization("host;", "host;host;"), want: "SignatureDoesNotMatch 403 'SignedHeaders' must be sorted"},
		{name: "not sorted", after: inAuthorization("content-type;host", "host;content-type"), want: "SignatureDoesNotMatch 403 'SignedHeaders' must be sorted"},
		{name: "upper case", after: inAuthorization("host", "Host"), want: "SignatureDoesNotMatch 403 'Host' is not the name of a header"},
		{name: "empty name", after: inAuthorization("host;", "host;;"), want: "SignatureDoesNotMatch 403 '' is not"},
		{name: "signed and not there", after: inAuthorization("host;", "host;more;"), want: "SignatureDoesNotMatch 403 The header 'more' is among"},
		{name: "many", after: inAuthorization("host;", "host;"+strings.Repeat("i;", signedMax)), want: "IncompleteSignature 400"},

		{name: "target changed", after: set("X-Amz-Target", "AmazonSQS.PurgeQueue"), want: badSignature},
		{name: "method changed", after: func(r *http.Request) { r.Method = "PUT" }, want: strings.Replace(badSignature, "POST", "PUT", 1)},
		{name: "type changed", after: set("Content-Type", "text/plain"), want: badSignature},
		{name: "path changed", after: func(r *http.Request) { r.URL.Path = "//" }, want: badSignature},
		{name: "query changed", after: func(r *http.Request) { r.URL.RawQuery = "Action=PurgeQueue" }, want: badSignature},
		{name: "query that cannot be decoded", after: func(r *http.Request) { r.URL.RawQuery = "a=%zz" }, want: "IncompleteSignature 400 The query string cannot be decoded."},
		{name: "query with a semicolon", after: func(r *http.Request) { r.URL.RawQuery = "a=1;b=2" }, want: "IncompleteSignature 400 The query string cannot be decoded."},
		{name: "large query", after: func(r *http.Request) { r.URL.RawQuery = strings.Repeat("&", parametersMax) }, want: "IncompleteSignature 400 The query string has more than"},

		{name: "hash of the body", before: set("X-Amz-Content-Sha256", bodyHash)},
		{name: "hash of another body", before: set("X-Amz-Content-Sha256", strings.Repeat("0", 64)), want: badSignature},
		{name: "hash in upper case", before: set("X-Amz-Content-Sha256", strings.ToUpper(bodyHash)), want: "SignatureDoesNotMatch 403 The header x-amz-content-sha256 must be"},
		{name: "empty hash", before: set("X-Amz-Content-Sha256", ""), want: "SignatureDoesNotMatch 403 The header x-amz-content-sha256 must be"},
		{name: "body not signed", before: set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD"), want: "SignatureDoesNotMatch 403 The header x-amz-content-sha256 must be"},
		{name: "body in pieces", before: set("X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), want: "SignatureDoesNotMatch 403 The header x-amz-content-sha256 must be"},
		{name: "token where there is none", before: set("X-Amz-Security-Token", "t"), want: unknownKey},

		{name: "path //", before: func(r *http.Request) { r.URL.Path = "//a//b" }},
		{name: "path /./", before: func(r *http.Request) { r.URL.Path = "/./a" }},
		{name: "path %2f", before: func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/a/b", "/a%2fb" }},
		{name: "path %2f, other case", before: func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/a/b", "/a%2fb" },
			after: func(r *http.Request) { r.URL.RawPath = "/a%2Fb" }, want: badSignature},
		{name: "path %2f, decoded", before: func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/a/b", "/a%2fb" },
			after: func(r *http.Request) { r.URL.RawPath = "" }, want: badSignature},
		{name: "path /./, without it", before: func(r *http.Request) { r.URL.Path = "/./a" },
			after: func(r *http.Request) { r.URL.Path = "/a" }, want: badSignature},
		{name: "keys of a query twice", before: func(r *http.Request) { r.URL.RawQuery = "b=2&a=&b=1&a=%2f" }},
		{name: "parameters in another order", before: func(r *http.Request) { r.URL.RawQuery = "a=1&b=2&b=3" }, after: func(r *http.Request) { r.URL.RawQuery = "b=3&b=2&&a=1" }},
		{name: "space as plus", before: func(r *http.Request) { r.URL.RawQuery = "a=1+2" }},
		{name: "plus for %20", before: func(r *http.Request) { r.URL.RawQuery = "a=1%202" }, after: func(r *http.Request) { r.URL.RawQuery = "a=1+2" }},
		{name: "plus for %2B", before: func(r *http.Request) { r.URL.RawQuery = "a=1%2B2" }, after: func(r *http.Request) { r.URL.RawQuery = "a=1+2" }, want: badSignature},
		{name: "NFC for NFD", before: func(r *http.Request) { r.URL.RawQuery = "a=e%CC%81" }, after: func(r *http.Request) { r.URL.RawQuery = "a=%C3%A9" }, want: badSignature},
		{name: "header with spaces", before: set("X-Amz-Meta", "a   b  c"), after: set("X-Amz-Meta", " a b c ")},
		{name: "header with other spaces", before: set("X-Amz-Meta", "a b"), after: set("X-Amz-Meta", "ab"), want: badSignature},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := signed(t, body, testKey, testNow, false, test.before)
			if test.after != nil {
				test.after(r)
			}
			got := outcome(newTestVerifier(Config{Region: testRegion}), r, body, &testKey)
			if !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

func TestWrongBody(t *testing.T) {
	r := signed(t, "body", testKey, testNow, false, nil)
	if got := outcome(newTestVerifier(Config{}), r, "bodY", &testKey); !strings.HasPrefix(got, badSignature) {
		t.Errorf("got %q, want %q", got, badSignature)
	}
}

// TestWrongSignatureText shows the text once as a whole. [AUTH-9]
func TestWrongSignatureText(t *testing.T) {
	r := signed(t, "", testKey, testNow, false, func(r *http.Request) { r.URL.RawQuery = "b=&a=x y" })
	got := outcome(newTestVerifier(Config{}), r, "", &Key{Secret: "another secret"})
	want := "SignatureDoesNotMatch 403 The request signature we calculated does not match the signature you provided. " +
		"Check your AWS Secret Access Key and signing method. Consult the service documentation for details.\n\n" +
		"The Canonical String for this request should have been\n" +
		"'POST\n/\na=x%20y&b=\ncontent-type:application/x-amz-json-1.0\nhost:queue.example.com:9324\nx-amz-date:20261121T120000Z\n" +
		"x-amz-target:AmazonSQS.SendMessage\n\ncontent-type;host;x-amz-date;x-amz-target\ne3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'\n\n" +
		"The String-to-Sign should have been\n" +
		"'AWS4-HMAC-SHA256\n20261121T120000Z\n20261121/eu-central-1/sqs/aws4_request\n"
	rest, found := strings.CutPrefix(got, want)
	if !found || len(rest) != 64+len("'\n") {
		t.Errorf("got  %q\nwant %q, and a hash", got, want)
	}
}

// TestTextsHoldNoSecret has everything secret in a request that is refused. [AUTH-35]
func TestTextsHoldNoSecret(t *testing.T) {
	const token, cookie = "token/+canary==", "cookie-canary"
	for _, presign := range []bool{false, true} {
		r := signed(t, "", Key{Secret: "secret-canary", Token: token}, testNow, presign, func(r *http.Request) {
			r.Header.Set("Cookie", cookie)
			r.Header.Set("Other", strings.Repeat("x", 10*echoMax))
		})
		got := outcome(newTestVerifier(Config{}), r, "", &Key{Secret: "other-canary", Token: token})
		if !strings.Contains(got, "should have been") || strings.Contains(got, "canary") || len(got) > 2*echoMax {
			t.Errorf("presigned %v: got %d bytes %q, want a short text without secrets", presign, len(got), got)
		}
	}
}

// TestDates checks both ends to the second. [AUTH-7, AUTH-8]
func TestDates(t *testing.T) {
	for _, test := range []struct {
		age  time.Duration
		want string
	}{
		{0, ""},
		{15 * time.Minute, ""},
		{15*time.Minute + time.Second, "SignatureDoesNotMatch 403 Signature expired: 20261121T114459Z is now earlier than 20261121T114500Z (20261121T120000Z - 15 min.)"},
		{-15 * time.Minute, ""},
		{-15*time.Minute - time.Second, "SignatureDoesNotMatch 403 Signature not yet current: 20261121T121501Z is still later than 20261121T121500Z (20261121T120000Z + 15 min.)"},
	} {
		// The clock is never just at a second.
		v := newTestVerifier(Config{Now: func() time.Time { return testNow.Add(900 * time.Millisecond) }})
		for _, presign := range []bool{false, true} {
			r := signed(t, "", testKey, testNow.Add(-test.age), presign, nil)
			if got := outcome(v, r, "", &testKey); got != test.want {
				t.Errorf("age %v, presigned %v: got %q, want %q", test.age, presign, got, test.want)
			}
		}
	}
}

// The header Date stands in for X-Amz-Date when it is signed. [AUTH-33]
func TestDateHeader(t *testing.T) {
	r := signed(t, "", testKey, testNow, false, nil)
	date := testNow.Format(http.TimeFormat)
	r.Header.Del("X-Amz-Date")
	r.Header.Set("Date", date)
	resign := func(names string) string {
		q := &Request{v: newTestVerifier(Config{}), http: r, date: testNow, scope: "20261121/eu-central-1/sqs/aws4_request",
			Region: testRegion, Service: "sqs", signedNames: names, signed: strings.Split(names, ";")}
		text := q.stringToSign(q.appendCanonical(nil, testHost, fmt.Sprintf("%x", sha256.Sum256(nil))))
		return fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%x", testKeyID, q.scope, names,
			q.v.hmac(q.v.keys.get(q, "", testKey.Secret), text))
	}
	for names, want := range map[string]string{
		"content-type;date;host;x-amz-target": "",
		"content-type;host;x-amz-target":      "SignatureDoesNotMatch 403 'Date' must be a 'SignedHeader' in the AWS Authorization.",
	} {
		r.Header.Set("Authorization", resign(names))
		if got := outcome(newTestVerifier(Config{}), r, "", &testKey); got != want {
			t.Errorf("%s: got %q, want %q", names, got, want)
		}
	}
}

// [AUTH-16]
func TestPresigned(t *testing.T) {
	expires := func(v string) func(*http.Request) {
		return func(r *http.Request) { r.URL.RawQuery = "X-Amz-Expires=" + v }
	}
	change := func(old, new string) func(*http.Request) {
		return func(r *http.Request) { r.URL.RawQuery = strings.Replace(r.URL.RawQuery, old, new, 1) }
	}
	const badExpires = "IncompleteSignature 400 X-Amz-Expires must be a number of seconds from 1 to 604800."
	for _, test := range []struct {
		name          string
		age           time.Duration
		before, after func(r *http.Request)
		want          string
	}{
		{name: "last second", age: time.Hour, before: expires("3600")},
		{name: "a second later", age: time.Hour + time.Second, before: expires("3600"), want: "RequestExpired 400 Request has expired."},
		{name: "a week", age: 7 * 24 * time.Hour, before: expires("604800")},
		{name: "more than a week", before: expires("604801"), want: badExpires},
		{name: "much more", before: expires("99999999999999999999"), want: badExpires},
		{name: "zero", before: expires("0"), want: badExpires},
		{name: "negative", before: expires("-1"), want: badExpires},
		{name: "no number", before: expires("1h"), want: badExpires},
		{name: "empty", before: expires(""), want: "IncompleteSignature 400 AWS query-string parameters must include 'X-Amz-Expires'. Re-examine the query-string parameters."},
		{name: "longer than signed", before: expires("60"), after: change("X-Amz-Expires=60", "X-Amz-Expires=61"), want: badSignature},
		{name: "twice", before: expires("60"), after: change("X-Amz-Expires=60", "X-Amz-Expires=60&X-Amz-Expires=61"), want: "IncompleteSignature 400 The parameter 'X-Amz-Expires' is in the query string more than once."},
		{name: "no signature", after: change("X-Amz-Signature", "X"), want: "IncompleteSignature 400 AWS query-string parameters must include 'X-Amz-Signature'. Re-examine the query-string parameters."},
		{name: "no date", after: change("X-Amz-Date", "X"), want: "IncompleteSignature 400 AWS query-string parameters must include 'X-Amz-Date'. Re-examine"},
		{name: "algorithm", after: change("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1"), want: "IncompleteSignature 400 Unsupported AWS 'algorithm'"},
		{name: "with a target", after: func(r *http.Request) { r.Header.Set("X-Amz-Target", "AmazonSQS.PurgeQueue") }, want: "SignatureDoesNotMatch 403 'X-Amz-Target' must be a 'SignedHeader'"},
		{name: "with a token in a header", after: func(r *http.Request) {
			r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "%3Bhost", "%3Bhost%3Bx-amz-security-token", 1)
			r.Header.Set("X-Amz-Security-Token", "t")
		}, want: "SignatureDoesNotMatch 403 A presigned request has its session token in the query string"},
		{name: "and Authorization", after: func(r *http.Request) { r.Header.Set("Authorization", "AWS4-HMAC-SHA256") }, want: "SignatureDoesNotMatch 403 Found both"},
	} {
		r := signed(t, "", testKey, testNow.Add(-test.age), true, test.before)
		if test.after != nil {
			test.after(r)
		}
		got := outcome(newTestVerifier(Config{Region: testRegion}), r, "", &testKey)
		if !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: got  %q\nwant %q", test.name, got, test.want)
		}
	}
}

// [AUTH-10, AUTH-11]
func TestKeys(t *testing.T) {
	const expired = "ExpiredToken 403 The security token included in the request is expired"
	withToken := Key{Secret: testKey.Secret, Token: "token+/="}
	for _, test := range []struct {
		name   string
		signed Key
		key    *Key
		want   string
	}{
		{"unknown", testKey, nil, unknownKey},
		{"with its token", withToken, &withToken, ""},
		{"token stripped", testKey, &withToken, unknownKey},
		{"token that the key has not", withToken, &testKey, unknownKey},
		{"another token", Key{Secret: testKey.Secret, Token: "other"}, &withToken, unknownKey},
		{"expired", testKey, &Key{Secret: testKey.Secret, Expires: testNow}, expired},
		{"expires", testKey, &Key{Secret: testKey.Secret, Expires: testNow.Add(time.Second)}, ""},
		{"expired, of somebody else", testKey, &Key{Secret: "another secret", Expires: testNow}, badSignature},
	} {
		for _, presign := range []bool{false, true} {
			r := signed(t, "", test.signed, testNow, presign, nil)
			got := outcome(newTestVerifier(Config{}), r, "", test.key)
			if !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
				t.Errorf("%s, presigned %v: got  %q\nwant %q", test.name, presign, got, test.want)
			}
		}
	}
}

// A proxy may write a Host of its own. [AUTH-36]
func TestHosts(t *testing.T) {
	v := newTestVerifier(Config{Hosts: []string{"public.example.com", testHost}})
	r := signed(t, "", testKey, testNow, false, nil)
	for host, want := range map[string]string{testHost: "", "10.0.0.7:9324": ""} {
		if r.Host = host; outcome(v, r, "", &testKey) != want {
			t.Errorf("host %s: got %q, want %q", host, outcome(v, r, "", &testKey), want)
		}
	}
	r = signed(t, "", testKey, testNow, false, func(r *http.Request) { r.Host = "elsewhere.example.com" })
	r.Host = "10.0.0.7:9324"
	if got := outcome(v, r, "", &testKey); !strings.HasPrefix(got, badSignature) {
		t.Errorf("signed for elsewhere: got %q, want %q", got, badSignature)
	}
}

// TestUnknownKeyCostsTheSame counts hashes instead of time: those that are made for a key that is
// not known, and for one that is. [AUTH-34]
func TestUnknownKeyCostsTheSame(t *testing.T) {
	work := 0
	v := newTestVerifier(Config{Hosts: []string{"a", "b"}})
	v.work = func() { work++ }
	wrong := &Key{Secret: "another secret"}
	cost := func(key *Key, id string) int {
		r := signed(t, "", testKey, testNow, false, nil)
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), testKeyID, id, 1))
		work = 0
		outcome(v, r, "", key)
		return work
	}
	for round, want := range []int{4 + 3*2, 3 * 2, 3 * 2} { // the signing key, then for each host the request and its signature
		known, unknown := cost(wrong, testKeyID), cost(nil, fmt.Sprint("AKID", round))
		if known != want || unknown != want {
			t.Errorf("round %d: got %d hashes for a known key and %d for an unknown one, want %d for both", round, known, unknown, want)
		}
	}
	if n := len(v.keys.keys); n != 2 {
		t.Errorf("got %d signing keys remembered, want 2: made-up key ids have no place there", n)
	}
}

// A secret that was changed takes effect at once, and the cache stays bounded.
func TestKeyCache(t *testing.T) {
	v := newTestVerifier(Config{})
	r := signed(t, "", testKey, testNow, false, nil)
	for i := range 3 * cacheMax {
		if got := outcome(v, r, "", &Key{Secret: fmt.Sprint("changed", i)}); !strings.HasPrefix(got, badSignature) {
			t.Fatalf("got %q, want %q", got, badSignature)
		}
		if n := len(v.keys.keys); n > cacheMax {
			t.Fatalf("got %d signing keys, want at most %d", n, cacheMax)
		}
	}
	if got := outcome(v, r, "", &testKey); got != "" {
		t.Errorf("got %q, want it to be valid", got)
	}
}

// BenchmarkVerify compares a check with what it cannot do without, the SHA-256 of the body.
func BenchmarkVerify(b *testing.B) {
	for _, size := range []int{100, 4 << 10, 256 << 10} {
		body := strings.Repeat("x", size)
		r := signed(b, body, testKey, testNow, false, nil)
		v := newTestVerifier(Config{Region: testRegion})
		b.Run(fmt.Sprintf("body=%d/hash", size), func(b *testing.B) {
			for b.Loop() {
				sha256.Sum256([]byte(body))
			}
		})
		b.Run(fmt.Sprintf("body=%d/check", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := outcome(v, r, body, &testKey); got != "" {
					b.Fatal(got)
				}
			}
		})
	}
}
