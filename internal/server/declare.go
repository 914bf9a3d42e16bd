package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tenaq/internal/engine"
)

// A CreationStep creates a queue, or gives one that exists by then its redrive policy.
type CreationStep struct {
	// to be created; one that is only given its policy has its name and nothing else here
	Queue Queue

	// Redrive is the policy of a queue that was created without it. No queue is created then.
	Redrive string
}

// CreationOrder orders queues so that each is created after its dead-letter queue, which must exist
// when it is named. Where that is impossible, because a queue is its own dead-letter queue or some
// form a ring, one is created without its policy and gets it once all are there.
func CreationOrder(queues []Queue) []CreationStep {
	waiting := map[string]bool{}
	for _, q := range queues {
		waiting[q.Name] = true
	}
	var steps, later []CreationStep
	rest := slices.Clone(queues)
	for len(rest) > 0 {
		ready := func(q Queue) bool {
			return !waiting[DeadLetterTarget(q.Attributes["RedrivePolicy"])]
		}
		i := slices.IndexFunc(rest, ready)
		ring := i < 0
		if ring {
			i = onRing(rest)
		}
		next := rest[i]
		if ring {
			later = append(later, CreationStep{Queue: Queue{Name: next.Name},
				Redrive: next.Attributes["RedrivePolicy"]})
			next.Attributes = maps.Clone(next.Attributes)
			delete(next.Attributes, "RedrivePolicy")
		}
		steps = append(steps, CreationStep{Queue: next})
		delete(waiting, next.Name)
		rest = slices.Delete(rest, i, i+1)
	}
	return append(steps, later...)
}

// onRing returns the index of the first queue that is on a certain ring, among queues that all have
// their dead-letter queue among them: following the policies long enough leads into a ring.
func onRing(queues []Queue) int {
	follow := func(i int) int {
		target := DeadLetterTarget(queues[i].Attributes["RedrivePolicy"])
		return slices.IndexFunc(queues, func(q Queue) bool { return q.Name == target })
	}
	start := 0
	for range queues {
		start = follow(start)
	}
	first := start
	for i := follow(start); i != start; i = follow(i) {
		first = min(first, i)
	}
	return first
}

// DeadLetterTarget returns the name of the queue that a redrive policy sends messages to; empty
// when the policy names none.
func DeadLetterTarget(policy string) string {
	var p struct {
		Target string `json:"deadLetterTargetArn"`
	}
	if json.Unmarshal([]byte(policy), &p) != nil {
		return ""
	}
	return p.Target[strings.LastIndexByte(p.Target, ':')+1:]
}

// declare creates the queues of the configuration. One that exists with other attributes stays as
// it is, and is reported: a restart must not change what a person has set since.
func (v *service) declare(ctx context.Context) error {
	err := v.createDeclared(ctx)
	if ctx.Err() != nil {
		return nil // asked to stop before it began
	}
	return err
}

func (v *service) createDeclared(ctx context.Context) error {
	s := v.server
	var missing, present []Queue
	for _, q := range s.cfg.Queues {
		err := v.broker.Do(ctx, &engine.GetQueueURL{Queue: s.nameOf(q), NameSet: true})
		var refusal *engine.Error
		switch {
		case err == nil:
			present = append(present, q)
		case errors.As(err, &refusal):
			missing = append(missing, q) // what is wrong with it comes out when it is created
		default:
			return fmt.Errorf("look for declared queue %s: %w", q.Name, err)
		}
	}
	for _, step := range CreationOrder(missing) {
		var op engine.Op = s.creation(step.Queue)
		if step.Redrive != "" {
			op = &engine.SetQueueAttributes{Queue: s.nameOf(step.Queue),
				Values: map[string]string{"RedrivePolicy": step.Redrive}}
		}
		if err := v.broker.Do(ctx, op); err != nil {
			return declaredError(step.Queue, err)
		}
	}
	for _, q := range present {
		// The queue may have tags of its own beside the declared ones, which CreateQueue would
		// refuse. [QUEUE-12]
		q.Tags = nil
		err := v.broker.Do(ctx, s.creation(q))
		var refusal *engine.Error
		switch {
		case errors.As(err, &refusal) && refusal.Code == engine.CodeQueueExists:
			s.cfg.Logger.Warn("declared queue differs from the one that exists: see tenaq apply",
				"queue", q.Name, "reason", refusal.Message)
		case err != nil:
			return declaredError(q, err)
		}
	}
	return nil
}

func declaredError(q Queue, err error) error {
	var refusal *engine.Error
	if errors.As(err, &refusal) {
		return configError("declared queue %s: %s", q.Name, refusal.Message)
	}
	return fmt.Errorf("create declared queue %s: %w", q.Name, err)
}

func (s *Server) nameOf(q Queue) engine.QueueName {
	return engine.QueueName{Account: s.cfg.Account, Name: q.Name}
}

func (s *Server) creation(q Queue) *engine.CreateQueue {
	op := &engine.CreateQueue{Queue: s.nameOf(q), NameSet: true, Attributes: q.Attributes}
	for k, v := range q.Tags {
		op.Tags = append(op.Tags, engine.Tag{Key: k, Value: v})
	}
	return op
}
