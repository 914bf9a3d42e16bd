package v1

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/broker"
	"tenaq/internal/engine"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/observe/series"
	"tenaq/internal/observe/tally"
)

// shownSeries writes a series with a dash for each gap.
func shownSeries(values []*float64) string {
	var text []string
	for _, v := range values {
		if v == nil {
			text = append(text, "-")
		} else {
			text = append(text, fmt.Sprintf("%.5g", *v))
		}
	}
	return strings.Join(text, " ")
}

// Minutes before a queue was created, before a start of the server and in its absence are gaps, and
// a minute without messages is none. [V1-19]
func TestSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if status, body := w.ask("GET", "/v1/series?queues=orders", "", ""); status != http.StatusNotFound {
			t.Errorf("without a monitor: got %d %s", status, body)
		}
		var end func()
		begin := func() {
			m := w.useMonitor(t)
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { m.Run(ctx) })
			end = func() { stop(); running.Wait() }
		}
		q := func(name string) engine.QueueName { return engine.QueueName{Account: account, Name: name} }
		create := func(name string) { w.do(t, &engine.CreateQueue{Queue: q(name), NameSet: true}) }
		send := func(name string, n int) {
			for range n {
				w.do(t, &engine.SendMessage{Queue: q(name), Draft: engine.NewDraft(engine.Entry{Body: engine.Text{Value: "x", Set: true}})})
			}
		}
		get := func(query string) (list seriesList) {
			t.Helper()
			w.json(t, "GET", "/series?"+query, "", 200, &list)
			return list
		}
		// minutes lets minutes end, and the monitor write them.
		minutes := func(n int) {
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Duration(n)*time.Minute + time.Second)))
			synctest.Wait()
		}
		create("orders")
		begin()
		if list := get("queues=orders"); len(list.Queues) != 0 || list.Periods != 60 || list.PeriodMS != 60_000 {
			t.Errorf("before the first minute: %+v", list)
		}
		minutes(1)
		started := time.Now()
		send("orders", 6)
		w.do(t, &engine.ReceiveMessage{Queue: q("orders"), Visibility: engine.Int{Value: 600, Set: true}, Wait: engine.Int{Set: true}})
		minutes(1)
		create("mails")
		minutes(1)
		list := get("queues=orders,+mails,none,orders&last=4m")
		if list.Periods != 4 || len(list.Queues) != 2 || !list.From.Equal(time.Now().Truncate(time.Minute).Add(-4*time.Minute)) {
			t.Errorf("got %d periods of %d queues from %v", list.Periods, len(list.Queues), list.From)
		}
		wants := func(what string, got []*float64, want string) {
			t.Helper()
			if shownSeries(got) != want {
				t.Errorf("%s: got %s, want %s", what, shownSeries(got), want)
			}
		}
		orders := list.Queues["orders"]
		wants("sent", orders.SentPerS, "- 0 0.1 0")
		wants("received", orders.ReceivedPerS, "- 0 0.016667 0")
		wants("deleted", orders.DeletedPerS, "- 0 0 0")
		wants("visible", orders.Visible, "- 0 5 5")
		wants("in flight", orders.InFlight, "- 0 1 1")
		wants("delayed", orders.Delayed, "- 0 0 0")
		wants("the age", orders.AgeMS, "- 0 59000 1.19e+05")
		wants("a later queue", list.Queues["mails"].Visible, "- - - 0")

		// A server that starts again knows nothing of earlier, and says since when.
		end()
		minutes(3)
		w = newWorld(t)
		create("orders")
		begin()
		minutes(1)
		send("orders", 60)
		minutes(1)
		list = get("queues=orders&last=6h")
		if age := time.Since(list.Since); age > 3*time.Minute || list.Since.Before(started) {
			t.Errorf("the server has started %v ago", age)
		}
		wants("after a start", list.Queues["orders"].SentPerS, strings.Repeat("- ", 358)+"0 1")

		// For a longer time, a period is five minutes. Its rate is the mean of the known minutes.
		list = get("queues=orders&last=24h")
		if list.Periods != 288 || list.PeriodMS != 300_000 {
			t.Errorf("a day is %d periods of %d ms", list.Periods, list.PeriodMS)
		}
		wants("a day", list.Queues["orders"].SentPerS, strings.Repeat("- ", 287)+"0.5")
		wants("the most in a day", list.Queues["orders"].Visible, strings.Repeat("- ", 287)+"60")
		end()

		many := strings.Repeat("q%d,", seriesQueues+1)
		var numbers []any
		for i := range seriesQueues + 1 {
			numbers = append(numbers, i)
		}
		for query, want := range map[string]string{
			"":         "has 0 names: give it 1 to 100",
			"queues=,": "has 0 names: give it 1 to 100",
			"queues=" + fmt.Sprintf(many, numbers...): "has 101 names: give it 1 to 100",
			"queues=a&last=59s":                       "a duration from 1m to 24h",
			"queues=a&last=24h1s":                     "a duration from 1m to 24h",
			"queues=a,b&last=2h":                      "to 1h of more than one queue",
			"queues=a&last=day":                       "a duration such as",
			"queues=a&of=sent":                        "The parameter of is unknown",
		} {
			if status, body := w.ask("GET", "/v1/series?"+query, "", ""); status != http.StatusBadRequest || !strings.Contains(body, want) {
				t.Errorf("%.30s: got %d %s, want %s", query, status, body, want)
			}
		}
	})
}

// A key that may list queues sees their series, of the account of the server alone. [V1-19]
func TestSeriesRights(t *testing.T) {
	k := newKeyed(t, keyOf("TQSEES01", "tenaq:ListQueues", ""), keyOf("TQPEEKS1", "tenaq:PeekMessages", ""),
		keyOf("TQOTHER1", "*", `, "account": "111111111111"`))
	k.useMonitor(t)
	for _, tt := range []struct {
		key    string
		status int
		part   string
	}{
		{"TQSEES01", 200, `"queues":{}`},
		{"TQPEEKS1", 403, "tenaq:listqueues"},
		{"TQOTHER1", 400, "the server's own account"},
	} {
		if status, text := k.as(t, "key "+tt.key, "GET", "/v1/series?queues=orders", ""); status != tt.status || !strings.Contains(text, tt.part) {
			t.Errorf("%s: got %d %s, want %d and %s", tt.key, status, text, tt.status, tt.part)
		}
	}
}

// A crowd is a broker with many queues, as far as its monitor sees.
type crowd struct {
	*broker.Broker
	gauges []engine.Gauge
	looked chan struct{} // closed after the first look
	once   *sync.Once
}

func (c crowd) Do(ctx context.Context, op engine.Op) error {
	if survey, ok := op.(*engine.Survey); ok {
		survey.Gauges = c.gauges
		return nil
	}
	return c.Broker.Do(ctx, op)
}

func (c crowd) Tally() *tally.Queues {
	c.once.Do(func() { close(c.looked) })
	return c.Broker.Tally()
}

// The work of a request depends on the queues that it names, and not on how many there are: to walk
// through 100,000 would take a hundred times as long. [V1-19]
func TestSeriesOfManyQueues(t *testing.T) {
	const all = 100_000
	w := newWorld(t)
	many := crowd{Broker: w.broker, gauges: make([]engine.Gauge, all), looked: make(chan struct{}), once: new(sync.Once)}
	for i := range many.gauges {
		many.gauges[i].Queue = engine.QueueName{Account: account, Name: fmt.Sprintf("queue-%06d", i)}
	}
	m, err := monitor.New(monitor.Config{Queues: many, Account: account, Keeper: monitor.File(t.TempDir()), NoShipped: true})
	if err != nil {
		t.Fatal(err)
	}
	w.cfg.Monitor = m
	minute := m.Now().UnixMilli() / series.Minute * series.Minute
	put := func(gauges []engine.Gauge) {
		t.Helper()
		for _, g := range gauges {
			visible := series.Metric{Namespace: "AWS/SQS", Name: "ApproximateNumberOfMessagesVisible",
				Dimensions: []series.Dimension{{Name: "QueueName", Value: g.Queue.Name}}}
			if err := m.Series().Put(visible, minute-series.Minute, series.One(1), "Count"); err != nil {
				t.Fatal(err)
			}
		}
	}
	// ask returns the shortest time of some requests: the others shared their processor.
	ask := func(name string) time.Duration {
		t.Helper()
		best := time.Hour
		for range 30 {
			r := httptest.NewRequest("GET", "http://localhost/v1/series?queues="+name, nil)
			recorder := httptest.NewRecorder()
			begun := time.Now()
			w.ServeHTTP(recorder, r)
			best = min(best, time.Since(begun))
			if !strings.Contains(recorder.Body.String(), `"`+name+`":{`) {
				t.Fatalf("got %s", recorder.Body)
			}
		}
		return best
	}
	put(many.gauges[:100])
	few := ask("queue-000050")
	put(many.gauges[100:])
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	<-many.looked
	if n := len(m.Board(0).Rows); n != all {
		t.Fatalf("the monitor has seen %d queues, want %d", n, all)
	}
	stop()
	running.Wait()
	took := ask("queue-050000")
	t.Logf("%v with 100 queues, %v with %d", few, took, all)
	if took > 20*few {
		t.Errorf("a request takes %v with 100 queues, and %v with %d", few, took, all)
	}
}
