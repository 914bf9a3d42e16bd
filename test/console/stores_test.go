package console_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"tenaq/claims"
	"tenaq/records"
	"tenaq/records/sqliterecords"
)

// redriving is the configuration of a server with redrivers that take no step by themselves.
func redriving(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tenaq.yaml")
	if err := os.WriteFile(path, []byte(`redrive:
  records: server
  queues:
    - {dead-letter: orders-dlq, parking: orders-parking, schedule: "0 0 1 1 *"}
    - {dead-letter: late-dlq, parking: orders-parking, target: orders, schedule: "0 0 1 1 *"}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// put writes a record.
func (s *server) put(key string, value any) {
	s.t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		s.t.Fatal(err)
	}
	s.ask("/v1/records", object{"writes": []object{{"key": key, "value": text}}}, nil)
}

// fail gives the redriver of orders-dlq a past: a breaker that is open, and a kind for each reason.
func (s *server) fail(reasons []string) {
	s.t.Helper()
	for _, queue := range []string{"orders", "orders-dlq", "orders-parking"} {
		s.create(queue, nil, nil)
	}
	s.send("orders-dlq", `{"order":4200}`, nil)
	now := time.Now().UTC()
	closed := object{"state": "CLOSED", "failure_count": 0, "success_count": 0, "last_state_change": time.Time{}, "last_attempt": time.Time{}}
	var kinds []object
	for i, reason := range reasons {
		kinds = append(kinds, object{"fingerprint": fmt.Sprintf("%08x", i), "reason": reason, "lineages": []string{"a", "b", "c"}[:1+i%3],
			"since": now.Add(-3 * time.Hour), "last": now.Add(-time.Duration(i) * time.Minute), "breaker": closed})
	}
	s.put("redrive/orders-dlq", object{"v": 1, "rate": 40, "steep": true, "redriven": 1220, "successes": 1204, "failures": 12, "parked": 4, "kinds": kinds,
		"breaker": object{"state": "OPEN", "failure_count": 3, "success_count": 0, "last_state_change": now.Add(time.Hour), "last_attempt": now, "trips": 1},
		"flights": []object{{"letter": "a", "lineage": "a", "kind": "00000000", "sent": now, "due": now, "canary": true}, {"letter": "b", "lineage": "b", "kind": "00000000", "sent": now, "due": now}}})
	var times []time.Time
	var states []int
	for i := range 600 {
		if i <= 400 || i >= 440 { // no reports for 40 minutes
			times, states = append(times, now.Add(time.Duration(i-601)*time.Minute)), append(states, []int{0, 0, 0, 1, 2, 0}[i/100])
		}
	}
	s.tellAll("Tenaq/Redrive", "QueueName", "orders-dlq", "BreakerState", times, states)
}

// tell reports a number as a redriver or a relay does.
func (s *server) tell(namespace, dimension, about, name string, at time.Time, value int) {
	s.t.Helper()
	s.tellAll(namespace, dimension, about, name, []time.Time{at}, []int{value})
}

func (s *server) tellAll(namespace, dimension, about, name string, times []time.Time, values []int) {
	s.t.Helper()
	var data []object
	for i, at := range times {
		data = append(data, object{"MetricName": name, "Value": values[i], "Timestamp": float64(at.Unix()), "Dimensions": []object{{"Name": dimension, "Value": about}}})
	}
	text, err := json.Marshal(object{"Namespace": namespace, "MetricData": data})
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, s.URL(), bytes.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "GraniteServiceVersion20100801.PutMetricData")
	res, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		s.t.Fatalf("put metrics: %s", res.Status)
	}
}

// paused is why the redriver of a queue is paused.
func (s *server) paused(queue string) string {
	s.t.Helper()
	var r struct{ Paused string }
	s.ask("/v1/redrivers/"+queue, nil, &r)
	return r.Paused
}

// The redrivers of the server are shown, paused and resumed, and each action can be undone.
// [V1-15, V1-16, CONSOLE-15]
func TestRedrivers(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--config", redriving(t))
	s.fail([]string{"card declined: code #", "timeout after # ms at https://pay.example/charge", "no stock of # in warehouse #"})
	b := s.blank(t)
	b.waits(10*time.Second, time.Hour) // with Undo, which the test presses later
	b.visit(s.URL() + "/console/#/redrivers")
	b.sees("1,220 redriven")
	b.sees("half open in")
	b.sees("late-dlq") // which does not exist
	b.sees("Its state cannot be read")
	b.until("the breaker has a past", `document.querySelectorAll(".band .bOPEN, .band .bHALF_OPEN").length === 3`)
	b.judged("redrivers")
	b.press("c")
	b.sees("Commands for this screen")
	b.sees("tenaq redrive pause orders-dlq --reason 'paused in the console'")
	b.press("\x1b")

	b.asks(".alarmbox:last-child button", "Take a step", "Take a step of orders-dlq")
	b.sees("none back while the breaker is open")
	b.shows("tenaq redrive run orders-dlq --parking orders-parking --once")
	b.judged("redriver-step")
	b.submit()
	b.sees("orders-dlq: sent 0 messages back, parked 0, held 1.")
	b.until("the step is shown", `document.querySelector(".alarmbox:last-child").innerText.includes("latest")`)

	b.click(".alarmbox:last-child button", "Pause")
	b.until("there is a pause", `[...document.querySelectorAll(".alarmbox button")].some((e) => e.innerText === "Resume")`)
	if got := s.paused("orders-dlq") + s.paused("late-dlq"); got != "paused in the console (unsigned)" {
		t.Errorf("it is paused: %q", got)
	}
	b.judged("redriver-paused")
	b.click(".toast button", "Undo")
	b.until("it is resumed", `![...document.querySelectorAll(".alarmbox button")].some((e) => e.innerText === "Resume")`)
	if got := s.paused("orders-dlq"); got != "" {
		t.Errorf("after Undo it is paused: %q", got)
	}
	s.ask("/v1/redrivers/orders-dlq/pause", object{"reason": "the bank is down"}, nil)
	b.goTo("#/redrivers/orders-dlq")
	b.sees("the bank is down (unsigned)")
	b.click(".alarmbox button", "Resume")
	b.sees("Ended the pause of orders-dlq")
	if got := s.paused("orders-dlq"); got != "" {
		t.Errorf("after Resume it is paused: %q", got)
	}
	b.click(".toast button", "Undo")
	b.sees("Undone")
	if got := s.paused("orders-dlq"); got != "the bank is down (unsigned)" {
		t.Errorf("after Undo it is paused: %q", got)
	}
	s.logged("ManageRedrivers", "orders-dlq")
	b.goTo("#/q/orders-dlq/dead")
	b.sees("2 on the way, paused: the bank is down (unsigned)")
	b.press("g", "o")
	b.sees("orders-parking")
	b.press("g", "r")
	b.sees("1,220 redriven")
}

// The next step of a redriver is shown on demand: what would go back, be parked and stay, and why.
// It changes nothing. [V1-20, CONSOLE-8, CONSOLE-15]
func TestPlan(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--config", redriving(t))
	for _, queue := range []string{"orders", "orders-dlq", "orders-parking"} {
		s.create(queue, nil, nil)
	}
	const rate = 5 // of a redriver that has not run yet
	n := 0
	die := func(reason string, poison bool) {
		trail := url.Values{"v": {"1"}, "key": {fmt.Sprintf("order-%d", n)}, "lineage": {fmt.Sprint(n)}, "attempts": {"3"}, "reason": {reason}, "source": {"arn:aws:sqs:us-east-1:000000000000:orders"}}
		if poison {
			trail.Set("poison", "1")
		}
		s.send("orders-dlq", "x", object{"MessageAttributes": object{"tenaq": object{"DataType": "String", "StringValue": trail.Encode()}}})
		n++
	}
	for _, reason := range corpus(t) {
		if len(reason) < 900 && utf8.ValidString(reason) {
			die(reason, false)
		}
	}
	die("no such card", true)
	received := func() (text string) {
		var list struct {
			Messages []struct {
				MessageID, State string
				ReceiveCount     int
			}
		}
		s.ask("/v1/queues/orders-dlq/messages?limit=100", nil, &list)
		return fmt.Sprint(list.Messages)
	}

	b := s.open(t, "#/redrivers/orders-dlq")
	b.sees("0 redriven")
	b.press("c")
	b.sees("tenaq redrive plan orders-dlq --schedule '0 0 1 1 *' --records server")
	b.press("\x1b")
	b.closes()
	before := received()
	b.asks(".alarmbox .bar button", "Plan the next step", "Plan the next step of orders-dlq")
	b.shows("tenaq redrive plan orders-dlq --schedule '0 0 1 1 *' --records server")
	b.sees("nobody else can receive")
	b.judged("redriver-plan")
	if after := received(); after != before {
		t.Errorf("looking has changed the queue:\n%s\nwas\n%s", after, before)
	}
	b.click("dialog[open] footer button", "Cancel")
	b.closes()
	b.asks(".alarmbox .bar button", "Plan the next step", "Plan the next step of orders-dlq")
	b.begins("Plan")
	b.press("\r") // by the keyboard alone, because it is harmless
	b.sees(fmt.Sprintf("orders-dlq: the next step would send %d messages back, park 1 and hold %d.", rate, n-rate-1))
	b.sees(fmt.Sprintf("Of %d dead letters, %d were looked at: %d would go back, 1 would be parked, %d would stay. Then 5 of at most 5 are on the way.", n, n, rate, n-rate-1))
	b.sees("poison, its worker says: no such card")
	b.until("each has its row", fmt.Sprintf(`document.querySelectorAll(".planned tbody tr").length === %d`, n))
	b.judged("redriver-planned")
	b.harmless("the plan")
	if got := s.depth("orders-dlq") + ", " + s.depth("orders") + ", " + s.depth("orders-parking"); got != fmt.Sprintf("%d 0 0, 0 0 0, 0 0 0", n) {
		t.Errorf("after a plan, the queues have %s", got)
	}
	if after := received(); after != before {
		t.Errorf("a plan has changed the queue:\n%s\nwas\n%s", after, before)
	}
	s.logged("ManageRedrivers", "orders-dlq")
	// A pause is no reason to see nothing: this is what a person looks at before its end.
	s.ask("/v1/redrivers/orders-dlq/pause", object{"reason": "release"}, nil)
	b.press("r")
	b.sees("Resume")
	b.asks(".alarmbox .bar button", "Plan the next step", "Plan the next step of orders-dlq")
	b.submit()
	b.sees("It is paused: release (unsigned). This is the first step after Resume.")
	b.until("each has its row", fmt.Sprintf(`document.querySelectorAll(".planned tbody tr").length === %d`, n))
	b.sees(fmt.Sprintf("%d would go back, 1 would be parked", rate))
	if got := s.depth("orders-dlq") + ", " + s.paused("orders-dlq"); got != fmt.Sprintf("%d 0 0, release (unsigned)", n) || received() != before {
		t.Errorf("after a plan of a paused redriver: %s", got)
	}
	s.ask("/v1/redrivers/orders-dlq/resume", object{}, nil)
	b.asks(".alarmbox .bar button", "Take a step", "Take a step of orders-dlq")
	before = received()
	b.begins("Cancel")
	b.press("\r") // what a step sends cannot be taken back
	b.closes()
	if after := received(); after != before {
		t.Errorf("a step that was cancelled has changed the queue:\n%s\nwas\n%s", after, before)
	}
	b.until("the button has the focus again", `document.activeElement.innerText.includes("Take a step")`)
	b.asks(".alarmbox .bar button", "Take a step", "Take a step of orders-dlq")
	b.submit()
	b.sees(fmt.Sprintf("orders-dlq: sent %d messages back, parked 1, held %d.", rate, n-rate-1)) // at once, because a plan gives back what it has looked at
}

// begins fails unless the dialog, which has no field, has the focus on a button, and is described
// by its text.
func (b *tab) begins(button string) {
	b.t.Helper()
	b.until("the focus is on "+button, fmt.Sprintf(`document.activeElement.closest("dialog[open] footer") && document.activeElement.innerText === %q`, button))
	if !eval[bool](b, `document.querySelector("dialog[open] #" + document.querySelector("dialog[open]").getAttribute("aria-describedby"))?.innerText.length > 50`) {
		b.t.Errorf("the dialog is not described")
	}
}

// A page has no button for a change that it may not make, and the server refuses the change.
// [CONSOLE-14]
func TestStoresReadOnly(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--config", redriving(t), "--console-read-only")
	s.fail(nil)
	b := s.open(t, "#/redrivers")
	b.sees("1,220 redriven")
	if eval[bool](b, `!!document.querySelector(".alarmbox .bar button")`) {
		t.Error("a page that may change nothing can pause a redriver")
	}
	for _, path := range []string{"pause", "step", "plan"} {
		if status := eval[int](b, fmt.Sprintf(`fetch("../v1/redrivers/orders-dlq/%s", {method: "POST", body: "{}", headers: {"Content-Type": "application/json"}}).then((r) => r.status)`, path)); status != http.StatusForbidden {
			t.Errorf("a page that may change nothing is answered with %d: %s", status, path)
		}
	}
	if got := s.paused("orders-dlq"); got != "" {
		t.Errorf("it is paused: %q", got)
	}
	s.put("claim/order-46", object{"v": 1, "state": "parked", "owner": "worker-9", "attempts": 2, "reason": "a holder was lost"})
	b.goTo("#/claims/order-46")
	b.sees("a holder was lost")
	if eval[bool](b, `[...document.querySelectorAll("main button")].some((e) => /Settle|Release/.test(e.innerText))`) {
		t.Error("a page that may change nothing can decide about a claim")
	}
}

// The menu leaves out features that a server lacks, and their pages say how to configure them.
func TestWithoutRedrivers(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create("orders", nil, nil)
	b := s.open(t, "#/redrivers")
	b.sees("This server runs no redriver")
	if strings.Contains(b.text(".places"), "Redrivers") {
		t.Error("the menu has redrivers")
	}
	b.judged("no-redrivers")
}

// The reasons of failures stay text where redrivers show them. [CONSOLE-6]
func TestHostileReasons(t *testing.T) {
	t.Parallel()
	for part := range slices.Chunk(corpus(t), 50) { // as many kinds as a redriver knows
		s := serve(t, nil, "--config", redriving(t))
		s.fail(part)
		s.ask("/v1/redrivers/orders-dlq/pause", object{"reason": part[0][:min(len(part[0]), 500)]}, nil)
		b := s.open(t, "#/redrivers")
		b.until("the kinds are there", fmt.Sprintf(`document.querySelectorAll(".alarmbox tbody tr").length === %d`, len(part)))
		b.harmless("redrivers")
	}
}

// claim does something with a claim, and returns its fence.
func (s *server) claim(key, what string, in object) (fence uint64) {
	s.t.Helper()
	var c struct{ Fence uint64 }
	s.ask("/v1/claims/"+url.PathEscape(key)+"/"+what, in, &c)
	return c.Fence
}

// addClaims adds claims in several states, and a message whose work one of them is.
func (s *server) addClaims() {
	s.t.Helper()
	s.create("orders", nil, object{"tenaq:history": "7d"})
	s.send("orders", `{"order":42}`, object{"MessageAttributes": object{"tenaq": object{"DataType": "String", "StringValue": "v=1&key=order-42"}}})
	m := s.receive("orders", nil)[0]
	s.claim("order-42", "acquire", object{"owner": "worker-7", "messageId": m.MessageId, "memo": `{"order":42}`, "leaseMs": 3600_000})
	s.claim("order-43", "complete", object{"fence": s.claim("order-43", "acquire", object{"owner": "worker-7"}), "result": `{"charge":"ch_1"}`})
	s.claim("order-44", "fail", object{"fence": s.claim("order-44", "acquire", object{"owner": "worker-8"}), "reason": "timeout after 3000 ms"})
	s.claim("order-45", "acquire", object{"owner": "worker-8", "leaseMs": 1000})
	s.put("claim/order-46", object{"v": 1, "state": "parked", "owner": "worker-9", "attempts": 2, "reason": "a holder was lost, and it is unknown how far it came"})
	for i := range 120 {
		key := fmt.Sprintf("mail-%03d", i)
		s.claim(key, "complete", object{"fence": s.claim(key, "acquire", object{"owner": "mailer"})})
	}
}

// Claims are searched, shown with the life of their work, settled and released. [REC-16, REC-17]
func TestClaims(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := s.blank(t)
	b.waits(10*time.Second, time.Hour) // with Undo, which the test presses later
	b.visit(s.URL() + "/console/#/claims")
	b.sees("There is no claim in the records of this server")
	b.judged("no-claims")
	s.addClaims()
	b.goTo("#/claims?prefix=order-")
	b.sees("parked: awaits a decision")
	b.until("a lease has expired", `document.querySelector("main").innerText.includes("held, lease expired")`)
	b.judged("claims")
	b.picture("console-claims")
	b.press("c")
	b.sees("tenaq claims list order- --records server")
	b.press("\x1b")
	rows := `document.querySelectorAll("main tbody tr").length`
	b.fill("Key begins with", "mail-")
	b.until("there are 50", rows+" === 50")
	b.click("button", "More claims")
	b.until("there are 100", rows+" === 100")
	b.click("button", "More claims")
	b.until("there are 120", rows+` === 120 && !document.body.innerText.includes("More claims")`)
	b.fill("Key begins with", "")
	b.fill("State", "stuck")
	b.until("three are stuck", rows+" === 3")
	b.click("a[data-row]", "order-46")
	b.sees("it is unknown how far it came")

	b.asks("button", "Settle", "Settle order-46")
	b.fill("Reason", "it's with the bank")
	b.fill("Result", "ch_2")
	b.shows(`tenaq claims settle order-46 --reason 'it'\''s with the bank' --result ch_2 --records server`)
	b.judged("settle")
	b.submit()
	b.sees("Recorded that order-46 is done.")
	b.until("it is done", `document.querySelector("main .badge").innerText.includes("completed")`)
	s.logged("ManageClaims", "claim/order-46")
	b.click(".toast button", "Undo")
	b.sees("Undone.")
	b.until("it awaits a decision again", `document.querySelector("main .badge").innerText.includes("parked") && document.querySelector("main").innerText.includes("it is unknown how far it came")`)
	b.asks("button", "Settle", "Settle order-46")
	b.fill("Reason", "it's with the bank")
	b.submit()
	b.sees("Recorded that order-46 is done.")
	s.ask("/v1/claims/order-46/reopen", object{"reason": "another person", "force": true}, nil)
	b.click(".toast button", "Undo")
	b.sees("has changed in the meantime")
	b.click(".toast button", "×")
	b.goTo("#/claims/order-42")
	b.sees("worker-7")
	b.until("its life is there", `document.querySelector(".life")?.innerText.includes("received")`)
	b.judged("claim")
	b.asks("button", "Release", "Release order-42")
	b.fill("Reason", "its host is switched off")
	disabled := `document.querySelector("dialog[open] button[type=submit]").disabled`
	if !eval[bool](b, disabled) {
		t.Error("a claim whose lease runs is released without a second thought")
	}
	b.sees("This cannot be taken back.") // because its holder loses the claim
	b.judged("release")
	b.click("dialog[open] .check input", "")
	b.shows("--force")
	b.submit()
	b.sees("order-42 can be claimed again.")
	if strings.Contains(b.text(".toast"), "Undo") {
		t.Error("a holder that has lost its claim could get it back")
	}
	var c struct{ State, Reason string }
	s.ask("/v1/claims/order-42", nil, &c)
	if c.State != "released" || c.Reason != "its host is switched off" {
		t.Errorf("got %+v", c)
	}
	b.click("main a", "Show where the work is now")
	b.sees("Life of order-42")
	b.press("g", "c")
	b.sees("mail-000")
}

// addClaimsTo adds claims to a store in SQLite, as workers do.
func addClaimsTo(t *testing.T, path string) *claims.Ledger {
	t.Helper()
	store, err := sqliterecords.New(sqliterecords.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	l, err := claims.New(claims.Config{Store: store, Owner: "worker-7"})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"order-43", "order-44"} {
		c, err := l.Acquire(t.Context(), key)
		if err == nil && key == "order-43" {
			err = c.Complete(t.Context(), []byte("ch_1"))
		} else if err == nil {
			err = c.Fail(t.Context(), "timeout after 3000 ms")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	parked := `{"v":1,"state":"parked","owner":"worker-9","attempts":2,"reason":"a holder was lost, and it is unknown how far it came"}`
	if _, err := store.Put(t.Context(), records.Write{Key: "claim/order-46", Value: []byte(parked)}); err != nil {
		t.Fatal(err)
	}
	return l
}

// Claims in other stores are shown, settled and released there. A store that is away makes one
// panel fail, with what to do, and no password is shown. [REC-18, CONSOLE-15]
func TestOtherStores(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := addClaimsTo(t, dir+"/shop.db")
	config := dir + "/tenaq.yaml"
	if err := os.WriteFile(config, fmt.Appendf(nil, `claims:
  - {name: shop, records: "sqlite:%s/shop.db"}
  - {name: away, records: "postgres://app:very-hidden@127.0.0.1:1/shop"}
  - {name: costly, records: "dynamodb:jobs"}
`, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, []string{"AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:1", "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b", "AWS_REGION=us-east-1"}, "--config", config)
	s.claim("order-42", "acquire", object{"owner": "worker-7"})
	b := s.blank(t)
	b.waits(10*time.Second, time.Hour) // with Undo, which the test presses later
	b.visit(s.URL() + "/console/#/claims")
	b.sees("order-42")
	b.fill("Store", "shop")
	b.sees("parked: awaits a decision")
	b.sees("These claims are in sqlite:" + dir + "/shop.db")
	if strings.Contains(b.text("main"), "order-42") {
		t.Error("claims of the server are among those of another store")
	}
	b.judged("claims-elsewhere")
	b.press("c")
	b.sees("tenaq claims list --records sqlite:" + dir + "/shop.db")
	b.press("\x1b")
	b.fill("State", "stuck")
	b.until("two are stuck", `document.querySelectorAll("main tbody tr").length === 2`)
	b.click("a[data-row]", "order-46")
	b.sees("it is unknown how far it came")
	b.asks("button", "Settle", "Settle order-46")
	b.fill("Reason", "the bank has it")
	b.fill("Result", "ch_2")
	b.shows("tenaq claims settle order-46 --reason 'the bank has it' --result ch_2 --records sqlite:" + dir + "/shop.db")
	b.submit()
	b.sees("Recorded that order-46 is done.")
	b.judged("claim-elsewhere")
	if e, err := l.Entry(t.Context(), "order-46"); err != nil || e.State != claims.Completed || string(e.Result) != "ch_2" || e.Reason != "the bank has it" {
		t.Errorf("a worker sees %+v, %v", e, err)
	}
	s.logged("ManageClaims", "claim/order-46")
	b.goTo("#/claims/order-44?store=shop")
	b.asks("button", "Release", "Release order-44")
	b.fill("Reason", "again")
	b.submit()
	b.sees("order-44 can be claimed again.")
	b.click(".toast button", "Undo")
	b.sees("Undone.")
	if e, err := l.Entry(t.Context(), "order-44"); err != nil || e.State != claims.Failed || e.Reason != "timeout after 3000 ms" || e.Owner != "worker-7" {
		t.Errorf("after Undo a worker sees %+v, %v", e, err)
	}
	b.asks("button", "Release", "Release order-44")
	b.fill("Reason", "again")
	b.submit()
	b.sees("order-44 can be claimed again.")
	if c, err := l.Acquire(t.Context(), "order-44"); err != nil || c.Attempts() != 1 {
		t.Errorf("a worker claims it: %+v, %v", c, err)
	}

	b.click("main h1 a", "Claims")
	b.until("the list of the store is there", `document.querySelector("main tbody tr")`)
	b.fill("Store", "away")
	b.sees("The store away, which is postgres://app@127.0.0.1:1/shop, cannot be used now")
	b.sees("Check that it runs, that this server reaches it")
	if strings.Contains(eval[string](b, "document.documentElement.outerHTML"), "very-hidden") {
		t.Error("the page shows the password of a store")
	}
	b.judged("store-away")
	b.goTo("#/claims/order-1?store=away")
	b.sees("cannot be used now")
	b.goTo("#/claims?store=costly")
	b.sees("Each list reads the whole table")
	b.judged("store-costly")
	b.click("main button", "Read the table")
	b.sees("The store costly, which is dynamodb:jobs, cannot be used now")
	b.fill("Store", "")
	b.sees("order-42") // the claims of the server, meanwhile
	b.press("g", "o")
	b.sees("queues")
}

// addManyClaims adds claims of work that is done, and behind them one that awaits a decision.
func (s *server) addManyClaims(n int) {
	s.t.Helper()
	done, err := json.Marshal(object{"v": 1, "state": "completed", "owner": "worker-7", "attempts": 1})
	if err != nil {
		s.t.Fatal(err)
	}
	const most = 32 // writes of a request
	var adding sync.WaitGroup
	for worker := range 16 {
		adding.Go(func() {
			for i := worker; most*i < n-1; i += 16 {
				var writes []object
				for j := most * i; j < min(most*i+most, n-1); j++ {
					writes = append(writes, object{"key": fmt.Sprintf("claim/order-%06d", j), "value": done})
				}
				s.ask("/v1/records", object{"writes": writes}, nil)
			}
		})
	}
	adding.Wait()
	s.put(fmt.Sprintf("claim/order-%06d", n-1), object{"v": 1, "state": "parked", "owner": "worker-9", "attempts": 2, "reason": "a holder was lost"})
}

// Of very many claims a page has few, one is found by the beginning of its key at once, and one in
// a state by a search that says how far it is. [CONSOLE-18]
func TestManyClaims(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	n := manyQueues()
	s.addManyClaims(n)
	b := s.open(t, "#/claims")
	rows := `document.querySelectorAll("main tbody tr").length`
	b.until("there are 50", rows+" === 50")
	if nodes := eval[int](b, `document.querySelectorAll("*").length`); nodes > 1500 {
		t.Errorf("the page has %d nodes", nodes)
	}
	key := fmt.Sprintf("order-%06d", n/2)
	b.fill("Key begins with", key)
	b.until("one is there", rows+` === 1 && document.querySelector("main tbody tr").innerText.includes(`+quoted(key)+`)`)
	b.fill("Key begins with", "")
	b.until("there are 50 again", rows+" === 50")
	b.fill("State", "parked")
	if n > 4096 { // more than one request looks at
		b.sees("No claim matches among the first 4,096 claims.")
		b.click("main .more button", "Search further")
	}
	b.until("it is found", rows+` === 1 && document.querySelector("main tbody tr").innerText.includes("a holder was lost") && !document.querySelector("main .more")`)
}

// Keys, owners and reasons of claims stay text. [CONSOLE-6]
func TestHostileClaims(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	shown := 0
	for i, line := range corpus(t) {
		key := fmt.Sprintf("%03d", i)
		if short := key + line; len(short) < 300 && !strings.ContainsAny(short, "\x00\r\n") && utf8.ValidString(short) {
			key = short
		}
		s.put("claim/"+key, object{"v": 1, "state": "parked", "owner": line[:min(len(line), 900)], "reason": line[:min(len(line), 900)], "message": line[:min(len(line), 100)], "memo": []byte(line)})
		shown++
	}
	b := s.open(t, "#/claims")
	rows := `document.querySelectorAll("main tbody tr").length`
	b.until("there are 50", rows+" === 50")
	b.click("button", "More claims")
	b.until("all are there", fmt.Sprintf("%s === %d", rows, min(shown, 100)))
	b.harmless("claims")
	for _, address := range eval[[]string](b, `[...document.querySelectorAll("main a[data-row]")].map((e) => e.getAttribute("href")).filter((_, i) => i % 5 === 0)`) {
		b.goTo(address)
		b.until("the claim is there", `document.querySelector("main .badge")?.innerText.includes("parked") && document.querySelector("main .bar") && document.querySelector("main p a")`)
		b.harmless(address)
	}
}

// An outbox is in the menu and on its page when its relay reports, and its page says how to begin
// before that. [V1-18]
func TestOutbox(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := s.open(t, "#/outbox")
	b.sees("No relay of an outbox reports to this server")
	if strings.Contains(b.text(".places"), "Outbox") {
		t.Error("the menu has an outbox")
	}
	b.judged("no-outbox")
	now := time.Now()
	s.tell("Tenaq/Outbox", "Outbox", "shop", "OldestDueAge", now, 41)
	for name, n := range map[string]int{"ParkedRows": 2, "PendingRows": 1120, "DueRows": 14} {
		s.tell("Tenaq/Outbox", "Outbox", "shop", name, now, n)
	}
	s.tell("Tenaq/Outbox", "Outbox", "app.db", "OldestDueAge", now.Add(-3*time.Hour), 0)
	b.press("r")
	b.sees("1,120")
	b.sees("has not reported for")
	b.until("the menu has it", `[...document.querySelectorAll(".places a")].some((e) => e.innerText.includes("Outbox") && e.innerText.includes("2"))`)
	b.judged("outbox")
	b.sees("No relay has reported them")
	b.press("c")
	b.sees("Commands for this screen")
	b.sees("tenaq outbox parked list")
	b.press("\x1b")
	b.closes()
	var rows []object
	for i, line := range append([]string{"The group is missing", "The queue takes messages of at most 262144 bytes"}, corpus(t)...) {
		line = line[:min(len(line), 900)]
		row := object{"id": fmt.Sprintf("018f3a5e-0000-7000-8000-%012d", i), "queue": "orders", "attempts": 10, "reason": line, "parkedAt": now.Add(time.Duration(i) * time.Second)}
		if i > 1 {
			row["queue"], row["key"], row["type"] = line, line, line
		}
		rows = append(rows, row)
	}
	s.ask("/v1/outbox/shop/parked", object{"rows": rows[:2], "more": true}, nil)
	b.press("r")
	b.sees("The queue takes messages of at most 262144 bytes")
	b.sees("Others were set aside later")
	b.sees("tenaq outbox parked release --queue orders --run")
	b.press("j")
	b.until("the first row has the focus", `document.activeElement.innerText === "app.db"`)
	b.press("\r")
	b.until("its page is open", `location.hash === "#/outbox/app.db"`)
	b.sees("There are none.")
	b.press("g", "o")
	b.click(".places a", "Outbox")
	b.click("a[data-row]", "shop")
	b.until("its page is open", `location.hash === "#/outbox/shop"`)
	b.click("main details summary", "Commands")
	b.sees("tenaq outbox parked release 018f3a5e-0000-7000-8000-000000000000")
	b.judged("outbox-rows")
	if eval[bool](b, `!!document.querySelector("main .list button:not(.commands button)")`) {
		t.Error("the page has a button for what only a command can do")
	}
	for i := range slices.Chunk(rows, 50) {
		s.ask("/v1/outbox/shop/parked", object{"rows": i}, nil)
		b.press("r")
		b.until("the rows are there", fmt.Sprintf(`document.querySelectorAll("main section tbody tr").length === %d`, len(i)))
		b.harmless("rows of an outbox")
	}
}
