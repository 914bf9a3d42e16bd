package demo

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"tenaq/internal/cli"
	"tenaq/internal/demo/order"
)

var orderScenario = scenario{
	name: "order",
	text: "orders slower than the visibility timeout, workers that are killed: each card is charged once",
	run:  runOrder,
	breaks: []breakage{
		{name: string(order.Fences), text: "the orders table takes the row of any worker, whatever its fence"},
		{name: string(order.Heartbeats), text: "leases are not renewed while a handler runs"},
		{name: string(order.Claims), text: "workers do not claim the orders"},
		{name: string(order.Keys), text: "cards are charged without an idempotency key, and charges not looked up"},
	},
	child: workOrders,
}

// runOrder makes the queues and has the story told.
func runOrder(ctx context.Context, env *demoEnv) ([]demoRow, error) {
	s, err := env.openSQS(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	cfg := order.Config{
		API: s.api, Moves: s.server != nil,
		Dir: env.dir, Seed: env.seed, Break: order.Breakage(env.broken),
		Worker: func() (*exec.Cmd, error) { return s.childCommand("order") },
		Say:    env.progress.Say, Line: env.progress.Line,
	}
	if cfg.DeadURL, err = s.createQueue(ctx, "order-dead", nil); err != nil {
		return nil, err
	}
	dead, err := s.queueARN(ctx, cfg.DeadURL)
	if err != nil {
		return nil, err
	}
	if cfg.QueueURL, err = s.createQueue(ctx, "order", order.QueueAttributes(dead)); err != nil {
		return nil, err
	}
	if cfg.UsualURL, err = s.createQueue(ctx, "order-usual", order.QueueAttributes("")); err != nil {
		return nil, err
	}
	out, err := order.Run(ctx, cfg)
	return append(orderRows(out, cfg.Break), s.orderAlarmRows(ctx, "order-usual", "order", cfg.Break)...), err
}

// workOrders is a worker process.
func workOrders(ctx context.Context, a *cli.App, args []string) error {
	api, err := childClient(ctx, args)
	if err != nil {
		return err
	}
	return order.Work(ctx, a.Stdin, api)
}

// takeOverMax is far beyond the lease, on a machine of any speed.
const takeOverMax = 30 * time.Second

// orderRows shows what became of the orders.
func orderRows(o *order.Outcome, broken order.Breakage) []demoRow {
	late := 0
	for _, d := range o.TakeOvers {
		if d > takeOverMax {
			late++
		}
	}
	const all = order.Orders
	return append(usualRows(o, broken), []demoRow{
		wantRow("orders sent", all, o.Sent),
		wantRow("charges", all, o.Charges),
		wantRow("cards charged twice", 0, o.Doubled),
		wantRow("order rows", all, o.Rows),
		wantRow("rows that are not of the last to hold the order", 0, o.WrongRows),
		wantRow("mails", all, o.Mails),
		wantRow("orders with two mails", 0, o.MailsTwice),
		wantRow("orders that the ledger knows to be done", all, o.Completed),
		wantRow("the same batch again: known to be done", all, o.Recognised),
		wantRow("messages left in the queues", 0, o.Left),
		wantRow("handlers that went on beside another one", 0, o.Beside),
		atLeastRow("workers killed (kill -9)", order.Disturbed, o.Killed),
		atLeastRow("of these, with the card charged and nothing recorded", order.Disturbed, o.Bereaved),
		atLeastRow("workers stopped past their lease, and continued", 1, o.Frozen),
		atLeastRow("writes of those, refused by the fence", 1, o.Stale),
		atLeastRow("deliveries turned away, the order being busy or done", 1, o.TurnedAway),
		atLeastRow("dead letters", 1, o.DeadLetters),
		wantRow("of these, charged twice after the redrive", 0, o.RedrivenDoubled),
		wantRow("killed until dead-lettered, then redriven: charges", "1", doomedCharges(o)),
		wantRow("workers that did not end when told to", 0, o.UncleanEnds),
		shownRow("handlers of more than two leases, that nobody joined", o.Long),
		shownRow("handling time, visibility timeout "+seconds(order.Lease), spread(o.Times)),
		shownRow("from kill -9 to the next worker, lease "+seconds(order.Lease), spread(o.TakeOvers)),
		wantRow("of these, later than "+seconds(takeOverMax), 0, late),
	}...)
}

// usualRows shows what workers do that are written as usual. If they did no harm the rest would prove nothing.
func usualRows(o *order.Outcome, broken order.Breakage) []demoRow {
	const charges, doubled = "as usual: charges for as many orders", "as usual: cards charged twice"
	if broken != order.Nothing {
		return []demoRow{skippedRow(charges, "left out too"), skippedRow(doubled, "left out too")}
	}
	return []demoRow{shownRow(charges, o.Usual.Charges), atLeastRow(doubled, 1, o.Usual.Doubled)}
}

// doomedCharges says how often the card of the doomed order was charged, if it was doomed.
func doomedCharges(o *order.Outcome) string {
	if !o.DoomedDead {
		return "never dead-lettered"
	}
	return fmt.Sprint(o.DoomedCharges)
}

// spread shows times: half of them are at most the first, nineteen of twenty at most the second.
func spread(times []time.Duration) string {
	if len(times) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(times))
	at := func(percent int) string { return seconds(sorted[(len(sorted)-1)*percent/100]) }
	return fmt.Sprintf("p50 %s, p95 %s, most %s", at(50), at(95), at(100))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3g s", d.Seconds()) }
