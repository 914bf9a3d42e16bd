// Package order runs the program of examples/order with workers that are killed and stopped, and a
// bank that is slower than the visibility timeout. At the same time, workers written in the usual
// way process the same orders.
//
// The bank triggers most deaths: it knows which worker asks, so a worker dies exactly between the
// charge and the order row. In the end, each order has one charge, one row and one mail.
package order

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/examples/order/shop"
	"tenaq/internal/cli"
	"tenaq/producer"
	"tenaq/worker"
)

// Scenario is this scenario.
var Scenario = stage.Scenario{
	Name:  "order",
	Text:  "orders slower than their lease: each card is charged once",
	Run:   run,
	Roles: map[string]stage.Role{"worker": stage.RoleOf(work)},
	Breaks: []stage.Break{
		{Name: "claim", Text: "workers do not claim the orders"},
		{Name: "key", Text: "cards are charged without a key, and not looked up"},
	},
}

// lease is the shortest that a busy machine allows, a tenth of the usual one.
const lease = 3 * time.Second

// A fate is what happens to an order.
type fate string

const (
	plain fate = "" // the bank takes one and a half leases
	// its worker is killed when the card is charged and the order is not written
	crashed fate = "crashed"
	doomed  fate = "doomed" // so is every worker, until the order is a dead letter
	// its worker is stopped there, until another one has written the order
	frozen     fate = "frozen"
	unanswered fate = "unanswered" // the card is charged, and the bank hangs up
	refused    fate = "refused"    // the card has no money until the next day
	copied     fate = "copied"     // its message is sent twice
)

// A play is a run of the scenario.
type play struct {
	*stage.Crew
	bank    *bank
	shop    *shop.Shop
	ledger  *claims.Ledger
	url     string // of the queue
	deadURL string
	orders  []shop.Order
	out     *outcome

	guarded map[string]string // by worker: the order during which it must not be killed
}

func run(c *stage.Crew) []stage.Row {
	p := &play{Crew: c, guarded: make(map[string]string), out: &outcome{
		Fates: make(map[string]fate), Mails: make(map[string]int),
	}}
	var err error
	p.url, p.deadURL, err = p.CreatePair("order", "order-dead",
		map[string]string{"VisibilityTimeout": fmt.Sprint(lease.Seconds())}, nil)
	p.Must(err)
	store, books, err := shop.Open(p.Ctx, "sqlite:"+stage.RecordsFile(p.Dir))
	p.Must(err)
	defer books.Close()
	defer store.Close()
	p.shop = &shop.Shop{Books: books, Store: store, Lease: lease}
	p.ledger, err = claims.New(claims.Config{Store: store})
	p.Must(err)
	p.bank = newBank(p)
	p.On = p.on
	p.cast()
	p.Play(p.play)
	p.collect()
	return p.out.rows()
}

// play tells the story.
func (p *play) play() {
	usual := p.Usual(p.usual)
	p.out.Sent = stage.Count(p.sendAll(), func(r producer.Receipt) bool { return r.New })
	for range p.Scale(4, 6) {
		p.Hire("worker", task{QueueURL: p.url, Attempts: p.Scale(2, 3), AtOnce: p.Scale(4, 6)})
	}
	go p.killAtRandom(p.RNG(2), p.Scale(1, 3))
	ctx, stop := context.WithCancel(p.Ctx)
	defer stop()
	mails := p.Beside(func() {
		p.Must(p.shop.SendMails(ctx, func(key, _ string) { p.Do(func() { p.out.Mails[key]++ }) }))
	})
	p.untilDone()
	usual()
	p.Dismiss()
	stop()
	mails()
	// The batch of the next day has the same orders in it.
	p.out.Recognised = stage.Count(p.sendAll(), func(r producer.Receipt) bool {
		return !r.New && r.Work == claims.Completed
	})
}

// sendAll sends the orders with the program of the example.
func (p *play) sendAll() []producer.Receipt {
	receipts, err := shop.Send(p.Ctx, p.API, p.url, p.shop.Store, p.orders)
	p.Must(err)
	return receipts
}

// cast gives the orders their fates.
func (p *play) cast() {
	fates := make([]fate, p.Scale(16, 30))
	list := []fate{crashed, crashed, crashed, doomed, copied, copied}
	for range p.Scale(1, 2) {
		list = append(list, frozen, unanswered, refused)
	}
	copy(fates, list)
	p.RNG(1).Shuffle(len(fates), func(i, j int) { fates[i], fates[j] = fates[j], fates[i] })
	for i, f := range fates {
		o := shop.Order{ID: fmt.Sprintf("order-%02d", i+1), Cents: 1000 + 250*i}
		p.orders = append(p.orders, o)
		p.out.Fates[o.ID] = f
	}
}

// Points that are reported beside those of workers.
const (
	pointCharged = "charged" // by the bank: a worker is about to learn that a card is charged
	pointDead    = string(worker.DeadLettered)
)

// on takes a report. The crew's mutex is locked. What is to happen to an order happens at the first
// report of a worker that is alive when its turn comes, so no schedule leaves it out.
func (p *play) on(r stage.Report) {
	f := p.out.Fates[r.Key]
	switch {
	case r.Point == stage.Ended && p.guarded[r.From] == r.Key:
		delete(p.guarded, r.From)
	case r.Point == stage.Begun && f == copied && p.times(stage.Begun, r.Key) == 1:
		if p.Broken != "" {
			p.guarded[r.From] = r.Key // so that the checks always fail
		}
		i := slices.IndexFunc(p.orders, func(o shop.Order) bool { return o.ID == r.Key })
		p.Aside(func() { p.send(p.url, p.orders[i]) })
	case r.Point != pointCharged: // the order is not written yet
	case f == crashed && p.times(stage.Killed, r.Key) == 0,
		f == doomed && p.times(pointDead, r.Key) == 0:
		p.kill(r.From, "which had charged the card of "+r.Key, r.Key)
	case f == frozen && p.times(stage.Frozen, r.Key) == 0:
		p.freeze(r.From, r.Key)
	}
}

// times is how often a point was reported of an order.
func (p *play) times(point, key string) int {
	return stage.Count(p.Seen(point), func(r stage.Report) bool { return r.Key == key })
}

// send sends the message of an order, like a producer that registers nothing.
func (p *play) send(url string, o shop.Order) {
	body, _ := json.Marshal(o) // nothing in it can fail to be encoded
	p.Send(url, string(body))
}

// kill kills a worker as soon as it is no longer guarded.
func (p *play) kill(from, why, key string) {
	p.Wait(time.Minute, func() bool { return p.guarded[from] == "" })
	p.Kill(from, why, key)
}

// freeze stops a worker until another one has written the order.
func (p *play) freeze(from, key string) {
	p.Wait(time.Minute, func() bool { return p.guarded[from] == "" })
	if p.times(stage.Frozen, key) > 0 {
		return
	}
	p.guarded[from] = key
	p.Freeze(from, key, func() bool {
		return stage.Unlocked(p.Ctx, stage.RecordsFile(p.Dir), filepath.Join(p.Dir, "orders.db"))
	}, func() bool {
		return slices.ContainsFunc(p.Seen(stage.Ended), func(r stage.Report) bool {
			return r.Key == key && r.Text == ""
		})
	})
}

// killAtRandom kills workers while they handle orders.
func (p *play) killAtRandom(rng *rand.Rand, n int) {
	for range n {
		stage.Pause(p.Ctx, lease/2+time.Duration(rng.Int64N(int64(lease))))
		p.Do(func() {
			var busy []string
			for _, h := range handlings(p.Seen("")) {
				if from := h.begin.From; h.open() && p.Alive(from) && p.guarded[from] == "" {
					busy = append(busy, from)
				}
			}
			if len(busy) > 0 && p.Ctx.Err() == nil {
				p.kill(busy[rng.IntN(len(busy))], "at a random moment", "")
			}
		})
	}
}

// untilDone waits until every order is done and nothing is left. Dead letters are brought back the
// next day: the cards have money, and the bank has forgotten all idempotency keys.
func (p *play) untilDone() {
	tomorrow, fated := false, 0
	for _, f := range p.out.Fates {
		fated += stage.One(f == doomed || f == refused)
	}
	p.Until("orders", func() bool {
		rows, err := p.shop.Books.Rows(p.Ctx)
		p.Must(err)
		waiting, dead := p.Left(p.url), p.Left(p.deadURL)
		p.Progress.Line("%d of %d orders done, %s in the queue, %d dead letters", len(rows),
			len(p.orders), cli.Counted(waiting, "message", "messages"), dead)
		if dead >= fated || dead > 0 && (waiting == 0 || tomorrow) {
			if !tomorrow {
				p.bank.nextDay()
				p.Say("%d dead letters are brought back; the bank has forgotten all idempotency keys",
					dead)
			}
			tomorrow = true
			p.redrive()
			return false
		}
		mails := 0
		p.Do(func() { mails = len(p.out.Mails) })
		return waiting+dead == 0 && len(rows) == len(p.orders) && mails == len(p.orders)
	})
}

// redrive brings the dead letters back: with a move task, or one by one where there are none.
func (p *play) redrive() {
	if p.Server != nil {
		p.Tenaq("move", "start", p.deadURL, "--to", p.url, "--wait")
		return
	}
	p.Handle(p.deadURL, 10, func(m types.Message) {
		_, err := p.API.SendMessage(p.Ctx, &sqs.SendMessageInput{
			QueueUrl: &p.url, MessageBody: m.Body, MessageAttributes: m.MessageAttributes,
		})
		p.Must(err)
	})
}

// A task configures a worker process.
type task struct {
	QueueURL         string
	Attempts, AtOnce int
}

// work is a worker process: the worker of the example, which reports what it does.
func work(c *stage.Child, t task) {
	store, books, err := shop.Open(c.Ctx, "sqlite:"+stage.RecordsFile(c.Dir))
	c.Must(err)
	defer books.Close()
	defer store.Close()
	s := &shop.Shop{Bank: newBankClient(c), Books: books, Store: store, Lease: lease}
	cfg, err := s.Worker(c.API, t.QueueURL)
	c.Must(err)
	if c.Broken == "claim" {
		cfg.Claims, cfg.NoClaims = nil, true
	}
	cfg.Concurrency, cfg.Attempts, cfg.Drain = t.AtOnce, t.Attempts, 5*time.Second
	cfg.RetryBase, cfg.RetryMax = lease/6, lease/3
	// The handler ignores the end of its context on purpose, as many do: if it has lost its claim,
	// the fence refuses its write.
	cfg.Handler = worker.JSON(func(ctx context.Context, o shop.Order, m *worker.Message) error {
		return s.Handle(context.WithoutCancel(ctx), o, m)
	})
	c.Work(cfg)
}
