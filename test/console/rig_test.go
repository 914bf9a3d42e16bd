// Package console_test opens the console of a built server in a real browser, headless Chromium.
// Each test has a profile of its own. It fails on whatever a browser complains about: an exception,
// an error on its console, a violation of the policy, a dialog, a request to another host.
//
// Screenshots of all pages go to the folder that TENAQ_SCREENSHOTS names.
package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"tenaq/internal/child"
	"tenaq/internal/testing/built"
	"tenaq/internal/testing/proof"
)

func TestMain(m *testing.M) {
	flag.Parse()
	parallel := false
	flag.Visit(func(f *flag.Flag) { parallel = parallel || f.Name == "test.parallel" })
	if !parallel {
		_ = flag.Set("test.parallel", "6") // most of the time a test waits for its page
	}
	code := built.Tests(m)
	if shared.end != nil {
		shared.end()
	}
	os.Exit(code)
}

// chromium finds the browser. Without one the tests are skipped, or fail where all are required.
func chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome", "chromium-browser"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	proof.Missing(t, "no Chromium: install the Debian package chromium-headless-shell")
	return ""
}

// shared is the browser of all tests.
var shared struct {
	once sync.Once
	ctx  context.Context
	end  context.CancelFunc
	err  error
}

// A server is a tenaq process and its address.
type server struct {
	*child.Server
	t testing.TB
}

// serve starts a server.
func serve(t testing.TB, env []string, args ...string) *server {
	t.Helper()
	return serveFrom(t, t.TempDir(), env, args...)
}

// serveFrom starts a server whose data are in a folder.
func serveFrom(t testing.TB, dir string, env []string, args ...string) *server {
	t.Helper()
	chromium(t)
	s, err := child.New(child.Config{Program: built.Program(t), Dir: dir, Args: args, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if _, err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &server{s, t}
}

var client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// ask makes a request of /v1, or of SQS when path is the name of an action.
func (s *server) ask(path string, in, out any) {
	s.t.Helper()
	method, url := http.MethodGet, s.URL()+path
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			s.t.Fatal(err)
		}
		method, body = http.MethodPost, bytes.NewReader(text)
	}
	if !strings.HasPrefix(path, "/") {
		url = s.URL()
	}
	r, err := http.NewRequestWithContext(context.Background(), method, url, body)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header["X-Idempotency-Key"] = nil // is not sent; lets a request try again on a connection that was just closed as idle
	r.Header.Set("Content-Type", "application/json")
	if !strings.HasPrefix(path, "/") {
		r.Header.Set("X-Amz-Target", "AmazonSQS."+path)
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	}
	res, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if res.StatusCode != 200 {
		s.t.Fatalf("%s: %d %s", path, res.StatusCode, text)
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			s.t.Fatal(err)
		}
	}
}

type object = map[string]any

// url is the URL of a queue.
func (s *server) url(queue string) string { return s.URL() + "/000000000000/" + queue }

// A tab is a tab of the browser with the console in it.
type tab struct {
	t      testing.TB
	ctx    context.Context
	end    context.CancelFunc // closes it
	origin string             // of the server

	mu         sync.Mutex
	complaints []string
}

// open opens a page of the console, in a profile of its own.
func (s *server) open(t testing.TB, address string) *tab {
	t.Helper()
	b := s.blank(t)
	b.visit(s.URL() + "/console/" + address)
	return b
}

// blank opens an empty tab, in a profile of its own.
func (s *server) blank(t testing.TB) *tab {
	t.Helper()
	return blank(t, s.URL())
}

func blank(t testing.TB, origin string) *tab {
	t.Helper()
	path := chromium(t)
	shared.once.Do(func() {
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path))
		if os.Getuid() == 0 {
			options = append(options, chromedp.NoSandbox)
		}
		allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, end := chromedp.NewContext(allocator)
		shared.ctx, shared.end = ctx, func() { end(); endAllocator() }
		shared.err = chromedp.Do(ctx)
		if shared.err == nil {
			_, shared.err = chromedp.Run(ctx, chromedp.Evaluate[int]("1"))
		}
	})
	if shared.err != nil {
		t.Fatalf("%s: %v", path, shared.err)
	}
	return newTab(t, origin, shared.ctx, chromedp.WithNewBrowserContext())
}

// beside opens an empty tab in the profile of another one.
func (b *tab) beside() *tab {
	b.t.Helper()
	return newTab(b.t, b.origin, b.ctx)
}

func newTab(t testing.TB, origin string, parent context.Context, options ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(parent, options...)
	b := &tab{t: t, ctx: ctx, end: end, origin: origin}
	if err := chromedp.Listen(ctx, b.heard); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	b.waits(1500*time.Millisecond, time.Minute) // for the key after g, which comes later on a busy machine
	b.size(1920, 1080)
	t.Cleanup(func() {
		if t.Failed() {
			b.shoot("failed-" + strings.ReplaceAll(t.Name(), "/", "-"))
		}
		b.content()
		end()
	})
	return b
}

// heard notes what the browser complains about.
func (b *tab) heard(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	complain := func(format string, args ...any) { b.complaints = append(b.complaints, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
		complain("exception: %s", text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" {
			complain("console.%s", e.Type)
		}
	case *cdplog.EventEntryAdded:
		// a refusal that the page shows is no complaint, nor is a server that is away
		if e.Entry.Level != "error" || e.Entry.Source == "network" {
			return
		}
		complain("%s: %s", e.Entry.Source, e.Entry.Text)
	case *page.EventJavascriptDialogOpening:
		complain("a dialog: %s", e.Message)
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, b.origin+"/") {
			complain("a request to %s", e.Request.URL)
		}
	}
}

// content fails the test if the browser has complained.
func (b *tab) content() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complaints {
		b.t.Error(c)
	}
	b.complaints = nil
}

// patience is how long a step may take on a busy machine.
const patience = 2 * time.Minute

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) visit(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

// goTo opens another page of the console without loading it again.
func (b *tab) goTo(address string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf("(location.hash = %q, true)", address))
}

// eval runs an expression in the page, awaiting a promise.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := tryEval[T](b, expression)
	if err != nil {
		b.t.Fatalf("%s: %v", expression[:min(len(expression), 200)], err)
	}
	return v
}

func tryEval[T any](b *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// until waits until an expression is true. While the tab changes from one page to another, there
// may be none to ask.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	end := time.Now().Add(patience)
	for {
		switch v, err := tryEval[bool](b, "!!("+expression+")"); {
		case err != nil && !strings.Contains(err.Error(), "navigated or closed"):
			b.t.Fatalf("%s: %v", what, err)
		case v:
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s: %s never was true; the page says: %s", what, expression, b.text("body"))
		}
		time.Sleep(25 * time.Millisecond)
	}
}

// sees waits until the page has a text.
func (b *tab) sees(text string) {
	b.t.Helper()
	b.until("the page has "+text, fmt.Sprintf("document.body?.innerText.includes(%s)", quoted(text)))
}

// quoted is a string of JavaScript.
func quoted(text string) string {
	q, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return string(q)
}

// text is what a person reads in an element.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

// click clicks the first element that a selector finds, and that has a text if one is given.
func (b *tab) click(selector, text string) {
	b.t.Helper()
	found := fmt.Sprintf("[...document.querySelectorAll(%q)].find((e) => e.innerText.includes(%s))", selector, quoted(text))
	b.until("there is "+selector+" "+text, found)
	eval[bool](b, "("+found+".click(), true)")
}

// press presses keys.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		b.do(chromedp.KeyEvent(k))
	}
}

func (b *tab) size(width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// scheme makes the system of the browser light or dark.
func (b *tab) scheme(name string) {
	b.t.Helper()
	if err := setScheme(b.ctx, name); err != nil {
		b.t.Fatal(err)
	}
}

// picture shoots a picture of the README and docs/console.md, which is in docs under this name.
func (b *tab) picture(name string) {
	b.t.Helper()
	b.size(1200, 620)
	b.shoot(name)
	b.size(1920, 1080)
}

// shoot writes a screenshot if a folder is named for them.
func (b *tab) shoot(name string) {
	dir := os.Getenv("TENAQ_SCREENSHOTS")
	if dir == "" {
		return
	}
	shot, err := chromedp.Call(b.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), shot.Data, 0o644)
	}
	if err != nil {
		b.t.Error(err)
	}
}
