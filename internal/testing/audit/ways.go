package audit

import (
	"maps"
	"math"
	"slices"
	"time"
)

// ways is where messages can go: from queues to their dead-letter queues and where tasks park them,
// keeping their IDs, and where tasks move them, as new messages.
type ways struct {
	queues map[string]Queue
	moves  map[string]time.Duration // when the first task of a queue can have begun
	parks  map[string][]string      // where tasks of a queue park its messages

	origins map[string][]string // queues in which a message can begin that was sent to a queue
	costs   map[string]map[string]int
	lower   map[string][]string
	movable map[string]bool
}

func newWays(h *History) *ways {
	w := &ways{
		queues: h.Queues, moves: map[string]time.Duration{}, parks: map[string][]string{},
		origins: map[string][]string{}, costs: map[string]map[string]int{},
		lower: map[string][]string{}, movable: map[string]bool{},
	}
	to := map[string][]string{} // destinations of tasks
	began := func(queue string, at time.Duration) {
		if from, ok := w.moves[queue]; ok {
			at = min(from, at)
		}
		w.moves[queue] = at
	}
	for i := range h.Moves {
		if m := &h.Moves[i]; m.Outcome != Refused {
			began(m.Source, m.Call)
			to[m.Source] = append(to[m.Source], w.targets(m)...)
		}
	}
	for _, t := range h.Tasks {
		if t.Outcome == Refused {
			continue
		}
		began(t.Source, t.Call)
		switch t.Do {
		case MoveWork:
			to[t.Source] = append(to[t.Source], t.Destination)
		case ParkWork:
			w.parks[t.Source] = append(w.parks[t.Source], t.Destination)
		}
	}
	for _, r := range h.Replacements {
		if r.Outcome != Refused {
			began(r.Queue, r.Call)
			to[r.Queue] = append(to[r.Queue], r.Destination)
		}
	}
	for name, next := range to {
		to[name] = distinct(next)
	}
	for name, next := range w.parks {
		w.parks[name] = distinct(next)
	}
	for name := range w.queues {
		w.origins[name] = w.reach(name, to)
	}
	return w
}

func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// targets returns the queues to which a move task can take messages.
func (w *ways) targets(m *Move) (names []string) {
	if m.Destination != "" {
		return []string{m.Destination}
	}
	for _, name := range slices.Sorted(maps.Keys(w.queues)) {
		if w.queues[name].DeadLetter == m.Source {
			names = append(names, name)
		}
	}
	return names
}

// reach returns the queue and those in which tasks can have put its messages again.
func (w *ways) reach(name string, to map[string][]string) []string {
	origins := []string{name}
	for i := 0; i < len(origins); i++ {
		for _, q := range w.below(origins[i]) {
			for _, next := range to[q] {
				if !slices.Contains(origins, next) {
					origins = append(origins, next)
				}
			}
		}
	}
	return origins
}

// below returns the queue and those to which its messages can come while they keep their IDs.
func (w *ways) below(name string) []string {
	names, ok := w.lower[name]
	if !ok {
		names = slices.Sorted(maps.Keys(w.costsFrom(name)))
		w.lower[name] = names
	}
	return names
}

// path tells whether a message can go from one queue to another while it keeps its ID, and which
// receive count it must have reached then.
func (w *ways) path(from, to string) (receives int, ok bool) {
	receives, ok = w.costsFrom(from)[to]
	return receives, ok
}

func (w *ways) costsFrom(name string) map[string]int {
	costs, ok := w.costs[name]
	if ok {
		return costs
	}
	costs = map[string]int{name: 0}
	for changed := true; changed; {
		changed = false
		pass := func(next string, cost int) {
			if known, ok := costs[next]; !ok || cost < known {
				costs[next], changed = cost, true
			}
		}
		for _, q := range slices.Sorted(maps.Keys(costs)) {
			if dead := w.queues[q].DeadLetter; dead != "" {
				pass(dead, max(costs[q], w.queues[q].MaxReceives))
			}
			for _, next := range w.parks[q] {
				pass(next, costs[q])
			}
		}
	}
	w.costs[name] = costs
	return costs
}

// isMovable tells whether a task can have taken a message that was sent to a queue.
func (w *ways) isMovable(queue string) bool {
	movable, ok := w.movable[queue]
	if !ok {
		movable = slices.ContainsFunc(w.below(queue), func(q string) bool {
			_, ok := w.moves[q]
			return ok
		})
		w.movable[queue] = movable
	}
	return movable
}

// retention is the shortest period for which a queue may have kept a message that was sent to a
// queue; zero when none of them ends messages.
func (w *ways) retention(queue string) (shortest time.Duration) {
	origins := w.origins[queue]
	if len(origins) == 0 {
		origins = []string{queue}
	}
	for _, origin := range origins {
		for _, q := range w.below(origin) {
			if age := w.queues[q].Retention; age > 0 && (shortest == 0 || age < shortest) {
				shortest = age
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
