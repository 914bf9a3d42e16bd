package v1

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"sync"
	"time"

	"tenaq/internal/broker"
	"tenaq/internal/engine"
	"tenaq/internal/observe/tally"
)

// lives are the live streams of a handler. While there are any, one goroutine samples for all of
// them: the counters of queues, which are in memory, and with one command a second the places of
// messages of the queues that streams show.
type lives struct {
	broker   *broker.Broker
	account  string
	instance string        // another one after each start
	began    time.Time     // when the counts began
	stopping chan struct{} // closed when streams must end
	stop     func()
	unwatch  *time.Timer // ends the last watches [V1-22]

	mu      sync.Mutex
	streams []*liveStream
	running bool
}

// A sample is what all streams are told at one moment. It does not change.
type sample struct {
	n      int64
	at     time.Time
	totals counted
	counts map[string]counted // since the start
	depths map[string]*depth

	silence time.Duration // since a commit reached the disk
}

func newLives(b *broker.Broker, account string) *lives {
	l := &lives{broker: b, account: account, instance: rand.Text(), began: time.Now(),
		stopping: make(chan struct{})}
	l.stop = sync.OnceFunc(func() { close(l.stopping) })
	l.unwatch = time.AfterFunc(tally.WatchLinger, func() { b.Tally().EndWatches() })
	l.unwatch.Stop() // until there is a watch
	return l
}

// watch begins or continues to watch a queue. [V1-22]
func (l *lives) watch(q engine.QueueName, shown bool) bool {
	defer l.unwatch.Reset(tally.WatchLinger)
	return l.broker.Tally().Watch(q.Account, q.Name, shown)
}

// enter takes up a stream, or refuses it when there are too many.
func (l *lives) enter(s *liveStream) error {
	select {
	case <-l.stopping:
		return broker.ErrStopped
	default:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ofKey, names := 0, slices.Clone(s.queues)
	for _, other := range l.streams {
		if other.key == s.key {
			ofKey++
		}
		names = append(names, other.queues...)
	}
	slices.Sort(names)
	if len(l.streams) >= liveStreams || ofKey >= liveStreamsOfKey ||
		len(slices.Compact(names)) > liveQueuesTogether {
		return &Error{http.StatusTooManyRequests, "TooManyStreams",
			"Too many live streams are open: close some, or ask GET /v1/queues every few seconds."}
	}
	l.streams = append(l.streams, s)
	if !l.running {
		l.running = true
		go l.run()
	}
	return nil
}

func (l *lives) leave(s *liveStream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams = slices.DeleteFunc(l.streams, func(other *liveStream) bool { return other == s })
}

// run samples until there are no streams.
func (l *lives) run() {
	period := time.NewTicker(livePeriod)
	defer period.Stop()
	for n := int64(1); ; n++ {
		l.mu.Lock()
		streams := slices.Clone(l.streams)
		l.running = len(streams) > 0
		l.mu.Unlock()
		if len(streams) == 0 {
			return
		}
		now := l.sample(streams)
		now.n = n
		for _, s := range streams {
			select {
			case <-s.ticks: // its client reads too slowly
			default:
			}
			s.ticks <- now
		}
		select {
		case <-period.C:
		case <-l.stopping:
			return // no stream begins again
		}
	}
}

// sample reads the counters and asks the writer where messages are, for at most half a period.
func (l *lives) sample(streams []*liveStream) *sample {
	s := &sample{at: time.Now(), counts: make(map[string]counted),
		depths: make(map[string]*depth), silence: l.broker.Silence()}
	l.broker.Tally().Each(func(t *tally.Queue) {
		if t.Account != l.account {
			return
		}
		c := counted{t.Sent.Value(), t.Received.Value(),
			t.Deleted.Value() + t.DeletedStale.Value() + t.DeletedGone.Value()}
		s.totals.add(c)
		s.counts[t.Name] = c
	})
	op := &engine.Gauges{}
	for _, stream := range streams {
		for _, name := range stream.queues {
			of := engine.QueueName{Account: l.account, Name: name}
			if !slices.Contains(op.Queues, of) {
				op.Queues = append(op.Queues, of)
				l.watch(of, true)
			}
		}
	}
	if len(op.Queues) == 0 {
		return s
	}
	ctx, cancel := context.WithTimeout(context.Background(), livePeriod/2)
	defer cancel()
	if l.broker.Do(ctx, op) != nil {
		return s // a later tick has them
	}
	for _, g := range op.Gauges {
		s.depths[g.Queue.Name] = &depth{g.Visible, g.InFlight, g.Delayed, g.Age}
	}
	return s
}
