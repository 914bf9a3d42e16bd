package server

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	v1 "tenaq/internal/api/v1"
	"tenaq/internal/door/auth"
	"tenaq/internal/door/credentials"
	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/testing/proof"
)

// visit asks for an address as a browser does.
func visit(t *testing.T, method, url string, header ...string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	res, err := (&http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b := new(strings.Builder)
	if err := res.Write(b); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, b.String()
}

// The console is where the setting says. [CONSOLE-1]
func TestConsoleWhere(t *testing.T) {
	s, stop := run(t, config(t))
	if got, want := s.ConsoleURL(), s.URL()+"/console/"; got != want {
		t.Errorf("on loopback the console is at %q, want %q", got, want)
	}
	if status, body := visit(t, "GET", s.ConsoleURL()); status != 200 || !strings.Contains(body, "<noscript>") {
		t.Errorf("the console answers %d", status)
	}
	if _, body := visit(t, "GET", s.URL()); !strings.Contains(body, s.ConsoleURL()) {
		t.Errorf("the front page does not lead to the console: %s", body)
	}
	if status, body := visit(t, "POST", s.ConsoleURL(), "X-Amz-Target", "AmazonSQS.ListQueues"); status != 405 {
		t.Errorf("a POST answers %d %s", status, body)
	}
	_ = stop()

	off := config(t)
	off.Console = "off"
	s, stop = run(t, off)
	if status, _ := visit(t, "GET", s.URL()+"/console/"); status != 404 || s.ConsoleURL() != "" {
		t.Errorf("without a console its path answers %d, and it is at %q", status, s.ConsoleURL())
	}
	_ = stop()

	own := config(t)
	own.Console = "127.0.0.1:0"
	s, stop = run(t, own)
	page := s.ConsoleURL()
	root := strings.TrimSuffix(page, "/console/")
	for url, want := range map[string]int{page: 200, root + "/v1": 200, root + "/": 200, root + "/000000000000/q": 404, s.URL() + "/console/": 404, s.URL() + "/v1": 200} {
		if status, body := visit(t, "GET", url); status != want {
			t.Errorf("%s answers %d, want %d: %s", url, status, want, body)
		}
	}
	_ = stop()
}

// A setting of the console that would give everyone access is refused. [CONSOLE-1, AUTH-1]
func TestConsoleSettings(t *testing.T) {
	for _, test := range []struct {
		listen, console, want string
		open, keys            bool
	}{
		{"127.0.0.1:1", "", "on", false, false},
		{"0.0.0.0:1", "auto", "off", true, false},
		{"0.0.0.0:1", "auto", "off", false, true},
		{"0.0.0.0:1", "on", "on", false, true},
		{"127.0.0.1:1", "0.0.0.0:2", "", false, false},
		{"127.0.0.1:1", "0.0.0.0:2", "0.0.0.0:2", true, false},
		{"127.0.0.1:1", "0.0.0.0:2", "0.0.0.0:2", false, true},
		{"127.0.0.1:1", "yes", "", false, false},
	} {
		c := Config{Listen: test.listen, Console: test.console, DataDir: "d", AllowUnauthenticated: test.open}
		if test.keys {
			c.Credentials = keysOf(t, `{"credentials": [{"id": "TQOPS00001", "secret": "0123456789abcdef", "allow": ["*"]}]}`)
		}
		err := c.complete()
		if (err == nil) != (test.want != "") || err == nil && c.Console != test.want {
			t.Errorf("%+v: got %q, %v", test, c.Console, err)
		}
	}
}

// Anyone may load the page where requests must be signed; everything else asks for a key.
// [CONSOLE-2]
func TestConsoleWithKeys(t *testing.T) {
	cfg := config(t)
	keys, err := credentials.Open(credentials.Config{ID: "TQALL001", Secret: credentials.NewSecret("canary-of-everything")})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Credentials = keys
	s, stop := run(t, cfg)
	defer func() { _ = stop() }()
	if status, body := visit(t, "GET", s.ConsoleURL()); status != 200 || strings.Contains(body, "v1.2.3") {
		t.Errorf("the page answers %d: %s", status, body)
	}
	if status, _ := visit(t, "GET", s.URL()+"/v1"); status != 403 {
		t.Errorf("/v1 answers %d without a signature, want 403", status)
	}
}

// A browser may follow a link to the page from anywhere, and load or send nothing else for the page
// of another origin. [CONSOLE-5, AUTH-2, AUTH-3]
func TestConsoleFromElsewhere(t *testing.T) {
	s, stop := run(t, config(t))
	defer func() { _ = stop() }()
	page := s.ConsoleURL()
	const site, mode, dest = "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"
	for _, test := range []struct {
		url    string
		header []string
		want   int
	}{
		{page, []string{site, "cross-site", mode, "navigate", dest, "document"}, 200},
		{page, []string{site, "cross-site", mode, "navigate", dest, "document", "Host", "evil.example"}, 403},
		{page, []string{site, "cross-site", mode, "navigate", dest, "iframe"}, 403},
		{page, []string{site, "cross-site", mode, "no-cors", dest, "script"}, 403},
		{page, []string{site, "cross-site", mode, "cors", dest, "document"}, 403},
		{page, []string{"Host", "evil.example"}, 403},
		{page, []string{"Origin", "http://evil.example"}, 403},
		{page, []string{site, "none", mode, "navigate", dest, "document"}, 200},
		{page + "licences.txt", []string{site, "cross-site", mode, "navigate", dest, "document"}, 403},
		{page + "licences.txt", []string{site, "same-origin"}, 200},
		{s.URL() + "/v1", []string{site, "cross-site", mode, "navigate", dest, "document"}, 403},
		{s.URL() + "/", []string{site, "cross-site", mode, "navigate", dest, "document"}, 403},
	} {
		if status, body := visit(t, "GET", test.url, test.header...); status != test.want {
			t.Errorf("%s %q: got %d, want %d: %s", test.url, test.header, status, test.want, body)
		}
	}
}

// Each node of a cluster has the page. [CONSOLE-2]
func TestConsoleOfNodes(t *testing.T) {
	nodes, _ := three(t, nil)
	for i, s := range nodes {
		if status, body := visit(t, "GET", s.ConsoleURL()); status != 200 || !strings.Contains(body, "<noscript>") {
			t.Errorf("node %d answers %d", i, status)
		}
	}
}

// Some actions of SQS are answered in plain JSON, with the name of a queue for its URL, and no
// other. [V1-14, V1-5]
func TestDo(t *testing.T) {
	s, stop := run(t, config(t))
	defer func() { _ = stop() }()
	for _, test := range []struct {
		action, kind, body string
		status             int
		part               string
	}{
		{"CreateQueue", "application/json", `{"QueueName":"orders"}`, 200, `"QueueUrl":"` + s.URL() + `/000000000000/orders"`},
		{"SendMessage", "application/json", `{"QueueUrl":"orders","QueueName":"forged","queueurl":"forged","MessageBody":"x"}`, 200, `"MD5OfMessageBody"`},
		{"TagQueue", "application/json; charset=utf-8", `{"QueueUrl":"orders","Tags":{"team":"a"}}`, 200, "{}"},
		{"TagQueue", "application/json", `{"QueueUrl":"orders","Tags":{"tenaq:rate":"x"}}`, 400, "tenaq:rate"},
		{"SetQueueAttributes", "application/json", `{"QueueUrl":"` + s.URL() + `/000000000000/orders","Attributes":{"DelaySeconds":"1"}}`, 200, "{}"},
		{"UntagQueue", "application/json", `{"QueueUrl":"orders","TagKeys":["team"]}`, 200, "{}"},
		{"PurgeQueue", "application/json", `{"QueueUrl":"orders"}`, 200, "{}"},
		{"PurgeQueue", "application/json", `{"QueueUrl":"orders"}`, 403, "PurgeQueueInProgress"},
		{"PurgeQueue", "application/json", `{}`, 400, "QueueUrl"},
		{"PurgeQueue", "application/json", `[`, 400, ""},
		{"PurgeQueue", "application/json", ``, 400, ""},
		{"PurgeQueue", "text/plain", `{"QueueUrl":"orders"}`, 400, "Content-Type"},
		{"DeleteQueue", "application/x-www-form-urlencoded", `QueueUrl=orders`, 400, "Content-Type"},
		{"ReceiveMessage", "application/json", `{"QueueUrl":"orders"}`, 400, "Must be SendMessage"},
		{"AddPermission", "application/json", `{"QueueUrl":"orders"}`, 400, "Must be SendMessage"},
		{"DeleteQueue", "application/json", `{"QueueUrl":"none"}`, 404, "NonExistentQueue"},
		{"DeleteQueue", "application/json", `{"QueueUrl":"orders"}`, 200, "{}"},
	} {
		res, err := http.Post(s.URL()+"/v1/do/"+test.action, test.kind, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != test.status || !strings.Contains(string(text), test.part) {
			t.Errorf("%s %s: got %d %s %v, want %d %s", test.action, test.body, res.StatusCode, text, err, test.status, test.part)
		}
	}
	_, log := visit(t, "GET", s.URL()+"/v1/actions")
	for _, entry := range []string{`"action":"CreateQueue","about":"orders"`, `"action":"DeleteQueue","about":"orders"`, `"action":"SendMessage","about":"orders","text":"message `} {
		if !strings.Contains(log, entry) {
			t.Errorf("the action log has no %s: %s", entry, log)
		}
	}
	if strings.Count(log, `"action"`) != 7 || strings.Contains(log, "forged") {
		t.Errorf("the action log has refusals, or what was forged: %s", log)
	}
}

// A page can do each action of /v1/do with the right for it alone, and cannot do it with all rights
// but that. The actions are those of the table of routes. [V1-14, CONSOLE-14, AUTH-38]
func TestDoRights(t *testing.T) {
	var document struct {
		Paths map[string]struct {
			Post struct {
				Parameters []struct{ Schema struct{ Enum []string } }
			}
		}
	}
	if err := json.Unmarshal(v1.OpenAPI(), &document); err != nil {
		t.Fatal(err)
	}
	actions := document.Paths["/v1/do/{action}"].Post.Parameters[0].Schema.Enum
	if len(actions) < 7 {
		t.Fatalf("the document has only the actions %q", actions)
	}
	var keys []string
	addKey := func(id string, allow ...string) {
		keys = append(keys, fmt.Sprintf(`{"id": %q, "secret": "the-secret-of-%[1]s", "allow": ["%[2]s"]}`, id, strings.Join(allow, `", "`)))
	}
	addKey("TQALL001", "*")
	for i, action := range actions {
		addKey(fmt.Sprintf("TQONLY%02d", i), "sqs:"+action)
		addKey(fmt.Sprintf("TQLACKS%02d", i), slices.DeleteFunc(Actions(), func(a string) bool { return a == "sqs:"+action })...)
	}
	cfg := config(t)
	cfg.Credentials = keysOf(t, `{"credentials": [`+strings.Join(keys, ", ")+`]}`)
	s, stop := run(t, cfg)
	defer func() { _ = stop() }()
	// A page that has signed in with a key makes a request.
	as := func(id, method, path, body string) (int, string) {
		t.Helper()
		var cookies []*http.Cookie
		var session struct{ Proof string }
		ask := func(method, path, body string) (int, string) {
			r, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			r.Header.Set(auth.ProofHeader, session.Proof)
			for _, c := range cookies {
				r.AddCookie(c)
			}
			res, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			text, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			cookies = append(cookies, res.Cookies()...)
			return res.StatusCode, string(text)
		}
		status, text := ask("POST", "/v1/session", fmt.Sprintf(`{"id": %q, "secret": "the-secret-of-%[1]s"}`, id))
		if err := json.Unmarshal([]byte(text), &session); err != nil || status != 200 {
			t.Fatalf("%s signs in: %d %s", id, status, text)
		}
		return ask(method, path, body)
	}
	const orders = `{"QueueUrl":"orders","QueueName":"orders"}`
	if status, text := as("TQALL001", "POST", "/v1/do/CreateQueue", orders); status != 200 {
		t.Fatalf("got %d %s", status, text)
	}
	for i, action := range actions {
		status, text := as(fmt.Sprintf("TQLACKS%02d", i), "POST", "/v1/do/"+action, orders)
		if status != 403 || !strings.Contains(text, "perform: sqs:"+strings.ToLower(action)+" on") {
			t.Errorf("%s without its right: got %d %s", action, status, text)
		}
	}
	if _, log := as("TQALL001", "GET", "/v1/actions", ""); strings.Count(log, `"about":"orders"`) != 1 {
		t.Errorf("the action log has refusals, or what was forged: %s", log)
	}
	for i, action := range actions {
		if status, text := as(fmt.Sprintf("TQONLY%02d", i), "POST", "/v1/do/"+action, orders); status == 403 {
			t.Errorf("%s with its right: got %d %s", action, status, text)
		}
	}
}

// While every operation of the disk hangs, the console opens, its overview has the numbers that
// are in memory, and its live stream says how long no commit has reached the disk. Each answer
// comes soon: in the long form within half a second. [CONSOLE-9]
func TestConsoleOfAStalledDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: holds a disk for ten seconds")
	}
	t.Parallel()
	cfg := config(t)
	disk := &faultyDisk{FS: vfs.Default, dir: cfg.DataDir, counts: make(map[string]int)}
	cfg.store = func(o *pebblekv.Options) { o.FS = disk }
	s, stop := run(t, cfg)
	defer func() { _ = stop() }()
	c := newScriptClient(s.URL())
	defer c.close()
	if err := c.sqs("CreateQueue", fields{"QueueName": "orders"}, nil); err != nil {
		t.Fatal(err)
	}
	send := func() error {
		return c.sqs("SendMessage", fields{"QueueUrl": "orders", "MessageBody": "hello"}, nil)
	}
	if err := send(); err != nil {
		t.Fatal(err)
	}

	overview := s.URL() + "/v1/queues?sort=trouble&desc=true"
	shows := func(numbers string) bool {
		_, body := visit(t, "GET", overview)
		return strings.Contains(body, numbers)
	}
	for !shows(`"visible":1`) {
		time.Sleep(100 * time.Millisecond)
	}
	// The requests of the browser for the overview. The count of tasks beside it waits for the
	// disk.
	asks := map[string]string{
		s.ConsoleURL(): "<noscript>", s.URL() + "/v1/session": `"server":"tenaq"`, overview: `"visible":1`,
		s.URL() + "/v1/series?queues=orders&last=30m": `"since"`, s.URL() + "/v1/queues?only=dead&sort=visible&desc=1&limit=100": `"queues"`,
		s.URL() + "/v1/alarms?state=ALARM": `"alarms"`, s.URL() + "/v1/outbox": `"outboxes"`,
		s.URL() + "/v1/status": `"freeBytes"`, // of the page Health
	}
	_, page := visit(t, "GET", s.ConsoleURL())
	for _, file := range regexp.MustCompile(`(?:src|href)="(?:\./)?([^":#]+)"`).FindAllStringSubmatch(page, -1) {
		asks[s.ConsoleURL()+file[1]] = ""
	}
	if len(asks) < 9 {
		t.Errorf("the page has too few files: %s", page)
	}
	hang, soon := 10*time.Second, 15*time.Second
	if proof.Count(0, 0, 0, 1) == 1 {
		hang, soon = time.Minute, 500*time.Millisecond
	}
	slowest := time.Duration(0)
	c.http.Timeout = 2 * hang

	disk.gate.Lock()
	sent := make(chan error, 1)
	go func() { sent <- send() }()
	live, err := http.Get(s.URL() + "/v1/live?queues=orders")
	if err != nil {
		t.Fatal(err)
	}
	defer live.Body.Close()
	silence := time.Duration(0)
	for events := bufio.NewScanner(live.Body); silence < hang && events.Scan(); {
		if data, ok := strings.CutPrefix(events.Text(), "data: "); ok {
			var tick struct{ SilenceMS int64 }
			if err := json.Unmarshal([]byte(data), &tick); err != nil {
				t.Fatal(err)
			}
			silence = time.Duration(tick.SilenceMS) * time.Millisecond
		}
		for url, want := range asks {
			began := time.Now()
			status, body := visit(t, "GET", url)
			took := time.Since(began)
			if slowest = max(slowest, took); took > soon {
				t.Errorf("%s answers after %v", url, took)
			}
			if status != 200 || !strings.Contains(body, want) {
				t.Errorf("%s answers %d without %s: %s", url, status, want, body)
			}
		}
	}
	t.Logf("the slowest answer took %v", slowest)
	if silence < hang {
		t.Errorf("the stream ended after a silence of %v", silence)
	}
	select {
	case err := <-sent:
		t.Errorf("a send was answered while the disk hung: %v", err)
	default:
	}
	disk.gate.Unlock()
	if err := <-sent; err != nil {
		t.Errorf("the send is not answered when the disk is back: %v", err)
	}
	for !shows(`"visible":2`) {
		time.Sleep(100 * time.Millisecond)
	}
}
