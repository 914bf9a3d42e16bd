// Package redrive brings dead letters back after an outage. A warehouse is down, all orders become
// dead letters, and three of them can never be fulfilled.
//
// A process with package redrive brings them back, and is killed between a send and the delete that
// follows. At the same time, a redriver written in the usual way works on orders of its own. The
// warehouse counts its calls, so the outcome does not depend on what a redriver says about itself.
//
// Times are scaled down to what SQS allows: delays begin at a second instead of a minute.
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
	"sync/atomic"
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
	Name:  "redrive",
	Text:  "dead letters go back at their consumer's pace",
	Run:   run,
	Roles: map[string]stage.Role{"redriver": stage.RoleOf(redriver)},
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
		// it learns no outcome of what it sends, and would stop after the first five
		p.Settle = 5 * time.Second
	case "delay":
		p.DelayBase = time.Millisecond
	}
	return p
}

// queues are those of one part.
type queues struct {
	Work, Dead, Parking string // URLs
}

// A task configures a redriver process.
type task struct {
	Queues queues
	Look   time.Duration // how long a step hides what it looks at
}

// A play is a run of the scenario.
type play struct {
	*stage.Crew
	warehouse *warehouse
	queues    queues
	store     *sqliterecords.Store
	ledger    *claims.Ledger
	orders    []string // the dead letters at first
	out       *outcome

	live atomic.Int64 // orders that came in meanwhile
	away atomic.Int64 // deliveries that the worker turned away
}

func run(c *stage.Crew) []stage.Row {
	p := &play{Crew: c, out: &outcome{}}
	n, made := p.Scale(40, 2000), p.Scale(15, 100)
	if p.Server == nil {
		n, made = 40, 10 // an emulator may take a second to receive ten messages
	}
	p.orders, p.out.Orders = names("order", n), n
	p.warehouse = newWarehouse(p.orders, p.RNG(1))
	p.queues = p.create("redrive")
	p.store, p.ledger = p.OpenRecords(p.Dir, 0)
	defer p.store.Close()
	p.Play(func() {
		usual := p.Usual(p.usual)
		p.play(made)
		usual()
	})
	p.collect()
	return p.out.rows()
}

// create makes the queues of one part.
func (p *play) create(name string) (q queues) {
	longest := map[string]string{"MessageRetentionPeriod": redrivehost.RetentionMost}
	var err error
	q.Work, q.Dead, err = p.CreatePair(name+"-work", name+"-dead", nil, longest)
	p.Must(err)
	q.Parking = p.CreateQueue(name+"-parking", longest)
	return q
}

// play tells the story.
func (p *play) play(made int) {
	stop := p.startWorker(p.queues, p.warehouse, p.ledger,
		worker.Events{Outcome: func(_ *worker.Message, o worker.Outcome) {
			if o.Kind == worker.Busy || o.Kind == worker.Duplicate {
				p.away.Add(1)
			}
		}})
	defer stop()
	p.send(p.queues.Work, p.orders[:made], "")
	p.send(p.queues.Dead, p.orders[made:], p.ARN(p.queues.Work))
	p.Until("dead letters", func() bool { return p.Left(p.queues.Dead) >= len(p.orders) })
	p.warehouse.begin()
	open, end := context.WithCancel(p.Ctx)
	defer end()
	traffic := p.Beside(func() { p.traffic(open) })
	look := time.Second
	if p.Server == nil {
		look = 3 * time.Second
	}
	p.Hire("redriver", task{p.queues, look})
	p.outage()
	p.recovery()
	end()
	traffic()
	p.rest()
	p.Dismiss()
}

// Points that the redriver reports.
const (
	pointSent = "sent" // an order is on its way, and its dead letter not deleted
	pointStep = "step"
)

// outage lets the redriver work while the warehouse is down.
func (p *play) outage() {
	p.Until("the outage", func() bool {
		sick, trips := p.warehouse.sick(), p.last().Trips
		p.Progress.Line("the warehouse is down: called %s, the breaker opened %s",
			cli.Counted(sick, "time", "times"), cli.Counted(trips, "time", "times"))
		switch p.Broken {
		case "breaker":
			return sick > 4*rateFirst
		case "identity":
			return sick >= rateFirst
		}
		return trips >= tripsLeast
	})
	p.out.Trips, p.out.Sick = p.last().Trips, p.warehouse.sick()
	p.warehouse.open()
	p.Say("the warehouse is up; redriven messages had called it %s",
		cli.Counted(p.out.Sick, "time", "times"))
}

// recovery waits until the dead letters of the outage have come to their end, and kills the
// redriver on the way.
func (p *play) recovery() {
	began, healthy := time.Now(), len(p.orders)-poisoned
	identity, killed := p.Broken == "identity", false
	most := time.Duration(p.Scale(45, 100)) * time.Second
	if p.Other != nil {
		most = 4 * time.Minute // an emulator is slow
	}
	for ; time.Since(began) < most && p.Ctx.Err() == nil; stage.Pause(p.Ctx, 50*time.Millisecond) {
		done, parked := p.warehouse.booked("order-"), p.last().Parked
		p.Progress.Line("%d of %d orders booked, %d parked", done, healthy, parked)
		if !killed && (identity || done >= healthy/3) {
			killed = true
			p.Plan(stage.Death{
				Point: pointSent, Why: "between a send and the delete that follows",
				If: func(r stage.Report) bool { return p.warehouse.isHealthy(r.Key) },
			})
		}
		if done == healthy && p.out.After == 0 {
			p.out.After = time.Since(began).Seconds()
		}
		if done == healthy && parked >= poisoned || identity && p.warehouse.doubled() > 0 {
			return
		}
	}
	p.Must(context.Cause(p.Ctx)) // what is missing, the rows say
}

// rest waits until nothing is left in the queues.
func (p *play) rest() {
	most := 20 * time.Second
	if p.Other != nil {
		most = time.Minute
	}
	began := time.Now()
	for p.Broken != "identity" && time.Since(began) < most && // that would not end
		(p.Left(p.queues.Work, p.queues.Dead) > 0 ||
			p.warehouse.booked("live-") < int(p.live.Load())) {
		stage.Pause(p.Ctx, 50*time.Millisecond)
	}
}

// last is what the redriver reported last.
func (p *play) last() (last step) {
	p.Do(func() {
		if steps := p.Seen(pointStep); len(steps) > 0 {
			last = stepsOf(steps[len(steps)-1:])[0]
		}
	})
	return last
}

// redriver is a redriver process.
func redriver(c *stage.Child, t task) {
	store, ledger := c.OpenRecords(c.Dir, 0)
	defer store.Close()
	r, err := redrive.New(redrive.Config{
		Client: &witness{c.API, c, t.Queues.Work}, Store: store, Claims: ledger,
		DeadLetterURL: t.Queues.Dead, ParkingURL: t.Queues.Parking,
		Policy: policy(c.Broken), Interval: t.Look, Look: t.Look,
	})
	c.Must(err)
	// As Run does, which wants more than a second between two steps.
	for ; c.Ctx.Err() == nil; stage.Pause(c.Ctx, 100*time.Millisecond) {
		report, err := r.Step(c.Ctx)
		if c.Ctx.Err() != nil {
			return
		}
		if err != nil {
			slog.Warn("a step failed", "error", err)
		}
		text, _ := json.Marshal(step{
			Breaker: string(report.State.Breaker.State), Trips: report.State.Breaker.Trips,
			Parked: report.State.Parked, Redriven: report.State.Redriven,
			OnTheWay: len(report.State.Flights),
		})
		c.Tell(stage.Report{Point: pointStep, Text: string(text)})
	}
}

// A step is what a redriver reports after each step.
type step struct {
	Breaker                           string
	Trips, Parked, Redriven, OnTheWay int
}

// A witness reports each order that the redriver sends. The process may be killed there.
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
		w.c.Tell(stage.Report{
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

// send sends orders. With a source, they are dead letters in the form in which a worker writes
// them. Most dead letters are made like this, because letting each order fail would take minutes.
func (p *play) send(url string, orders []string, source string) {
	for some := range slices.Chunk(orders, 10) {
		in := &sqs.SendMessageBatchInput{QueueUrl: &url}
		for i, order := range some {
			m := types.SendMessageBatchRequestEntry{
				Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(booking{order}.body()),
			}
			t := trail.Trail{Key: order} // an SDK that misses an answer sends an order twice
			if source != "" {
				t = trail.Trail{
					Key: order, Lineage: "first-message-of-" + order, FirstSent: time.Now(),
					Reason: answer(503, overloaded).Error(), Attempts: 1, Source: source,
				}
			}
			m.MessageAttributes, _ = t.Attach(nil) // there is room for one
			in.Entries = append(in.Entries, m)
		}
		out, err := p.API.SendMessageBatch(p.Outer, in)
		p.Must(err)
		if len(out.Failed) > 0 {
			p.Must(fmt.Errorf("send orders: %s", aws.ToString(out.Failed[0].Message)))
		}
	}
}

// liveMost is how many new orders may wait to be booked. With more a slow server is never done.
const liveMost = 60

// traffic sends new orders until open ends. Some fail once and succeed when they are redriven. When
// nothing else is left of the outage, these show the redriver that the workers are well.
func (p *play) traffic(open context.Context) {
	for n := int64(1); open.Err() == nil; {
		if int(n)-p.warehouse.booked("live-") > liveMost {
			stage.Pause(open, 250*time.Millisecond)
			continue
		}
		order := fmt.Sprintf("live-%04d", n)
		if n%2 == 0 {
			order = fmt.Sprintf("%s%04d", shaky, n)
		}
		p.send(p.queues.Work, []string{order}, "")
		p.live.Store(n)
		n++
		stage.Pause(open, 250*time.Millisecond)
	}
}

// startWorker starts a worker that books orders. Without a ledger it is a worker written in the
// usual way.
func (p *play) startWorker(
	q queues, w *warehouse, ledger *claims.Ledger, events worker.Events,
) (stop func()) {
	log, err := os.OpenFile(filepath.Join(p.Dir, "workers.log"),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	p.Must(err)
	one, err := worker.New(worker.Config{
		Client: p.API, QueueURL: q.Work, DeadLetterURL: q.Dead,
		Claims: ledger, NoClaims: ledger == nil, Handler: worker.JSON(w.handle),
		Concurrency: 40, Attempts: 1, Drain: 5 * time.Second, Events: events,
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	p.Must(err)
	ctx, cancel := context.WithCancel(p.Ctx)
	ended := p.Beside(func() {
		defer log.Close()
		p.Must(one.Run(ctx))
	})
	return func() {
		cancel()
		ended()
	}
}
