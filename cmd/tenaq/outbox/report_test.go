package outbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/api/v1"
	"tenaq/internal/work/v1client"
	"tenaq/outbox"
	"tenaq/outbox/outboxtest"
)

// An orderer is a server as a relay sees it: what it was told, and what it orders. What a test sets
// before pass, the relay sees.
type orderer struct {
	mu       sync.Mutex
	requests []string // method and path
	report   rowReport
	orders   []v1.AsideOrder
	early    bool // it knows no orders
	down     bool
}

func (s *orderer) Do(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := httptest.NewRecorder()
	w.Header().Set(v1client.Header, "1")
	path := strings.TrimPrefix(r.URL.Path, "/v1/outbox/shop")
	s.requests = append(s.requests, r.Method+" "+path)
	text, _ := io.ReadAll(r.Body)
	var report rowReport
	_ = json.Unmarshal(text, &report)
	switch {
	case s.down:
		return nil, errors.New("no answer")
	case s.early && path == "/orders":
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"code":"NotFound"}`)
	case s.early && report.Orders != nil:
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"code":"InvalidParameterValue","message":"The member orders is unknown"}`)
	case s.early:
		s.report = report
		fmt.Fprint(w, `{}`)
	default:
		if path == "/parked" {
			s.report = report
		}
		_ = json.NewEncoder(w).Encode(v1.AsideOrders{Orders: append([]v1.AsideOrder{}, s.orders...)})
	}
	return w.Result(), nil
}

// A reporting is a relay with rows that were set aside, and its server.
type reporting struct {
	t      *testing.T
	server *orderer
	box    *outboxtest.Memory
	log    bytes.Buffer
	decider
	*reporter
}

// A decider counts decisions and can fail.
type decider struct {
	*outboxtest.Memory
	calls int
	err   error
}

func (d *decider) ReleaseSeen(ctx context.Context, rows ...outbox.Seen) (int, error) {
	if d.calls++; d.err != nil {
		return 0, d.err
	}
	return d.Memory.ReleaseSeen(ctx, rows...)
}

// reports runs a relay in a bubble, with rows that were set aside.
func reports(t *testing.T, takes string, ids []string, do func(*reporting)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := outboxtest.NewMemory()
		s := &orderer{}
		r := &reporting{t: t, server: s, box: m, decider: decider{Memory: m}}
		for _, id := range ids {
			if err := m.Enqueue(outbox.Message{ID: id, Queue: "orders", Body: "b"}); err != nil {
				t.Fatal(err)
			}
		}
		r.park()
		r.reporter = &reporter{box: &r.decider, path: outboxPath("shop"), server: &v1client.Client{URL: "http://queue.test", HTTP: s},
			stats: func() (outbox.Stats, error) { return m.Stats(t.Context()) },
			log:   slog.New(slog.NewTextHandler(&r.log, nil)), takes: ordersTaken[takes]}
		stop := r.start(t.Context())
		synctest.Wait()
		do(r)
		stop()
	})
}

// park sets aside all rows that wait.
func (r *reporting) park() {
	r.t.Helper()
	rows, _, err := r.box.Claim(r.t.Context(), outbox.Claim{Relay: "r", Lease: time.Hour, Rows: 1000, Bytes: 1 << 20, Stream: 100})
	var outcomes []outbox.Outcome
	for _, row := range rows {
		outcomes = append(outcomes, outbox.Outcome{ID: row.ID, Fate: outbox.Parked, Reason: "no"})
	}
	if err == nil {
		err = r.box.Settle(r.t.Context(), "r", outcomes)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// order orders something about reported rows.
func (r *reporting) order(do string, rows ...v1.AsideRow) {
	for _, row := range rows {
		r.server.orders = append(r.server.orders, v1.AsideOrder{ID: row.ID, ParkedAt: row.ParkedAt, Do: do, By: "ops", Ordered: time.Now()})
	}
}

// pass lets time pass and checks which requests are made, how many rows are reported, and how many
// are set aside.
func (r *reporting) pass(d time.Duration, requests string, reported, parked int) {
	r.t.Helper()
	r.server.mu.Lock()
	r.server.requests = nil
	r.server.mu.Unlock()
	time.Sleep(d)
	synctest.Wait()
	s, err := r.box.Stats(r.t.Context())
	if got := strings.Join(r.server.requests, ", "); got != requests || len(r.server.report.Rows) != reported || s.Parked != parked || err != nil {
		r.t.Errorf("after %v: the requests %q, %d rows reported, %d set aside, %v; want %q, %d and %d", d, got, len(r.server.report.Rows), s.Parked, err, requests, reported, parked)
	}
}

const twoIDs = "018f3a5e-0000-7000-8000-000000000001 018f3a5e-0000-7000-8000-000000000002"

// While rows are set aside, a relay asks for orders every five seconds, carries out each once, and
// reports at once. Without such rows it asks for nothing. [V1-27]
func TestOrdersAreCarriedOut(t *testing.T) {
	reports(t, "all", strings.Fields(twoIDs), func(r *reporting) {
		rows := r.server.report.Rows
		if len(rows) != 2 || fmt.Sprint(r.server.report.Orders) != "[release discard]" {
			t.Fatalf("the relay reports %+v", r.server.report)
		}
		r.pass(askedEvery, "GET /orders", 2, 2)
		r.order(v1.OrderRelease, rows[0])
		r.order("purge", rows[1]) // of a later version
		r.pass(askedEvery, "GET /orders, POST /parked", 1, 1)
		r.pass(askedEvery, "GET /orders", 1, 1) // the order comes again
		r.server.orders = nil
		r.order(v1.OrderDiscard, rows[1])
		r.pass(askedEvery, "GET /orders, POST /parked", 0, 0)
		r.pass(askedEvery, "", 0, 0)
		r.pass(2*reportedEvery, "", 0, 0)
		for _, want := range []string{`level=INFO msg="rows released as the server ordered" rows=1 ordered=[` + rows[0].ID + `] by=[ops]`,
			`level=WARN msg="rows discarded as the server ordered" rows=1 ordered=[` + rows[1].ID + `] by=[ops]`} {
			if strings.Count(r.log.String(), want) != 1 {
				t.Errorf("the log is %s, want %s in it once", &r.log, want)
			}
		}
	})
}

// An order that comes late, after its row was released and set aside again, does nothing, also from
// a relay that has not seen it before. [V1-27]
func TestStaleOrder(t *testing.T) {
	reports(t, "all", strings.Fields(twoIDs)[:1], func(r *reporting) {
		seen := r.server.report.Rows[0]
		r.order(v1.OrderRelease, seen)
		r.order(v1.OrderDiscard, seen)
		time.Sleep(time.Second)
		if n, err := r.box.Release(t.Context(), seen.ID); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		r.park()
		r.pass(askedEvery-time.Second, "GET /orders, POST /parked", 1, 1)
		if again := r.server.report.Rows[0]; again.ParkedAt.Equal(seen.ParkedAt) {
			t.Error("the row was not set aside again")
		}
		if r.log.Len() > 0 {
			t.Errorf("the relay logs what it has not done: %s", &r.log)
		}
	})
}

// A relay discards nothing unless --orders allows it, and with none it asks for no orders. [V1-27]
func TestOrdersNotTaken(t *testing.T) {
	reports(t, "release", strings.Fields(twoIDs), func(r *reporting) {
		if fmt.Sprint(r.server.report.Orders) != "[release]" {
			t.Errorf("the relay reports %+v", r.server.report)
		}
		r.order(v1.OrderDiscard, r.server.report.Rows...)
		r.pass(askedEvery, "GET /orders", 2, 2)
		r.pass(reportedEvery-askedEvery, strings.Repeat("GET /orders, ", 11)+"POST /parked", 2, 2)
	})
	reports(t, "none", strings.Fields(twoIDs), func(r *reporting) {
		r.order(v1.OrderRelease, r.server.report.Rows...)
		r.pass(reportedEvery, "POST /parked", 2, 2)
		if r.server.report.Orders != nil || r.log.Len() > 0 {
			t.Errorf("the relay reports %+v and logs %s", r.server.report, &r.log)
		}
	})
}

// A server of an earlier version gets the report that it knows, and no question. [V1-27]
func TestOrdersOfEarlierServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := outboxtest.NewMemory()
		s := &orderer{early: true}
		r := &reporting{t: t, server: s, box: m}
		if err := m.Enqueue(outbox.Message{ID: strings.Fields(twoIDs)[0], Queue: "orders", Body: "b"}); err != nil {
			t.Fatal(err)
		}
		r.park()
		r.reporter = &reporter{box: m, path: outboxPath("shop"), server: &v1client.Client{URL: "http://queue.test", HTTP: s},
			stats: func() (outbox.Stats, error) { return m.Stats(t.Context()) }, log: slog.New(slog.NewTextHandler(&r.log, nil)), takes: ordersTaken["all"]}
		defer r.start(t.Context())()
		synctest.Wait()
		r.pass(reportedEvery, "POST /parked, POST /parked", 1, 1)
		s.early = false // it is updated
		r.order(v1.OrderRelease, s.report.Rows...)
		r.pass(reportedEvery, "POST /parked, POST /parked", 0, 0)
		if r.log.Len() != 0 && !strings.Contains(r.log.String(), "rows released") {
			t.Errorf("the relay logs %s", &r.log)
		}
	})
}

// An answer that is lost, a server that is away and a database that fails put an order off. [V1-27]
func TestOrdersPutOff(t *testing.T) {
	reports(t, "release", strings.Fields(twoIDs), func(r *reporting) {
		r.order(v1.OrderRelease, r.server.report.Rows[0])
		r.server.down = true
		r.pass(askedEvery, "GET /orders", 2, 2)
		r.server.down = false
		r.err = errors.New("no database")
		r.pass(2*askedEvery, "GET /orders, GET /orders", 2, 2)
		if got := strings.Count(r.log.String(), `level=WARN msg="cannot carry out orders of the server, trying again" do=release error="no database"`); got != 1 || r.calls != 2 {
			t.Errorf("after %d calls, the log is %s", r.calls, &r.log)
		}
		r.err = nil
		r.pass(askedEvery, "GET /orders, POST /parked", 1, 1)
		r.server.down = true
		r.pass(askedEvery, "GET /orders", 1, 1)
		r.server.down = false
		r.pass(askedEvery, "GET /orders", 1, 1)
		if r.calls != 3 {
			t.Errorf("an order was carried out %d times", r.calls-2)
		}
	})
}

// A server that orders without end does not keep a relay busy, nor make it remember more. [V1-27]
func TestOrdersWithoutEnd(t *testing.T) {
	reports(t, "release", strings.Fields(twoIDs)[:1], func(r *reporting) {
		for i := range 1000 {
			r.order(v1.OrderRelease, v1.AsideRow{ID: fmt.Sprintf("x%d'; --", i), ParkedAt: time.Now()})
		}
		r.pass(askedEvery, "GET /orders, POST /parked", 1, 1)
		r.pass(askedEvery, "GET /orders", 1, 1)
		if r.calls != 1 || len(r.done) != reportedRows {
			t.Errorf("%d calls, and %d orders are remembered", r.calls, len(r.done))
		}
	})
}
