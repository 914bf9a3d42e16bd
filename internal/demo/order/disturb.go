package order

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// What the stage does to the workers. The mutex of the stage is locked when these begin and end.

// disturbMax is how long the stage waits for a process that others need as it is. It is for machines that are
// in trouble.
const disturbMax = time.Minute

// kill kills a worker with -9, and starts another one in its place. It reports false when the worker was dead
// by then.
func (s *stage) kill(worker string) bool {
	crew := s.d.crew
	s.wait(disturbMax, func() bool {
		return !crew.alive(worker) || !crew.stopped(worker) && !s.guarded(worker)
	})
	if !crew.bury(worker) {
		return false
	}
	now := time.Now()
	for _, o := range s.stories {
		if o.holder == worker {
			o.bereft = now
		}
	}
	for run, h := range s.running {
		if h.Worker == worker {
			delete(s.running, run)
		}
	}
	s.killed++
	s.note("kill -9 %s", worker)
	s.aside(func() {
		if err := crew.kill(worker); err != nil {
			s.fail(err)
		}
	})
	s.change()
	return true
}

// freeze stops the worker of a report. Nothing else is done to the worker from then on, until the handler that
// made the report has ended. It reports false when the worker has died.
func (s *stage) freeze(r report) bool {
	s.wait(disturbMax, func() bool { return !s.guarded(r.Worker) })
	h := s.running[r.Run]
	if h == nil {
		return false
	}
	h.guarded = true
	s.busy++ // until it is thawed
	s.note("stop %s", r.Worker)
	if err := s.d.crew.freeze(s.ctx, r.Worker); err != nil {
		s.fail(err)
	}
	return true
}

// thaw lets it go on.
func (s *stage) thaw(r report) {
	s.busy--
	s.note("continue %s", r.Worker)
	if err := s.d.crew.thaw(r.Worker); err != nil {
		s.fail(err)
	}
}

const randomKills = 3

// killAtRandom kills workers that are at work, while the first orders are under way.
func (s *stage) killAtRandom(seed uint64) {
	rng := rand.New(rand.NewPCG(s.d.Seed, seed))
	for range randomKills {
		sleep(s.ctx, lease/3+time.Duration(rng.Int64N(int64(lease/2))))
		s.mu.Lock()
		if workers := s.workersAt(); s.ctx.Err() == nil && len(workers) > 0 {
			if worker := workers[rng.IntN(len(workers))]; s.kill(worker) {
				s.say("killed %s, at a random moment", worker)
			}
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.busy--
	s.mu.Unlock()
}

// sendCopy sends the message of an order once more, as a producer does that registers nothing.
func (s *stage) sendCopy(key string) {
	for i, o := range s.d.work {
		if o.Order != key {
			continue
		}
		ctx, cancel := context.WithTimeout(s.ctx, 15*time.Second)
		defer cancel()
		m := s.d.messages()[i]
		if _, err := s.d.API.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &s.d.QueueURL, MessageBody: &m.Body}); err != nil {
			s.fail(err)
		}
	}
}
