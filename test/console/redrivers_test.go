package console_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"tenaq/redrive"
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
	b.sees("consumers cannot receive")
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

// A kind of dead letters has the same name in the lists of a server and in a redriver, which reads
// the reasons of the messages that it receives. So what either shows serves as --kind. [NACK-15]
func TestKindsOfRedrivers(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for end := time.Now().Add(time.Minute); s.depth("returns") != "1 0 0"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the task that parks one has left %s", s.depth("returns"))
		}
	}
	names := 0
	for _, queue := range []string{"orders-dlq", "returns"} {
		var list struct {
			Kinds []struct {
				Kind  string
				Count int
			}
		}
		s.ask("/v1/queues/"+queue+"/reasons", nil, &list)
		var out struct {
			Messages []struct{ Attributes map[string]string }
		}
		s.ask("ReceiveMessage", object{"QueueUrl": s.url(queue), "MaxNumberOfMessages": 10, "MessageSystemAttributeNames": []string{"TenaqReason"}}, &out)
		want := make(map[string]int)
		for _, m := range out.Messages {
			want[string(redrive.FingerprintOf(m.Attributes["TenaqReason"]))]++
		}
		got := make(map[string]int)
		for _, k := range list.Kinds {
			got[k.Kind] = k.Count
		}
		if names += len(want); !maps.Equal(got, want) {
			t.Errorf("%s has the kinds %v, and for a redriver %v", queue, got, want)
		}
	}
	if names != 3 {
		t.Errorf("the dead letters are of %d kinds, want 3", names)
	}
}
