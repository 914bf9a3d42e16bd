package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// The page Health has the settings of the server with their origins when they are unfolded, those
// that were set first, and no password. A key without the right to see them has no such section,
// and no such command. [V1-24, CONSOLE-14]
func TestSettings(t *testing.T) {
	t.Parallel()
	const viewerID, viewerSecret = "TQVIEWER01", "a-secret-of-the-viewer"
	viewer := fmt.Sprintf(`, {"id": %q, "secret": %q, "name": "viewer", "allow": ["tenaq:List*", "tenaq:Get*", "tenaq:ViewKeys"]}`, viewerID, viewerSecret)
	s, _ := keyed(t, opsKey(`"*"`)+viewer, "--window", "2048", "--alarm-pages", "https://app:canary-of-the-pages@docs.example.com/{kind}.html")
	const (
		unfold  = "Values, and where they come from"
		section = `[...document.querySelectorAll("main h2")].some((e) => e.innerText === "Settings")`
		asked   = `fetch("../v1/settings", {headers: {"Tenaq-Session": localStorage.getItem("tenaq.proof")}})`
		rows    = `[...document.querySelectorAll("main tbody tr")].map((r) => [...r.cells].map((c) => c.innerText).join(" "))`
		show    = "tenaq config running --endpoint-url"
	)
	b := s.open(t, "#/health")
	b.signIn(opsID, opsSecret)
	b.sees(unfold)
	if n := eval[int](b, rows+".length"); n != 0 {
		t.Errorf("the page has %d settings before they are unfolded", n)
	}
	b.click("main summary", unfold)
	for _, row := range []string{"window 2048 --window", "alarm-pages https://app@docs.example.com/{kind}.html --alarm-pages", "region us-east-1 default", "tls-cert – default"} {
		b.until("the page has "+row, rows+`.includes(`+quoted(row)+`)`)
	}
	if shown := eval[[]string](b, rows); len(shown) < 30 {
		t.Errorf("the page has only the settings %q", shown)
	} else {
		set := 0
		for i, row := range shown {
			if strings.HasSuffix(row, " default") {
				continue
			}
			if set++; i >= set {
				t.Errorf("%s comes after a default", row)
			}
		}
		if set < 3 || set == len(shown) {
			t.Errorf("%d of %d settings were set", set, len(shown))
		}
	}
	for what, text := range map[string]string{"the answer": eval[string](b, asked+`.then((r) => r.text())`), "the page": eval[string](b, `document.documentElement.outerHTML`)} {
		if !strings.Contains(text, "app@docs.example.com") || strings.Contains(text, "canary") || strings.Contains(text, opsSecret) {
			t.Errorf("%s lacks a setting or has a secret: %s", what, text)
		}
	}
	b.judged("health-settings")
	b.press("c")
	b.sees(show)
	b.press("\x1b")
	signs(t, s.URL(), opsID, opsSecret, "config", "running")

	b.click(".account summary", "ops")
	b.click(".account .menu button", "Sign out")
	b.sees("You have signed out")
	b.signIn(viewerID, viewerSecret)
	b.sees("This is a single server")
	b.press("c")
	b.sees("tenaq doctor")
	if eval[bool](b, section) || strings.Contains(b.text("dialog[open]"), show) {
		t.Error("a key without the right has the settings on its page")
	}
	if status := eval[int](b, asked+`.then((r) => r.status)`); status != http.StatusForbidden {
		t.Errorf("without the right the server answers %d", status)
	}
}
