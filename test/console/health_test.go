package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tenaq/internal/api/v1"
)

// The page Health has the figures of the server with their units, as tenaq status prints them. It
// warns when free disk space is near the reserve, and says when sends are refused. A key without
// the right has no such section, and no such command. [V1-25, CONSOLE-14]
func TestHealth(t *testing.T) {
	t.Parallel()
	const (
		viewerID, viewerSecret = "TQVIEWER01", "a-secret-of-the-viewer"
		section                = `[...document.querySelectorAll("main h2")].some((e) => e.innerText.startsWith("Figures"))`
		asked                  = `fetch("../v1/status", {headers: {"Tenaq-Session": localStorage.getItem("tenaq.proof")}})`
		show                   = "tenaq status --endpoint-url"
	)
	viewer := fmt.Sprintf(`, {"id": %q, "secret": %q, "name": "viewer", "allow": ["tenaq:List*", "tenaq:Get*", "tenaq:ViewKeys"]}`, viewerID, viewerSecret)
	s, _ := keyed(t, opsKey(`"*"`)+viewer, "--disk-reserve", "1MiB")
	fact := func(name, matches string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("main .fact")].some((e) => e.querySelector("dt").innerText === %q && %s.test(e.querySelector("dd").innerText))`, name, matches)
	}
	signs(t, s.URL(), opsID, opsSecret, "queue", "create", "orders")
	b := s.open(t, "#/health")
	b.signIn(opsID, opsSecret)
	b.sees("Figures")
	for name, matches := range map[string]string{
		"Region": `/^us-east-1$/`, "Started": `/^[\d: -]+, \d+ \w+( \d+ s)? ago$/`, "Sends": `/^accepted$/`,
		"Free disk space": `/^[\d.,]+ [MG]iB of [\d.,]+ [MG]iB$/`, "Reserve": `/^1.0 MiB$/`,
		"Commit time, p50": `/^[\d.]+ (ms|s)$/`, "Commit time, p99": `/^[\d.]+ (ms|s)$/`, "Requests in one turn, p99": `/^\d+$/`,
		"Requests that wait for the writer": `/^\d+$/`, "Receives that wait for messages": `/^0$/`, "Requests refused as too many": `/^0$/`,
		"Memory": `/^\d+ MiB( of [\d.]+ [MG]iB)?$/`, "Goroutines": `/^\d+$/`, "Alarms judged": `/^\d+ s ago$/`, "Latest backup": `/^none since the start$/`,
	} {
		b.until("the page has "+name, fact(name, matches))
	}
	b.judged("health-figures")
	signs(t, s.URL(), opsID, opsSecret, "backup", t.TempDir()+"/queue.tar")
	b.until("the page has the backup", fact("Latest backup", `/^[\d: -]+, [\d.]+ [KM]iB$/`))
	b.press("c")
	b.sees(show)
	b.press("\x1b")
	var status v1.ServerStatus
	if err := json.Unmarshal(signs(t, s.URL(), opsID, opsSecret, "status", "--json"), &status); err != nil || status.Disk.FreeBytes == nil {
		t.Fatalf("got %+v: %v", status, err)
	}

	b.click(".account summary", "ops")
	b.click(".account .menu button", "Sign out")
	b.sees("You have signed out")
	b.signIn(viewerID, viewerSecret)
	b.sees("This is a single server")
	b.press("c")
	b.sees("tenaq doctor")
	if eval[bool](b, section) {
		t.Error("a key without the right has the figures on its page")
	}
	if strings.Contains(b.text("dialog[open]"), show) {
		t.Error("a key without the right has the command on its page")
	}
	if code := eval[int](b, asked+`.then((r) => r.status)`); code != http.StatusForbidden {
		t.Errorf("without the right the server answers %d", code)
	}

	near := serve(t, nil, "--disk-reserve", fmt.Sprintf("%dMiB", *status.Disk.FreeBytes>>21))
	b = near.open(t, "#/health")
	b.sees("the disk is nearly full")
	b.until("sends are accepted", fact("Sends", `/^accepted$/`))
	b.judged("health-near")

	full := serve(t, nil, "--disk-reserve", "1000000TiB")
	b = full.open(t, "#/health")
	b.sees("Sends are refused: free disk space is below the reserve.")
	b.until("sends are refused", fact("Sends", `/refused$/`))
	b.judged("health-full")
}
