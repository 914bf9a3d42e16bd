package audit

import (
	"maps"
	"math"
	"slices"
	"time"
)

// ways is where messages can go: from queues to their dead-letter queues, keeping their IDs, and
// with move tasks, as new messages.
type ways struct {
	queues map[string]Queue
	moves  map[string]time.Duration // when the first task of a queue can have begun

	origins   map[string][]string // queues in which a message can begin that was sent to a queue
	exhausted map[[2]string]int   // see path
}

func newWays(h *History) *ways {
	w := &ways{
		queues: h.Queues, moves: map[string]time.Duration{},
		origins: map[string][]string{}, exhausted: map[[2]string]int{},
	}
	to := map[string][]string{} // destinations of tasks
	for _, m := range h.Moves {
		if m.Outcome == Refused {
			continue
		}
		from, ok := w.moves[m.Source]
		if !ok {
			from = m.Call
		}
		w.moves[m.Source] = min(from, m.Call)
		if m.Destination != "" {
			to[m.Source] = append(to[m.Source], m.Destination)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(w.queues)) {
			if w.queues[name].DeadLetter == m.Source {
				to[m.Source] = append(to[m.Source], name)
			}
		}
	}
	for name := range w.queues {
		w.origins[name] = w.reach(name, to)
	}
	return w
}

// reach returns the queue and those in which tasks can have put its messages again.
func (w *ways) reach(name string, to map[string][]string) []string {
	origins := []string{name}
	for i := 0; i < len(origins); i++ {
		for q, n := origins[i], 0; q != "" &&
			n <= len(w.queues); q, n = w.queues[q].DeadLetter, n+1 {
			for _, next := range to[q] {
				if !slices.Contains(origins, next) {
					origins = append(origins, next)
				}
			}
		}
	}
	return origins
}

// path tells whether a message can go from one queue to another by being dead-lettered, and which
// receive count it must have reached then.
func (w *ways) path(from, to string) (receives int, ok bool) {
	if from == to {
		return 0, true
	}
	receives, ok = w.exhausted[[2]string{from, to}]
	if !ok {
		receives = -1
		most := 0
		for q, n := from, 0; n < len(w.queues); n++ {
			most = max(most, w.queues[q].MaxReceives)
			if q = w.queues[q].DeadLetter; q == "" {
				break
			}
			if q == to {
				receives = most
				break
			}
		}
		w.exhausted[[2]string{from, to}] = receives
	}
	return receives, receives >= 0
}

// movable tells whether a task can have moved a message that was sent to a queue.
func (w *ways) movable(queue string) bool {
	for q, n := queue, 0; n <= len(w.queues); n++ {
		if _, ok := w.moves[q]; ok {
			return true
		}
		if q = w.queues[q].DeadLetter; q == "" {
			return false
		}
	}
	return false
}

// retention is the shortest period for which a queue may have kept a message that was sent to a
// queue; zero when none of them ends messages.
func (w *ways) retention(queue string) (shortest time.Duration) {
	origins := w.origins[queue]
	if len(origins) == 0 {
		origins = []string{queue}
	}
	for _, q := range origins {
		for n := 0; n <= len(w.queues); n++ {
			if age := w.queues[q].Retention; age > 0 && (shortest == 0 || age < shortest) {
				shortest = age
			}
			if q = w.queues[q].DeadLetter; q == "" {
				break
			}
		}
	}
	return shortest
}

// begins returns the queues in which a message may have begun its life under the ID that it has.
func (w *ways) begins(m *message) []string {
	if origins := w.origins[m.body.queue]; !m.acked && len(origins) > 0 {
		return origins
	}
	return []string{m.body.queue}
}

// moved is when the first task of a queue can have moved a message.
func (w *ways) moved(queue string) time.Duration {
	if at, ok := w.moves[queue]; ok {
		return at
	}
	return math.MaxInt64
}
