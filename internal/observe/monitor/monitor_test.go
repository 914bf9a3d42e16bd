package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tenaq/internal/broker"
	"tenaq/internal/engine"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/series"
)

// A worker that is slower than the visibility timeout does work twice: within two minutes there are
// the alarms that say so, with a message and with commands that lead to more. [ALARM-51]
func TestSlowWorker(t *testing.T) {
	bubble(t, toQueue(), func(w *world) {
		w.create(noticeQueue)
		w.create("orders")
		w.minutes(1)
		for range 5 {
			w.send("orders", "an order")
			first := w.take("orders", 1)
			time.Sleep(1100 * time.Millisecond)
			second := w.take("orders", 30)
			w.remove("orders", first) // the work is done
			w.remove("orders", second)
		}
		w.send("orders", "another")
		w.take("orders", 3600)
		w.minutes(2)
		w.wantChanges("orders/double-deletes=ALARM orders/timed-out=ALARM")
		got := strings.Join(w.notices(), "\n")
		for _, want := range []string{
			`"alarm":"orders/double-deletes"`, `"queue":"orders"`, `"sample":{"messageId":`, `"tenaq doctor orders"`, `"tenaq alarms ack orders/timed-out"`,
		} {
			if !strings.Contains(got, want) {
				t.Errorf("the notices have no %s: %s", want, got)
			}
		}
		if strings.Contains(got, "an order") || strings.Contains(got, "another") {
			t.Errorf("a notice has the body of a message: %s", got)
		}
		w.minutes(3)
		if !strings.HasSuffix(w.changes(), "orders/double-deletes=OK orders/timed-out=OK") && !strings.HasSuffix(w.changes(), "orders/timed-out=OK orders/double-deletes=OK") {
			t.Errorf("got %s, want both alarms to be over", w.changes())
		}
	})
}

// A retry pause that a worker sets does not count as a timeout that was too short: messages that
// failed once and were given back with a pause raise nothing. [ALARM-51]
func TestRetryPauses(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		w.create("orders")
		w.minutes(1)
		for range 6 {
			w.send("orders", "an order")
			w.giveBack("orders", w.take("orders", 30), 20) // the first attempt failed
		}
		time.Sleep(20 * time.Second)
		for range 6 {
			w.remove("orders", w.take("orders", 30))
		}
		w.minutes(3)
		w.wantChanges("")
	})
}

// An alarm that an earlier version stored goes by the rule of this one.
func TestStoredRuleIsRenewed(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		w.create("orders")
		w.minutes(1)
		for range 6 {
			w.send("orders", "an order")
			w.take("orders", 10)
		}
		time.Sleep(10 * time.Second)
		for range 6 {
			w.remove("orders", w.take("orders", 30))
		}
		w.minutes(1)
		w.wantChanges("orders/timed-out=ALARM")
		w.stop()
		w.stop = nil
		path := filepath.Join(w.dir, fileName)
		stored, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		earlier := strings.ReplaceAll(string(stored), nameTimedOutKept, nameTimedOut)
		if err := os.WriteFile(path, []byte(earlier), 0o600); err != nil || earlier == string(stored) {
			t.Fatal("the file has no alarm of the rule: ", err)
		}
		w.start()
		w.minutes(2)
		if got := fmt.Sprint(w.Status()[0].Rule); !strings.Contains(got, nameTimedOutKept) {
			t.Errorf("the alarm goes by %s", got)
		}
	})
}

// Workers that die without a word raise the alarm, also beside those that set retry pauses.
// [ALARM-51]
func TestDeadWorkers(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		w.create("orders")
		w.minutes(1)
		for range 6 {
			w.send("orders", "an order")
		}
		for range 3 {
			w.take("orders", 10) // by a worker that dies
			w.giveBack("orders", w.take("orders", 10), 20)
		}
		time.Sleep(20 * time.Second)
		for range 6 {
			w.remove("orders", w.take("orders", 30))
		}
		w.minutes(1)
		w.wantChanges("orders/timed-out=ALARM")
		if got := [2]float64{
			w.stat(tenaqSQS, nameTimedOut, "orders", series.Sum, 1), w.stat(tenaqSQS, nameTimedOutKept, "orders", series.Sum, 1),
		}; got != [2]float64{6, 3} {
			t.Errorf("got %v timeouts and %v of these kept, want 6 and 3", got[0], got[1])
		}
	})
}

// Workers that do their work in time raise no alarm, however much they do.
func TestGoodWorker(t *testing.T) {
	bubble(t, toQueue(), func(w *world) {
		w.create(noticeQueue)
		w.create("orders")
		for range 5 {
			for range 20 {
				w.send("orders", "an order")
				w.remove("orders", w.take("orders", 30))
			}
			w.minutes(1)
		}
		w.wantChanges("")
	})
}

// The notice of a dead letter has the reason that its worker wrote, and never its body.
// [ALARM-45, ALARM-53]
func TestDeadLetterReason(t *testing.T) {
	bubble(t, toQueue(), func(w *world) {
		w.create(noticeQueue)
		w.create("orders-dlq")
		w.minutes(1)
		w.send("orders-dlq", "secret body", engine.EntryAttribute{
			Name: "tenaq", Type: engine.Text{Value: "String", Set: true},
			String: engine.Text{Value: "v=1&key=order-17&reason=card+declined&attempts=3", Set: true},
		})
		w.minutes(1)
		w.wantChanges("orders-dlq/dead-letters=ALARM")
		all := w.notices()
		if len(all) != 1 {
			t.Fatalf("got notices %q, want one", all)
		}
		var n Notice
		if err := json.Unmarshal([]byte(all[0]), &n); err != nil {
			t.Fatal(err)
		}
		if s := n.Sample; s == nil || s.Reason != "card declined" || s.Key != "order-17" || s.Attempts != 3 {
			t.Errorf("got sample %+v, want that of the message", s)
		}
		if strings.Contains(all[0], "secret body") {
			t.Errorf("the notice has the body: %s", all[0])
		}
		if n.Page != "docs/alarms/dead-letters.md" {
			t.Errorf("got the page %q", n.Page)
		}
		for _, part := range []string{"ALARM: orders-dlq/dead-letters", "order-17", "card declined", "tenaq peek orders-dlq --body", "\nWhat to do: docs/alarms/dead-letters.md"} {
			if !strings.Contains(n.Text(), part) {
				t.Errorf("the text has no %q:\n%s", part, n.Text())
			}
		}
	})
}

// A message that goes round, from the dead-letter queue to its queue and back, is a new one each
// time. Its age is that of its work, so the alarm is raised all the same. [METRIC-24, ALARM-51]
func TestDeadLetterGoesRound(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		w.create("orders-dlq")
		w.minutes(1)
		began := time.Now()
		for minute := range 65 {
			w.send("orders-dlq", "an order", engine.EntryAttribute{
				Name: "tenaq", Type: engine.Text{Value: "String", Set: true},
				String: engine.Text{Value: fmt.Sprintf("v=1&first-sent=%d&redrives=%d", began.UnixMilli(), minute), Set: true},
			})
			w.minutes(1)
			w.remove("orders-dlq", w.take("orders-dlq", 60))
			switch got := strings.Contains(w.changes(), "orders-dlq/dead-letter-age=ALARM"); {
			case minute == 58 && got:
				t.Fatal("the alarm is raised before the work is an hour old")
			case minute == 61 && !got:
				t.Fatalf("got %s, want the alarm on the age", w.changes())
			}
		}
	})
}

// A queue is a dead-letter queue if a redrive policy says so, whatever its name.
func TestDeadLetterQueueByPolicy(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		w.create("morgue")
		w.create("orders", "VisibilityTimeout", "0",
			"RedrivePolicy", `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:morgue","maxReceiveCount":1}`)
		w.minutes(1)
		w.send("orders", "x")
		w.take("orders", 0)
		w.do(&engine.ReceiveMessage{Queue: queueNamed("orders"), Wait: engine.Int{Set: true}})
		w.minutes(1)
		w.wantChanges("morgue/dead-letters=ALARM")
		if !strings.Contains(w.log.String(), "level=WARN msg=alarm message=") || !strings.Contains(w.log.String(), " alarm=morgue/dead-letters state=ALARM") {
			t.Errorf("the log has no alarm: %s", w.log)
		}
	})
}

// A parking lot counts as a dead-letter queue, whatever its name, if the configuration names it or
// a redriver reports that it parks there. [ALARM-51]
func TestParkingLots(t *testing.T) {
	bubble(t, Config{DeadLetterQueues: []string{"aside"}}, func(w *world) {
		for _, name := range []string{"aside", "undecided", "ParkingLotQueue", "orders"} {
			w.create(name)
		}
		w.minutes(1)
		w.tells(Redrivers, ParkingLot, "undecided", 1)
		for _, name := range []string{"aside", "undecided", "ParkingLotQueue", "orders"} {
			w.send(name, "x")
		}
		w.minutes(1)
		got := strings.Fields(w.changes())
		slices.Sort(got)
		if want := []string{"ParkingLotQueue/dead-letters=ALARM", "aside/dead-letters=ALARM", "undecided/dead-letters=ALARM"}; !slices.Equal(got, want) {
			t.Errorf("got changes %q, want %q", got, want)
		}
		// A redriver has no plan for what it parked, so the notice names the list.
		for queue, want := range map[string]string{
			"undecided": "tenaq redrive parked list undecided", "ParkingLotQueue": "tenaq redrive parked list ParkingLotQueue",
			"orders-dlq": "tenaq redrive plan orders-dlq",
		} {
			if got := w.commands(queue+"/dead-letters", queue, alarm.OK); !slices.Contains(got, want) || len(got) != 2 {
				t.Errorf("%s: got commands %q, want %q among two", queue, got, want)
			}
		}
	})
}

// A queue that turns out to be a parking lot loses the alarms that are not for dead letters.
func TestParkingLotHeardOfLate(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		w.create("undecided")
		w.send("undecided", "x")
		w.minutes(70)
		w.wantChanges("undecided/oldest-age=ALARM")
		w.tells(Redrivers, ParkingLot, "undecided", 1)
		w.minutes(1)
		got := strings.Fields(w.changes())
		slices.Sort(got)
		want := []string{"undecided/dead-letter-age=ALARM", "undecided/dead-letters=ALARM", "undecided/oldest-age=ALARM", "undecided/oldest-age=OK"}
		if !slices.Equal(got, want) {
			t.Errorf("got changes %q, want %q", got, want)
		}
	})
}

func TestDeadName(t *testing.T) {
	for name, want := range map[string]bool{
		"dlq": true, "orders-dlq": true, "orders_dlq.fifo": true, "OrdersDLQ": true, "OrdersDlq": true, "orders-DLQ": true, "DeadLetterQueue": true,
		"orders-dead": true, "orders-dead-letters": true, "orders-dead-letter-queue": true, "orders_dead_letter": true, "ordersDeadLetters.fifo": true,
		"parking": true, "orders-parking": true, "ParkingLotQueue": true, "OrdersParkingLot": true, "orders-parking-lot.fifo": true, "parkinglot": true,
		"orders-parked": true, "OrdersParkedQueue": true,

		"orders": false, "orders.fifo": false, "undead": false, "Undead": false, "dead-letters-report": false, "parking-tickets": false,
		"ballparking": false, "adlq-x": false, "DeadlineQueue": false, "spotParkings": false,
	} {
		if got := DeadName(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}

// putVisible is an alarm as programs create it: messages that wait.
func putVisible(name string, actions ...string) Definition {
	return Definition{
		Name: name, ActionsEnabled: true, OnAlarm: actions, OnOK: actions,
		Rule: alarm.Rule{
			Queries: []alarm.Query{{ID: "m", Metric: ofQueue(awsSQS, "ApproximateNumberOfMessagesVisible", "orders"), Stat: series.Sum, Period: 60, Return: true}},
			Periods: 1, Operator: alarm.Above, Missing: alarm.TreatNotBreaching,
		},
	}
}

// An alarm that was put goes through its states, evaluated every minute, and names its actions as
// CloudWatch does. [ALARM-40, ALARM-41]
func TestPut(t *testing.T) {
	cfg := toQueue()
	cfg.NoShipped = true
	bubble(t, cfg, func(w *world) {
		w.create(noticeQueue)
		w.create("orders")
		if err := w.Put(putVisible("waiting", "arn:aws:sns:us-east-1:000000000000:copy")); err != nil {
			t.Fatal(err)
		}
		w.minutes(2)
		w.send("orders", "x")
		w.minutes(1)
		w.remove("orders", w.take("orders", 60))
		w.minutes(1)
		w.wantChanges("waiting=OK waiting=ALARM waiting=OK")
		if n := len(w.notices()); n != 3 {
			t.Errorf("got %d notices, want 3", n)
		}
		if err := w.Delete("waiting"); err != nil {
			t.Fatal(err)
		}
		if err := w.Delete("waiting"); !errors.Is(err, ErrNotFound) {
			t.Errorf("got %v for an alarm that is gone, want ErrNotFound", err)
		}
	})
}

// An undeclared action is refused, whatever it looks like. [ALARM-43]
func TestUndeclaredAction(t *testing.T) {
	bubble(t, toQueue(), func(w *world) {
		for _, name := range []string{"http://127.0.0.1/x", "/bin/sh", "arn:aws:sns:us-east-1:000000000000:other", "arn:", "", "copy "} {
			if err := w.Put(putVisible("a", name)); !errors.Is(err, ErrInvalid) {
				t.Errorf("action %q: got %v, want ErrInvalid", name, err)
			}
		}
		if got := w.Alarms(); len(got) != 0 {
			t.Errorf("got %d alarms, want none", len(got))
		}
	})
}

// With unknown actions logged, an alarm is put whatever actions it names, as a Terraform module for
// Amazon writes it. Those that are declared run, the log has the notices for the others, and
// nothing else is run. [ALARM-43]
func TestUnknownActionsLogged(t *testing.T) {
	cfg := toQueue()
	cfg.NoShipped, cfg.LogUnknownActions = true, true
	bubble(t, cfg, func(w *world) {
		w.create(noticeQueue)
		w.create("orders")
		const topic, other = "arn:aws:sns:us-east-1:123456789012:ops-alerts", "arn:aws:sns:us-east-1:123456789012:pager"
		if err := w.Put(putVisible("waiting", topic, other, "arn:aws:sns:us-east-1:123456789012:copy")); err != nil {
			t.Fatal(err)
		}
		w.send("orders", "x")
		w.minutes(1)
		w.wantChanges("waiting=ALARM")
		if n := len(w.notices()); n != 1 {
			t.Errorf("the declared action got %d notices, want 1", n)
		}
		want := " alarm=waiting state=ALARM"
		if log := w.log.String(); strings.Count(log, want) != 1 || !strings.Contains(log, `undeclared_actions="[`+topic+" "+other+`]"`) {
			t.Errorf("want one line with %s that names both topics: %s", want, log)
		}
		w.restart() // it was told, and is not told again
		w.minutes(1)
		if log := w.log.String(); strings.Count(log, want) != 1 {
			t.Errorf("after a restart it is logged again: %s", log)
		}
	})
}

// A restart changes no state: an alarm that was raised stays raised while its data is gone, is not
// told twice, and is over when the data says so. [ALARM-44]
func TestRestart(t *testing.T) {
	cfg := toQueue()
	cfg.NoShipped = true
	bubble(t, cfg, func(w *world) {
		w.create(noticeQueue)
		w.create("orders")
		d := putVisible("waiting", "copy")
		d.Rule.Periods = 3
		if err := w.Put(d); err != nil {
			t.Fatal(err)
		}
		w.send("orders", "x")
		w.minutes(4)
		if n := len(w.notices()); w.Alarms()[0].State != alarm.Alarm || n != 2 {
			t.Fatalf("got %s and %d notices, want ALARM after OK and a notice of each", w.Alarms()[0].State, n)
		}
		since := w.Alarms()[0].Since
		w.remove("orders", w.take("orders", 60))
		w.restart()
		if got := w.Alarms()[0]; got.State != alarm.Alarm || !got.Since.Equal(since) || got.Rule.Periods != 3 {
			t.Errorf("after a restart the alarm is %+v, want it as it was", got)
		}
		w.minutes(2)
		w.wantChanges("waiting=OK waiting=ALARM")
		w.minutes(3)
		w.wantChanges("waiting=OK waiting=ALARM waiting=OK")
		if n := len(w.notices()); n != 1 {
			t.Errorf("got %d notices, want the one that it is over", n)
		}
	})
}

// Notices that were not sent before the process ended are sent afterwards. [ALARM-42]
func TestToldAfterRestart(t *testing.T) {
	cfg := toQueue()
	cfg.NoShipped = true
	bubble(t, cfg, func(w *world) {
		w.create("orders")
		if err := w.Put(putVisible("waiting", "copy")); err != nil {
			t.Fatal(err)
		}
		w.send("orders", "x")
		w.minutes(1) // there is no queue for the notice
		w.restart()
		w.create(noticeQueue)
		w.minutes(1)
		all := w.notices()
		if len(all) != 1 || !strings.Contains(all[0], `"state":"ALARM"`) {
			t.Errorf("got %q, want one notice of the alarm", all)
		}
	})
}

// An alarm that comes and goes every minute does not tell every minute. [ALARM-46]
func TestFlapping(t *testing.T) {
	cfg := toQueue()
	cfg.NoShipped = true
	bubble(t, cfg, func(w *world) {
		w.create(noticeQueue)
		w.create("orders")
		if err := w.Put(putVisible("waiting", "copy")); err != nil {
			t.Fatal(err)
		}
		for range 30 {
			w.send("orders", "x")
			w.minutes(1)
			w.remove("orders", w.take("orders", 60))
			w.minutes(1)
		}
		all := w.notices()
		if n := len(all); n < 4 || n > 2*noticesMax+1 {
			t.Errorf("in an hour of changes every minute got %d notices, want a handful", n)
		}
		if !strings.Contains(strings.Join(all, ""), `"changes":`) {
			t.Errorf("got %q, want one to say how often it has changed", all)
		}
	})
}

// An alarm that cannot be stored is not created.
func TestPutNotStored(t *testing.T) {
	bubble(t, toQueue(), func(w *world) {
		blocked := filepath.Join(w.dir, fileName)
		if err := os.Mkdir(blocked, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := w.Put(putVisible("waiting")); err == nil || len(w.Alarms()) != 0 {
			t.Errorf("got %v and %d alarms, want an error and none", err, len(w.Alarms()))
		}
		if err := os.Remove(blocked); err != nil {
			t.Fatal(err)
		}
		if err := w.Put(putVisible("waiting")); err != nil {
			t.Fatal(err)
		}
	})
}

// A file of another version, or one that cannot be read, is set aside, and the server has a queue
// at least.
func TestUnreadableFile(t *testing.T) {
	for _, text := range []string{"{", `{"version":2,"alarms":[]}`, ""} {
		dir := t.TempDir()
		path := filepath.Join(dir, fileName)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		log := &safeBuffer{}
		m, err := New(Config{Keeper: File(dir), Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil || len(m.Alarms()) != 0 || !strings.Contains(log.String(), "was renamed") {
			t.Errorf("%q: got %v and the log %s", text, err, log)
		}
		if aside, err := os.ReadFile(path + ".unreadable"); err != nil || string(aside) != text {
			t.Errorf("%q: what was set aside is %q, %v", text, aside, err)
		}
	}
}

// Expiry is reported before it happens, and when it has.
func TestNearExpiry(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		w.create("orders", "MessageRetentionPeriod", "3600")
		w.minutes(1)
		w.send("orders", "x")
		w.minutes(53)
		w.wantChanges("")
		w.minutes(3)
		w.wantChanges("orders/near-expiry=ALARM")
		w.minutes(8)
		w.wantChanges("orders/near-expiry=ALARM orders/expired=ALARM orders/near-expiry=OK")
	})
}

// An action that is not declared any more is said to be missing, and the others are run. Nothing
// else stops.
func TestActionRemoved(t *testing.T) {
	cfg := toQueue()
	cfg.Actions["old"] = Action{Queue: "elsewhere"}
	cfg.NoShipped = true
	bubble(t, cfg, func(w *world) {
		w.create(noticeQueue)
		w.create("orders")
		if err := w.Put(putVisible("waiting", "old", "copy")); err != nil {
			t.Fatal(err)
		}
		w.cfg.Actions = map[string]Action{"copy": {Queue: noticeQueue}}
		w.restart()
		w.send("orders", "x")
		w.minutes(3)
		if all := w.notices(); len(all) != 1 || !strings.Contains(w.log.String(), "notice not sent: the action is no longer declared") {
			t.Errorf("got %q, want one notice by the other action: %s", all, w.log)
		}
	})
}

// Dead letters are reported when they arrive, and again when more arrive; the alarm ends when there
// are none.
func TestDeadLettersStay(t *testing.T) {
	bubble(t, toQueue(), func(w *world) {
		w.create(noticeQueue)
		w.create("orders-dlq")
		w.minutes(1)
		w.send("orders-dlq", "first")
		w.minutes(20)
		w.wantChanges("orders-dlq/dead-letters=ALARM")
		first := w.notices()
		w.send("orders-dlq", "second")
		w.minutes(1)
		second := w.notices()
		if len(first) != 1 || len(second) != 1 || !strings.Contains(second[0], `"again":true`) {
			t.Fatalf("got %q and %q, want one notice for each", first, second)
		}
		var x, y Notice
		if json.Unmarshal([]byte(first[0]), &x) != nil || json.Unmarshal([]byte(second[0]), &y) != nil || x.Sample.MessageID == y.Sample.MessageID {
			t.Errorf("both notices are about message %s, want the newest", x.Sample.MessageID)
		}
		for range 2 {
			w.remove("orders-dlq", w.take("orders-dlq", 60))
		}
		w.minutes(1)
		w.wantChanges("orders-dlq/dead-letters=ALARM orders-dlq/dead-letters=OK")
	})
}

// An alarm stays while the queues cannot be listed, and ends when its queue is deleted. [ALARM-44]
func TestQueueDeleted(t *testing.T) {
	bubble(t, toQueue(), func(w *world) {
		w.create(noticeQueue)
		w.create("orders-dlq")
		w.minutes(1)
		w.send("orders-dlq", "x")
		w.minutes(1)
		w.stop()
		w.stop = nil
		w.cfg.Queues = deaf{w.broker}
		w.start()
		w.minutes(3)
		w.wantChanges("orders-dlq/dead-letters=ALARM")
		w.stop()
		w.stop = nil
		w.cfg.Queues = w.broker
		w.start()
		w.minutes(2)
		w.wantChanges("orders-dlq/dead-letters=ALARM")
		w.do(&engine.DeleteQueue{Queue: queueNamed("orders-dlq")})
		w.minutes(1)
		w.wantChanges("orders-dlq/dead-letters=ALARM orders-dlq/dead-letters=OK")
	})
}

// A deaf broker does not say where the messages are.
type deaf struct{ *broker.Broker }

func (d deaf) Do(ctx context.Context, op engine.Op) error {
	switch op.(type) {
	case *engine.Survey, *engine.News:
		return broker.ErrThrottled
	}
	return d.Broker.Do(ctx, op)
}

// Metrics that clients put do not displace those of queues, and raise no built-in alarms.
func TestForeignMetrics(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		w.minutes(1)
		now := w.Now().UnixMilli()
		for i := range clientMetricsMax + 10 {
			err := w.Series().Put(series.Metric{Namespace: "junk", Name: fmt.Sprint(i)}, now, series.One(1), "")
			if full := errors.Is(err, series.ErrFull); full != (i >= clientMetricsMax) {
				t.Fatalf("metric %d: %v", i, err)
			}
		}
		w.create("orders-dlq")
		w.send("orders-dlq", "x")
		w.minutes(1)
		w.wantChanges("orders-dlq/dead-letters=ALARM")
	})
	bubble(t, Config{}, func(w *world) {
		w.create("orders-dlq")
		w.minutes(1)
		for _, about := range []string{"no-such-queue", "a/b; rm -rf ~", ""} {
			w.tells(Redrivers, BreakerState, about, 1)
		}
		w.tells(Relays, ParkedRows, "x y", 1)
		w.tells(Relays, ParkedRows, "app.db", 1)
		w.minutes(1)
		w.wantChanges("app.db/rows-parked=ALARM")
	})
}

// An alarm that would take too long to evaluate is refused.
func TestTooMuchWork(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		d := putVisible("a")
		d.Rule.Periods = 1440
		d.Rule.Queries[0].Return = false
		for i := range 19 {
			d.Rule.Queries = append(d.Rule.Queries, alarm.Query{ID: fmt.Sprintf("e%d", i), Expression: "m" + strings.Repeat("+m", 900), Return: i == 0})
		}
		if err := w.Put(d); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "too long") {
			t.Errorf("got %v, want it refused", err)
		}
	})
}

// A change that could not be stored has no effect.
func TestNothingStored(t *testing.T) {
	bubble(t, toQueue(), func(w *world) {
		if err := w.Put(putVisible("waiting", "copy")); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(w.dir, fileName+".new"), 0o755); err != nil {
			t.Fatal(err)
		}
		silence := Silence{Match: "*", Until: w.Now().Add(time.Hour)}
		_, silenced := w.Silence(silence)
		for what, err := range map[string]error{
			"state": w.SetState("waiting", alarm.Alarm, "x", ""), "actions": w.EnableActions(false, "waiting"), "silence": silenced,
			"tags": w.SetTags("waiting", map[string]string{"a": "b"}, nil), "delete": w.Delete("waiting"),
		} {
			if err == nil {
				t.Errorf("%s: got no error, want one", what)
			}
		}
		if a := w.Alarms(); len(a) != 1 || a[0].State != alarm.Insufficient || !a[0].ActionsEnabled || len(a[0].Tags) != 0 || len(w.Silences()) != 0 || len(w.History()) != 0 {
			t.Errorf("got %+v, silences %v and history %v, want all as it was", a, w.Silences(), w.History())
		}
	})
}
