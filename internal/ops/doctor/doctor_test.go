package doctor

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tenaq/internal/cli"
)

func expect(t *testing.T, what string, got Finding, want Verdict, says string) {
	t.Helper()
	if got.State != want || !strings.Contains(got.Says, says) {
		t.Errorf("%s: got %q, %q, want %q with %q", what, got.State, got.Says, want, says)
	}
	if (got.State == Warning || got.State == Problem) && got.Do == "" {
		t.Errorf("%s: got %q without what to do", what, got.Says)
	}
}

func TestCheckFileSystem(t *testing.T) {
	expect(t, "ext4", checkFileSystem(0xef53), OK, "ext4")
	expect(t, "tmpfs", checkFileSystem(0x01021994), Problem, "memory")
	expect(t, "overlay", checkFileSystem(0x794c7630), Warning, "container")
	expect(t, "NFS", checkFileSystem(0x6969), Warning, "network")
	expect(t, "CIFS as some machines have it", checkFileSystem(0xff534d42-1<<32), Warning, "CIFS")
	expect(t, "CIFS", checkFileSystem(0xff534d42), Warning, "CIFS")
	expect(t, "unknown", checkFileSystem(0x1), NotChecked, "0x1")
}

func TestCheckSpace(t *testing.T) {
	const reserve = 512 << 20
	expect(t, "plenty", checkSpace(10<<30, 20<<30, reserve), OK, "10 GiB free of 20 GiB")
	expect(t, "close", checkSpace(1<<30, 20<<30, reserve), Warning, "below 512 MiB sends are refused")
	expect(t, "below", checkSpace(reserve-1, 20<<30, reserve), Problem, "sends are refused")
	expect(t, "no reserve", checkSpace(1<<20, 20<<30, -1), Warning, "")
	expect(t, "no reserve, plenty", checkSpace(1<<30, 20<<30, -1), OK, "")
}

func TestCheckFsync(t *testing.T) {
	times := func(n int, d time.Duration, more ...time.Duration) []time.Duration {
		return append(slices.Repeat([]time.Duration{d}, n), more...)
	}
	expect(t, "well", checkFsync(times(200, 2*time.Millisecond), nil), OK, "p50 2 ms, p99 2 ms of 200 forced writes of 4 KiB")
	expect(t, "slow", checkFsync(times(190, 2*time.Millisecond, times(10, 120*time.Millisecond)...), nil), Warning, "p99 120 ms")
	expect(t, "one in two hundred", checkFsync(times(199, 2*time.Millisecond, time.Minute), nil), OK, "p99 2 ms")
	expect(t, "very slow", checkFsync(times(2, 1500*time.Millisecond), nil), Problem, "p99 1.5 s")
	expect(t, "too fast", checkFsync(times(200, 2*time.Microsecond), nil), Warning, "faster than any disk")
	expect(t, "fails", checkFsync(times(3, 2*time.Millisecond), errors.New("input/output error")), Problem, "input/output error")
	expect(t, "denied", checkFsync(nil, &fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}), NotChecked, "open x")
	expect(t, "interrupted", checkFsync(nil, nil), NotChecked, "interrupted")
}

// The file that measures the disk is removed afterwards, and so are the remains of an earlier run.
func TestMeasureFsync(t *testing.T) {
	dir := t.TempDir()
	old, new := filepath.Join(dir, "tenaq-doctor-1.tmp"), filepath.Join(dir, "tenaq-doctor-2.tmp")
	for _, name := range []string{old, new, filepath.Join(dir, "witness")} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(old, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	took, err := measureFsync(t.Context(), dir)
	if err != nil || len(took) == 0 || len(took) > fsyncWrites {
		t.Errorf("got %d writes, %v, want 1 to %d", len(took), err, fsyncWrites)
	}
	// The newer one may be of another doctor that is at it.
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	if want := []string{new, filepath.Join(dir, "witness")}; !slices.Equal(names, want) {
		t.Errorf("got the files %q, want %q", names, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if took, err := measureFsync(ctx, dir); len(took) != 0 || err != nil {
		t.Errorf("interrupted: got %d writes, %v, want none", len(took), err)
	}
	if _, err := measureFsync(t.Context(), filepath.Join(dir, "missing")); err == nil {
		t.Error("in a directory that is not there: got no error")
	}
}

func TestCheckMemory(t *testing.T) {
	expect(t, "none", checkMemory(memoryLook{whose: "it", limit: -1}), OK, "no limit")
	expect(t, "well", checkMemory(memoryLook{whose: "it", limit: 2 << 30}), OK, "2 GiB")
	expect(t, "little", checkMemory(memoryLook{whose: "it", limit: 300 << 20}), Warning, "300 MiB")
	expect(t, "too little", checkMemory(memoryLook{whose: "it", limit: 128 << 20}), Problem, "128 MiB")
	expect(t, "used", checkMemory(memoryLook{whose: "it", limit: 1 << 30, used: 1000 << 20}), Problem, "is killed")
	expect(t, "unreadable", checkMemory(memoryLook{whose: "it", err: fs.ErrPermission}), NotChecked, "permission")
}

func TestCheckFiles(t *testing.T) {
	expect(t, "well", checkFiles(filesLook{whose: "it", most: 65536}), OK, "65536")
	expect(t, "few", checkFiles(filesLook{whose: "it", most: 1024}), Warning, "1024")
	expect(t, "too few", checkFiles(filesLook{whose: "it", most: 256}), Problem, "256")
	expect(t, "used", checkFiles(filesLook{whose: "it", most: 65536, open: 60000}), Problem, "60000 of 65536")
	expect(t, "unreadable", checkFiles(filesLook{whose: "it", err: fs.ErrPermission}), NotChecked, "permission")

	const limits = "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max open files            1024                 524288               files     \n"
	if got, err := openFilesLimit(strings.NewReader(limits)); got != 1024 || err != nil {
		t.Errorf("got %d, %v, want 1024", got, err)
	}
	if _, err := openFilesLimit(strings.NewReader("")); err == nil {
		t.Error("without the line: got no error")
	}
}

func TestCheckClock(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	off := func(d time.Duration) probe { return probe{asked: now, took: 100 * time.Millisecond, date: now.Add(-d)} }
	expect(t, "none", checkClock(probe{asked: now}), NotChecked, "")
	expect(t, "well", checkClock(off(0)), OK, "")
	expect(t, "a minute and more", checkClock(off(-90*time.Second)), Warning, "1 min behind")
	expect(t, "six minutes", checkClock(off(6*time.Minute)), Problem, "SQS rejects them at 15")
	expect(t, "an hour", checkClock(off(-time.Hour)), Problem, "SQS rejects signatures")
	// An answer that was long on its way says little about the clock.
	slow := off(70 * time.Second)
	slow.took = 40 * time.Second
	expect(t, "slow", checkClock(slow), Warning, "")
	slow = off(70 * time.Second)
	slow.asked, slow.took = now.Add(-60*time.Second), 60*time.Second
	expect(t, "slower", checkClock(slow), OK, "")
}

func TestClockSteps(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		step time.Duration
		want Verdict
	}{{0, OK}, {50 * time.Millisecond, OK}, {-3 * time.Second, Warning}, {3 * time.Second, Warning}} {
		var s clockSteps
		s.lookAt(now, now)
		s.lookAt(now.Add(time.Second), now.Add(time.Second+test.step))
		s.lookAt(now.Add(2*time.Second), now.Add(2*time.Second+test.step)) // it stays where it was set
		expect(t, test.step.String(), s.check(), test.want, "wall clock")
	}
}

func environ(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestEndpointChecks(t *testing.T) {
	local := cli.Endpoint{URL: "http://127.0.0.1:9324", Origin: "default"}
	remote := cli.Endpoint{URL: "http://queue.example.com", Origin: "--endpoint-url"}
	aws := cli.Endpoint{Origin: "--aws"}

	expect(t, "kind", checkKind(probe{Kind: KindTenaq, version: "1.2"}, local), OK, "tenaq 1.2")
	expect(t, "LocalStack", checkKind(probe{Kind: kindLocalStack}, local), Warning, "for tests")
	expect(t, "unreachable", checkKind(probe{Err: errors.New("nothing listens")}, local), Problem, "nothing listens")

	expect(t, "http here", checkScheme(local), "", "")
	expect(t, "http there", checkScheme(remote), Warning, "another machine")
	expect(t, "https there", checkScheme(cli.Endpoint{URL: "https://queue.example.com"}), "", "")

	expect(t, "no variables", checkVariables(local, environ()), OK, "")
	expect(t, "the same", checkVariables(local, environ("AWS_ENDPOINT_URL_SQS", local.URL+"/")), OK, "")
	expect(t, "ignored by the SDKs", checkVariables(local, environ("AWS_ENDPOINT_URL", local.URL, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")), Problem, "they use Amazon")
	expect(t, "ignored here", checkVariables(aws, environ("AWS_ENDPOINT_URL", local.URL)), Warning, "this check uses Amazon SQS")
	expect(t, "two", checkVariables(local, environ("AWS_ENDPOINT_URL_SQS", local.URL, "AWS_ENDPOINT_URL", "http://127.0.0.1:4566")), Warning, "differ")
	for _, origin := range []string{"TENAQ_ENDPOINT_URL", "TENAQ_LISTEN"} {
		ours := local
		ours.Origin = origin
		expect(t, "ours alone", checkVariables(ours, environ()), OK,
			"only tenaq reads "+origin+"; the SDKs in this environment use Amazon")
	}
	expect(t, "ours and theirs", checkVariables(local, environ("TENAQ_ENDPOINT_URL", local.URL, "AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:1")), Warning, "http://127.0.0.1:1")

	pointed := environ("AWS_ENDPOINT_URL_SQS", local.URL)
	version := func(version string) func() string { return func() string { return version } }
	expect(t, "CLI v1", checkCLI(local, pointed, version("1.46.3")), Warning, "sends requests for SQS to Amazon")
	expect(t, "CLI v2 that is old", checkCLI(local, pointed, version("2.9.19")), Warning, "ignores AWS_ENDPOINT_URL_SQS")
	expect(t, "CLI v2", checkCLI(local, pointed, version("2.13.0")), OK, "2.13.0")
	expect(t, "no CLI", checkCLI(local, pointed, version("")), "", "")
	expect(t, "CLI of nobody pointed elsewhere", checkCLI(local, environ(), version("1.46.3")), "", "")
	expect(t, "CLI for Amazon", checkCLI(aws, pointed, version("1.46.3")), "", "")

	expect(t, "no proxy", checkProxy(local, environ()), "", "")
	expect(t, "a proxy", checkProxy(local, environ("HTTP_PROXY", "http://proxy:3128")), Warning, "NO_PROXY does not exempt 127.0.0.1")
	expect(t, "of others", checkProxy(local, environ("HTTPS_PROXY", "http://proxy:3128")), "", "")
	expect(t, "left out", checkProxy(local, environ("http_proxy", "http://proxy:3128", "no_proxy", "localhost, 127.0.0.0/8")), OK, "")
	expect(t, "far away", checkProxy(remote, environ("http_proxy", "http://proxy:3128")), "", "")

	expect(t, "tests' key", checkCredentials(aws, "test"), Problem, "Amazon")
	expect(t, "example key", checkCredentials(cli.Endpoint{URL: "https://sqs.eu-west-1.amazonaws.com"}, "AKIAIOSFODNN7EXAMPLE"), Problem, "Amazon")
	expect(t, "key", checkCredentials(aws, "AKIAQWERTYUIOPASDFGH"), OK, "AKIA...")
	expect(t, "here", checkCredentials(local, "test"), "", "")

	expect(t, "region", checkRegionOf("eu-west-1", "us-east-1", "queue URLs"), Warning, "eu-west-1")
	expect(t, "same region", checkRegionOf("us-east-1", "us-east-1", "queue URLs"), OK, "")
	expect(t, "no region", checkRegionOf("", "us-east-1", "queue URLs"), "", "")
	for url, want := range map[string]string{
		"https://sqs.eu-west-1.amazonaws.com/1/q":     "eu-west-1",
		"https://eu-west-1.queue.amazonaws.com/1/q":   "eu-west-1",
		"https://queue.amazonaws.com/1/q":             "",
		"https://sqs.cn-north-1.amazonaws.com.cn/1/q": "cn-north-1",
		"http://127.0.0.1:9324/000000000000/q":        "",
	} {
		if got := regionOfURL(url); got != want {
			t.Errorf("%s: got the region %q, want %q", url, got, want)
		}
	}
}

func TestCheckQueueURL(t *testing.T) {
	there := httptest.NewServer(http.NotFoundHandler())
	defer there.Close()
	local := cli.Endpoint{URL: "http://127.0.0.1:1"}
	check := func(e cli.Endpoint, url string) Finding { return checkQueueURL(t.Context(), e, url) }
	expect(t, "back", check(local, "http://127.0.0.1:1/000000000000/q"), OK, "lead back")
	expect(t, "another name of it", check(local, "http://localhost:1/000000000000/q"), OK, "lead back")
	expect(t, "another server", check(local, there.URL+"/000000000000/q"), Warning, "requests go to")
	expect(t, "nobody there", check(local, "http://127.0.0.1:2/000000000000/q"), Problem, "nothing answers")
	expect(t, "no such host", check(local, "http://queue.invalid/000000000000/q"), Problem, "cannot resolve")
	expect(t, "no URL", check(local, "q"), Problem, "not a URL")
	expect(t, "an address of Amazon", check(local, "https://sqs.us-east-1.amazonaws.com/1/q"), Problem, "an address of Amazon")
	expect(t, "Amazon", check(cli.Endpoint{}, "https://sqs.us-east-1.amazonaws.com/1/q"), OK, "")
	expect(t, "not an address of Amazon", check(cli.Endpoint{}, "https://queue.example.com/1/q"), Warning, "not an address of Amazon")
}

// Servers are recognized by what they say about themselves.
func TestProbe(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		want   endpointKind
	}{
		{"ours", func(w http.ResponseWriter, r *http.Request) { w.Header().Set(cli.V1Header, "1") }, KindTenaq},
		{"LocalStack", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/_localstack/health" {
				w.Write([]byte(`{"services": {"sqs": "running"}, "version": "4.0"}`))
			}
		}, kindLocalStack},
		{"other", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusBadRequest) }, kindOther},
	} {
		s := httptest.NewServer(test.answer)
		d := &Doctor{Endpoint: cli.Endpoint{URL: s.URL}, HTTP: s.Client()}
		p := d.Probe(t.Context())
		if p.Kind != test.want || p.Err != nil || p.date.IsZero() {
			t.Errorf("%s: got %q, %v at %v, want %q and a time", test.name, p.Kind, p.Err, p.date, test.want)
		}
		s.Close()
		if p := d.Probe(t.Context()); p.Err == nil {
			t.Errorf("%s: got no error when nobody listens", test.name)
		}
	}
}

// Retention counts from the latest send: work that was brought back is old, and far from its end.
func TestAddAges(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(cli.V1Header, "1")
		switch r.URL.Path {
		case "/v1/queues":
			hours := func(n int) string { return strconv.Itoa(n * 3600_000) }
			io.WriteString(w, `{"queues": [{"name": "back", "visible": 2, "oldestAgeMs": `+hours(90)+`}, {"name": "empty", "oldestAgeMs": `+hours(90)+`},
				{"name": "old", "visible": 1, "oldestAgeMs": `+hours(90)+`}, {"name": "old.fifo", "visible": 1, "oldestAgeMs": `+hours(90)+`}, {"name": "young", "inFlight": 1, "oldestAgeMs": `+hours(9)+`}]}`)
		case "/v1/queues/back/messages":
			io.WriteString(w, `{"messages": [{"ageMs": 3600000}, {"ageMs": 7200000}]}`)
		case "/v1/queues/old/messages":
			io.WriteString(w, `{"messages": [{"ageMs": 324000000}]}`)
		default:
			t.Errorf("asked for %s", r.URL)
		}
	}))
	defer s.Close()
	fifo := testQueue("old.fifo")
	fifo.IsDead = true
	queues := []*Examined{testQueue("back"), testQueue("empty"), testQueue("old"), fifo, testQueue("young")}
	d := &Doctor{kind: KindTenaq, HTTP: s.Client(), limit: 100, client: &cli.Client{Endpoint: cli.Endpoint{URL: s.URL}, Timeout: time.Minute}}
	d.addAges(t.Context(), "endpoint", queues, false)
	for i, want := range []string{"2h0m0s", "<nil>", "90h0m0s", "<nil>", "9h0m0s"} {
		got := "<nil>"
		if queues[i].age != nil {
			got = queues[i].age.String()
		}
		if got != want {
			t.Errorf("%s: got the age %s, want %s", queues[i].Name, got, want)
		}
	}
	if len(d.seen) > 0 {
		t.Errorf("got %v, want nothing to say", d.seen)
	}
	d.kind = kindOther
	d.addAges(t.Context(), "endpoint", queues, false)
	if len(d.seen) != 1 || d.seen[0].State != NotChecked {
		t.Errorf("of another server: got %v, want that ages are not checked", d.seen)
	}
}

func TestParseMetrics(t *testing.T) {
	got := parseMetrics([]byte("# HELP x y\nplain 3\nempty{} 4\nx_bucket{queue=\"a\\\"b,c}\",le=\"+Inf\"} 5 1700000000\nbroken{a=\"} 1\nno number\n{} 1\nnan NaN\n"))
	if len(got) != 4 {
		t.Fatalf("got %d samples, %v, want 4", len(got), got)
	}
	if s := got[2]; s.name != "x_bucket" || s.labels["queue"] != `a"b,c}` || s.labels["le"] != "+Inf" || s.value != 5 {
		t.Errorf("got %v, want x_bucket with its labels and 5", s)
	}
	if got[0].value != 3 || got[1].value != 4 || !math.IsNaN(got[3].value) {
		t.Errorf("got %v, want 3, 4 and no number", got)
	}
}

// FuzzParseMetrics checks that the parser survives any input: the endpoint may be another program.
func FuzzParseMetrics(f *testing.F) {
	f.Add([]byte("x{a=\"b\"} 1\n"))
	f.Add([]byte("x{a=\"b\",} 1\nx{,} 2"))
	f.Fuzz(func(t *testing.T, text []byte) { parseMetrics(text) })
}

func TestReportTogether(t *testing.T) {
	var seen []Finding
	d := &Doctor{}
	for _, q := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		d.find("queue "+q, "dead letters", warning("do", "none"))
		d.find("queue "+q, "long polls", fine("on"))
	}
	d.find("queue a", "receives", problem("do", "few"))
	d.find("queue a", "nothing", Finding{})
	seen = Together(d.seen)
	var shared []string
	well := 0
	for _, f := range seen {
		switch f.State {
		case OK:
			well++
		case Warning:
			shared = append(shared, f.Subject+": "+f.Says)
		}
	}
	if want := []string{"several queues: none (a, b, c, d, e and 2 more)"}; !slices.Equal(shared, want) {
		t.Errorf("got %q, want %q", shared, want)
	}
	if well != 7 {
		t.Errorf("got %d that are well, want all 7, each at its queue", well)
	}
	r := newReport("here", d.seen)
	if r.Warnings != 7 || r.Problems != 1 || r.OK != 7 || len(r.Findings) != 15 || r.Findings[2].Check != "receives" {
		t.Errorf("got %+v, want all 15, those of queue a first", r)
	}
}
