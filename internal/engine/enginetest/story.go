package enginetest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

// A Story is a fixed script, and what has to be found when the power is cut at any moment of it:
// the state that a model is in that has been told the same requests up to some point, and then of
// the cut.
//
// Which point that is, is not for the server to choose freely. Every request that was answered is
// in, and of those in the turn under way the first few, one after the other. A receive that has so
// many dead letters to move that it takes several turns may be found between two of them.
type Story struct {
	steps   []Step
	setup   int // steps before the first that may be cut
	queues  []string
	first   int      // requests of the setup
	moments []moment // after first requests, and after each that follows
	cfg     engine.Config

	mu     sync.Mutex
	probes map[probeKey][]exchange
	right  map[string]bool // what was found after two cuts, and was right
}

// A moment is between two requests.
type moment struct {
	now    int64   // of the request before
	player *Player // knows what the engine has answered so far
	// of models: the state, and those in which the next request has been carried out in part
	states []*Player
}

// ReadStory reads a script with one step to a line. Lines that are indented are entries of the
// batch before them. What comes before the line "cuts" is there from the start. After every step of
// time there is a stamp, as a server would make one soon: the visibility grace counts from it.
func ReadStory(text string) (*Story, error) {
	s := &Story{probes: make(map[probeKey][]exchange), right: make(map[string]bool)}
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.TrimSpace(line) == "" || line[0] == '#':
		case line == "cuts":
			s.setup = len(s.steps)
		case line[0] == ' ':
			if len(s.steps) == 0 {
				return nil, fmt.Errorf("line %d belongs to no step", i+1)
			}
			last := &s.steps[len(s.steps)-1]
			last.Lines = append(last.Lines, strings.TrimSpace(line))
		default:
			s.steps = append(s.steps, Step{Pos: fmt.Sprintf("line %d", i+1), Text: line})
			if name, ok := strings.CutPrefix(line, "create q="); ok {
				s.addQueue(strings.Fields(name)[0])
			}
			if strings.HasPrefix(line, "advance ") {
				s.steps = append(s.steps, Step{Pos: "after it", Text: "stamp"})
			}
		}
	}
	return s, s.rehearse()
}

func (s *Story) addQueue(name string) {
	if !slices.Contains(s.queues, name) {
		s.queues = append(s.queues, name)
	}
}

// A recorder is a machine that is watched.
type recorder struct {
	Machine
	before func(Request) // it is carried out
}

func (m recorder) Do(r Request) error {
	m.before(r)
	return m.Machine.Do(r)
}

// rehearse plays the story twice, against the engine and a model, and remembers every moment of
// both.
func (s *Story) rehearse() error {
	w := NewWorld(Variant{Window: 16})
	defer w.Close()
	p := NewPlayer(w)
	at, requests := 0, 0
	p.machine = recorder{w, func(r Request) {
		if requests++; at < s.setup {
			s.first = requests
			return
		}
		s.moments = append(s.moments, moment{now: w.now, player: p.clone()})
	}}
	var want []string
	for ; at < len(s.steps); at++ {
		answer, err := p.Play(s.steps[at])
		if err != nil {
			return fmt.Errorf("%s: %w", s.steps[at].Pos, err)
		}
		want = append(want, answer)
	}
	s.moments = append(s.moments, moment{now: w.now, player: p.clone()})
	s.cfg = p.cfg

	model := NewModel()
	p = NewPlayer(model)
	at, requests = 0, 0
	p.machine = recorder{model, func(r Request) {
		if at >= s.setup {
			s.moments[requests].states = statesOf(p, model, r)
			requests++
		}
	}}
	for ; at < len(s.steps); at++ {
		answer, err := p.Play(s.steps[at])
		if err != nil || answer != want[at] {
			return fmt.Errorf("%s: %s: the engine answers\n%sand the model\n%s%v", s.steps[at].Pos,
				s.steps[at], want[at], answer, err)
		}
	}
	s.moments[requests].states = []*Player{copied(p, model)}
	return nil
}

// copied returns a player with its model, both on their own.
func copied(p *Player, m *Model) *Player {
	c := p.clone()
	c.machine = m.clone()
	return c
}

// movesAtOnce is how many dead letters one turn moves.
const movesAtOnce = 100

// statesOf are the state before a request and those in which it has been carried out in part.
func statesOf(p *Player, m *Model, r Request) []*Player {
	states := []*Player{copied(p, m)}
	if _, ok := r.Op.(*engine.ReceiveMessage); !ok {
		return states
	}
	for parts := 1; ; parts++ {
		c := copied(p, m)
		model := c.machine.(*Model)
		model.movesMax = parts * movesAtOnce
		_ = model.Do(r) // a refusal has no parts
		if !model.broken {
			return states
		}
		model.movesMax, model.broken = 0, false
		states = append(states, c)
	}
}

// Requests is how many requests of the story can be cut.
func (s *Story) Requests() int { return len(s.moments) - 1 }

// FromTheStart says that nothing of the story comes before the first cut, not even the store.
func (s *Story) FromTheStart() bool { return s.setup == 0 }

// A Telling is a story that is being played.
type Telling struct {
	story  *Story
	world  *World
	player *Player
}

// Tell begins to play the story with a variant, and plays what is there from the start.
func (s *Story) Tell(v Variant) (*Telling, error) {
	t := &Telling{story: s, world: NewWorld(v)}
	t.player = NewPlayer(t.world)
	return t, t.play(s.steps[:s.setup])
}

// Finish plays the rest of the story.
func (t *Telling) Finish() error {
	return t.play(t.story.steps[t.story.setup:])
}

func (t *Telling) play(steps []Step) error {
	for _, step := range steps {
		if _, err := t.player.Play(step); err != nil {
			return fmt.Errorf("%s: %w", step.Pos, err)
		}
	}
	t.world.mustCommit()
	return nil
}

// Close gives the store up.
func (t *Telling) Close() { t.world.Close() }

// A Point is a state of a story: the number of requests that were carried out, and of parts of the
// next one.
type Point struct{ Requests, Parts int }

// Confirmed is the point up to which everything is durable. It may be called at any time from any
// goroutine.
func (t *Telling) Confirmed() Point {
	n := t.world.progress.confirmed.Load()
	p := Point{Requests: max(int(n/partsMax)-t.story.first, 0), Parts: int(n % partsMax)}
	if states := len(t.story.moments[p.Requests].states); p.Parts >= states && p.Parts > 0 {
		p = Point{Requests: p.Requests + 1} // all is moved, and there is nothing to deliver
	}
	return p
}

// Begun is the point that has been reached, durable or not.
func (t *Telling) Begun() Point {
	return Point{Requests: max(int(t.world.progress.begun.Load())-t.story.first, 0)}
}

// An Outage is how long a server is away after a power cut, and the grace that it gives then.
type Outage struct{ Down, Grace time.Duration }

// A Cut is a power cut, or two of them: the second during the recovery from the first.
type Cut struct {
	From, To Point // what is found lies in between, both included
	Outage   Outage

	Twice  bool
	Second Outage
}

// Recover starts a server over what a first power cut has left, and no more.
func (s *Story) Recover(store kv.Store, c Cut) {
	w := NewWorld(Variant{Disk: func() Disk { return found{store} }})
	w.Start(s.cfg, s.restart(c), c.Outage.Grace.Milliseconds())
}

// restart is when the server is started after the first cut.
func (s *Story) restart(c Cut) int64 {
	return s.moments[c.To.Requests].now + c.Outage.Down.Milliseconds()
}

// found is a disk with a store that is open.
type found struct{ store kv.Store }

func (f found) Open() kv.Store { return f.store }
func (f found) Stop(bool)      {}

// Check starts a server over what a cut has left and asks it everything. It returns nil when it
// answers, from the first step to the last, as a server would that was cut at one of the points
// that are possible. Asking empties the store.
func (s *Story) Check(store kv.Store, c Cut) (err error) {
	possible := s.possible(c)
	if len(possible) == 1 {
		return s.ask(store, possible[0])
	}
	// Which point it is shows a copy in memory, of which there can be many.
	rows, digest := copyOf(store)
	if c.Twice {
		// Most cuts of a recovery leave the same, and the same rows give the same answers.
		asked := fmt.Sprint(digest, possible)
		if s.known(asked) {
			return nil
		}
		defer func() {
			if err == nil {
				s.learn(asked)
			}
		}()
	}
	var closest error
	reached := -1
	for _, key := range possible {
		err := s.ask(rows.Crash(0), key)
		if err == nil {
			return s.ask(store, key)
		}
		if wrong := new(wrongAnswer); errors.As(err, &wrong) && wrong.step > reached {
			closest, reached = err, wrong.step
		} else if closest == nil {
			closest = err
		}
	}
	return fmt.Errorf("none of the %d states from %v to %v: the closest %w", len(possible), c.From,
		c.To, closest)
}

// possible are the states that a cut may leave, the newest first.
func (s *Story) possible(c Cut) (keys []probeKey) {
	add := func(p Point) {
		key := probeKey{point: p, now: s.restart(c), outage: c.Outage}
		if !c.Twice {
			keys = append(keys, key)
			return
		}
		second := key
		second.twice, second.second = true, c.Second
		keys = append(keys, second)
		// The first start has left nothing, so the server was away until the second.
		key.now += c.Second.Down.Milliseconds()
		key.outage = Outage{Down: c.Outage.Down + c.Second.Down, Grace: c.Second.Grace}
		keys = append(keys, key)
	}
	for p := c.To; p.Requests >= c.From.Requests; p.Requests-- {
		least := 0
		if p.Requests == c.From.Requests {
			least = c.From.Parts
		}
		if p.Requests < c.To.Requests {
			for part := len(s.moments[p.Requests].states) - 1; part > max(least-1, 0); part-- {
				add(Point{p.Requests, part})
			}
		}
		if least == 0 {
			add(Point{p.Requests, 0})
		}
	}
	return keys
}

func (s *Story) known(asked string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.right[asked]
}

func (s *Story) learn(asked string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.right[asked] = true
}

// copyOf returns a copy of a store in memory, and what tells it from others.
func copyOf(store kv.Store) (m *kv.Memory, digest [sha256.Size]byte) {
	m = kv.NewMemory()
	b, h := m.NewBatch(), sha256.New()
	for k, v := range store.Scan([]byte{1}, nil) {
		b.Set(k, v)
		fmt.Fprintf(h, "%d %s %d %s", len(k), k, len(v), v)
	}
	b.Force()()
	return m, [sha256.Size]byte(h.Sum(nil))
}
