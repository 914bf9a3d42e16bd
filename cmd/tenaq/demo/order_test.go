package demo

import (
	"testing"
	"time"

	"tenaq/internal/demo/order"
)

// soundOrders is what a run finds in which everything holds.
func soundOrders() *order.Outcome {
	const all = order.Orders
	o := &order.Outcome{
		Sent: all, Recognised: all, Charges: all, Rows: all, Mails: all, Completed: all,
		Killed: 9, Bereaved: 6, Frozen: 2, Stale: 2, TurnedAway: 4,
		DeadLetters: 3, Redriven: 3, DoomedDead: true, DoomedCharges: 1,
		TakeOvers: []time.Duration{time.Second}, Times: []time.Duration{time.Second}, Long: 2,
	}
	o.Usual.Charges, o.Usual.Doubled = 2*all, all
	return o
}

// Every promise has a row that fails when it is broken.
func TestOrderRowsShowEveryPromise(t *testing.T) {
	failed := func(o *order.Outcome, broken order.Breakage) (n int) {
		for _, row := range orderRows(o, broken) {
			if row.OK == rowFailed {
				n++
			}
		}
		return n
	}
	for _, broken := range []order.Breakage{order.Nothing, order.Fences} {
		if n := failed(soundOrders(), broken); n != 0 {
			t.Errorf("sound run, without %q: got %d rows that fail, want none", broken, n)
		}
	}
	for what, harm := range map[string]func(o *order.Outcome){
		"usual workers did no harm": func(o *order.Outcome) { o.Usual.Doubled = 0 },
		"not sent":                  func(o *order.Outcome) { o.Sent-- },
		"sent again":                func(o *order.Outcome) { o.Recognised-- },
		"not charged":               func(o *order.Outcome) { o.Charges-- },
		"charged twice":             func(o *order.Outcome) { o.Doubled++ },
		"no row":                    func(o *order.Outcome) { o.Rows-- },
		"wrong row":                 func(o *order.Outcome) { o.WrongRows++ },
		"no mail":                   func(o *order.Outcome) { o.Mails-- },
		"two mails":                 func(o *order.Outcome) { o.MailsTwice++ },
		"not completed":             func(o *order.Outcome) { o.Completed-- },
		"left":                      func(o *order.Outcome) { o.Left++ },
		"two at it":                 func(o *order.Outcome) { o.Beside++ },
		"nobody killed":             func(o *order.Outcome) { o.Killed = 2 },
		"no card charged by then":   func(o *order.Outcome) { o.Bereaved = 2 },
		"nobody stopped":            func(o *order.Outcome) { o.Frozen = 0 },
		"nothing refused":           func(o *order.Outcome) { o.Stale = 0 },
		"nothing turned away":       func(o *order.Outcome) { o.TurnedAway = 0 },
		"no dead letters":           func(o *order.Outcome) { o.DeadLetters = 0 },
		"charged after the redrive": func(o *order.Outcome) { o.RedrivenDoubled++ },
		"doomed and charged twice":  func(o *order.Outcome) { o.DoomedCharges = 2 },
		"never doomed":              func(o *order.Outcome) { o.DoomedDead = false },
		"did not end":               func(o *order.Outcome) { o.UncleanEnds++ },
		"late":                      func(o *order.Outcome) { o.TakeOvers = append(o.TakeOvers, time.Minute) },
	} {
		o := soundOrders()
		harm(o)
		if n := failed(o, order.Nothing); n != 1 {
			t.Errorf("%s: got %d rows that fail, want 1", what, n)
		}
	}
}
