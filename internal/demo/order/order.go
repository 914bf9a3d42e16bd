// Package order is the demo of orders that take longer than the visibility timeout of their messages: the
// card is charged, the order is written, a mail is sent, and workers die and freeze in the midst of it.
//
// Run first lets workers handle orders as they are usually written, and counts the cards that are charged
// twice. Then it lets worker processes handle orders with packages producer, worker and claims, kills them
// with -9 and stops them past their lease, brings dead letters back, and counts what came of each order:
// one charge, one row, one mail. What it needs to be sure of it does not leave to chance: who is killed after
// the charge and before the record, who is stopped there, and which orders are delivered twice is decided by
// the stage, which every handler tells how far it has come, and which does not answer before it has done
// what it has in mind.
//
// A breakage leaves out what one of the checks is about, so that one sees it fail.
//
// The package leaves to its caller the server, the queues, how a worker process is started, and what the
// findings look like.
package order

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/producer"
	"tenaq/records"
	"tenaq/records/sqliterecords"
)

// What the demo shows at a tenth of the time that it takes in real life.
const (
	orders   = 30
	lease    = 3 * time.Second // of messages; the visibility timeout of the usual workers as well
	attempts = 3
	crewSize = 6 // worker processes
	atOnce   = 6 // handlers in each of them
)

// The claim on an order ends before its message comes back. Otherwise the message would be received, found
// busy, and given back once more.
const claimLease = 2 * time.Second

// QueueAttributes are those of a queue for Config.UsualURL and Config.QueueURL. Deadletters is the ARN of the
// queue for Config.DeadURL, or empty for a queue without one. The workers count attempts themselves and move
// what has used them up; the queue's own limit is far above.
func QueueAttributes(deadLetters string) map[string]string {
	attributes := map[string]string{"VisibilityTimeout": fmt.Sprint(int(lease / time.Second))}
	if deadLetters != "" {
		attributes["RedrivePolicy"] = fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":50}`, deadLetters)
	}
	return attributes
}

// A Breakage is something that is left out.
type Breakage string

// What can be left out. Each makes checks fail with certainty.
const (
	Nothing    Breakage = ""
	Fences     Breakage = "fence"     // the table takes the row of any holder, whatever its fence
	Heartbeats Breakage = "heartbeat" // leases are not renewed, and the worker believes that they are
	Claims     Breakage = "claim"     // there is no ledger
	Keys       Breakage = "key"       // the bank is asked without a key, and not asked what it knows
)

// A Config says where the demo takes place.
type Config struct {
	API      *sqs.Client
	UsualURL string // a queue for the usual workers
	QueueURL string // a queue for ours, with
	DeadURL  string // its dead-letter queue
	Moves    bool   // the server has move tasks, which take dead letters back

	Dir   string // for the databases and the logs; it exists
	Seed  uint64
	Break Breakage

	// Worker is the command of a worker process, which calls Work with its standard input.
	Worker func() (*exec.Cmd, error)

	// Say tells of a step, and Line how far things are. They are called from the goroutine of Run.
	Say, Line func(format string, args ...any)
}

// An order is the body of a message.
type order struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

// A demo is one run.
type demo struct {
	Config
	table  *table
	store  records.Store
	ledger *claims.Ledger
	bank   *bank
	stage  *stage
	crew   *crew
	mails  *mails
	url    string // of the bank and the stage
	work   []order
}

// Run runs the demo. What it has found is returned with an error too.
func Run(ctx context.Context, cfg Config) (*Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &demo{Config: cfg}
	out := &Outcome{}
	for n := range orders {
		d.work = append(d.work, order{Order: fmt.Sprintf("order-%02d", n+1), Cents: 1000 + 250*n})
	}
	if err := d.openStores(); err != nil {
		return out, err
	}
	defer d.closeStores()
	if cfg.Break == Nothing { // with a breakage that is not what one wants to see
		cfg.Say("%d orders to workers as they are usually written", orders)
		if err := d.runUsual(ctx, out); err != nil {
			return out, fmt.Errorf("the usual workers: %w", err)
		}
		cfg.Say("%d of %d cards were charged twice", out.Usual.Doubled, orders)
	}
	cfg.Say("%d orders to %d worker processes with claims", orders, crewSize)
	err := d.runOurs(ctx, out)
	return out, err
}

func (d *demo) openStores() (err error) {
	if d.table, err = openTable(filepath.Join(d.Dir, tableFile), 10*time.Second); err != nil {
		return err
	}
	if d.store, err = sqliterecords.New(sqliterecords.Config{Path: filepath.Join(d.Dir, recordsFile)}); err != nil {
		return err
	}
	d.ledger, err = claims.New(d.store, claims.Config{Lease: claimLease})
	return err
}

func (d *demo) closeStores() {
	d.table.close()
	if d.store != nil {
		_ = d.store.Close()
	}
}

// Names of the files in Config.Dir. The records have one of their own, as they would have a database of
// their own: the fence is what holds between the two.
const (
	tableFile   = "orders.db"
	recordsFile = "records.db"
)

// runOurs runs the second part.
func (d *demo) runOurs(ctx context.Context, out *Outcome) error {
	var err error
	if d.crew, err = newCrew(d); err != nil {
		return err
	}
	defer d.crew.close()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if d.stage, err = newStage(ctx, fail, d); err != nil {
		return err
	}
	defer d.stage.close()
	d.bank = newBank(ctx, d.stage.plan)
	d.mails = newMails(d.table)
	stop, err := d.listen()
	if err != nil {
		return err
	}
	defer stop()

	send, err := producer.New(producer.Config{Client: d.API, Store: d.store, QueueURL: d.QueueURL, Work: d.ledger})
	if err != nil {
		return err
	}
	for _, r := range send.SendAll(ctx, d.messages()) {
		if r.Err != nil {
			return r.Err
		}
		if r.New {
			out.Sent++
		}
	}
	if err := d.crew.start(); err != nil {
		return err
	}
	err = d.direct(ctx)
	out.UncleanEnds = d.crew.stop()
	if err == nil {
		// The batch of the next day has the same orders in it.
		for _, r := range send.SendAll(ctx, d.messages()) {
			if r.Err != nil {
				return r.Err
			}
			if !r.New && r.Work == claims.Completed {
				out.Recognised++
			}
		}
	}
	return errors.Join(err, d.collect(context.WithoutCancel(ctx), out))
}

func (d *demo) messages() []producer.Message {
	messages := make([]producer.Message, len(d.work))
	for i, o := range d.work {
		body, _ := json.Marshal(o) // nothing in it can fail to be encoded
		messages[i] = producer.Message{Key: o.Order, Body: string(body)}
	}
	return messages
}

// listen serves the bank and the stage to the workers.
func (d *demo) listen() (stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d.url = "http://" + l.Addr().String()
	mux := http.NewServeMux()
	d.bank.serve(mux)
	d.stage.serve(mux)
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }()
	return func() { _ = server.Close() }, nil
}

// emptyMax is how long both queues may look empty before the end. SQS counts approximately.
const emptyMax = 15 * time.Second

// direct runs the second part until every order is done and nothing is left anywhere, brings dead letters back
// when they are all that is left, and kills at random meanwhile.
func (d *demo) direct(ctx context.Context) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	d.stage.begin()
	empty := time.Now() // since when both queues are
	for redrives := 0; ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case said := <-d.stage.said:
			d.Say("%s", said)
			continue
		case <-tick.C:
		}
		if err := d.mails.relay(ctx); err != nil {
			return fmt.Errorf("send mails: %w", err)
		}
		rows, err := d.table.count(ctx)
		if err != nil {
			return err
		}
		waiting, dead, err := d.left(ctx)
		if err != nil {
			return err
		}
		at := d.stage.progress()
		d.Line("%d of %d orders done, %d messages in the queue, %d dead letters, %d workers killed", rows, orders, waiting, dead, at.killed)
		if waiting+dead > 0 || !at.idle {
			empty = time.Now()
		}
		switch {
		case waiting == 0 && dead > 0: // a frozen worker may wait for these
			if redrives++; redrives == 1 {
				d.Say("%d dead letters; the cards are good now, and the bank has forgotten all idempotency keys", dead)
				d.stage.nextDay()
				d.bank.forget()
			}
			if err := d.redrive(ctx); err != nil {
				return fmt.Errorf("bring dead letters back: %w", err)
			}
		case waiting > 0 || !at.idle:
		case rows == orders:
			return d.mails.relay(ctx)
		case time.Since(empty) > emptyMax:
			return fmt.Errorf("%d of %d orders are done, and both queues are empty: messages were lost", rows, orders)
		}
	}
}
