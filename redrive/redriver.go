package redrive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/internal/work/backoff"
	"tenaq/internal/work/invalid"
	"tenaq/internal/work/queuename"
	"tenaq/internal/work/v1client"
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

// Config configures a Redriver. Client, Store, DeadLetterURL and ParkingURL are required; the rest
// has defaults.
type Config struct {
	Client SQS

	// Store keeps the state of the redriver, in one record per dead-letter queue. All redrivers of
	// a queue need the same one.
	Store records.Store

	// DeadLetterURL is the queue to redrive. ParkingURL is the queue for messages that are not
	// redriven. Give both the longest retention, and the parking lot no consumer.
	DeadLetterURL, ParkingURL string

	// TargetURL is the queue to redrive to. When empty, it is the queue that each message came
	// from, as the message says.
	TargetURL string

	// Claims is the ledger of the workers, from which the redriver learns the outcomes of messages.
	// When it is nil, the redriver asks a tenaq server whether a message was deleted. On any other
	// server, it sees only whether a message comes back.
	Claims *claims.Ledger

	// Outcomes, if set, replaces Claims, for servers that know more than SQS.
	Outcomes Outcomes

	// Mover, if set, takes messages from queue to queue instead of a send and a delete. A tenaq
	// server needs none: it moves a message in one step.
	Mover Mover

	Policy Policy

	// Interval is the time between two steps of Run, or between the caller's calls of Step: 5 min
	// when zero.
	Interval time.Duration

	// Look is how long a step hides the messages that it receives, and how long it may take: 2 min
	// when zero, at least 1 s and at most Interval.
	Look time.Duration

	Logger *slog.Logger // slog.Default when nil
}

// Outcomes reports the outcomes of redriven messages.
type Outcomes interface {
	// Outcome returns the result of a message that was redriven at f.Sent, with the reason if it
	// failed. An error means that the result cannot be determined now.
	Outcome(ctx context.Context, f Flight) (Result, string, error)
}

// A Mover moves a dead letter atomically.
type Mover interface {
	// Move sends a message as send says, and deletes the dead letter with the receipt handle.
	Move(ctx context.Context, send *sqs.SendMessageInput, receiptHandle string) error
}

// A Redriver redrives the messages of one dead-letter queue. It is safe for concurrent use.
type Redriver struct {
	cfg  Config
	name string // of the dead-letter queue
	key  string // of its record

	features features
	oneStep  oneStep
	follower *follower // nil unless a tenaq server may say what became of messages

	refused atomic.Bool // the queue had messages that are not dead letters
}

// New returns a redriver, or an error if the configuration contradicts itself. It uses neither the
// queues nor the store.
func New(cfg Config) (*Redriver, error) {
	cfg.Interval = cmp.Or(cfg.Interval, 5*time.Minute)
	cfg.Look = cmp.Or(cfg.Look, min(2*time.Minute, cfg.Interval/2))
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	var bad invalid.Fields
	bad.Add(cfg.Client == nil,
		"Config.Client is missing: set it to a client of SQS (sqs.NewFromConfig)")
	bad.Add(cfg.Store == nil, "Config.Store is missing: set it to the store of the redrivers")
	bad.Add(cfg.DeadLetterURL == "",
		"Config.DeadLetterURL is missing: set it to the URL of the dead-letter queue")
	bad.Add(cfg.ParkingURL == "",
		"Config.ParkingURL is missing: set it to the URL of a queue for messages that are not redriven")
	bad.Add(cfg.ParkingURL != "" &&
		(cfg.ParkingURL == cfg.DeadLetterURL ||
			cfg.ParkingURL == cfg.TargetURL),
		"the parking lot is also the dead-letter queue or the target: give it a queue of its own")
	bad.Add(queuename.IsFIFO(cfg.ParkingURL) != queuename.IsFIFO(cfg.DeadLetterURL),
		"the parking lot and the dead-letter queue are not of the same kind: make both FIFO queues, or neither")
	bad.Add(cfg.Interval < 0 || cfg.Look < time.Second || cfg.Look > cfg.Interval,
		"Interval and Look are %v and %v: the second is at least 1s, and the smaller one",
		cfg.Interval, cfg.Look)
	bad = append(bad, cfg.Policy.setDefaults()...)
	if err := bad.Err("redrive"); err != nil {
		return nil, err
	}
	cfg.Policy.apart = cfg.Interval + cfg.Interval/10 + cfg.Look
	name := queuename.Of(cfg.DeadLetterURL)
	cfg.Logger = cfg.Logger.With("queue", name)
	r := &Redriver{cfg: cfg, name: name, key: "redrive/" + name}
	r.features.server = v1client.New(cfg.Client)
	if cfg.Claims == nil && cfg.Outcomes == nil {
		r.follower = newFollower(cfg.Client)
	}
	return r, nil
}

// Run takes a step every Config.Interval until ctx ends, and earlier if a breaker may close
// earlier. Then it returns nil. It logs a step that fails, and takes the next one at its usual
// time.
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
		if backoff.Sleep(ctx, r.pause(report)) != nil {
			return nil
		}
	}
}

// pause returns the time until the next step of Run.
func (r *Redriver) pause(report Report) time.Duration {
	d := r.cfg.Interval
	if at := report.State.Soonest(&r.cfg.Policy, time.Now()); !at.IsZero() {
		d = min(d, max(time.Second, time.Until(at)))
	}
	return d + rand.N(d/20+1)
}

// Look returns how long a step hides messages, and how long it may take.
func (r *Redriver) Look() time.Duration { return r.cfg.Look }

// State returns the state of the redrivers of this queue. If there is no record, it is that of a
// redriver that has never run.
func (r *Redriver) State(ctx context.Context) (State, error) {
	s, _, err := r.load(ctx)
	s.tick(&r.cfg.Policy, time.Now())
	return s, err
}

// errState is the error for a record that this program cannot use.
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
		return State{}, 0, fmt.Errorf("%w: %w: delete the record %q to start over", errState, err,
			r.key)
	}
	if s.Version != stateVersion {
		return State{}, 0, fmt.Errorf("%w: it has version %d and this program knows %d: use the version of the program that wrote it",
			errState, s.Version, stateVersion)
	}
	return s, found.Version, nil
}

// bookkeeping is how long the state is kept after the last step: as long as a message can be on its
// way.
const bookkeeping = 14 * 24 * time.Hour

// ErrOverlap is the error of a step if another redriver took one at the same time. Nothing is lost:
// the messages that this step received come back.
var ErrOverlap = errors.New("another redriver is working on the same queue")

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
	if _, conflict := errors.AsType[*records.Conflict](err); conflict {
		return 0, ErrOverlap
	}
	if err != nil {
		return 0, fmt.Errorf("write the state of the redriver: %w", err)
	}
	return found.Version, nil
}

// Pause keeps all redrivers of this queue from redriving and parking until Resume. Why says who
// paused them, and for what reason.
func (r *Redriver) Pause(ctx context.Context, why string) error {
	return r.change(ctx, func(s *State) { s.Paused = cmp.Or(why, "no reason given") })
}

// Resume ends a pause.
func (r *Redriver) Resume(ctx context.Context) error {
	return r.change(ctx, func(s *State) { s.Paused = "" })
}

// change changes the state, and retries if another redriver changes it too.
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
