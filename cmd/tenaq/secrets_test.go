package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "tenaq/internal/api/v1"
	"tenaq/internal/cli"
	"tenaq/internal/door/auth"
)

// The secrets that a server of this test has.
var secretsOfServer = []string{
	"canary-of-the+operator/1", "canary-of-the+viewer/2", "canary-of-the+session/3=", // keys
	"canary-of-the+store/4", "canary-of-the+other/5", "canary-of-the+redriver/6", // stores of records
	"canary-of-the+hook/7", "canary-of-the+file/8", // webhooks
}

const (
	serverWithSecrets = `console: on
log-level: debug
alarm-minute: 1s
alarm-actions: [team, pager]
actions:
  team:  {webhook: "http://127.0.0.1:1/services/ESCAPED-7"}
  pager: {webhook-file: HOOK-FILE}
queues: [{name: orders}, {name: orders-dlq}, {name: orders-parking}]
claims:
  - {name: shop, records: "postgres://app:ESCAPED-4@127.0.0.1:1/shop?connect_timeout=1"}
  - {name: stock, records: "postgres://app@127.0.0.1:1/stock?connect_timeout=1&password=ESCAPED-5"}
redrive:
  records: "postgres://app:ESCAPED-6@127.0.0.1:1/shop?connect_timeout=1"
  queues: [{dead-letter: orders-dlq, parking: orders-parking, target: orders}]
`
	keysWithSecrets = `{"credentials": [
  {"id": "TQOPS00001", "secret": "SECRET-1", "name": "ops", "allow": ["*"]},
  {"id": "TQVIEW0001", "secret": "SECRET-2", "token": "SECRET-3", "name": "viewer", "allow": ["tenaq:List*"]}],
  "proxy": {"user-header": "X-Forwarded-User", "peers": ["127.0.0.9"], "rules": [{"user": "*", "key": "TQVIEW0001"}]}}`
)

// formsOf are the forms in which a text can hold a secret: as it is, in a URL, in hex, in base64,
// whatever stands before it, and as a hash, by which a guess can be checked.
func formsOf(secret string) (forms []string) {
	forms = []string{secret, url.QueryEscape(secret), url.PathEscape(secret), hex.EncodeToString([]byte(secret))}
	for _, h := range []hash.Hash{md5.New(), sha1.New(), sha256.New()} {
		h.Write([]byte(secret))
		sum := h.Sum(nil)
		forms = append(forms, hex.EncodeToString(sum), base64.RawStdEncoding.EncodeToString(sum), base64.RawURLEncoding.EncodeToString(sum))
	}
	for before := range 3 {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := encoding.EncodeToString(append(make([]byte, before), secret...))
			forms = append(forms, text[(before*8+5)/6:len(text)-1]) // the ends are shared with other bytes
		}
	}
	return forms
}

// leaks are the secrets that a text has in some form.
func leaks(text string, secrets []string) (found []string) {
	for _, secret := range secrets {
		for _, form := range formsOf(secret) {
			if strings.Contains(text, form) {
				found = append(found, form)
			}
		}
	}
	return found
}

// A searched server answers requests, and what it answers is searched for its secrets.
type searched struct {
	*testing.T
	secrets []string
	headers http.Header // of the page
}

func (s *searched) ask(method, address, body string) (status int, header http.Header, answer string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	maps.Copy(r.Header, s.headers)
	r.Header.Set("Content-Type", "application/json")
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	var text strings.Builder
	_ = res.Header.Write(&text)
	endless := res.Header.Get("Content-Type") == "text/event-stream" // of which one event is enough
	lines := bufio.NewReader(res.Body)
	for begins := text.Len(); ; {
		line, err := lines.ReadString('\n')
		text.WriteString(line)
		answer = text.String()[begins:]
		if err == io.EOF || endless && line == "\n" && strings.Contains(answer, "data:") {
			break
		}
		if err != nil {
			s.Fatalf("%s %s: %v", method, address, err)
		}
	}
	if found := leaks(text.String(), s.secrets); found != nil {
		s.Errorf("%s %s %s: the answer has %q:\n%s", method, address, body, found, text.String())
	}
	return res.StatusCode, res.Header, answer
}

// signIn signs a page in. Its cookie and its proof are secrets from then on.
func (s *searched) signIn(url string) {
	s.Helper()
	status, header, text := s.ask("POST", url+"/v1/session", fmt.Sprintf(`{"id": "TQOPS00001", "secret": %q}`, s.secrets[0]))
	var session struct{ Proof string }
	if err := json.Unmarshal([]byte(text), &session); err != nil || session.Proof == "" {
		s.Fatalf("sign in: %d %s", status, text)
	}
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	_, value, _ := strings.Cut(cookie, "=")
	s.headers.Set("Cookie", cookie)
	s.headers.Set(auth.ProofHeader, session.Proof)
	s.secrets = append(s.secrets, value, session.Proof)
}

// A logBuffer is a log that is read while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// No answer of a server has one of its secrets, nor has its log: those of its keys, of addresses of
// stores and webhooks, and what a signed-in page keeps. Each route of the document is requested,
// with a session and without. [CONSOLE-7, AUTH-35, V1-23, V1-24]
func TestSecretsStayInServer(t *testing.T) {
	dir := t.TempDir()
	s := &searched{T: t, secrets: slices.Clone(secretsOfServer), headers: http.Header{"Sec-Fetch-Site": {"same-origin"}}}
	for _, text := range []string{s.secrets[0], url.QueryEscape(s.secrets[0]), base64.StdEncoding.EncodeToString([]byte("id:" + s.secrets[0] + ".")),
		base64.URLEncoding.EncodeToString([]byte("name:" + s.secrets[0])), fmt.Sprintf("%x", s.secrets[0]), fmt.Sprintf("%x", sha256.Sum256([]byte(s.secrets[0])))} {
		if leaks("a "+text+" b", s.secrets) == nil {
			t.Fatalf("the search is blind to %s", text)
		}
	}
	names := []string{"HOOK-FILE", filepath.Join(dir, "hook")}
	for i, secret := range s.secrets {
		names = append(names, fmt.Sprintf("SECRET-%d", i+1), secret, fmt.Sprintf("ESCAPED-%d", i+1), url.QueryEscape(secret))
	}
	for name, text := range map[string]string{"hook": "http://app:ESCAPED-8@127.0.0.1:1/", "keys.json": keysWithSecrets, "tenaq.yaml": serverWithSecrets} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.NewReplacer(names...).Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log := new(logBuffer)
	printed, out := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		defer out.Close()
		ended <- run(&cli.App{Stdin: strings.NewReader(""), Stdout: out, Stderr: log}, ctx, []string{"serve", "--json", "--config", filepath.Join(dir, "tenaq.yaml"),
			"--credentials", filepath.Join(dir, "keys.json"), "--data-dir", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"})
	}()
	var server struct{ URL, AdminURL, ConsoleURL string }
	if err := json.NewDecoder(printed).Decode(&server); err != nil {
		stop()
		t.Fatalf("the server does not start: %d %s", <-ended, log)
	}
	defer func() {
		stop()
		if code := <-ended; code != cli.ExitOK {
			t.Errorf("the server ends with the status %d", code)
		}
		if found := leaks(log.String(), s.secrets); found != nil {
			t.Errorf("the log has %q:\n%s", found, log)
		}
	}()

	s.requestRoutes(server.URL) // without a session
	for _, body := range []string{`{"id": "TQOPS00001", "secret": [%q]}`, `{"id": "TQOPS00002", "secret": %q}`, `{"id": "TQOPS00001", "secret": %q`, `{"id": "TQOPS00001", "password": %q}`} {
		if status, _, text := s.ask("POST", server.URL+"/v1/session", fmt.Sprintf(body, s.secrets[0])); status == http.StatusOK {
			t.Errorf("%s: got %s", body, text)
		}
	}
	s.signIn(server.URL)
	for _, entry := range []string{"orders", "orders-dlq"} {
		s.ask("POST", server.URL+"/v1/do/SendMessage", fmt.Sprintf(`{"QueueUrl": %q, "MessageBody": "17"}`, entry))
	}
	if status, tried := s.requestRoutes(server.URL); status[http.StatusOK] < 20 || status[http.StatusServiceUnavailable] < 4 || tried < 60 {
		t.Errorf("of %d requests the server answered %v", tried, status)
	}
	status, _, keys := s.ask("GET", server.URL+"/v1/keys", "")
	if status != http.StatusOK || !strings.Contains(keys, "TQOPS00001") || !strings.Contains(keys, "TQVIEW0001") { // which have secrets, and one a token
		t.Errorf("the keys: got %d %s", status, keys)
	}
	status, _, settings := s.ask("GET", server.URL+"/v1/settings", "")
	if status != http.StatusOK || !strings.Contains(settings, "postgres://app@127.0.0.1:1/shop") || !strings.Contains(settings, `"pager,team"`) {
		t.Errorf("the settings: got %d %s", status, settings)
	}
	for _, base := range []string{server.URL, server.AdminURL} {
		for _, path := range []string{"/", "/metrics", "/readyz", "/livez", "/nothing", "/v1/", "/v1/nothing", "/v1/session/x", "/v1/stores/shop", "/v1/do/Nothing", "/console", "/console/nothing", "/_localstack/health", "/000000000000/orders"} {
			s.ask("GET", base+path, "")
		}
	}
	files, err := fs.Glob(os.DirFS("../../internal/console/assets"), "*.gz")
	if err != nil || len(files) < 3 {
		t.Fatalf("the console has the files %v: %v", files, err)
	}
	for _, file := range files {
		if status, _, _ := s.ask("GET", server.ConsoleURL+strings.TrimSuffix(file, ".gz"), ""); status != http.StatusOK {
			t.Errorf("%s: got %d", file, status)
		}
	}
	// what cannot be reached is logged, with where it is
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text := log.String()
		if strings.Count(text, "test of an action failed") == 2 && strings.Contains(text, "component=redrive") && strings.Contains(text, "notice not delivered") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("what cannot be reached is not logged:\n%s", text)
		}
	}
	if status, _, text := s.ask("DELETE", server.URL+"/v1/session", ""); status != http.StatusOK {
		t.Errorf("sign out: got %d %s", status, text)
	}
}

// requestRoutes requests each route of the document: with nothing, with values that exist, and for
// each store. It returns how often the server answered with each status.
func (s *searched) requestRoutes(url string) (statuses map[int]int, tried int) {
	s.Helper()
	var document struct {
		Paths map[string]map[string]struct {
			Parameters  []struct{ Name, In string }
			RequestBody struct {
				Content map[string]struct {
					Schema struct{ Properties map[string]any }
				}
			}
		}
	}
	if err := json.Unmarshal(v1.OpenAPI(), &document); err != nil {
		s.Fatal(err)
	}
	inPath := strings.NewReplacer("{queue}", "orders-dlq", "{task}", "orders-dlq:1", "{kind}", "unknown", "{key}", "order-17", "{id}", "00000000-0000-4000-8000-000000000000",
		"{outbox}", "shop", "{action}", "ListQueues")
	statuses = make(map[int]int)
	ask := func(method, path, body string) {
		status, _, _ := s.ask(method, url+path, body)
		statuses[status]++
		tried++
	}
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(document.Paths[path])) {
			route, method := document.Paths[path][method], strings.ToUpper(method)
			path := inPath.Replace(path)
			if strings.Contains(path, "{") {
				s.Fatalf("no value is known for %s", path)
			}
			if method+path == "DELETE/v1/session" { // which the end of the test requests
				continue
			}
			body := map[bool]string{true: "{}"}[method != "GET"]
			ask(method, path, body)
			for _, value := range []string{"shop", "stock"} {
				for _, p := range route.Parameters {
					if p.In == "query" && p.Name == "store" {
						ask(method, path+"?store="+value, body)
					}
				}
			}
			for _, values := range []map[string]string{{"store": "shop"}, {"store": "stock"}, {"action": "team"}, {"action": "pager"}} {
				members := make(map[string]string)
				for name := range route.RequestBody.Content["application/json"].Schema.Properties {
					if v, ok := values[name]; ok {
						members[name] = v
					}
				}
				if len(members) > 0 {
					text, err := json.Marshal(members)
					if err != nil {
						s.Fatal(err)
					}
					ask(method, path, string(text))
				}
			}
		}
	}
	return statuses, tried
}
