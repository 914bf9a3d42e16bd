// Package sweep finds work that is stuck and gets it going again. Work is stuck if it was begun or
// registered, is not completed, and no worker has touched it for a while: its message is lost, or
// its producer died before it sent one.
//
// A Sweeper sends such a message again, once per Config.Stuck at most, under the same key: the
// claim on the key keeps the work from being done twice. It settles claims whose messages a queue
// moved to its dead-letter queue by itself. It leaves alone what changes meanwhile, work that
// awaits a person's decision, and messages that no producer has registered.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/producer"
	"tenaq/records"
	"tenaq/worker"
)

// Config configures a Sweeper.
type Config struct {
	Ledger *cli.Ledger // of the work; its store has the registrations, too

	// Queues limits the sweep to what is registered for them, by name. Empty means all queues.
	Queues []string

	// Stuck is how long no worker has been at stuck work. Watch is the time between two looks at a
	// store without a clock; 0 rejects such a store with ErrNoClock.
	Stuck, Watch time.Duration
}

// ErrNoClock is the error of a sweep of a store without a clock, unless Config.Watch is set.
var ErrNoClock = errors.New("the store has no clock, so one look does not show how old an entry is")

// A NotRegistered error names a queue for which nothing is registered.
type NotRegistered struct {
	Queue  string
	Queues []string // for which something is
}

func (e *NotRegistered) Error() string { return "nothing is registered for the queue " + e.Queue }

// Actions of a sweep.
const (
	Resend = "resend"
	Settle = "settle"
	None   = "none"
)

// States of work that has no entry in its ledger.
const (
	NotSent  = "not sent"
	NotBegun = "not begun"
)

// A Work is a piece of stuck work, as --json prints it.
type Work struct {
	Key      string   `json:"key"`
	State    string   `json:"state"`
	Age      *float64 `json:"ageSeconds"` // null if the store has no clock
	Owner    string   `json:"owner,omitempty"`
	Attempts int      `json:"attempts"`
	Message  string   `json:"messageId,omitempty"`
	Queue    string   `json:"queue,omitempty"` // that its message was, or was to be, sent to
	Action   string   `json:"action"`          // resend, settle or none
	Why      string   `json:"why"`

	// The result of the action: the id of the message that was sent, or why there is none.
	Sent    string `json:"sentMessageId,omitempty"`
	Settled bool   `json:"settled,omitempty"`
	Error   string `json:"error,omitempty"`

	Waited       time.Duration          `json:"-"` // records.AgeUnknown without a clock
	entry        *claims.Entry          // of the work, if it has one
	registration *producer.Registration // if its message is to be sent again
}

func (w *Work) leave(why string) { w.Action, w.Why = None, why }

// A Sweeper finds stuck work.
type Sweeper struct {
	cfg Config
	// by the names of their queues; they read, and do not send
	producers map[string]*producer.Producer
	queues    []string // those names, in order
	// names of dead-letter queues by the ids of messages that were moved there
	letters map[string]string

	// Entries that are not for a sweep, as of the last Find.
	Parked, Unreadable int
}

// New reads which queues have registrations.
func New(ctx context.Context, cfg Config) (*Sweeper, error) {
	s := &Sweeper{cfg: cfg, producers: make(map[string]*producer.Producer),
		letters: make(map[string]string)}
	registered, err := registeredQueues(ctx, cfg.Ledger.Store)
	if err != nil {
		return nil, err
	}
	for _, name := range cfg.Queues {
		if !slices.Contains(registered, name) {
			return nil, &NotRegistered{name, registered}
		}
	}
	s.queues = registered
	if len(cfg.Queues) > 0 {
		s.queues = slices.Compact(slices.Sorted(slices.Values(cfg.Queues)))
	}
	for _, name := range s.queues {
		if s.producers[name], err = s.producer(unconnected{}, name, name); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// SetLetter reports, before Find, that a queue has moved a message to a dead-letter queue by
// itself.
func (s *Sweeper) SetLetter(message, deadLetter string) { s.letters[message] = deadLetter }

// producer makes a producer that sends to url what is registered for the queue of that name.
func (s *Sweeper) producer(client producer.SQS, name, url string) (*producer.Producer, error) {
	return producer.New(producer.Config{
		Client: client, Store: s.cfg.Ledger.Store, QueueURL: url,
		Prefix: producer.Prefix + name + "/", Owner: cli.Operator(),
		Retention: s.cfg.Ledger.Retention(), Work: s.cfg.Ledger.Ledger,
	})
}

// unconnected is the client of a producer that only looks up registrations.
type unconnected struct{}

func (unconnected) SendMessage(
	context.Context, *sqs.SendMessageInput, ...func(*sqs.Options),
) (*sqs.SendMessageOutput, error) {
	return nil, errors.New("this producer sends nothing")
}

func registeredQueues(ctx context.Context, store records.Store) (names []string, err error) {
	for after := ""; ; {
		found, err := store.List(ctx, producer.Prefix, after, 1)
		switch {
		case err != nil:
			return nil, fmt.Errorf("find registrations: %w", err)
		case len(found) == 0:
			return names, nil
		}
		name, _, ok := strings.Cut(found[0].Key[len(producer.Prefix):], "/")
		if !ok {
			after = found[0].Key // of another program
			continue
		}
		names = append(names, name)
		// the byte behind the slash: beyond all keys of this queue
		after = producer.Prefix + name + "0"
	}
}

// Find returns what is stuck: work that was begun, then messages whose work was never begun.
func (s *Sweeper) Find(ctx context.Context) (found []*Work, err error) {
	entries, err := s.begun(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		w, err := s.judge(ctx, e)
		if err != nil {
			return nil, err
		}
		if w != nil {
			found = append(found, w)
		}
	}
	for _, queue := range s.queues {
		registrations, err := s.producers[queue].Stuck(ctx, s.cfg.Stuck)
		if err != nil {
			return nil, err
		}
		for _, r := range registrations {
			w := newUnsent(queue, r)
			// A producer that died between sending and recording has sent the message, so there may
			// be an entry.
			if _, err := s.cfg.Ledger.Entry(ctx, w.Key); errors.Is(err, claims.ErrNoEntry) {
				found = append(found, w)
			} else if err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// begun returns the entries of work that was begun or given back, and that no worker has been at
// for long.
func (s *Sweeper) begun(ctx context.Context) ([]claims.Entry, error) {
	found, err := s.look(ctx)
	before := make(map[string]records.Version)
	for _, e := range found {
		if e.Age == records.AgeUnknown {
			before[e.Key] = e.Version
		}
	}
	if err != nil || len(before) == 0 {
		return found, err
	}
	if cli.Pause(ctx, s.cfg.Watch); ctx.Err() != nil {
		return nil, ctx.Err()
	}
	found, err = s.look(ctx)
	return slices.DeleteFunc(found, func(e claims.Entry) bool {
		return before[e.Key] != e.Version
	}), err
}

// look reads the ledger once. Of entries without an age it takes those that could be stuck.
func (s *Sweeper) look(ctx context.Context) (found []claims.Entry, err error) {
	s.Parked, s.Unreadable = 0, 0
	clockless := false
	err = s.cfg.Ledger.Each(ctx, "", func(e claims.Entry) (stop bool) {
		lease := time.Duration(0) // for which its holder may work without renewing
		switch e.State {
		case claims.Held:
			lease = e.Lease
		case claims.Failed, claims.Released:
		case claims.Parked:
			s.Parked++
			return false
		case claims.Unreadable:
			s.Unreadable++
			return false
		default:
			return false
		}
		if e.Age == records.AgeUnknown {
			clockless = true
			if lease < s.cfg.Watch {
				found = append(found, e)
			}
			return s.cfg.Watch == 0
		}
		if e.Age-lease >= s.cfg.Stuck {
			found = append(found, e)
		}
		return false
	})
	if err == nil && clockless && s.cfg.Watch == 0 {
		err = ErrNoClock
	}
	return found, err
}

// judge says what can be done about an entry. It returns nil for one that is not stuck after all,
// because its message was sent again lately, and for one that belongs to none of the queues of
// Config.
func (s *Sweeper) judge(ctx context.Context, e claims.Entry) (*Work, error) {
	w := &Work{
		Key: e.Key, State: string(e.State), Age: cli.AgeDocument(e.Age), Owner: e.Owner,
		Attempts: e.Attempts, Message: e.Message,
		Action: None, Waited: e.Age, entry: &e,
	}
	if dead := s.letters[e.Message]; dead != "" && e.Message != "" {
		if w.Queue, w.Action, w.Why = dead, Settle, worker.MovedReason(dead); !e.Stranded() {
			w.leave("its message is in " + dead + ", but its lease may still run")
		}
		return w, nil
	}
	var registered []*producer.Registration
	for _, queue := range s.queues {
		r, err := s.producers[queue].Lookup(ctx, e.Key, 0) // the key includes the generation
		if errors.Is(err, claims.ErrNoEntry) {
			continue
		}
		if err != nil {
			return nil, err
		}
		w.Queue = queue
		if r.MessageID != "" && r.MessageID == e.Message {
			registered = []*producer.Registration{&r}
			break
		}
		registered = append(registered, &r)
	}
	switch {
	case len(registered) == 0 && len(s.cfg.Queues) > 0:
		return nil, nil
	case len(registered) == 0:
		w.Why = "its message is not known: send it again yourself"
	case len(registered) > 1:
		w.Queue, w.Why = "", "it is registered for several queues: name one with --queue"
	case registered[0].Age != records.AgeUnknown && registered[0].Age < s.cfg.Stuck:
		return nil, nil
	case e.Age == records.AgeUnknown:
		w.plan(registered[0], "it has not changed for "+cli.HumanDuration(s.cfg.Watch))
	case e.State == claims.Held:
		w.plan(registered[0], "its holder has been gone for "+cli.AgeText(e.Age-e.Lease))
	default:
		w.plan(registered[0], "no worker has taken it up for "+cli.AgeText(e.Age))
	}
	return w, nil
}

func newUnsent(queue string, r producer.Registration) *Work {
	w := &Work{
		Key: claims.EffectKey(r.Key, r.Generation), State: NotSent, Age: cli.AgeDocument(r.Age),
		Owner:   r.Owner,
		Message: r.MessageID, Queue: queue, Action: None, Waited: r.Age,
	}
	why := "it was registered, and perhaps never sent"
	switch r.State {
	case claims.Completed:
		w.State, why = NotBegun, "it was sent, and no worker ever began the work"
	case claims.Failed:
		why = r.Reason
	case claims.Unreadable:
		w.State, w.Why = string(claims.Unreadable), r.Reason
		return w
	}
	w.plan(&r, why)
	return w
}

// plan decides to send a message again if it is known.
func (w *Work) plan(r *producer.Registration, why string) {
	if r.Message == nil {
		w.Why = why + "; its message was too large to be kept: have its producer send it again"
		return
	}
	w.Action, w.Why, w.registration = Resend, why, r
}
