package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"tenaq/outbox"
	"tenaq/outbox/pgoutbox"
)

// A carrier takes the rows of a table of its own to a queue. It says so to its desk when it has
// written down that rows were sent.
type carrier interface {
	// prepare makes the table.
	prepare(ctx context.Context) error

	// fill commits n rows.
	fill(ctx context.Context, n int) error

	// write commits one row.
	write(ctx context.Context, body string) error

	// carry sends what is there and what comes, until ctx ends.
	carry(ctx context.Context) error
}

// ours is the outbox with one relay, all settings as they come.
type ours struct {
	*desk
	queueless bool // for what the database alone allows: a queue that answers at once
}

func (o *ours) prepare(ctx context.Context) error {
	box, err := pgoutbox.New(pgoutbox.Config{Pool: o.pool})
	if err != nil {
		return err
	}
	return box.Migrate(ctx)
}

func (o *ours) fill(ctx context.Context, n int) error {
	_, err := o.app.Exec(ctx, `INSERT INTO outbox (aggregatetype, aggregateid, payload)
		SELECT $1, 'group-' || n % $4, $2 FROM generate_series(1, $3::int) n`, o.queue, body, n, max(o.groups, 1))
	return err
}

func (o *ours) write(ctx context.Context, body string) error {
	_, err := o.app.Exec(ctx, `INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ($1, 'group-0', $2)`, o.queue, body)
	return err
}

func (o *ours) carry(ctx context.Context) error {
	box, err := pgoutbox.New(pgoutbox.Config{Pool: o.pool})
	if err != nil {
		return err
	}
	defer box.Close()
	cfg := outbox.Config{Box: settled{box, o.recorded}, Client: o.client, Logger: slog.New(slog.DiscardHandler)}
	if o.queueless {
		cfg.Client = nowhere{}
	}
	relay, err := outbox.New(cfg)
	if err != nil {
		return err
	}
	return relay.Run(ctx)
}

// settled is a box that tells how many rows are written down as sent.
type settled struct {
	outbox.Box
	sent func(n int)
}

func (s settled) Settle(ctx context.Context, relay string, outcomes []outbox.Outcome) error {
	err := s.Box.Settle(ctx, relay, outcomes)
	if err == nil {
		n := 0
		for _, o := range outcomes {
			if o.Fate == outbox.Sent {
				n++
			}
		}
		s.sent(n)
	}
	return err
}

// nowhere takes every message at once and keeps none.
type nowhere struct{}

func (nowhere) GetQueueUrl(_ context.Context, in *sqs.GetQueueUrlInput, _ ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error) {
	return &sqs.GetQueueUrlOutput{QueueUrl: aws.String("http://127.0.0.1/000000000000/" + *in.QueueName)}, nil
}

func (nowhere) SendMessageBatch(_ context.Context, in *sqs.SendMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	out := new(sqs.SendMessageBatchOutput)
	for _, e := range in.Entries {
		out.Successful = append(out.Successful, types.SendMessageBatchResultEntry{Id: e.Id, MessageId: aws.String("00000000-0000-4000-8000-000000000000")})
	}
	return out, nil
}

// A byHand is the loop that people write by hand instead of an outbox with a relay: a table with
// the columns created_at and sent_at, and a program that in one transaction locks the hundred
// oldest rows without sent_at, sends them, sets their sent_at, and commits. When there is none it
// sleeps.
//
// It is a good one of its kind. What is not sent has an index, what others have locked is skipped,
// all rows are marked with one statement, statements are prepared and connections are kept. It adds
// nothing to a message, where a relay adds an attribute, and has no leases, no parked rows and no
// triggers. In what order transactions commit it does not know, nor does it stop when its
// transaction is gone. A single loop keeps the order of created_at; several at once keep none.
type byHand struct {
	*desk
	atOnce int           // loops, each with a connection of its own
	batch  int           // messages in a request: with one it is SendMessage, else SendMessageBatch
	sleep  time.Duration // when nothing is there
}

func (l *byHand) prepare(ctx context.Context) error {
	_, err := l.app.Exec(ctx, `
		CREATE TABLE messages (
			id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
			group_id   text NOT NULL,
			payload    text NOT NULL,
			created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
			sent_at    timestamptz
		);
		CREATE INDEX ON messages (created_at) WHERE sent_at IS NULL`, pgx.QueryExecModeSimpleProtocol)
	return err
}

func (l *byHand) fill(ctx context.Context, n int) error {
	_, err := l.app.Exec(ctx, `INSERT INTO messages (group_id, payload) SELECT 'group-' || n % $3, $1 FROM generate_series(1, $2::int) n`,
		body, n, max(l.groups, 1))
	return err
}

func (l *byHand) write(ctx context.Context, body string) error {
	_, err := l.app.Exec(ctx, `INSERT INTO messages (group_id, payload) VALUES ('group-0', $1)`, body)
	return err
}

func (l *byHand) carry(ctx context.Context) error {
	var all errgroup.Group
	for range max(l.atOnce, 1) {
		all.Go(func() error {
			for {
				n, err := l.turn(ctx)
				switch {
				case ctx.Err() != nil:
					return nil
				case err != nil:
					return err
				case n > 0:
					l.recorded(n)
					continue
				}
				select {
				case <-ctx.Done():
				case <-time.After(l.sleep):
				}
			}
		})
	}
	return all.Wait()
}

// A rowByHand is what such a loop sends.
type rowByHand struct {
	ID             int64
	Group, Payload string
}

// turn sends the oldest rows and returns how many.
func (l *byHand) turn(ctx context.Context) (n int, err error) {
	err = pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		found, err := tx.Query(ctx, `SELECT id, group_id, payload FROM messages
			WHERE sent_at IS NULL ORDER BY created_at LIMIT 100 FOR UPDATE SKIP LOCKED`)
		if err != nil {
			return err
		}
		rows, err := pgx.CollectRows(found, pgx.RowToStructByPos[rowByHand])
		if err != nil || len(rows) == 0 {
			return err
		}
		n = len(rows)
		ids := make([]int64, n)
		for i, r := range rows {
			ids[i] = r.ID
		}
		for len(rows) > 0 {
			some := min(max(l.batch, 1), len(rows))
			if err := l.send(ctx, rows[:some]); err != nil {
				return err
			}
			rows = rows[some:]
		}
		_, err = tx.Exec(ctx, `UPDATE messages SET sent_at = now() WHERE id = ANY ($1)`, ids)
		return err
	})
	return n, err
}

// send sends rows with one request.
func (l *byHand) send(ctx context.Context, rows []rowByHand) error {
	if l.batch <= 1 {
		in := &sqs.SendMessageInput{QueueUrl: &l.url, MessageBody: &rows[0].Payload}
		if l.groups > 0 {
			in.MessageGroupId, in.MessageDeduplicationId = &rows[0].Group, aws.String(strconv.FormatInt(rows[0].ID, 10))
		}
		_, err := l.client.SendMessage(ctx, in)
		return err
	}
	var entries []types.SendMessageBatchRequestEntry
	for i, r := range rows {
		e := types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: &r.Payload}
		if l.groups > 0 {
			e.MessageGroupId, e.MessageDeduplicationId = &r.Group, aws.String(strconv.FormatInt(r.ID, 10))
		}
		entries = append(entries, e)
	}
	return l.sendBatch(ctx, entries)
}

// direct has no table: messages go to the queue with as many requests at once as a relay makes.
// That is what the queue alone allows, and what a program does that has no outbox.
type direct struct {
	*desk
	atOnce  int
	waiting int // messages to send
}

func (*direct) prepare(context.Context) error { return nil }

func (d *direct) fill(_ context.Context, n int) error {
	d.waiting = n
	return nil
}

func (d *direct) write(ctx context.Context, body string) error {
	_, err := d.client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &d.url, MessageBody: &body})
	return err
}

func (d *direct) carry(ctx context.Context) error {
	var all sync.WaitGroup
	errs := make(chan error, d.atOnce)
	var next atomic.Int64
	for range d.atOnce {
		all.Go(func() {
			for {
				first := int(next.Add(10)) - 10
				if first >= d.waiting {
					return
				}
				var entries []types.SendMessageBatchRequestEntry
				for n := first; n < min(first+10, d.waiting); n++ {
					e := types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(n - first)), MessageBody: &body}
					if d.groups > 0 {
						e.MessageGroupId, e.MessageDeduplicationId = aws.String(fmt.Sprint("group-", n%d.groups)), aws.String(strconv.Itoa(n))
					}
					entries = append(entries, e)
				}
				if err := d.sendBatch(ctx, entries); err != nil {
					errs <- err
					return
				}
				d.recorded(len(entries))
			}
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	<-ctx.Done()
	return nil
}

// sendBatch sends messages and has all of them taken.
func (d *desk) sendBatch(ctx context.Context, entries []types.SendMessageBatchRequestEntry) error {
	out, err := d.client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &d.url, Entries: entries})
	if err == nil && len(out.Failed) > 0 {
		err = errors.New("the queue refuses a message: " + aws.ToString(out.Failed[0].Message))
	}
	return err
}
