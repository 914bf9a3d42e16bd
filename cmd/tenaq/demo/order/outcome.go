package order

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tenaq/claims"
	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/examples/order/shop"
)

// An outcome is what the scenario has found. Its rows are a function of it alone.
type outcome struct {
	Ours   bool // the server is our own
	Broken string
	Usual  struct{ Charges, Doubled int }

	Fates      map[string]fate // of the orders
	Sent       int             // by the first batch
	Recognised int             // by the second batch, as done
	Charges    map[string]int  // by order
	Orders     []shop.Row
	Done       map[string]uint64 // fences under which the ledger has orders completed
	Mails      map[string]int
	Left       int // messages in both queues
	Unclean    int // processes that did not end when told to
	Alarms     []string
	Reports    []stage.Report
}

// collect asks the database, the ledger, the queues and the alarms.
func (p *play) collect(ctx context.Context) error {
	o := p.out
	o.Reports, o.Unclean, o.Charges = p.crew.Reports(), p.crew.Unclean(), p.bank.counts()
	entries, errLedger := p.ledger.List(ctx, "order-", "", 0)
	o.Done = make(map[string]uint64)
	for _, e := range entries {
		if e.State == claims.Completed {
			o.Done[e.Key] = e.Fence
		}
	}
	var errRows, errLeft, errAlarms error
	o.Orders, errRows = p.shop.Books.Rows(ctx)
	o.Left, errLeft = p.sqs.Left(ctx, p.url, p.deadURL)
	if o.Ours && o.Broken == "" {
		o.Alarms, errAlarms = p.sqs.Alarms(ctx)
	}
	return errors.Join(errLedger, errRows, errLeft, errAlarms)
}

// takeOverMax is far beyond the lease, for a machine of any speed.
const takeOverMax = 30 // seconds

// rows judges the outcome.
func (o *outcome) rows() []stage.Row {
	all := len(o.Fates)
	wrong := 0
	for _, r := range o.Orders {
		if o.Done[r.Key] != r.Fence {
			wrong++
		}
	}
	hs := handlings(o.Reports)
	dead := stage.At(o.Reports, pointDead)
	redriven, doomedDead := 0, "never dead-lettered"
	for _, r := range dead {
		if o.Charges[r.Key] > 1 {
			redriven++
		}
		if o.Fates[r.Key] == doomed {
			doomedDead = fmt.Sprint(o.Charges[r.Key])
		}
	}
	kills := stage.At(o.Reports, stage.Killed)
	bereft := len(slices.DeleteFunc(slices.Clone(kills), func(r stage.Report) bool {
		return r.Key == ""
	}))
	stale := 0
	for _, r := range stage.At(o.Reports, pointEnd) {
		if r.Stale {
			stale++
		}
	}
	thawed := len(stage.At(o.Reports, stage.Thawed))
	slowest := takeOver(o.Reports, hs)
	rows := o.usualRows()
	rows = append(rows,
		stage.Want("orders sent", all, o.Sent),
		stage.Want("charges", all, sum(o.Charges)),
		stage.Want("cards charged twice", 0, doubled(o.Charges)),
		stage.Want("order rows", all, len(o.Orders)),
		stage.Want("rows that are not of the last worker to hold the order", 0, wrong),
		stage.Want("mails", all, sum(o.Mails)),
		stage.Want("orders with two mails", 0, doubled(o.Mails)),
		stage.Want("orders that the ledger has as done", all, len(o.Done)),
		stage.Want("the same batch again: known to be done", all, o.Recognised),
		stage.Want("messages left in the queues", 0, o.Left),
		stage.Want("handlers that went on beside another one", 0, beside(hs)),
		stage.AtLeast("workers killed, the card charged and no row written", 1, bereft),
		stage.Show("workers killed in all", len(kills)),
		// A worker that is to be stopped may be killed before: then there is no write to refuse.
		stage.Show("workers stopped past their lease, and continued", thawed),
		stage.AtLeast("writes of those that the fence refused", min(1, thawed), stale),
		stage.AtLeast("deliveries turned away, the order busy or done", 1,
			len(stage.At(o.Reports, pointAway))),
		stage.AtLeast("dead letters", 2, len(dead)),
		stage.Want("of these, charged twice after the redrive", 0, redriven),
		stage.Want("killed until dead-lettered, then redriven: charges", 1, doomedDead),
		stage.Want("processes that did not end when told to", 0, o.Unclean),
		stage.AtMost("seconds from a kill to the next worker, at most", takeOverMax, int(slowest)),
	)
	return append(rows, o.alarmRows()...)
}

// usualRows judges the usual workers. If they did no harm, the rest would prove nothing.
func (o *outcome) usualRows() []stage.Row {
	const charges, twice = "as usual: charges for as many orders", "as usual: cards charged twice"
	if o.Broken != "" {
		return []stage.Row{stage.Skip(twice, "left out too")}
	}
	return []stage.Row{stage.Show(charges, o.Usual.Charges),
		stage.AtLeast(twice, 1, o.Usual.Doubled)}
}

// alarmRows: an operator would notice the usual workers, and is not bothered by these.
func (o *outcome) alarmRows() []stage.Row {
	if !o.Ours || o.Broken != "" {
		return []stage.Row{stage.Skip("alarms", stage.NotOurs)}
	}
	fired := func(name string) bool { return slices.Contains(o.Alarms, name) }
	return []stage.Row{
		stage.True("as usual: alarm on work done twice", fired("order-usual/double-deletes")),
		stage.True("as usual: alarm on visibility timeouts", fired("order-usual/timed-out")),
		stage.True("with claims: no alarm on work done twice", !fired("order/double-deletes")),
	}
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

func doubled(counts map[string]int) (n int) {
	for c := range maps.Values(counts) {
		if c > 1 {
			n++
		}
	}
	return n
}

// A handling is a handler at work, from its reports.
type handling struct {
	begin, end stage.Report
	killed     float64 // when its process was killed; zero if it was not
	frozen     bool    // its process was stopped meanwhile
}

// open reports whether the handler is at work.
func (h *handling) open() bool { return h.end.Point == "" && h.killed == 0 }

// handlings reads the handlers from reports, in the order in which they began.
func handlings(reports []stage.Report) (all []*handling) {
	byRun := make(map[string]*handling)
	for _, r := range reports {
		switch r.Point {
		case pointBegin:
			byRun[r.Run] = &handling{begin: r}
			all = append(all, byRun[r.Run])
		case pointEnd:
			if h := byRun[r.Run]; h != nil {
				h.end = r
			}
		case stage.Killed, stage.Frozen:
			for _, h := range all {
				if h.begin.From == r.From && h.open() {
					h.frozen = h.frozen || r.Point == stage.Frozen
					if r.Point == stage.Killed {
						h.killed = r.At
					}
				}
			}
		}
	}
	return all
}

// beside counts handlers that went on while another one handled the same order, and were not told
// so. A process that was stopped could not be told; its fence refuses what it writes.
func beside(hs []*handling) (n int) {
	for i, h := range hs {
		if h.killed > 0 || h.frozen || h.end.Lost {
			continue
		}
		if slices.ContainsFunc(hs[i+1:], func(later *handling) bool {
			return later.begin.Key == h.begin.Key && later.begin.Fence >= h.begin.Fence &&
				(h.end.Point == "" || later.begin.At < h.end.At)
		}) {
			n++
		}
	}
	return n
}

// takeOver is the longest time, in seconds, from a kill until the next worker began with an order
// of the killed one.
func takeOver(reports []stage.Report, hs []*handling) (most float64) {
	dead := stage.At(reports, pointDead)
	for i, h := range hs {
		if h.killed == 0 {
			continue
		}
		next := slices.IndexFunc(hs[i+1:], func(later *handling) bool {
			return later.begin.Key == h.begin.Key
		})
		if next < 0 {
			continue
		}
		to := hs[i+1+next].begin.At
		if slices.ContainsFunc(dead, func(r stage.Report) bool {
			return r.Key == h.begin.Key && r.At > h.killed && r.At < to
		}) {
			continue // it waited in the dead-letter queue
		}
		most = max(most, to-h.killed)
	}
	return most
}
