package order

import (
	"fmt"
	"slices"
	"strings"

	"tenaq/claims"
	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/examples/order/shop"
	"tenaq/worker"
)

// An outcome is what the scenario has found. Its rows are a function of it alone.
type outcome struct {
	stage.Outcome
	Usual struct{ Charges, Doubled int }

	Fates      map[string]fate // of the orders
	Sent       int             // by the first batch
	Recognised int             // by the second batch, as done
	Charges    map[string]int  // by order
	Orders     []shop.Row
	Done       map[string]uint64 // fences under which the ledger has orders completed
	Mails      map[string]int
	Left       int // messages in both queues
	Alarms     []string
}

// collect asks the database, the ledger, the queues and the alarms.
func (p *play) collect() {
	o := p.out
	o.Outcome, o.Charges = p.Outcome(), p.bank.counts()
	entries, err := p.ledger.List(p.Outer, "order-", "", 0)
	p.Must(err)
	o.Done = make(map[string]uint64)
	for _, e := range entries {
		if e.State == claims.Completed {
			o.Done[e.Key] = e.Fence
		}
	}
	o.Orders, err = p.shop.Books.Rows(p.Outer)
	p.Must(err)
	o.Left = p.Left(p.url, p.deadURL)
	if o.Ours && o.Broken == "" {
		o.Alarms = p.Alarms()
	}
}

// takeOverMax is far beyond the lease, for a machine of any speed.
const takeOverMax = 30 // seconds

// rows judges the outcome.
func (o *outcome) rows() []stage.Row {
	all := len(o.Fates)
	wrong := stage.Count(o.Orders, func(r shop.Row) bool { return o.Done[r.Key] != r.Fence })
	hs := handlings(o.Reports)
	dead := o.At(pointDead)
	redriven := stage.Count(dead, func(r stage.Report) bool { return o.Charges[r.Key] > 1 })
	doomedDead := "never dead-lettered"
	for _, r := range dead {
		if o.Fates[r.Key] == doomed {
			doomedDead = fmt.Sprint(o.Charges[r.Key])
		}
	}
	kills := o.At(stage.Killed)
	bereft := stage.Count(kills, func(r stage.Report) bool { return r.Key != "" })
	stale := stage.Count(o.At(stage.Ended), func(r stage.Report) bool {
		return strings.Contains(r.Text, shop.ErrStale.Error())
	})
	away := stage.Count(o.Reports, func(r stage.Report) bool {
		return r.Point == string(worker.Busy) || r.Point == string(worker.Duplicate)
	})
	alarm := func(name string) bool { return slices.Contains(o.Alarms, name) }
	return slices.Concat(
		o.Outcome.Usual(
			stage.Show("as usual: charges for as many orders", o.Usual.Charges),
			stage.AtLeast("as usual: cards charged twice", 1, o.Usual.Doubled)),
		[]stage.Row{
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
			stage.AtLeast("workers killed, the card charged and no row written", 4, bereft),
			stage.Show("workers killed in all", len(kills)),
			stage.AtLeast("workers stopped past their lease, and continued", 1,
				len(o.At(stage.Thawed))),
			stage.AtLeast("writes of those that the fence refused", 1, stale),
			stage.AtLeast("deliveries turned away, the order busy or done", 1, away),
			stage.AtLeast("dead letters", 2, len(dead)),
			stage.Want("of these, charged twice after the redrive", 0, redriven),
			stage.Want("killed until dead-lettered, then redriven: charges", 1, doomedDead),
			o.Ended(),
			stage.AtMost("seconds from a kill to the next worker, at most", takeOverMax,
				int(takeOver(o.Reports, hs))),
		},
		// An operator would notice the usual workers, and is not bothered by these.
		stage.Unless(!o.Ours || o.Broken != "", stage.NotOurs,
			stage.True("as usual: alarm on work done twice", alarm("order-usual/double-deletes")),
			stage.True("as usual: alarm on visibility timeouts", alarm("order-usual/timed-out")),
			stage.True("with claims: no alarm on work done twice", !alarm("order/double-deletes"))),
	)
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

func doubled(counts map[string]int) (n int) {
	for _, c := range counts {
		n += stage.One(c > 1)
	}
	return n
}

// A handling is one run of a handler, from its reports.
type handling struct {
	begin, end stage.Report
	killed     float64 // when its process was killed; zero if it was not
	frozen     bool    // its process was stopped meanwhile
}

// open reports whether the handler is still running.
func (h *handling) open() bool { return h.end.Point == "" && h.killed == 0 }

// handlings reads the handlers from reports, in the order in which they began.
func handlings(reports []stage.Report) (all []*handling) {
	byRun := make(map[string]*handling)
	for _, r := range reports {
		switch r.Point {
		case stage.Begun:
			byRun[r.Run] = &handling{begin: r}
			all = append(all, byRun[r.Run])
		case stage.Ended:
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

// beside counts handlers that continued while another one handled the same order, without learning
// that they had lost it. A stopped process cannot learn it; its fence refuses what it writes.
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
