package sigv4

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"tenaq/internal/testing/proof"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// The official signer is the other half of this package: a request that it signs must be valid, and
// a request that differs must not.

var (
	testNow = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	testKey = Key{Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
)

const (
	testKeyID  = "AKIDEXAMPLE"
	testRegion = "eu-central-1"
	testHost   = "queue.example.com:9324"
)

func newTestVerifier(cfg Config) *Verifier {
	if cfg.Now == nil {
		cfg.Now = func() time.Time { return testNow }
	}
	return New(cfg)
}

// A sending is a signed request as bytes on a connection.
type sending struct {
	wire []byte
	key  Key
}

// sign signs a request with the official signer and writes it.
func sign(r *http.Request, body []byte, key Key, at time.Time, presign bool, service string) (sending, error) {
	sum := sha256.Sum256(body)
	creds := aws.Credentials{AccessKeyID: testKeyID, SecretAccessKey: key.Secret, SessionToken: key.Token}
	r.ContentLength = int64(len(body))
	signer := v4.NewSigner()
	if presign {
		signed, header, err := signer.PresignHTTP(context.Background(), creds, r, hex.EncodeToString(sum[:]), service, testRegion, at)
		if err != nil {
			return sending{}, err
		}
		if r.URL, err = url.Parse(signed); err != nil {
			return sending{}, err
		}
		header.Del("Host")
		header.Del("Content-Length")
		r.Header = header
	} else if err := signer.SignHTTP(context.Background(), creds, r, hex.EncodeToString(sum[:]), service, testRegion, at); err != nil {
		return sending{}, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var wire bytes.Buffer
	err := r.Write(&wire)
	return sending{wire.Bytes(), key}, err
}

// receive reads a request as a server does.
func receive(wire []byte) (*http.Request, []byte, error) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(wire)))
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(r.Body)
	return r, body, err
}

// verify is what a server does. The key id is no part of what is signed: it decides which secret is
// asked for.
func verify(v *Verifier, r *http.Request, body []byte, key *Key) error {
	q, err := v.Parse(r, "sqs", "monitoring")
	if err != nil {
		return err
	}
	if q.KeyID != testKeyID {
		key = nil
	}
	return q.Verify(key, sha256.Sum256(body))
}

// A maker makes random requests.
type maker struct{ *rand.Rand }

func (m maker) pick(from ...string) string { return from[m.IntN(len(from))] }

func (m maker) text(most int) string {
	var b strings.Builder
	for range m.IntN(most + 1) {
		b.WriteString(m.pick("a", "B", "7", "-", "_", ".", "~", " ", "  ", "+", "%", "%2f", "/", "&", "=", ":", "@", "*", "'", "é", "e\u0301", "日", "\t", ",", "$"))
	}
	return b.String()
}

func (m maker) path() (path, raw string) {
	raw = m.pick("/", "/", "/000000000000/orders", "/a//b", "/./x", "/a/../b", "/%2f", "/%2Fx", "/%2e%2e/x", "/a%c3%a9", "/a%C3%A9/b+c", "/a:b@c$d", "/a b'c*", "//x", "/%25", "/~-_.")
	path, _ = url.PathUnescape(raw)
	return path, raw
}

func (m maker) request() (sending, error) {
	u := &url.URL{Scheme: "http", Host: testHost}
	u.Path, u.RawPath = m.path()
	values := url.Values{}
	for range m.IntN(4) {
		values.Add(m.pick("a", "a", "A", "b-c", "ü", m.text(3)), m.pick("", "1", m.text(6)))
	}
	presign := m.IntN(3) == 0
	if presign && m.IntN(2) == 0 {
		values.Set("X-Amz-Expires", fmt.Sprint(1+m.IntN(604800)))
	}
	u.RawQuery = values.Encode()
	r := &http.Request{Method: m.pick("GET", "POST", "POST", "PUT"), URL: u, Host: testHost, Header: http.Header{}}
	var body []byte
	if r.Method != "GET" {
		body = []byte(m.text(40))
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("User-Agent", "test/1")
	if m.IntN(2) == 0 {
		r.Header.Set("X-Amz-Target", "AmazonSQS.SendMessage")
	}
	if m.IntN(4) == 0 {
		r.Header.Set("X-Amz-Content-Sha256", fmt.Sprintf("%x", sha256.Sum256(body)))
	}
	for range m.IntN(3) {
		r.Header.Add(m.pick("My-Header", "Other", "Accept"), "v"+m.text(8))
	}
	key := testKey
	if m.IntN(3) == 0 {
		key.Token = "TOKEN/" + m.pick("a+b=", "zz", "%41")
	}
	return sign(r, body, key, testNow.Add(-time.Duration(m.IntN(60))*time.Second), presign, m.pick("sqs", "monitoring"))
}

// differences change a signed request in a way that must not be accepted. They report whether they
// could.
var differences = map[string]func(m maker, r *http.Request, body *[]byte) bool{
	"byte of the body": func(m maker, r *http.Request, body *[]byte) bool {
		if len(*body) == 0 {
			return false
		}
		(*body)[m.IntN(len(*body))] ^= 1
		return true
	},
	"longer body": func(_ maker, _ *http.Request, body *[]byte) bool { *body = append(*body, ' '); return true },
	"method": func(_ maker, r *http.Request, _ *[]byte) bool {
		r.Method = "DELETE"
		return true
	},
	"path": func(m maker, r *http.Request, _ *[]byte) bool {
		r.URL.Path += m.pick("x", "/", "/.", "%")
		r.URL.RawPath = ""
		return true
	},
	"parameter more": func(m maker, r *http.Request, _ *[]byte) bool {
		r.URL.RawQuery += m.pick("&zz", "&a=1", "&Action=DeleteQueue", "&%41=")
		return true
	},
	"value of a parameter": func(_ maker, r *http.Request, _ *[]byte) bool {
		name, rest, found := strings.Cut(r.URL.RawQuery, "=")
		r.URL.RawQuery = name + "=x" + rest
		return found
	},
	"host": func(_ maker, r *http.Request, _ *[]byte) bool { r.Host = "other.example.com:9324"; return true },
	"value of a signed header": func(m maker, r *http.Request, _ *[]byte) bool {
		name := m.pick("X-Amz-Target", "X-Amz-Date", "Content-Type", "X-Amz-Security-Token", "X-Amz-Content-Sha256", "My-Header")
		if len(r.Header[name]) == 0 {
			return false
		}
		r.Header[name][0] += "0"
		return true
	},
	"signed header gone": func(m maker, r *http.Request, _ *[]byte) bool {
		name := m.pick("X-Amz-Target", "X-Amz-Date", "Content-Type", "X-Amz-Security-Token", "Other")
		if len(r.Header[name]) == 0 {
			return false
		}
		r.Header.Del(name)
		return true
	},
	"signed header twice": func(m maker, r *http.Request, _ *[]byte) bool {
		name := m.pick("X-Amz-Target", "X-Amz-Date", "Content-Type", "My-Header", "Authorization")
		if len(r.Header[name]) == 0 {
			return false
		}
		r.Header.Add(name, r.Header.Get(name))
		return true
	},
	"unsigned X-Amz header": func(m maker, r *http.Request, _ *[]byte) bool {
		r.Header.Set(m.pick("X-Amz-Trace", "X-Amz-Meta", "x-AMZ-foo"), m.pick("", "x"))
		return true
	},
	"date and scope": func(_ maker, r *http.Request, _ *[]byte) bool {
		if r.Header.Get("X-Amz-Date") == "" {
			return false
		}
		r.Header.Set("X-Amz-Date", testNow.Add(time.Second).Format(stampForm))
		return true
	},
	"service": func(_ maker, r *http.Request, _ *[]byte) bool {
		swap := strings.NewReplacer("/sqs/", "/monitoring/", "/monitoring/", "/sqs/", "%2Fsqs%2F", "%2Fmonitoring%2F", "%2Fmonitoring%2F", "%2Fsqs%2F")
		return replaceSignature(r, swap.Replace)
	},
	"region": func(_ maker, r *http.Request, _ *[]byte) bool {
		return replaceSignature(r, func(s string) string { return strings.Replace(s, testRegion, "us-east-1", 1) })
	},
	"digit of the signature": func(m maker, r *http.Request, _ *[]byte) bool {
		return replaceSignature(r, func(s string) string {
			last := s[len(s)-1]
			return s[:len(s)-1] + string("0123456789abcdef"[(strings.IndexByte("0123456789abcdef", last)+1+m.IntN(15))%16])
		})
	},
	"upper-case signature": func(_ maker, r *http.Request, _ *[]byte) bool {
		return replaceSignature(r, func(s string) string {
			i := strings.LastIndex(s, "Signature=") + len("Signature=")
			return s[:i] + strings.ToUpper(s[i:])
		})
	},
	"fewer signed headers": func(_ maker, r *http.Request, _ *[]byte) bool {
		return replaceSignature(r, func(s string) string { return strings.Replace(s, "content-type;", "", 1) })
	},
}

// replaceSignature changes Authorization, or the query of a presigned request, which ends with the
// signature.
func replaceSignature(r *http.Request, change func(string) string) bool {
	was := r.Header.Get("Authorization") + r.URL.RawQuery
	if strings.Contains(r.URL.RawQuery, "X-Amz-Signature=") {
		r.URL.RawQuery = change(r.URL.RawQuery)
	} else {
		r.Header.Set("Authorization", change(r.Header.Get("Authorization")))
	}
	return r.Header.Get("Authorization")+r.URL.RawQuery != was
}

// checkSigner signs one random request and changes it in every way there is. [AUTH-5, AUTH-6]
func checkSigner(t *testing.T, seed uint64) (refused map[string]int) {
	t.Helper()
	m := maker{rand.New(rand.NewPCG(seed, 4))}
	s, err := m.request()
	if err != nil {
		t.Skip(err) // a header that cannot be written
	}
	v := newTestVerifier(Config{})
	r, body, err := receive(s.wire)
	if err != nil {
		return nil
	}
	if err := verify(v, r, body, &s.key); err != nil {
		t.Fatalf("seed %d: got %v, want it to be valid:\n%s", seed, err, s.wire)
	}
	refused = map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(differences)) {
		r, body, _ := receive(s.wire)
		if !differences[name](m, r, &body) {
			continue
		}
		refused[name]++
		wantRefusal(t, verify(v, r, body, &s.key), fmt.Sprintf("seed %d, other %s:\n%s", seed, name, s.wire))
	}
	r, body, _ = receive(s.wire)
	other := s.key
	other.Secret += "x"
	wantRefusal(t, verify(v, r, body, &other), "the secret of another key")
	other = s.key
	other.Token += "x"
	wantRefusal(t, verify(v, r, body, &other), "another session token")
	wantRefusal(t, verify(v, r, body, nil), "a key that is not known")
	checkBytes(t, m, v, s)
	return refused
}

func wantRefusal(t *testing.T, err error, what string) {
	t.Helper()
	var refusal *Error
	if !errors.As(err, &refusal) {
		t.Errorf("got error %v, want a refusal for %s", err, what)
		return
	}
	if refusal.Status != 400 && refusal.Status != 403 || len(refusal.Message) > 3*echoMax {
		t.Errorf("got status %d and %d bytes of text, want 400 or 403 and a short text for %s", refusal.Status, len(refusal.Message), what)
	}
}

// checkBytes changes bytes on the connection, wherever they are. Only a request that reads the same
// afterwards is valid.
func checkBytes(t *testing.T, m maker, v *Verifier, s sending) {
	t.Helper()
	first, body, _ := receive(s.wire)
	want := meaning(first, body)
	for range 20 {
		wire := bytes.Clone(s.wire)
		wire[m.IntN(len(wire))] ^= 1 << m.IntN(8)
		r, body, err := receive(wire)
		if err != nil {
			continue
		}
		if got, err := meaning(r, body), verify(v, r, body, &s.key); (got == want) != (err == nil) {
			t.Errorf("got error %v for a request that means the same: %v\n%q\n%q", err, got == want, s.wire, wire)
		}
	}
}

var runs = regexp.MustCompile(` +`)

// meaning is what a signature must cover of a request, written in a simple way.
func meaning(r *http.Request, body []byte) string {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || strings.Contains(r.URL.RawQuery, ";") {
		return "nothing"
	}
	var lines []string
	for name, values := range query {
		slices.Sort(values)
		lines = append(lines, fmt.Sprintf("query %q %q", name, values))
	}
	signed := query.Get("X-Amz-SignedHeaders")
	if h := r.Header.Get("Authorization"); h != "" {
		_, rest, _ := strings.Cut(h, "SignedHeaders=")
		signed, _, _ = strings.Cut(rest, ",")
		h = strings.ReplaceAll(h, "\t", " ")
		lines = append(lines, strings.ReplaceAll(strings.ReplaceAll(h, ", ", ","), " ,", ","))
	}
	for name, values := range r.Header {
		if slices.Contains(strings.Split(signed, ";"), strings.ToLower(name)) || isAmz(name) {
			for i := range values {
				values[i] = strings.TrimSpace(runs.ReplaceAllString(values[i], " "))
			}
			lines = append(lines, fmt.Sprintf("header %s %q", name, strings.Join(values, ",")))
		}
	}
	slices.Sort(lines)
	return fmt.Sprintf("%s %s %s %q\n%s", r.Method, r.URL.EscapedPath(), r.Host, body, strings.Join(lines, "\n"))
}

func TestAgainstSigner(t *testing.T) {
	seed := proof.Seed(t)
	refused := map[string]int{}
	for i := range uint64(500) {
		for name, n := range checkSigner(t, seed+i) {
			refused[name] += n
		}
		if t.Failed() {
			return
		}
	}
	for name := range differences {
		if refused[name] == 0 {
			t.Errorf("other %s: got no request, want some", name)
		}
	}
}

func FuzzAgainstSigner(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { checkSigner(t, seed) })
}

// FuzzParse holds the parser to no more than not to panic, and to refuse in its own words.
func FuzzParse(f *testing.F) {
	for seed := range uint64(20) {
		m := maker{rand.New(rand.NewPCG(seed, 4))}
		if s, err := m.request(); err == nil {
			f.Add(s.wire)
		}
	}
	v := newTestVerifier(Config{Region: testRegion, Hosts: []string{"a", "b"}})
	f.Fuzz(func(t *testing.T, wire []byte) {
		r, body, err := receive(wire)
		if err != nil {
			return
		}
		if err := verify(v, r, body, &Key{Secret: "not the one of the seeds"}); err == nil {
			t.Errorf("got no error, want one for %q", wire)
		} else {
			wantRefusal(t, err, "a wrong secret")
		}
	})
}
