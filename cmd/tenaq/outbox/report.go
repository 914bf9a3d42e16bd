package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"tenaq/internal/api/v1"
	"tenaq/internal/cli"
	"tenaq/internal/work/clip"
	"tenaq/internal/work/v1client"
	"tenaq/outbox"
)

// What a relay reports about rows that were set aside. The server refuses larger reports.
const (
	reportedRows  = 100
	reportedPage  = 10 // rows that are read at a time
	reportedBytes = 60_000
	reportedText  = 300
	reportedEvery = time.Minute

	// reportedRead is how much of the bodies is read for a report: rows are read with theirs.
	reportedRead = 4 << 20

	// askedEvery is how often a relay asks for orders while rows are set aside. The server answers
	// from memory, and the database is not asked.
	askedEvery = 5 * time.Second
)

// ordersTaken are what a relay takes orders to do, by the value of --orders. Rows that are released
// are sent, as the program wanted. Rows that are discarded are lost, so the team that runs the
// relay has to allow that.
var ordersTaken = map[string][]string{
	"none": nil, "release": {v1.OrderRelease}, "all": {v1.OrderRelease, v1.OrderDiscard},
}

// A reporter reports which rows were set aside, because the server cannot ask the database, and
// carries out what operators of the server order about them.
type reporter struct {
	box interface {
		Parked(ctx context.Context, after string, limit int) ([]outbox.ParkedRow, error)
		outbox.Decider
	}
	path   string // of the outbox, below /v1
	server *v1client.Client
	stats  func() (outbox.Stats, error)
	log    *slog.Logger
	takes  []string

	none       bool // the latest report has no rows
	asks       bool // the server takes orders, and rows are set aside
	complained bool // that no report is accepted
	failing    bool // an order could not be carried out
	done       map[orderKey]bool
}

// An orderKey tells orders apart. Their times have locations, which differ when they are read
// again.
type orderKey struct {
	do, id string
	at     int64
}

func newReporter(
	o *openOutbox, server *v1client.Client, m *Metrics, log *slog.Logger, takes []string,
) *reporter {
	return &reporter{box: o, path: outboxPath(o.name()), server: server, stats: m.stats.Get,
		log: log, takes: takes}
}

func outboxPath(name string) string { return "/outbox/" + url.PathEscape(name) }

// start reports rows until ctx is done or stop is called.
func (r *reporter) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { r.run(ctx) })
	return func() { cancel(); running.Wait() }
}

// run reports each minute. While rows are set aside it also asks for orders, and reports at once
// what it has carried out. Orders in the answer to that report are left to the next question, so
// that no server can keep the relay busy.
func (r *reporter) run(ctx context.Context) {
	for r.server != nil && ctx.Err() == nil {
		given, next := r.report(ctx), time.Now().Add(reportedEvery)
		for ctx.Err() == nil {
			if r.carryOut(ctx, given) {
				r.report(ctx)
			}
			left := time.Until(next)
			if left <= 0 {
				break
			}
			if !r.asks {
				cli.Pause(ctx, left)
				break
			}
			cli.Pause(ctx, min(askedEvery, left))
			given = r.ask(ctx)
		}
	}
}

// report reports rows and returns the orders of the server. It logs the first failure only. A
// database that fails is reported by the relay.
func (r *reporter) report(ctx context.Context) []v1.AsideOrder {
	s, err := r.stats()
	if err != nil || s.Parked == 0 && r.none {
		return nil
	}
	report, err := parkedReport(ctx, r.box.Parked)
	if err != nil {
		return nil
	}
	report.Orders = r.takes
	answer, err := r.post(ctx, report)
	refused, _ := errors.AsType[*v1client.Error](err)
	if refused != nil && refused.Status == http.StatusBadRequest && report.Orders != nil {
		report.Orders = nil // the server is of an earlier version
		answer, err = r.post(ctx, report)
	}
	switch {
	case err == nil:
		r.none = len(report.Rows) == 0 && !report.More
		r.asks = !r.none && answer.Orders != nil && r.takes != nil
		return answer.Orders
	case ctx.Err() == nil && !r.complained:
		r.complained = true
		r.log.Info("the endpoint accepts no rows that were set aside, so its console cannot show them",
			"error", err)
	}
	return nil
}

func (r *reporter) post(
	ctx context.Context, report rowReport,
) (answer v1.AsideOrders, err error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	err = r.server.Post(ctx, r.path+"/parked", report, &answer)
	return answer, err
}

// ask asks for orders. A server that does not answer is asked again, and the next report finds out
// whether it still takes them.
func (r *reporter) ask(ctx context.Context) []v1.AsideOrder {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	var answer v1.AsideOrders
	if r.server.Get(ctx, r.path+"/orders", nil, &answer) != nil {
		return nil
	}
	return answer.Orders
}

// carryOut carries out orders that this relay has not carried out before, and reports whether there
// were any. The server gives an order until a report shows that it was carried out, and gives it to
// all relays of the outbox.
func (r *reporter) carryOut(ctx context.Context, given []v1.AsideOrder) (acted bool) {
	if given == nil { // the server has not answered
		return false
	}
	if len(given) > reportedRows { // more than the server keeps
		given = given[:reportedRows]
	}
	before := r.done
	r.done = make(map[orderKey]bool)
	todo := make(map[string][]v1.AsideOrder)
	for _, o := range given {
		key := orderKey{o.Do, o.ID, o.ParkedAt.UnixNano()}
		switch {
		case before[key]:
			r.done[key] = true
		case slices.Contains(r.takes, o.Do):
			todo[o.Do] = append(todo[o.Do], o)
		}
	}
	for _, do := range []string{v1.OrderRelease, v1.OrderDiscard} {
		acted = len(todo[do]) > 0 && r.decide(ctx, do, todo[do]) || acted
	}
	return acted
}

// decide carries out orders of one kind.
func (r *reporter) decide(ctx context.Context, do string, orders []v1.AsideOrder) (done bool) {
	rows, ids, by := []outbox.Seen{}, []string{}, []string{}
	for _, o := range orders {
		rows, ids = append(rows, outbox.Seen{ID: o.ID, At: o.ParkedAt}), append(ids, o.ID)
		by = append(by, o.By)
	}
	slices.Sort(by)
	by = slices.Compact(by)
	decide := r.box.ReleaseSeen
	if do == v1.OrderDiscard {
		decide = r.box.DiscardSeen
	}
	n, err := decide(ctx, rows...)
	switch {
	case err != nil && ctx.Err() == nil && !r.failing:
		r.failing = true
		r.log.Warn("cannot carry out orders of the server, trying again", "do", do, "error", err)
	case err != nil, n == 0: // another relay was first, or they were set aside again since
	case do == v1.OrderDiscard:
		r.log.Warn("rows discarded as the server ordered", "rows", n, "ordered", ids, "by", by)
	default:
		r.log.Info("rows released as the server ordered", "rows", n, "ordered", ids, "by", by)
	}
	if err != nil {
		return false
	}
	r.failing = false
	for _, o := range orders {
		r.done[orderKey{o.Do, o.ID, o.ParkedAt.UnixNano()}] = true
	}
	return true
}

// A rowReport is what a relay reports.
type rowReport struct {
	Rows   []v1.AsideRow `json:"rows"`
	More   bool          `json:"more,omitempty"`
	Orders []string      `json:"orders,omitempty"`
}

// parkedReport returns the earliest rows that were set aside, as many as fit, without their bodies.
func parkedReport(
	ctx context.Context, list func(context.Context, string, int) ([]outbox.ParkedRow, error),
) (rowReport, error) {
	report, read, before, after := rowReport{Rows: []v1.AsideRow{}}, 0, "", ""
	seen := make(map[string]bool)
	for !report.More {
		rows, err := list(ctx, after, reportedPage)
		if err != nil {
			return report, err
		}
		fresh := false
		for _, r := range rows {
			if seen[r.ID] {
				continue
			}
			if len(report.Rows) == reportedRows || read > reportedRead {
				report.More = true
				break
			}
			fresh, seen[r.ID] = true, true
			read += len(r.Body)
			report.Rows = append(report.Rows, v1.AsideRow{
				ID: r.ID, Queue: clip.To(r.Queue, reportedText), Key: clip.To(r.Key, reportedText),
				Type: clip.To(r.Type, reportedText), Attempts: r.Attempts,
				Reason: clip.To(r.Reason, reportedText), ParkedAt: r.At.UTC(),
			})
		}
		switch {
		case fresh && len(rows) == reportedPage:
			before, after = after, rows[len(rows)-1].ID
			continue
		case after != "" && !fresh && !report.More:
			// The end, unless the row that this page follows is gone.
			page, err := list(ctx, before, reportedPage)
			if err != nil {
				return report, err
			}
			report.More = !slices.ContainsFunc(page, func(r outbox.ParkedRow) bool {
				return r.ID == after
			})
		}
		break
	}
	for {
		body, err := json.Marshal(report)
		if err != nil || len(body) <= reportedBytes {
			return report, err
		}
		report.Rows, report.More = report.Rows[:len(report.Rows)/2], true
	}
}
