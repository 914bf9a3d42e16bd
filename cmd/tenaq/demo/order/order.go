// Package order runs the program of examples/order with workers that are killed and stopped, and a
// bank that is slower than the visibility timeout. Beside it the same orders go to workers that are
// written as usual.
//
// The bank is where most things happen: it knows which worker asks, so a worker dies exactly
// between the charge and the order row. In the end each order has one charge, one row and one mail.
package order

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/examples/order/shop"
	"tenaq/internal/cli"
	"tenaq/worker"
)

// Scenario is this scenario.
var Scenario = stage.Scenario{
	Name: "order",
	Text: "orders slower than their lease: each card is charged once",
	Run:  run, Child: work,
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
	env      *stage.Env
	sqs      *stage.SQS
	crew     *stage.Crew
	bank     *bank
	shop     *shop.Shop
	ledger   *claims.Ledger
	url      string // of the queue
	deadURL  string
	usualURL string
	orders   []shop.Order
	out      *outcome

	guarded map[string]string // by worker: the order for which it must not be killed
}

// A task is what a worker is told.
type task struct {
	QueueURL string
	Bank     string
	Attempts int
	AtOnce   int
}

func files(dir string) (records, orders string) {
	return filepath.Join(dir, "records.db"), filepath.Join(dir, "orders.db")
}

func run(ctx context.Context, env *stage.Env) ([]stage.Row, error) {
	s, err := env.OpenSQS(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	p := &play{env: env, sqs: s, guarded: make(map[string]string),
		out: &outcome{Ours: s.Server != nil, Broken: env.Broken}}
	timeout := map[string]string{"VisibilityTimeout": fmt.Sprint(lease.Seconds())}
	if p.url, p.deadURL, err = s.CreatePair(ctx, "order", "order-dead", timeout, nil); err != nil {
		return nil, err
	}
	if p.usualURL, err = s.CreateQueue(ctx, "order-usual",
		map[string]string{"VisibilityTimeout": "2"}); err != nil {
		return nil, err
	}
	if p.crew, err = stage.NewCrew(ctx, s); err != nil {
		return nil, err
	}
	defer p.crew.Close()
	err = p.play(p.crew.Ctx)
	return p.out.rows(), err
}

// play tells the story.
func (p *play) play(ctx context.Context) error {
	p.cast()
	records, _ := files(p.env.Dir)
	store, books, err := shop.Open(ctx, "sqlite:"+records)
	if err != nil {
		return err
	}
	defer books.Close()
	defer store.Close()
	p.shop = &shop.Shop{Books: books, Store: store, Lease: lease}
	if p.ledger, err = claims.New(store, claims.Config{}); err != nil {
		return err
	}
	p.bank = newBank(p)
	p.crew.On = p.on
	usual := make(chan error, 1)
	go func() { usual <- p.usual(ctx) }()

	receipts, err := shop.Send(ctx, p.sqs.API, p.url, store, p.orders)
	if err != nil {
		return err
	}
	for _, r := range receipts {
		if r.New {
			p.out.Sent++
		}
	}
	tell := task{QueueURL: p.url, Bank: p.crew.URL, Attempts: p.env.Scale(2, 3),
		AtOnce: p.env.Scale(4, 6)}
	for range p.env.Scale(4, 6) {
		if err := p.crew.Hire("worker", tell); err != nil {
			return err
		}
	}
	go p.killAtRandom(p.env.RNG(2), p.env.Scale(1, 3))
	mails, stop := context.WithCancel(ctx)
	defer stop()
	sent := make(chan error, 1)
	go func() {
		sent <- p.shop.SendMails(mails, func(key, _ string) {
			p.crew.Do(func() { p.out.Mails[key]++ })
		})
	}()
	if err := errors.Join(p.untilDone(ctx), <-usual); err != nil {
		return errors.Join(err, p.collect(context.WithoutCancel(ctx)))
	}
	p.crew.Dismiss()
	stop()
	return errors.Join(<-sent, p.again(ctx), p.collect(ctx))
}

// cast gives the orders their fates.
func (p *play) cast() {
	fates := make([]fate, p.env.Scale(16, 30))
	n := p.env.Scale(1, 2)
	list := []fate{crashed, crashed, crashed, doomed, copied, copied}
	for range n {
		list = append(list, frozen, unanswered, refused)
	}
	copy(fates, list)
	p.env.RNG(1).Shuffle(len(fates), func(i, j int) { fates[i], fates[j] = fates[j], fates[i] })
	p.out.Fates, p.out.Mails = make(map[string]fate), make(map[string]int)
	for i, f := range fates {
		o := shop.Order{ID: fmt.Sprintf("order-%02d", i+1), Cents: 1000 + 250*i}
		p.orders = append(p.orders, o)
		p.out.Fates[o.ID] = f
	}
}

// Points that workers report.
const (
	pointBegin = "begin"
	pointEnd   = "end"
	pointAway  = "turned away" // the order was busy or done
	pointDead  = "dead letter"
)

// on takes a report. The crew's mutex is locked.
func (p *play) on(r stage.Report) {
	switch r.Point {
	case pointBegin:
		if p.out.Fates[r.Key] == copied && p.bank.once("copy", r.Key) {
			if p.env.Broken != "" {
				p.guarded[r.From] = r.Key // that the checks fail must not depend on chance
			}
			p.crew.Aside(func() { p.crew.Fail(p.sendCopy(r.Key)) })
		}
	case pointEnd:
		if p.guarded[r.From] == r.Key {
			delete(p.guarded, r.From)
		}
	}
}

// sendCopy sends the message of an order once more, as a producer does that registers nothing.
func (p *play) sendCopy(key string) error {
	i := slices.IndexFunc(p.orders, func(o shop.Order) bool { return o.ID == key })
	return p.send(p.crew.Ctx, p.url, p.orders[i])
}

func (p *play) send(ctx context.Context, url string, o shop.Order) error {
	body, _ := json.Marshal(o) // nothing in it can fail to be encoded
	text := string(body)
	_, err := p.sqs.API.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &text})
	return err
}

// charged is called when a worker is about to learn that a card is charged. The order is not
// written yet.
func (p *play) charged(from, key string) {
	p.crew.Do(func() {
		switch p.out.Fates[key] {
		case crashed:
			if p.bank.once("kill", key) {
				p.kill(from, key)
			}
		case doomed:
			if !slices.ContainsFunc(p.dead(), func(r stage.Report) bool { return r.Key == key }) {
				p.kill(from, key)
			}
		case frozen:
			if p.bank.once("freeze", key) {
				p.freeze(from, key)
			}
		}
	})
}

// dead are the reports of dead letters.
func (p *play) dead() []stage.Report { return p.crew.Seen(pointDead) }

// kill kills a worker, as soon as it is not needed alive.
func (p *play) kill(from, key string) {
	p.crew.Wait(time.Minute, func() bool { return p.guarded[from] == "" })
	why := "at a random moment"
	if key != "" {
		why = "which had charged the card of " + key
	}
	p.crew.Kill(from, why, key)
}

// freeze stops a worker until another one has written the order.
func (p *play) freeze(from, key string) {
	p.guarded[from] = key
	p.crew.Freeze(from, func() bool {
		records, orders := files(p.env.Dir)
		return stage.Unlocked(p.crew.Ctx, records, orders)
	})
	p.crew.Wait(time.Minute, func() bool {
		return slices.ContainsFunc(p.crew.Seen(pointEnd), func(r stage.Report) bool {
			return r.Key == key && r.Text == ""
		})
	})
	p.crew.Thaw(from)
}

// killAtRandom kills workers that are at work.
func (p *play) killAtRandom(rng *mathrand.Rand, n int) {
	for range n {
		stage.Pause(p.crew.Ctx, lease/2+time.Duration(rng.Int64N(int64(lease))))
		p.crew.Do(func() {
			var busy []string
			for _, h := range handlings(p.crew.Seen("")) {
				if h.open() && p.crew.Alive(h.begin.From) && !p.crew.IsFrozen(h.begin.From) &&
					p.guarded[h.begin.From] == "" {
					busy = append(busy, h.begin.From)
				}
			}
			if len(busy) > 0 && p.crew.Ctx.Err() == nil {
				p.kill(busy[rng.IntN(len(busy))], "")
			}
		})
	}
}

// untilDone waits until every order is done and nothing is left. Dead letters are brought back the
// next day: the cards have money, and the bank has forgotten all idempotency keys.
func (p *play) untilDone(ctx context.Context) error {
	fated := 0
	for _, f := range p.out.Fates {
		if f == doomed || f == refused {
			fated++
		}
	}
	return p.crew.Until("orders", func() (bool, error) {
		rows, err := p.shop.Books.Rows(ctx)
		if err != nil {
			return false, err
		}
		waiting, err := p.sqs.Left(ctx, p.url)
		if err != nil {
			return false, err
		}
		dead, err := p.sqs.Left(ctx, p.deadURL)
		if err != nil {
			return false, err
		}
		p.env.Progress.Line("%d of %d orders done, %s in the queue, %d dead letters",
			len(rows), len(p.orders), cli.Counted(waiting, "message", "messages"), dead)
		if dead >= fated || dead > 0 && (waiting == 0 || p.bank.isTomorrow()) {
			if p.bank.nextDay() {
				p.env.Say("%d dead letters are brought back; the bank has forgotten all idempotency keys", dead)
			}
			return false, p.redrive(ctx)
		}
		mails := 0
		p.crew.Do(func() { mails = len(p.out.Mails) })
		return waiting+dead == 0 && len(rows) == len(p.orders) && mails == len(p.orders), nil
	})
}

// redrive brings the dead letters back: with a move task, or one by one where there are none.
func (p *play) redrive(ctx context.Context) error {
	if p.sqs.Server != nil {
		return p.move(ctx)
	}
	got, err := p.sqs.API.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &p.deadURL, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
	})
	if err != nil {
		return err
	}
	for _, m := range got.Messages {
		if _, err := p.sqs.API.SendMessage(ctx, &sqs.SendMessageInput{
			QueueUrl: &p.url, MessageBody: m.Body, MessageAttributes: m.MessageAttributes,
		}); err != nil {
			return err
		}
		if _, err := p.sqs.API.DeleteMessage(ctx, &sqs.DeleteMessageInput{
			QueueUrl: &p.deadURL, ReceiptHandle: m.ReceiptHandle,
		}); err != nil {
			return err
		}
	}
	return nil
}

// move lets the server do it.
func (p *play) move(ctx context.Context) error {
	source, errDead := p.sqs.ARN(ctx, p.deadURL)
	destination, err := p.sqs.ARN(ctx, p.url)
	if err := errors.Join(errDead, err); err != nil {
		return err
	}
	if _, err := p.sqs.API.StartMessageMoveTask(ctx, &sqs.StartMessageMoveTaskInput{
		SourceArn: &source, DestinationArn: &destination,
	}); err != nil {
		return err
	}
	return p.crew.Until("move the dead letters", func() (bool, error) {
		out, err := p.sqs.API.ListMessageMoveTasks(ctx,
			&sqs.ListMessageMoveTasksInput{SourceArn: &source})
		if err != nil || len(out.Results) == 0 || *out.Results[0].Status == "RUNNING" {
			return false, err
		}
		if status := *out.Results[0].Status; status != "COMPLETED" {
			return false, fmt.Errorf("the move task is %s", status)
		}
		return true, nil
	})
}

// again sends the batch of the next day, which has the same orders in it.
func (p *play) again(ctx context.Context) error {
	receipts, err := shop.Send(ctx, p.sqs.API, p.url, p.shop.Store, p.orders)
	for _, r := range receipts {
		if !r.New && r.Work == claims.Completed {
			p.out.Recognised++
		}
	}
	return err
}

// work is a worker process: the worker of the example, which reports when a handler begins and
// ends.
func work(ctx context.Context, c *stage.Child) error {
	var t task
	if err := json.Unmarshal(c.Task, &t); err != nil {
		return err
	}
	client, err := c.Client(ctx)
	if err != nil {
		return err
	}
	records, _ := files(c.Dir)
	store, books, err := shop.Open(ctx, "sqlite:"+records)
	if err != nil {
		return err
	}
	defer books.Close()
	defer store.Close()
	s := &shop.Shop{Bank: newBankClient(c, t.Bank), Books: books, Store: store, Lease: lease}
	cfg, err := s.Worker(client, t.QueueURL)
	if err != nil {
		return err
	}
	if c.Broken == "claim" {
		cfg.Claims, cfg.NoClaims = nil, true
	}
	cfg.Concurrency, cfg.Attempts, cfg.Drain = t.AtOnce, t.Attempts, 5*time.Second
	cfg.RetryBase, cfg.RetryMax = lease/6, lease/3
	cfg.Logger = slog.Default()
	cfg.Handler = worker.JSON(func(ctx context.Context, o shop.Order, m *worker.Message) error {
		r := stage.Report{Point: pointBegin, Key: o.ID, Run: rand.Text(), Number: m.Attempt(),
			Fence: m.Fence()}
		c.Tell(ctx, r)
		// On purpose without the context's end, as it happens: a handler that has lost its claim
		// and does not look at its context is refused by its fence.
		err := s.Handle(context.WithoutCancel(ctx), o, m)
		r.Point, r.Lost, r.Stale = pointEnd, context.Cause(ctx) == worker.ErrLost, errors.Is(err,
			shop.ErrStale)
		if err != nil {
			r.Text = err.Error()
		}
		c.Tell(ctx, r)
		return err
	})
	cfg.Events = worker.Events{Outcome: func(m *worker.Message, o worker.Outcome) {
		switch o.Kind {
		case worker.Busy, worker.Duplicate:
			c.Tell(ctx, stage.Report{Point: pointAway, Key: m.Key})
		case worker.DeadLettered:
			c.Tell(ctx, stage.Report{Point: pointDead, Key: m.Key, Text: o.Reason})
		}
	}}
	w, err := worker.New(cfg)
	if err != nil {
		return err
	}
	return w.Run(ctx)
}
