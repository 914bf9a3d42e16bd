// Package redrive brings dead letters back after an outage: a warehouse is down, all orders become
// dead letters, and among them are three that can never be fulfilled.
//
// First a redriver does it as it is usually written. Then package redrive does it, in a process
// that is killed between a send and the delete that follows. The warehouse counts its calls, so the
// outcome does not depend on what a redriver says about itself.
//
// Times are scaled down to what SQS allows: delays and cool-downs begin at a second and not at a
// minute.
package redrive

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/internal/cli"
	"tenaq/internal/redrivehost"
	"tenaq/internal/work/trail"
	"tenaq/records/sqliterecords"
	"tenaq/redrive"
	"tenaq/worker"
)

// Scenario is this scenario.
var Scenario = stage.Scenario{
	Name: "redrive",
	Text: "dead letters go back at their consumer's pace",
	Run:  run, Child: redriver,
	Breaks: []stage.Break{
		{Name: "breaker", Text: "no failure opens the breaker; 200 messages go at first"},
		{Name: "identity", Text: "redriven messages do not say which work they are"},
		{Name: "delay", Text: "redriven messages come back at once"},
	},
}

// rateFirst is how many messages may be on their way before anything is known, and tripsLeast how
// often the breaker opens before the warehouse is up again.
const (
	rateFirst  = 5
	tripsLeast = 2
)

// policy is the usual one with its times scaled down. A message is parked when it has failed once
// while others succeeded: if anything else counted, the orders of the outage would be parked.
func policy(broken string) redrive.Policy {
	p := redrive.Policy{
		RateFirst: rateFirst, RateMax: 200, Redrives: 1,
		CoolDown: time.Second / 2, CoolDownMax: time.Second,
		DelayBase: time.Second, DelayMax: 2 * time.Second,
		Near: 2 * time.Second,
	}
	switch broken {
	case "breaker":
		p.Failures, p.RateFirst = 1<<30, p.RateMax
	case "identity":
		// it hears of no message that it sends, and would stop after the first five
		p.Settle = 5 * time.Second
	case "delay":
		p.DelayBase = time.Millisecond
	}
	return p
}

// queues are those of one part.
type queues struct {
	Work, Dead, Parking string // URLs
	Source              string // ARN of Work
}

// A task is what a redriver is told.
type task struct {
	Queues queues
	Look   time.Duration // how long a step hides what it looks at
}

// A play is a run of the scenario.
type play struct {
	env       *stage.Env
	sqs       *stage.SQS
	crew      *stage.Crew
	warehouse *warehouse
	queues    queues
	store     *sqliterecords.Store
	orders    []string // the dead letters at first
	out       *outcome

	mu   sync.Mutex
	live []string // orders that came in meanwhile
	away int      // deliveries that the worker turned away
	kill bool     // the redriver is to die after its next send
}

func run(ctx context.Context, env *stage.Env) (rows []stage.Row, err error) {
	s, err := env.OpenSQS(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	p := &play{env: env, sqs: s, out: &outcome{Ours: s.Server != nil, Broken: env.Broken}}
	n, made := env.Scale(40, 2000), env.Scale(15, 100)
	if s.Server == nil {
		n, made = 40, 10 // an emulator may take a second to receive ten messages
	}
	p.orders = names("order", n)
	p.out.Orders = n
	if p.crew, err = stage.NewCrew(ctx, s); err != nil {
		return nil, err
	}
	defer p.crew.Close()
	if p.queues, err = p.create(ctx, "redrive"); err != nil {
		return nil, err
	}
	if p.warehouse, err = newWarehouse(p.orders, env.RNG(1)); err != nil {
		return nil, err
	}
	defer p.warehouse.close()
	p.store, err = sqliterecords.New(sqliterecords.Config{Path: recordsFile(env.Dir)})
	if err != nil {
		return nil, err
	}
	defer p.store.Close()
	usual := make(chan error, 1)
	go func() { usual <- p.usual(p.crew.Ctx) }()
	if err = p.play(p.crew.Ctx, made); err == nil {
		err = <-usual
	}
	if errCollect := p.collect(context.WithoutCancel(ctx)); err == nil {
		err = errCollect
	}
	return p.out.rows(), err
}

func recordsFile(dir string) string { return filepath.Join(dir, "records.db") }

// create makes the queues of one part.
func (p *play) create(ctx context.Context, name string) (q queues, err error) {
	longest := map[string]string{"MessageRetentionPeriod": redrivehost.RetentionMost}
	if q.Work, q.Dead, err = p.sqs.CreatePair(ctx, name+"-work", name+"-dead", nil,
		longest); err != nil {
		return q, err
	}
	if q.Parking, err = p.sqs.CreateQueue(ctx, name+"-parking", longest); err != nil {
		return q, err
	}
	q.Source, err = p.sqs.ARN(ctx, q.Work)
	return q, err
}

// play tells the story.
func (p *play) play(ctx context.Context, made int) error {
	ledger, err := claims.New(p.store, claims.Config{})
	if err != nil {
		return err
	}
	away := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.away++
	}
	stop, err := p.startWorker(ctx, p.queues, p.warehouse, ledger,
		worker.Events{Outcome: func(_ *worker.Message, o worker.Outcome) {
			if o.Kind == worker.Busy || o.Kind == worker.Duplicate {
				away()
			}
		}})
	if err != nil {
		return err
	}
	defer func() { p.crew.Fail(stop()) }()
	if err := p.send(ctx, p.queues.Work, p.orders[:made], ""); err != nil {
		return err
	}
	if err := p.send(ctx, p.queues.Dead, p.orders[made:], p.queues.Source); err != nil {
		return err
	}
	if err := p.crew.Until("dead letters", func() (bool, error) {
		n, err := p.sqs.Left(ctx, p.queues.Dead)
		return n >= len(p.orders), err
	}); err != nil {
		return err
	}
	p.warehouse.begin()
	traffic, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- p.traffic(traffic) }()

	p.crew.On = p.on
	look := time.Second
	if p.sqs.Server == nil {
		look = 3 * time.Second
	}
	if err := p.crew.Hire("redriver", task{p.queues, look}); err != nil {
		return err
	}
	if err := p.outage(); err != nil {
		return err
	}
	if err := p.recovery(); err != nil {
		return err
	}
	end()
	if err := <-ended; err != nil {
		return err
	}
	if err := p.rest(ctx); err != nil {
		return err
	}
	p.crew.Dismiss()
	return nil
}

// Points that the redriver reports.
const (
	pointSent = "sent" // an order is on its way, and its dead letter not deleted
	pointStep = "step"
)

// on takes a report.
func (p *play) on(r stage.Report) {
	p.mu.Lock()
	dies := p.kill && r.Point == pointSent && p.warehouse.isHealthy(r.Key)
	p.kill = p.kill && !dies
	p.mu.Unlock()
	if dies {
		p.crew.Kill(r.From, "after it had sent an order and before it had deleted the dead letter",
			r.Key)
	}
}

// outage lets the redriver work while the warehouse is down.
func (p *play) outage() error {
	err := p.crew.Until("the outage", func() (bool, error) {
		sick, trips := p.warehouse.sick(), trips(p.crew.Reports())
		p.env.Progress.Line("the warehouse is down: called %s, the breaker opened %s",
			cli.Counted(sick, "time", "times"), cli.Counted(trips, "time", "times"))
		switch p.env.Broken {
		case "breaker":
			return sick > 4*rateFirst, nil
		case "identity":
			return sick >= rateFirst, nil
		}
		return trips >= tripsLeast, nil
	})
	p.out.Trips, p.out.Sick = trips(p.crew.Reports()), p.warehouse.sick()
	p.warehouse.open()
	p.env.Say("the warehouse is up; redriven messages had called it %s",
		cli.Counted(p.out.Sick, "time", "times"))
	return err
}

// recovery waits until the dead letters of the outage have come to their end, and kills the
// redriver on the way.
func (p *play) recovery() error {
	began, healthy := time.Now(), len(p.orders)-poisoned
	kill := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.kill = true
	}
	killAt := healthy / 3
	if p.env.Broken == "identity" {
		killAt = 0
	}
	most := time.Duration(p.env.Scale(45, 100)) * time.Second
	for killed := false; time.Since(began) < most &&
		p.crew.Ctx.Err() == nil; stage.Pause(p.crew.Ctx, 50*time.Millisecond) {
		done, parked := p.warehouse.booked(p.orders), parked(p.crew.Reports())
		p.env.Progress.Line("%d of %d orders booked, %d parked", done, healthy, parked)
		if !killed && done >= killAt {
			killed = true
			kill()
		}
		if done == healthy && p.out.After == 0 {
			p.out.After = time.Since(began).Seconds()
		}
		if done == healthy && parked >= poisoned || p.env.Broken == "identity" &&
			p.warehouse.doubled() > 0 {
			return nil
		}
	}
	return context.Cause(p.crew.Ctx) // what is missing, the rows say
}

// rest waits until nothing is left in the queues.
func (p *play) rest(ctx context.Context) error {
	if p.env.Broken == "identity" {
		return nil // that would not end
	}
	for began := time.Now(); time.Since(began) < 20*time.Second; stage.Pause(ctx,
		50*time.Millisecond) {
		left, err := p.sqs.Left(ctx, p.queues.Work, p.queues.Dead)
		if err != nil || left == 0 && p.warehouse.booked(p.live) == len(p.live) {
			return err
		}
	}
	return nil
}

// redriver is a redriver process.
func redriver(ctx context.Context, c *stage.Child) error {
	var t task
	if err := json.Unmarshal(c.Task, &t); err != nil {
		return err
	}
	client, err := c.Client(ctx)
	if err != nil {
		return err
	}
	store, err := sqliterecords.New(sqliterecords.Config{Path: recordsFile(c.Dir)})
	if err != nil {
		return err
	}
	defer store.Close()
	ledger, err := claims.New(store, claims.Config{})
	if err != nil {
		return err
	}
	r, err := redrive.New(redrive.Config{
		Client: &witness{client, c, t.Queues.Work}, Store: store, Claims: ledger,
		DeadLetterURL: t.Queues.Dead, ParkingURL: t.Queues.Parking,
		Policy: policy(c.Broken), Interval: t.Look, Look: t.Look,
	})
	if err != nil {
		return err
	}
	// As Run does, which wants more than a second between two steps.
	for ; ctx.Err() == nil; stage.Pause(ctx, 100*time.Millisecond) {
		report, err := r.Step(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			slog.Warn("a step failed", "error", err)
		}
		text, _ := json.Marshal(step{
			Breaker: string(report.State.Breaker.State), Trips: report.State.Breaker.Trips,
			Parked: report.State.Parked, Redriven: report.State.Redriven,
			OnTheWay: len(report.State.Flights),
		})
		c.Tell(ctx, stage.Report{Point: pointStep, Text: string(text)})
	}
	return nil
}

// A step is what a redriver reports of a step.
type step struct {
	Breaker                           string
	Trips, Parked, Redriven, OnTheWay int
}

// A witness reports every order that was sent on its way. The process may be killed there.
type witness struct {
	redrive.SQS
	c    *stage.Child
	work string // URL
}

// SendMessage sends, and reports.
func (w *witness) SendMessage(
	ctx context.Context, in *sqs.SendMessageInput, options ...func(*sqs.Options),
) (*sqs.SendMessageOutput, error) {
	if aws.ToString(in.QueueUrl) != w.work {
		return w.SQS.SendMessage(ctx, in, options...)
	}
	t, err := trail.Of(in.MessageAttributes)
	if err != nil {
		return nil, err
	}
	if w.c.Broken == "identity" {
		bare := *in
		bare.MessageAttributes = maps.Clone(in.MessageAttributes)
		delete(bare.MessageAttributes, trail.Attribute)
		in = &bare
	}
	out, err := w.SQS.SendMessage(ctx, in, options...)
	if err == nil {
		w.c.Tell(ctx, stage.Report{
			Point: pointSent, Key: orderOf(aws.ToString(in.MessageBody)),
			Number: int(in.DelaySeconds),
			Fence:  uint64(t.Redrives),
		})
	}
	return out, err
}

// A booking is the body of a message.
type booking struct {
	Order string `json:"order"`
}

func (b booking) body() string {
	text, _ := json.Marshal(b) // nothing in it can fail to be encoded
	return string(text)
}

func orderOf(body string) string {
	var b booking
	_ = json.Unmarshal([]byte(body), &b) // all bodies are bookings
	return b.Order
}

func names(what string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s-%04d", what, i+1))
	}
	return all
}

// send sends orders. With a source they are dead letters, as a worker writes them: most are made
// like this, because to let them fail one by one would take minutes.
func (p *play) send(ctx context.Context, url string, orders []string, source string) error {
	for some := range slices.Chunk(orders, 10) {
		in := &sqs.SendMessageBatchInput{QueueUrl: &url}
		for i, order := range some {
			m := types.SendMessageBatchRequestEntry{
				Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(booking{order}.body()),
			}
			if source != "" {
				t := trail.Trail{
					Key: order, Lineage: "first-message-of-" + order, FirstSent: time.Now(),
					Reason: answer(503, overloaded).Error(), Attempts: 1, Source: source,
				}
				m.MessageAttributes, _ = t.Attach(nil) // there is room for one
			}
			in.Entries = append(in.Entries, m)
		}
		out, err := p.sqs.API.SendMessageBatch(ctx, in)
		if err == nil && len(out.Failed) > 0 {
			err = fmt.Errorf("%s", aws.ToString(out.Failed[0].Message))
		}
		if err != nil {
			return fmt.Errorf("send orders: %w", err)
		}
	}
	return nil
}

// traffic is the orders that come in meanwhile. Some fail once, and succeed when they are brought
// back: by that the redriver knows that the workers are well when nothing else is left of the
// outage.
func (p *play) traffic(ctx context.Context) error {
	for n := 1; ctx.Err() == nil; n++ {
		order := fmt.Sprintf("live-%04d", n)
		if n%2 == 0 {
			order = fmt.Sprintf("%s%04d", shaky, n)
		}
		p.mu.Lock()
		p.live = append(p.live, order)
		p.mu.Unlock()
		if err := p.send(context.WithoutCancel(ctx), p.queues.Work, []string{order},
			""); err != nil {
			return err
		}
		stage.Pause(ctx, 250*time.Millisecond)
	}
	return nil
}

// startWorker starts a worker that books orders. Without a ledger it is one as it is usually
// written.
func (p *play) startWorker(
	ctx context.Context, q queues, w *warehouse, ledger *claims.Ledger, events worker.Events,
) (stop func() error, err error) {
	log, err := os.OpenFile(filepath.Join(p.env.Dir, "workers.log"),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	one, err := worker.New(worker.Config{
		Client: stage.ShortPolls{Client: p.sqs.API}, QueueURL: q.Work, DeadLetterURL: q.Dead,
		Claims: ledger, NoClaims: ledger == nil,
		Handler: worker.JSON(func(ctx context.Context, b booking, _ *worker.Message) error {
			return w.call(ctx, b)
		}),
		Concurrency: 40, Attempts: 1, Drain: 5 * time.Second, Events: events,
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- one.Run(ctx) }()
	return func() error {
		cancel()
		defer log.Close()
		return <-ended
	}, nil
}
