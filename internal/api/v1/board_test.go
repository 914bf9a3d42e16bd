package v1

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/observe/series"
)

// The latest snapshot of the monitor is searched, sorted and paged. [V1-8]
func TestBoard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m, err := monitor.New(monitor.Config{Queues: w.broker, Account: account, Keeper: monitor.File(t.TempDir()), NoShipped: true})
		if err != nil {
			t.Fatal(err)
		}
		w.cfg.Monitor = m
		q := func(name string) engine.QueueName { return engine.QueueName{Account: account, Name: name} }
		create := func(name string, attributes map[string]string) {
			t.Helper()
			w.do(t, &engine.CreateQueue{Queue: q(name), NameSet: true, Attributes: attributes})
		}
		send := func(name string, n int) {
			t.Helper()
			for range n {
				entry := engine.Entry{Body: engine.Text{Value: "x", Set: true}}
				if strings.HasSuffix(name, ".fifo") {
					entry.Group, entry.Dedup = engine.Text{Value: "g", Set: true}, engine.Text{Value: fmt.Sprint(time.Now().UnixNano()), Set: true}
					time.Sleep(time.Nanosecond)
				}
				w.do(t, &engine.SendMessage{Queue: q(name), Draft: engine.NewDraft(entry)})
			}
		}
		list := func(query string) (l queueList) {
			t.Helper()
			status, body := w.ask("GET", "/v1/queues?"+query, "", "")
			if err := json.Unmarshal([]byte(body), &l); err != nil || status != http.StatusOK {
				t.Fatalf("%s: %v in %d %s", query, err, status, body)
			}
			return l
		}
		if l := list("sort=name"); len(l.Queues) != 0 || l.Snapshot.Complete {
			t.Errorf("before the first look: %+v", l.Snapshot)
		}
		create("orders-dlq", nil)
		create("Orders", map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:` + account + `:orders-dlq","maxReceiveCount":"3"}`})
		create("billing", nil)
		create("mail.fifo", map[string]string{"FifoQueue": "true"})
		w.do(t, &engine.CreateQueue{Queue: engine.QueueName{Account: "111122223333", Name: "foreign"}, NameSet: true})
		for _, name := range []string{"billing", "orders-dlq"} {
			w.do(t, &engine.TagQueue{Queue: q(name), Tags: []engine.Tag{{Key: "tenaq:paused", Value: "true"}}})
		}
		send("Orders", 3)
		time.Sleep(time.Second)
		send("orders-dlq", 1)
		send("mail.fifo", 2)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { m.Run(ctx) })
		defer func() { stop(); running.Wait() }()
		time.Sleep(2*time.Minute + time.Second)
		names := func(l queueList) string {
			var names []string
			for _, q := range l.Queues {
				names = append(names, q.Name)
			}
			return strings.Join(names, " ")
		}
		for query, want := range map[string]string{
			"sort=name":              "Orders billing mail.fifo orders-dlq",
			"sort=name&desc=1":       "orders-dlq mail.fifo billing Orders",
			"sort=visible":           "billing orders-dlq mail.fifo Orders",
			"sort=visible&desc=1":    "Orders mail.fifo orders-dlq billing",
			"sort=age&desc=true":     "Orders mail.fifo orders-dlq billing",
			"text=ORDER":             "Orders orders-dlq",
			"only=dead":              "orders-dlq",
			"only=fifo":              "mail.fifo",
			"only=paused":            "billing orders-dlq",
			"only=active&sort=name":  "Orders mail.fifo orders-dlq",
			"only=alarm":             "",
			"from=2":                 "mail.fifo orders-dlq",
			"from=1&limit=1":         "billing",
			"from=9":                 "",
			"text=order&from=1":      "orders-dlq",
			"sort=trouble&desc=1":    "Orders mail.fifo orders-dlq billing",
			"sort=inFlight&desc=1":   "Orders billing mail.fifo orders-dlq",
			"text=mail&only=dead":    "",
			"sort=deleted":           "Orders billing mail.fifo orders-dlq",
			"sort=received&text=ill": "billing",
			"sort=delayed&limit=2":   "Orders billing",
		} {
			l := list(query)
			if got := names(l); got != want {
				t.Errorf("%s: got %s, want %s", query, got, want)
			}
			if s := l.Snapshot; !s.Complete || s.Total != 4 || s.Totals.Visible != 6 || s.AgeMS < 0 || s.AgeMS > 5000 {
				t.Errorf("%s: the snapshot is %+v", query, s)
			}
		}
		w.do(t, &engine.UntagQueue{Queue: q("billing"), Keys: []string{"tenaq:paused"}})
		w.do(t, &engine.TagQueue{Queue: q("mail.fifo"), Tags: []engine.Tag{{Key: "tenaq:paused", Value: "true"}}})
		for _, q := range list("prefix=").Queues { // this list is of now
			if want := q.Name == "mail.fifo" || q.Name == "orders-dlq"; q.Paused != want {
				t.Errorf("%s is paused: %v, want %v", q.Name, q.Paused, want)
			}
		}
		time.Sleep(10 * time.Second)
		if l := list("only=paused"); names(l) != "mail.fifo orders-dlq" || !l.Queues[0].Paused {
			t.Errorf("after a pause and a resume, paused are %+v", l.Queues)
		}
		l := list("text=orders&sort=name")
		if d := l.Queues[0].DeadLetters; d == nil || d.Queue != "orders-dlq" || *d.Messages != 1 || l.Snapshot.Matched != 2 {
			t.Errorf("dead letters are %+v, matched %d", d, l.Snapshot.Matched)
		}

		// Sends within a whole minute make a rate; an alarm counts until it is silenced.
		send("billing", 60)
		if err := m.Put(monitor.Definition{Name: "late", Rule: alarm.Rule{Queries: billingQuery, Periods: 1, Operator: alarm.Above}}); err != nil {
			t.Fatal(err)
		}
		if err := m.SetState("late", alarm.Alarm, "because", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		l = list("only=alarm&sort=trouble&desc=1")
		if got := names(l); got != "billing" || l.Queues[0].Rates.Sent != 1 || l.Queues[0].Alarms != 1 || l.Snapshot.Totals.Alarms != 1 {
			t.Errorf("got %s with %+v, want billing with one message a second and one alarm", got, l.Snapshot.Totals)
		}

		if got, want := names(list("sort=trouble&desc=1")), "billing Orders mail.fifo orders-dlq"; got != want {
			t.Errorf("by trouble, then by age: got %s, want %s", got, want)
		}

		first := list("sort=name")
		// A snapshot stays while it is among the latest three, whatever happens; after that, the
		// newest one answers.
		create("aaa", nil)
		if l := list(fmt.Sprintf("sort=name&snapshot=%d", first.Snapshot.ID)); l.Snapshot.ID != first.Snapshot.ID || l.Snapshot.Total != 4 {
			t.Errorf("an earlier snapshot: %+v", l.Snapshot)
		}
		for range 3 {
			time.Sleep(6 * time.Second)
			list("sort=name")
		}
		if l := list(fmt.Sprintf("sort=name&snapshot=%d", first.Snapshot.ID)); l.Snapshot.ID == first.Snapshot.ID || l.Snapshot.Total != 5 {
			t.Errorf("a snapshot that is no longer kept: %+v", l.Snapshot)
		}
		w.do(t, &engine.DeleteQueue{Queue: q("aaa")})
		time.Sleep(6 * time.Second)
		if l := list("sort=name"); l.Snapshot.Total != 4 {
			t.Errorf("after a queue was deleted: %+v", l.Snapshot)
		}
		for _, query := range []string{"sort=name&prefix=a", "text=a&after=x", "sort=size", "only=empty", "from=-1"} {
			if status, body := w.ask("GET", "/v1/queues?"+query, "", ""); status != http.StatusBadRequest {
				t.Errorf("%s: got %d %s", query, status, body)
			}
		}
	})
}

var billingQuery = []alarm.Query{{ID: "m", Metric: series.Metric{Namespace: "AWS/SQS", Name: "NumberOfMessagesSent",
	Dimensions: []series.Dimension{{Name: "QueueName", Value: "billing"}}}, Stat: series.Sum, Period: 60, Return: true}}

// One queue is shown with its settings. [V1-9]
func TestOneQueue(t *testing.T) {
	w := newWorld(t)
	name := engine.QueueName{Account: account, Name: "q"}
	w.do(t, &engine.CreateQueue{Queue: engine.QueueName{Account: account, Name: "q2"}, NameSet: true})
	if status, body := w.ask("GET", "/v1/queues/q", "", ""); status != http.StatusNotFound || !strings.Contains(body, `"code":"NonExistentQueue"`) {
		t.Errorf("no such queue: got %d %s", status, body)
	}
	w.do(t, &engine.CreateQueue{Queue: name, NameSet: true, Attributes: map[string]string{"DelaySeconds": "7"}, Tags: []engine.Tag{{Key: "team", Value: "a"}}})
	status, body := w.ask("GET", "/v1/queues/q", "", "")
	var d queueDetail
	if err := json.Unmarshal([]byte(body), &d); err != nil || status != http.StatusOK {
		t.Fatalf("%v in %d %s", err, status, body)
	}
	if d.Name != "q" || d.ARN != "arn:aws:sqs:us-east-1:"+account+":q" || d.Attributes["DelaySeconds"] != "7" || d.Tags["team"] != "a" || len(d.Tags) != 1 {
		t.Errorf("got %s", body)
	}
}
