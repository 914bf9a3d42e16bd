package order

import (
	"fmt"
	"slices"
	"testing"

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/examples/order/shop"
	"tenaq/worker"
)

// perfect is an outcome in which every check passes.
func perfect() *outcome {
	o := &outcome{
		Outcome: stage.Outcome{Ours: true}, Sent: 7, Recognised: 7,
		Fates: make(map[string]fate), Charges: make(map[string]int), Mails: make(map[string]int), Done: make(map[string]uint64),
		Alarms: []string{"order-usual/double-deletes", "order-usual/timed-out"},
	}
	o.Usual.Charges, o.Usual.Doubled = 14, 7
	for i, f := range []fate{crashed, crashed, crashed, doomed, frozen, refused, plain} {
		key := fmt.Sprintf("order-%d", i+1)
		o.Fates[key], o.Charges[key], o.Mails[key], o.Done[key] = f, 1, 1, 2
		o.Orders = append(o.Orders, shop.Row{Key: key, Charge: "ch", Fence: 2})
	}
	at := func(seconds float64, from, point, key string) *stage.Report {
		o.Reports = append(o.Reports, stage.Report{At: seconds, From: from, Point: point, Key: key, Run: from + key})
		return &o.Reports[len(o.Reports)-1]
	}
	for i := range 4 {
		from, key := fmt.Sprintf("worker-%d", i+1), fmt.Sprintf("order-%d", i+1)
		at(1, from, stage.Begun, key).Fence = 1
		at(2, from, stage.Killed, key)
	}
	at(2, "worker-5", stage.Begun, "order-5").Fence = 1
	at(3, "worker-5", stage.Frozen, "")
	at(5, "worker-6", stage.Begun, "order-5").Fence = 2
	at(6, "worker-6", stage.Ended, "order-5")
	at(6, "worker-5", stage.Thawed, "")
	at(7, "worker-5", stage.Ended, "order-5").Text = shop.ErrStale.Error()
	at(7, "worker-6", stage.Begun, "order-1").Fence = 2
	at(8, "worker-6", stage.Ended, "order-1")
	at(8, "worker-6", string(worker.Busy), "order-7")
	at(8, "worker-6", pointDead, "order-4")
	at(8, "worker-6", pointDead, "order-6")
	return o
}

// Each check fails for the fault that it is about, and for no other.
func TestRows(t *testing.T) {
	if red := stage.Red(perfect().rows()); len(red) > 0 {
		t.Fatalf("%q fail although all is well", red)
	}
	report := func(point string, change func(r *stage.Report)) func(*outcome) {
		return func(o *outcome) {
			for i := range o.Reports {
				if o.Reports[i].Point == point {
					change(&o.Reports[i])
				}
			}
		}
	}
	gone := func(point string) func(*outcome) { return report(point, func(r *stage.Report) { r.Point = "" }) }
	for _, tt := range []struct {
		what string
		do   func(o *outcome)
		red  []string
	}{
		{"usual workers do no harm", func(o *outcome) { o.Usual.Doubled = 0 }, []string{"as usual: cards charged twice"}},
		{"a message was not sent", func(o *outcome) { o.Sent-- }, []string{"orders sent"}},
		{"a card charged twice", func(o *outcome) { o.Charges["order-7"]++ }, []string{"charges", "cards charged twice"}},
		{"one order charged twice, one never", func(o *outcome) { o.Charges["order-7"]++; delete(o.Charges, "order-1") },
			[]string{"cards charged twice"}},
		{"the doomed one charged twice", func(o *outcome) { o.Charges["order-4"]++ }, []string{
			"charges", "cards charged twice", "of these, charged twice after the redrive", "killed until dead-lettered, then redriven: charges"}},
		{"an order row missing", func(o *outcome) { o.Orders = o.Orders[1:] }, []string{"order rows"}},
		{"a row of an earlier worker", func(o *outcome) { o.Orders[0].Fence = 1 },
			[]string{"rows that are not of the last worker to hold the order"}},
		{"a mail twice", func(o *outcome) { o.Mails["order-1"]++ }, []string{"mails", "orders with two mails"}},
		{"an order that the ledger has not", func(o *outcome) { delete(o.Done, "order-7") },
			[]string{"rows that are not of the last worker to hold the order", "orders that the ledger has as done"}},
		{"a batch that is sent again", func(o *outcome) { o.Recognised = 0 }, []string{"the same batch again: known to be done"}},
		{"a message left", func(o *outcome) { o.Left = 1 }, []string{"messages left in the queues"}},
		{"two handlers at once", func(o *outcome) {
			o.Reports = append(o.Reports,
				stage.Report{At: 10, From: "worker-7", Point: stage.Begun, Key: "order-7", Run: "a", Fence: 1},
				stage.Report{At: 11, From: "worker-8", Point: stage.Begun, Key: "order-7", Run: "b", Fence: 2},
				stage.Report{At: 12, From: "worker-7", Point: stage.Ended, Key: "order-7", Run: "a"},
				stage.Report{At: 12, From: "worker-8", Point: stage.Ended, Key: "order-7", Run: "b"})
		}, []string{"handlers that went on beside another one"}},
		{"no kill between charge and row", gone(stage.Killed), []string{"handlers that went on beside another one",
			"workers killed, the card charged and no row written"}},
		{"no worker was continued", gone(stage.Thawed), []string{"workers stopped past their lease, and continued"}},
		{"no stale write was refused", report(stage.Ended, func(r *stage.Report) { r.Text = "" }),
			[]string{"writes of those that the fence refused"}},
		{"nothing was turned away", gone(string(worker.Busy)), []string{"deliveries turned away, the order busy or done"}},
		{"nothing was dead-lettered", gone(pointDead),
			[]string{"dead letters", "killed until dead-lettered, then redriven: charges"}},
		{"a worker does not end", func(o *outcome) { o.Unclean = 1 }, []string{"processes that did not end when told to"}},
		{"a late take-over", func(o *outcome) {
			o.Reports = append(o.Reports, stage.Report{At: 40, From: "worker-9", Point: stage.Begun, Key: "order-2", Run: "z", Fence: 2})
		}, []string{"seconds from a kill to the next worker, at most"}},
		{"no alarm", func(o *outcome) { o.Alarms = nil }, []string{"as usual: alarm on work done twice", "as usual: alarm on visibility timeouts"}},
		{"a false alarm", func(o *outcome) { o.Alarms = append(o.Alarms, "order/double-deletes") },
			[]string{"with claims: no alarm on work done twice"}},
	} {
		o := perfect()
		tt.do(o)
		if red := stage.Red(o.rows()); !slices.Equal(red, tt.red) {
			t.Errorf("%s: got %q, want %q", tt.what, red, tt.red)
		}
	}
}
