package outboxtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"tenaq/internal/testing/proof"
	"tenaq/outbox"
)

// A street is what testRelays sees: rows that were committed, who has them in hand, and who sent
// them.
type street struct {
	mu        sync.Mutex
	committed map[string][]string // bodies by stream, in the order of the commits
	places    map[string]int      // in them, by body
	hands     map[string]hand     // by body
	sent      map[string]int      // by body: how often
	// by stream: the place of the last row that was sent for the first time
	reached map[string]int
	total   int
	wrong   []string
}

// A hand has a row until its lease has ended by the relay's own clock.
type hand struct {
	relay string
	until time.Time
}

func (s *street) complain(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// Relays that work at once, beside programs that write, and die now and then lose nothing, never
// share a row, and keep the order of each stream.
func testRelays(e *env) {
	s := &street{
		committed: make(map[string][]string), places: make(map[string]int),
		hands: make(map[string]hand), sent: make(map[string]int), reached: make(map[string]int),
	}
	const writers, relays = 2, 3
	perWriter := proof.Few(40)
	var writing, relaying sync.WaitGroup
	for w := range writers {
		rng := rand.New(rand.NewPCG(e.rng.Uint64(), 1))
		writing.Go(func() {
			for i := range perWriter {
				e.writeSome(s, rng, fmt.Sprintf("%d-%d", w, i))
			}
		})
	}
	finished := make(chan struct{})
	for i := range relays {
		b, rng := e.Open(e), rand.New(rand.NewPCG(e.rng.Uint64(), 2))
		relaying.Go(func() { e.relaySome(s, rng, b, fmt.Sprint("relay ", i), finished) })
	}
	writing.Wait()
	close(finished)
	relaying.Wait()
	for _, w := range s.wrong[:min(len(s.wrong), 10)] {
		e.Error(w)
	}
	if len(s.sent) != s.total {
		e.Errorf("%d rows of %d were sent", len(s.sent), s.total)
	}
	twice := 0
	for _, n := range s.sent {
		twice += n - 1
	}
	e.Logf("%d rows, %d sends of what was sent before", s.total, twice)
}

// writeSome writes to one stream and beside it. Commits to one stream take turns, so that their
// order is known.
func (e *env) writeSome(s *street, rng *rand.Rand, name string) {
	stream := string(rune('a' + rng.IntN(4)))
	var messages []outbox.Message
	for i := range 1 + rng.IntN(4) {
		messages = append(messages,
			outbox.Message{Queue: "q.fifo", Key: stream, Body: fmt.Sprint(name, "-", i)})
	}
	messages = append(messages, outbox.Message{Queue: "plain", Key: stream, Body: name})
	commit := rng.IntN(5) > 0
	s.mu.Lock()
	defer s.mu.Unlock()
	if commit {
		for _, m := range messages {
			s.total++
			if m.Queue == "plain" {
				continue
			}
			s.places[m.Body] = len(s.committed[stream])
			s.committed[stream] = append(s.committed[stream], m.Body)
		}
	}
	if err := e.Enqueue(e.ctx, commit, messages...); err != nil {
		s.complain("enqueue: %v", err)
	}
}

// relaySome is a relay that sends in order and now and then dies: with rows in hand, or after it
// has sent them and not said so. It ends when the writers have and nothing is left.
func (e *env) relaySome(
	s *street, rng *rand.Rand, b outbox.Box, name string, finished <-chan struct{},
) {
	lives := 0
	for start := e.now(); ; {
		over := false
		select {
		case <-finished:
			over = true
		default:
		}
		relay := fmt.Sprint(name, " in life ", lives)
		began := time.Now()
		rows, next, err := b.Claim(e.ctx,
			outbox.Claim{Relay: relay, Lease: short, Rows: 1 + rng.IntN(20), Bytes: 1 << 20,
				Stream: 1 + rng.IntN(5)})
		if err != nil {
			s.mu.Lock()
			s.complain("claim: %v", err)
			s.mu.Unlock()
			return
		}
		if len(rows) == 0 {
			stats, err := b.Stats(e.ctx)
			if over && (err != nil || stats.Pending == 0) {
				return
			}
			if e.now()-start > time.Minute {
				s.mu.Lock()
				s.complain("a minute later %d rows are pending still, and none is handed out",
					stats.Pending)
				s.mu.Unlock()
				return
			}
			_ = b.Wait(e.ctx, max(10*time.Millisecond, min(next, short/2)))
			continue
		}
		s.receive(rows, relay, began.Add(short))
		dies := rng.IntN(8)
		if dies == 0 {
			lives++
			continue
		}
		outcomes := s.send(rows, relay, rng)
		if dies == 1 {
			lives++
			continue
		}
		if rng.IntN(10) == 0 {
			if _, err := b.Renew(e.ctx, relay, short); err != nil {
				s.mu.Lock()
				s.complain("renew: %v", err)
				s.mu.Unlock()
			}
		}
		s.drop(rows, relay)
		if err := b.Settle(e.ctx, relay, outcomes); err != nil {
			s.mu.Lock()
			s.complain("settle: %v", err)
			s.mu.Unlock()
			return
		}
	}
}

// receive notes whose the rows are, and until when by the relay's own clock, which is no later than
// the box says.
func (s *street) receive(rows []outbox.Row, relay string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, r := range rows {
		if h, ok := s.hands[r.Body]; ok && now.Before(h.until.Add(-slack)) {
			s.complain("%s got %s, which %s has for another %v", relay, r.Body, h.relay,
				h.until.Sub(now))
		}
		s.hands[r.Body] = hand{relay, until}
	}
}

// send sends what the relay still may, some of it, and returns the outcomes. Of each stream it
// sends no row behind one that it did not send.
func (s *street) send(rows []outbox.Row, relay string, rng *rand.Rand) (outcomes []outbox.Outcome) {
	var stopped []string
	for _, r := range rows {
		time.Sleep(upTo(rng, 2*time.Millisecond))
		s.mu.Lock()
		h := s.hands[r.Body]
		mine := h.relay == relay && time.Now().Before(h.until)
		switch {
		case r.Stream != "" && slices.Contains(stopped, r.Stream), !mine, rng.IntN(10) == 0:
			stopped = append(stopped, r.Stream)
			outcomes = append(outcomes, outbox.Outcome{ID: r.ID, Fate: outbox.Fate(1 + rng.IntN(2)),
				After: upTo(rng, 50*time.Millisecond)})
		default:
			s.note(r)
			outcomes = append(outcomes, outbox.Outcome{ID: r.ID, Fate: outbox.Sent})
		}
		s.mu.Unlock()
	}
	return outcomes
}

// note writes down that a row was sent. The first sends of a stream's rows are in its order.
func (s *street) note(r outbox.Row) {
	if s.sent[r.Body]++; s.sent[r.Body] > 1 || r.Stream == "" {
		return
	}
	place, ok := s.places[r.Body]
	if !ok {
		s.complain("%s was sent and never committed", r.Body)
	}
	if want := s.reached[r.Stream]; place != want {
		s.complain("%s is number %d of its stream and was sent when number %d was next", r.Body,
			place, want)
	}
	s.reached[r.Stream] = place + 1
}

// drop takes rows out of the hand of a relay, before it reports their outcomes.
func (s *street) drop(rows []outbox.Row, relay string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rows {
		if s.hands[r.Body].relay == relay {
			delete(s.hands, r.Body)
		}
	}
}
