package console_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tenaq/internal/testing/built"
)

// signs carries out a command that signs its requests with a key, and returns what it prints.
func signs(t *testing.T, url, id, secret string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), built.Program(t), append(args, "--endpoint-url", url)...)
	cmd.Env = append(os.Environ(), "TENAQ_ACCESS_KEY_ID="+id, "TENAQ_SECRET_ACCESS_KEY="+secret)
	var problem strings.Builder
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tenaq %v: %v\n%s", args, err, &problem)
	}
	return out
}

// The page of access keys has what each key is and may do, when it ends, and when it was used last.
// Neither the page nor an answer has a secret. Without the right to see the keys, and without keys,
// the menu has no such page. [V1-23, CONSOLE-22]
func TestAccessKeys(t *testing.T) {
	t.Parallel()
	secret := func(i int) string { return fmt.Sprintf("canary-of-a-key-%03d", i) }
	at := func(in time.Duration) string { return time.Now().Add(in).UTC().Format(time.RFC3339) }
	s, _ := keyed(t, strings.Join([]string{opsKey(`"*"`),
		fmt.Sprintf(`{"id": "TQSHOP0001", "secret": %q, "name": "shop", "allow": ["sqs:ListQueues", "sqs:SendMessage", "sqs:GetQueueUrl"], "expires": %q}`, secret(1), at(4*24*time.Hour)),
		fmt.Sprintf(`{"id": "TQSHOP0000", "secret": %q, "name": "shop", "allow": ["sqs:*"], "expires": %q}`, secret(2), at(-time.Hour)),
		fmt.Sprintf(`{"id": "TQPARTNER1", "secret": %q, "token": %q, "name": "partner", "account": "444455556666", "allow": ["sqs:*"]}`, secret(3), "session-token-"+secret(4)),
		fmt.Sprintf(`{"id": "TQVIEWER01", "secret": %q, "name": "viewer", "allow": ["tenaq:List*", "tenaq:Get*", "tenaq:PeekMessages"]}`, secret(5)),
	}, ", "))
	hasNoSecret := func(what, text string) {
		t.Helper()
		if !strings.Contains(text, "TQSHOP0001") || strings.Contains(text, "canary-") || strings.Contains(text, opsSecret) || strings.Contains(text, "session-token-") {
			t.Errorf("%s lacks a key or has a secret: %s", what, text)
		}
	}
	const inMenu = `[...document.querySelectorAll(".places a")].some((e) => e.innerText === "Access keys")`
	const asked = `fetch("../v1/keys", {headers: {"Tenaq-Session": localStorage.getItem("tenaq.proof")}})`
	row := func(id string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("main tbody tr")].find((e) => e.innerText.includes(%q))`, id)
	}
	b := s.open(t, "#/health")
	b.signIn(opsID, opsSecret)
	b.click(".places a", "Access keys")
	b.sees("TQPARTNER1")
	for id, parts := range map[string][]string{
		opsID:        {"ops", "(you)", "000000000000", "never", "all actions", "just now"},
		"TQSHOP0000": {"shop", "expired", "sqs:*", "not used"},
		"TQSHOP0001": {"shop", "in 3 d", "sqs:SendMessage", "sqs:GetQueueUrl", "not used"},
		"TQPARTNER1": {"partner", "444455556666", "never", "not used"},
	} {
		for _, part := range parts {
			b.until(id+" has "+part, row(id)+`?.innerText.includes(`+quoted(part)+`)`)
		}
	}
	b.judged("access-keys")
	b.press("c")
	b.sees("tenaq keys --endpoint-url")
	b.press("\x1b")
	b.closes()

	used := row("TQSHOP0001") + `.querySelector("td:nth-child(4) time")?.dateTime`
	signs(t, s.URL(), "TQSHOP0001", secret(1), "queue", "list")
	b.until("the page has the use", used)
	first := time.UnixMilli(eval[int64](b, "Date.parse("+used+")"))
	for !time.Now().After(first.Add(time.Second)) { // the uses of one second have one time
		signs(t, s.URL(), "TQSHOP0001", secret(1), "queue", "list")
	}
	signs(t, s.URL(), "TQSHOP0001", secret(1), "queue", "list")
	b.until("the page has a later use", fmt.Sprintf("Date.parse(%s) > %d", used, first.UnixMilli()))
	if !eval[bool](b, row("TQSHOP0000")+`.innerText.includes("not used")`) {
		t.Error("a key has a use of another key of its user")
	}
	hasNoSecret("the answer", eval[string](b, asked+`.then((r) => r.text())`))
	hasNoSecret("the page", eval[string](b, `document.documentElement.outerHTML`))

	b.click(".account summary", "ops")
	b.click(".account .menu button", "Sign out")
	b.sees("You have signed out")
	b.signIn("TQVIEWER01", secret(5))
	b.sees("perform: tenaq:viewkeys")
	if eval[bool](b, inMenu) {
		t.Error("a key without the right has the keys in its menu")
	}
	if status := eval[int](b, asked+`.then((r) => r.status)`); status != http.StatusForbidden {
		t.Errorf("without the right the server answers %d", status)
	}
	b.judged("no-access-keys")

	open := serve(t, nil)
	b = open.open(t, "#/keys")
	b.sees("This server has no keys")
	if eval[bool](b, inMenu) {
		t.Error("a server without keys has them in its menu")
	}
}
