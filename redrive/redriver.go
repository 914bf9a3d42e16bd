package redrive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/internal/work/queuename"
	"tenaq/records"
)

// SQS is what a redriver needs of a client. *sqs.Client has it.
type SQS interface {
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput,
		...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	SendMessage(context.Context, *sqs.SendMessageInput,
		...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
	DeleteMessage(context.Context, *sqs.DeleteMessageInput,
		...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error)
	ChangeMessageVisibility(context.Context, *sqs.ChangeMessageVisibilityInput,
		...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput,
		...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput,
		...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
}

// Config says what a redriver redrives. Client, Store, DeadLetterURL and ParkingURL are needed; the
// rest has defaults.
type Config struct {
	Client SQS

	// Store is where the redriver keeps what it knows, in one record for each dead-letter queue.
	// All redrivers of a queue need the same one.
	Store records.Store

	// DeadLetterURL is the queue to bring messages back from, ParkingURL where to put what is not
	// to be brought back. Give both the longest retention, and the parking lot no consumer.
	DeadLetterURL, ParkingURL string

	// TargetURL is where to redrive to. Empty is the queue that each message came from, as the
	// message says: the worker that dead-lettered it wrote that down, or SQS did.
	TargetURL string

	// Claims is the ledger of the workers, by which the redriver knows what has become of a
	// message. When it is nil, a redriver asks a tenaq server whether the message was deleted. On
	// any other server it has only what it sees: whether the message comes back.
	Claims *claims.Ledger

	// Outcomes, if set, is asked instead. It is for servers that know more than SQS tells.
	Outcomes Outcomes

	// Mover, if set, takes messages from queue to queue instead of a send and a delete.
	Mover Mover

	// Policy says how much it dares.
	Policy Policy

	// Interval is the time between two steps of Run, or of whoever calls Step: 5 min when zero.
	Interval time.Duration

	// Look is how long a message that was looked at is hidden from others: 2 min when zero, and
	// less than Interval. A step has to be done within it.
	Look time.Duration

	Logger *slog.Logger // slog.Default when nil
}

// Outcomes tells what has become of redriven messages.
type Outcomes interface {
	// Outcome returns the result of a message that was sent on its way at f.Sent, with the reason
	// when it failed. An error means that nobody knows now.
	Outcome(ctx context.Context, f Flight) (Result, string, error)
}

// A Mover moves a dead letter in one step: it is in its new queue, or where it was.
type Mover interface {
	// Move sends a message as send says, and deletes the dead letter of that receipt handle.
	Move(ctx context.Context, send *sqs.SendMessageInput, receiptHandle string) error
}

// A Redriver redrives the messages of one dead-letter queue. Its methods may be called from any
// goroutine.
type Redriver struct {
	cfg  Config
	name string // of the dead-letter queue
	key  string // of its record

	follower *follower // nil unless a tenaq server may say what became of messages

	refused atomic.Bool // the queue had messages that were no dead letters
}

// New returns a redriver, or an error when the configuration contradicts itself. It asks nothing of
// queues and store yet.
func New(cfg Config) (*Redriver, error) {
	cfg.Interval = cmp.Or(cfg.Interval, 5*time.Minute)
	cfg.Look = cmp.Or(cfg.Look, min(2*time.Minute, cfg.Interval/2))
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	var bad []error
	refuse := func(is bool, text string) {
		if is {
			bad = append(bad, errors.New(text))
		}
	}
	refuse(cfg.Client == nil, "Client is missing")
	refuse(cfg.Store == nil, "Store is missing")
	refuse(cfg.DeadLetterURL == "", "DeadLetterURL is missing")
	refuse(cfg.ParkingURL == "",
		"ParkingURL is missing: what is not to be redriven has to go somewhere")
	refuse(cfg.ParkingURL != "" &&
		(cfg.ParkingURL == cfg.DeadLetterURL ||
			cfg.ParkingURL == cfg.TargetURL),
		"the parking lot is a queue that is redriven from or to: give it a queue of its own")
	refuse(isFIFO(cfg.ParkingURL) != isFIFO(cfg.DeadLetterURL),
		"the parking lot and the dead-letter queue are not of the same kind: make both FIFO queues, or none")
	refuse(cfg.Interval < 0 || cfg.Look < time.Second || cfg.Look > cfg.Interval,
		fmt.Sprintf("Interval and Look are %v and %v: the second is at least 1s, and the smaller one", cfg.Interval, cfg.Look))
	if err := errors.Join(errors.Join(bad...), cfg.Policy.setDefaults()); err != nil {
		return nil, fmt.Errorf("redrive: %w", err)
	}
	cfg.Policy.apart = cfg.Interval + cfg.Interval/10 + cfg.Look
	name := queuename.Of(cfg.DeadLetterURL)
	cfg.Logger = cfg.Logger.With("queue", name)
	r := &Redriver{cfg: cfg, name: name, key: "redrive/" + name}
	if cfg.Claims == nil && cfg.Outcomes == nil {
		r.follower = newFollower(cfg.Client)
	}
	return r, nil
}
func isFIFO(url string) bool { return strings.HasSuffix(url, ".fifo") }

// Run takes a step every Config.Interval until ctx ends; sooner when a breaker may close sooner. It
// returns nil then. A step that fails is logged, and the next one is taken in its time.
func (r *Redriver) Run(ctx context.Context) error {
	for {
		report, err := r.Step(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			r.cfg.Logger.Warn("redrive step failed; the next one continues what it began", "error",
				err)
		case len(report.Decisions) > 0 || report.Changed:
			r.cfg.Logger.Info("redrive step", "breaker", report.State.Breaker.State, "dead",
				report.Depth, "redriven", report.Count(Redrive),
				"parked", report.Count(Park), "held", report.Count(Hold), "on_their_way",
				len(report.State.Flights))
		}
		timer := time.NewTimer(r.pause(report))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// pause is the time until the next step of Run.
func (r *Redriver) pause(report Report) time.Duration {
	d := r.cfg.Interval
	if at := report.State.Soonest(&r.cfg.Policy, time.Now()); !at.IsZero() {
		d = min(d, max(time.Second, time.Until(at)))
	}
	return d + rand.N(d/20+1)
}

// Look is how long a step hides messages, which is also how long it may take.
func (r *Redriver) Look() time.Duration { return r.cfg.Look }

// State is what the redrivers of this queue know. It is that of one that has never run when there
// is no record.
func (r *Redriver) State(ctx context.Context) (State, error) {
	s, _, err := r.load(ctx)
	s.tick(&r.cfg.Policy, time.Now())
	return s, err
}

// errState is a record that this program cannot use.
var errState = errors.New("the record of the redriver cannot be read")

// load reads the state and the version of its record.
func (r *Redriver) load(ctx context.Context) (State, records.Version, error) {
	found, err := r.cfg.Store.Get(ctx, r.key)
	if errors.Is(err, records.ErrNotFound) {
		return first(&r.cfg.Policy), 0, nil
	}
	if err != nil {
		return State{}, 0, fmt.Errorf("read the state of the redriver: %w", err)
	}
	var s State
	if err := json.Unmarshal(found.Value, &s); err != nil {
		return State{}, 0, fmt.Errorf("%w: %w: delete the record %q to begin anew", errState, err,
			r.key)
	}
	if s.Version != stateVersion {
		return State{}, 0, fmt.Errorf("%w: it has version %d, this program knows %d: use the version of the program that wrote it",
			errState, s.Version, stateVersion)
	}
	return s, found.Version, nil
}

// bookkeeping is how long the state is kept after the last step: as long as a message can be on its
// way.
const bookkeeping = 14 * 24 * time.Hour

// ErrOverlap is what a step ends with when another redriver took one at the same time. Nothing is
// lost: what it held comes back.
var ErrOverlap = errors.New("another redriver is at work on the same queue")

// save writes the state over the version it was read as.
func (r *Redriver) save(
	ctx context.Context, s State, version records.Version,
) (records.Version, error) {
	value, err := json.Marshal(s)
	if err != nil {
		return 0, err
	}
	found, err := r.cfg.Store.Put(ctx,
		records.Write{Key: r.key, Value: value, If: version, TTL: bookkeeping})
	var conflict *records.Conflict
	switch {
	case errors.As(err, &conflict):
		return 0, ErrOverlap
	case err != nil:
		return 0, fmt.Errorf("write the state of the redriver: %w", err)
	}
	return found.Version, nil
}

// Pause keeps all redrivers of this queue from redriving and parking, until Resume. Why says who
// wants that and what for.
func (r *Redriver) Pause(ctx context.Context, why string) error {
	return r.change(ctx, func(s *State) { s.Paused = cmp.Or(why, "no reason given") })
}

// Resume ends a pause.
func (r *Redriver) Resume(ctx context.Context) error {
	return r.change(ctx, func(s *State) { s.Paused = "" })
}

// change changes the state, whoever else does.
func (r *Redriver) change(ctx context.Context, change func(*State)) error {
	for {
		s, version, err := r.load(ctx)
		if err != nil {
			return err
		}
		change(&s)
		if _, err = r.save(ctx, s, version); !errors.Is(err, ErrOverlap) {
			return err
		}
	}
}
