package v1

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/observe/monitor"
	"tenaq/internal/observe/series"
)

// Redrivers that a test has made up, by their dead-letter queue.
type madeRedrivers struct {
	paused map[string]string
	broken map[string]error
	slow   map[string]bool
}

func (m *madeRedrivers) Queues() []string { return []string{"orders-dlq", "mails-dlq"} }

func (m *madeRedrivers) wait(ctx context.Context, queue string) error {
	if m.slow[queue] {
		<-ctx.Done()
		return fmt.Errorf("read the state of the redriver: %w", ctx.Err())
	}
	return m.broken[queue]
}

func (m *madeRedrivers) Redriver(ctx context.Context, queue string) (Redriver, error) {
	return Redriver{Parking: "parking", Schedule: "continuous", Records: "server", Paused: m.paused[queue], State: &RedriverState{
		Breaker: RedriverBreaker{State: "CLOSED"}, Kinds: []RedriverKind{}, Warnings: []string{}, OnTheWay: 3,
	}}, m.wait(ctx, queue)
}

func (m *madeRedrivers) Pause(ctx context.Context, queue, why string) (was string, err error) {
	if err := m.wait(ctx, queue); err != nil {
		return "", err
	}
	was, m.paused[queue] = m.paused[queue], why
	return was, nil
}

func (m *madeRedrivers) Resume(ctx context.Context, queue string) (was string, err error) {
	was, err = m.Pause(ctx, queue, "")
	return was, err
}

func (m *madeRedrivers) Step(ctx context.Context, queue string) (RedriverStepped, error) {
	if m.paused[queue] == "overlap (ops)" {
		return RedriverStepped{}, fmt.Errorf("step: %w", ErrRedriverBusy)
	}
	return RedriverStepped{Redriven: 5, Breaker: "CLOSED"}, m.wait(ctx, queue)
}

func (m *madeRedrivers) Plan(ctx context.Context, queue string) (RedriverPlan, error) {
	return RedriverPlan{Breaker: RedriverBreaker{State: "CLOSED"}, Redrive: 1, Decisions: []PlannedDecision{{MessageID: "a", Action: "redrive", Why: "redrive 1"}}}, m.wait(ctx, queue)
}

func newMadeRedrivers() *madeRedrivers {
	return &madeRedrivers{paused: make(map[string]string), broken: make(map[string]error), slow: make(map[string]bool)}
}

// All redrivers are listed, including those that cannot be asked. [V1-15]
func TestRedrivers(t *testing.T) {
	w := newWorld(t)
	if status, text := w.ask("GET", "/v1/redrivers", "", ""); status != http.StatusNotFound {
		t.Errorf("without redrivers: got %d %s", status, text)
	}
	if _, text := w.ask("GET", "/v1", "", ""); strings.Contains(text, "redrivers") {
		t.Errorf("without redrivers: got %s", text)
	}
	made := newMadeRedrivers()
	w.cfg.Redrivers = made
	m := w.useMonitor(t)
	if _, text := w.ask("GET", "/v1", "", ""); !strings.Contains(text, `"redrivers"`) {
		t.Errorf("with redrivers: got %s", text)
	}
	minute := m.Now().Add(-10*time.Minute).UnixMilli() / series.Minute * series.Minute
	of := series.Metric{Namespace: string(monitor.Redrivers), Name: monitor.BreakerState,
		Dimensions: []series.Dimension{{Name: "QueueName", Value: "orders-dlq"}}}
	for i, gauge := range []float64{0, 0, 1, 7, 2, -1, -1, 0} {
		if err := m.Series().Put(of, minute+int64(i)*series.Minute, series.One(gauge), ""); err != nil {
			t.Fatal(err)
		}
	}
	made.broken["mails-dlq"] = errors.New("no such table")
	var list redriverList
	w.json(t, "GET", "/redrivers", "", 200, &list)
	if len(list.Redrivers) != 2 || list.Redrivers[0].Queue != "mails-dlq" || list.Redrivers[0].Error != "no such table" ||
		list.Redrivers[0].State != nil || list.Redrivers[0].Schedule != "continuous" || list.Redrivers[1].State.OnTheWay != 3 {
		t.Errorf("got %+v", list)
	}
	// One minute without news continues a state; more leave a gap.
	at := func(i int64) string { return *timeText(minute + i*series.Minute) }
	var got []string
	for _, s := range list.Redrivers[1].History {
		got = append(got, s.State+" "+*s.From+" "+*s.To)
	}
	want := []string{"CLOSED " + at(0) + " " + at(2), "OPEN " + at(2) + " " + at(4), "HALF_OPEN " + at(4) + " " + at(5),
		"CLOSED " + at(7) + " " + at(8)}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	var one Redriver
	w.json(t, "GET", "/redrivers/orders-dlq", "", 200, &one)
	if one.Queue != "orders-dlq" || len(one.History) != 4 || one.State.OnTheWay != 3 {
		t.Errorf("got %+v", one)
	}
	if status, text := w.ask("GET", "/v1/redrivers/other", "", ""); status != http.StatusNotFound || !strings.Contains(text, "of this server") {
		t.Errorf("got %d %s", status, text)
	}
}

// A redriver whose records do not answer holds up neither the list nor the others. [V1-15]
func TestSlowRedriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := newMadeRedrivers()
		made.slow["mails-dlq"] = true
		c := &call{Context: t.Context(), Handler: New(Config{Redrivers: made, Door: newDoor()})}
		from := time.Now()
		list, err := c.redrivers(none{})
		if err != nil || time.Since(from) != redriverWait || list.Redrivers[0].Error != errRedriverSlow.Error() ||
			list.Redrivers[0].State != nil || list.Redrivers[1].State == nil {
			t.Errorf("after %v: got %+v, %v", time.Since(from), list, err)
		}
		if _, err := changeRedriver(c, redriverWait, "mails-dlq", made.Resume); err == nil || !strings.Contains(err.Error(), "within 5s") {
			t.Errorf("got %v", err)
		}
	})
}

// A pause needs its right, names who paused, and is in the action log. So are its end, a step and a
// plan. [V1-16, V1-17, V1-20]
func TestPauseRedriver(t *testing.T) {
	key := func(id, more string) string {
		return fmt.Sprintf(`{"id": %q, "secret": "the-secret-of-%s", %s}`, id, id, more)
	}
	k := newKeyed(t, key("TQALL001", `"name": "ops", "allow": ["*"]`), key("TQLOOKS1", `"allow": ["tenaq:ViewRedrivers"]`),
		key("TQOTHER1", `"allow": ["*"], "account": "111111111111"`))
	made := newMadeRedrivers()
	k.cfg.Redrivers = made
	for _, tt := range []struct {
		who, method, path, body string
		status                  int
		part                    string
	}{
		{"TQLOOKS1", "GET", "", "", 200, `"onTheWay":3`},
		{"TQLOOKS1", "POST", "/orders-dlq/pause", `{}`, 403, "tenaq:manageredrivers"},
		{"TQLOOKS1", "POST", "/orders-dlq/resume", `{}`, 403, "tenaq:manageredrivers"},
		{"TQLOOKS1", "POST", "/orders-dlq/step", `{}`, 403, "tenaq:manageredrivers"},
		{"TQLOOKS1", "POST", "/orders-dlq/plan", `{}`, 403, "tenaq:manageredrivers"},
		{"TQOTHER1", "POST", "/orders-dlq/plan", `{}`, 403, ""},
		{"TQOTHER1", "GET", "", "", 403, ""},
		{"TQOTHER1", "POST", "/orders-dlq/pause", `{}`, 403, ""},
		{"TQALL001", "POST", "/other/pause", `{}`, 404, "NotFound"},
		{"TQALL001", "POST", "/orders-dlq/pause", `{"reason":"` + strings.Repeat("x", pauseMax+1) + `"}`, 400, "reason"},
		{"TQALL001", "POST", "/orders-dlq/pause", `{"reason":"the bank is down"}`, 200, `{"queue":"orders-dlq","paused":"the bank is down (ops)"}`},
		{"TQALL001", "GET", "/orders-dlq", "", 200, `"paused":"the bank is down (ops)"`},
		{"TQALL001", "POST", "/orders-dlq/pause", `{}`, 200, `{"queue":"orders-dlq","paused":"no reason given (ops)","wasPaused":"the bank is down (ops)"}`},
		{"TQALL001", "POST", "/orders-dlq/resume", `{}`, 200, `{"queue":"orders-dlq","wasPaused":"no reason given (ops)"}`},
		{"TQALL001", "GET", "/orders-dlq", "", 200, `"schedule":"continuous","records":"server","flags":[],"state"`},
		{"TQALL001", "POST", "/other/step", `{}`, 404, "NotFound"},
		{"TQALL001", "POST", "/orders-dlq/step", `{}`, 200, `{"queue":"orders-dlq","deadLetters":0,"redriven":5,`},
		{"TQALL001", "POST", "/other/plan", `{}`, 404, "NotFound"},
		{"TQALL001", "GET", "/orders-dlq/plan", "", 405, ""},
		{"TQALL001", "POST", "/orders-dlq/plan", `{}`, 200, `"redrive":1,"park":0,"hold":0,"hiddenUntil":null,"decisions":[{"messageId":"a",`},
		{"TQALL001", "POST", "/mails-dlq/pause", `{"reason":"overlap"}`, 200, ""},
		{"TQALL001", "POST", "/mails-dlq/step", `{}`, 409, `"code":"Busy"`},
	} {
		if status, text := k.as(t, "key "+tt.who, tt.method, "/v1/redrivers"+tt.path, tt.body); status != tt.status || !strings.Contains(text, tt.part) {
			t.Errorf("%s %s %s %s: got %d %s, want %d %s", tt.who, tt.method, tt.path, tt.body, status, text, tt.status, tt.part)
		}
	}
	made.broken["orders-dlq"] = errors.New("the store is away")
	if status, text := k.as(t, "key TQALL001", "POST", "/v1/redrivers/orders-dlq/pause", "{}"); status != 503 || !strings.Contains(text, "the store is away") {
		t.Errorf("got %d %s", status, text)
	}
	_, text := k.as(t, "key TQALL001", "GET", "/v1/actions", "")
	var log struct {
		Actions []struct{ Action, By, About, Text string }
	}
	if err := json.Unmarshal([]byte(text), &log); err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, a := range log.Actions {
		said = append(said, a.By+" "+a.Action+" "+a.About+" "+a.Text)
	}
	if want := []string{"ops ManageRedrivers mails-dlq paused: overlap", "ops ManageRedrivers orders-dlq planned the next step", "ops ManageRedrivers orders-dlq took a step", "ops ManageRedrivers orders-dlq resumed", "ops ManageRedrivers orders-dlq paused: no reason given",
		"ops ManageRedrivers orders-dlq paused: the bank is down"}; !slices.Equal(said, want) {
		t.Errorf("the action log has %q, want %q", said, want)
	}
}

// The policy of a dead-letter queue closes its redriver, which reads the messages. [AUTH-50]
func TestRedriverOfDenyingQueue(t *testing.T) {
	for action, denied := range map[string][]string{
		"*": {"GET ", "POST /pause", "POST /resume", "POST /step", "POST /plan"}, "sqs:ReceiveMessage": {"GET ", "POST /pause", "POST /resume", "POST /step", "POST /plan"},
		"sqs:DeleteMessage": {"POST /pause", "POST /resume", "POST /step", "POST /plan"}, "sqs:SendMessage": nil,
	} {
		k := newKeyed(t, keyOf("TQREDRIVE", "tenaq:*Redrivers", ""), keyOf("TQOTHER1", "*", `, "account": "111111111111"`))
		k.cfg.Redrivers = newMadeRedrivers()
		k.deny(t, "orders-dlq", action)
		for _, queue := range []string{"orders-dlq", "mails-dlq"} {
			for _, does := range []string{"GET ", "POST /pause", "POST /resume", "POST /step", "POST /plan"} {
				method, path, _ := strings.Cut(does, " ")
				want := 200
				if queue == "orders-dlq" && slices.Contains(denied, does) {
					want = 403
				}
				body := map[string]string{"POST": "{}"}[method]
				if status, text := k.as(t, "key TQREDRIVE", method, "/v1/redrivers/"+queue+path, body); status != want {
					t.Errorf("%s is denied: %s of %s: got %d %s, want %d", action, does, queue, status, text, want)
				}
				if status, text := k.as(t, "key TQOTHER1", method, "/v1/redrivers/"+queue+path, body); status != 403 {
					t.Errorf("another account: %s of %s: got %d %s", does, queue, status, text)
				}
			}
		}
		status, text := k.as(t, "key TQREDRIVE", "GET", "/v1/redrivers", "")
		if status != 200 || !strings.Contains(text, "mails-dlq") || strings.Contains(text, "orders-dlq") != !slices.Contains(denied, "GET ") {
			t.Errorf("%s is denied: got %d %s", action, status, text)
		}
	}
}
