package engine_test

import (
	"fmt"
	"testing"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

// Gauges report the same as a survey for each queue, and leave out missing queues.
func TestGauges(t *testing.T) {
	r := newRunner(t, engine.Open(kv.NewMemory(), peekConfig()))
	r.do(&engine.Start{})
	r.do(&engine.CreateQueue{Queue: orders, NameSet: true})
	r.send("a")
	r.send("b")
	r.do(&engine.ReceiveMessage{Queue: orders})
	r.now += 5000
	op := &engine.Gauges{Queues: []engine.QueueName{{Account: orders.Account, Name: "gone"}, orders}}
	got, want := do(r, op).Gauges, do(r, &engine.Survey{Max: 10}).Gauges
	if len(got) != 1 || len(want) != 1 || got[0] != want[0] || got[0].Visible != 1 || got[0].InFlight != 1 || got[0].Age != 5000 {
		t.Errorf("got %+v, want %+v", got, want)
	}
	many := &engine.Gauges{}
	for i := range engine.GaugesMax + 1 {
		many.Queues = append(many.Queues, engine.QueueName{Account: orders.Account, Name: fmt.Sprint(i)})
	}
	r.refused(many)
}
