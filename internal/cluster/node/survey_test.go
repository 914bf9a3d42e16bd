package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"tenaq/internal/cluster"
	"tenaq/internal/kv/pebblekv"
)

func TestSeatTroubles(t *testing.T) {
	now := time.Now()
	at := func(index uint64) pebblekv.Position { return pebblekv.Position{Index: index} }
	voter := raft.Server{ID: "n2", Address: "b:2"}
	learner := raft.Server{ID: "n2", Address: "b:2", Suffrage: raft.Nonvoter}
	well := seat{server: voter, card: card{State: member, Position: at(10)}, answered: now, moved: now}
	change := func(f func(s *seat)) seat { s := well; f(&s); return s }
	for name, tt := range map[string]struct {
		seat seat
		want []string
	}{
		"well":                {well, nil},
		"silent for a moment": {change(func(s *seat) { s.silent, s.answered = true, now.Add(-9*time.Second) }), nil},
		"silent":              {change(func(s *seat) { s.silent, s.answered = true, now.Add(-10*time.Second) }), []string{voterUnreachable}},
		"silent learner":      {change(func(s *seat) { s.silent, s.answered, s.server = true, now.Add(-10*time.Second), learner }), nil},
		"stopped":             {change(func(s *seat) { s.card.State = stopped }), []string{replicaStopped}},
		"at work":             {change(func(s *seat) { s.card.Position = at(1) }), nil},
		"stuck":               {change(func(s *seat) { s.card.Position, s.moved = at(1), now.Add(-10*time.Second) }), []string{followerBehind}},
		"idle":                {change(func(s *seat) { s.moved = now.Add(-time.Hour) }), nil},
		"clock":               {change(func(s *seat) { s.ahead = -501 * time.Millisecond }), []string{clockDifference}},
		"clock, a little":     {change(func(s *seat) { s.ahead = 500 * time.Millisecond }), nil},
		"stuck, with a clock": {change(func(s *seat) { s.card.Position, s.moved, s.ahead = at(1), now.Add(-time.Minute), time.Second }), []string{followerBehind, clockDifference}},
	} {
		var names []string
		for _, trouble := range tt.seat.troubles(10, 10*time.Second, now) {
			names = append(names, trouble.Name)
			if !strings.HasPrefix(trouble.Text, "n2 at b:2 ") {
				t.Errorf("%s: %q does not begin with the node", name, trouble.Text)
			}
		}
		if !slices.Equal(names, tt.want) {
			t.Errorf("%s: %v, want %v", name, names, tt.want)
		}
	}
}

func TestSeatTakes(t *testing.T) {
	var s seat
	now := time.Now()
	answer := func(after time.Duration, index, front uint64, state state) {
		s.take(reply{card: card{State: state, Position: pebblekv.Position{Index: index}}},
			now.Add(after), front)
	}
	is := func(what string, moved, near time.Duration) {
		t.Helper()
		want := now.Add(near)
		if near < 0 {
			want = time.Time{}
		}
		if !s.moved.Equal(now.Add(moved)) || !s.nearFrom.Equal(want) {
			t.Errorf("%s: moved %v, near from %v", what, s.moved.Sub(now), s.nearFrom.Sub(now))
		}
	}
	answer(0, 5, 10_000, member)
	is("far behind", 0, -1)
	answer(1, 5, 10_000, member)
	is("stuck", 0, -1)
	answer(2, 9_000, 10_000, member)
	is("near", 2, 2)
	answer(3, 9_001, 10_000, member)
	is("still near", 3, 2)
	answer(4, 9_001, 10_002, member)
	is("behind again", 3, -1)
	answer(5, 10_002, 10_002, member)
	answer(6, 10_002, 10_002, member)
	is("at rest", 6, 5)
	answer(7, 10_002, 10_002, stopped)
	is("stopped", 7, -1)
	answer(8, 10_002, 10_002, member)
	s.take(reply{err: errOtherNode}, now.Add(9), 10_002)
	is("silent", 8, -1)
}

// The leader alone reports the trouble of a member, for as long as it lasts.
func TestTroubles(t *testing.T) {
	r := newRig(t, 3)
	for _, m := range r.machines {
		m.change = func(cfg *Config) { cfg.patient = 3 * beat }
	}
	r.start(r.machines...)
	r.settle(r.machines...)
	has := func(name string) bool {
		return slices.ContainsFunc(r.leader().node.Troubles(), func(t cluster.Trouble) bool {
			return t.Name == name
		})
	}
	lost := r.voter()
	id := lost.id()
	lost.kill()
	r.await("a lost voter is reported", func() bool { return has(voterUnreachable) })
	if r.leader().node.AnyLow() {
		t.Error("a disk is low")
	}
	said := func(text string) bool { // the leader may have changed
		return slices.ContainsFunc(r.machines, func(m *machine) bool { return m.log.has(text) })
	}
	if !said("member does not answer") {
		t.Error("the log does not say that a member does not answer")
	}
	lost.change = func(cfg *Config) {
		cfg.wall = func() time.Time { return time.Now().Add(time.Minute) }
		cfg.Low = func() bool { return true }
	}
	lost.start()
	r.await("its clock is reported", func() bool { return has(clockDifference) })
	r.await("it is back, and its disk is low", func() bool {
		return !has(voterUnreachable) && r.leader().node.AnyLow()
	})
	i := slices.IndexFunc(r.machines, func(m *machine) bool { return m != lost })
	m, _ := r.machines[i].member(id)
	if m.Clock < 59 || m.Clock > 61 || !strings.Contains(m.Trouble, "free disk space") {
		t.Errorf("member %+v", m)
	}
	r.await("the others report no troubles", func() bool {
		leader := r.leader()
		return !slices.ContainsFunc(r.machines, func(m *machine) bool {
			return m != leader && m.node.Troubles() != nil
		})
	})
}

// A node that was admitted a moment ago does not know it yet. The status says that it catches up,
// and not that it is lost and has to be replaced.
func TestAdmittedMember(t *testing.T) {
	n := &Node{id: "one"}
	two := raft.Server{ID: "two", Address: "b:9326", Suffrage: raft.Nonvoter}
	for _, test := range []struct {
		what     string
		server   raft.Server
		answered card
		want     cluster.Role
	}{
		{"a learner that knows of no cluster", two, card{ID: "two"}, cluster.Learner},
		{"a learner of another cluster", two, card{ID: "two", Group: "other"}, cluster.Unreachable},
		{"another node", two, card{ID: "three"}, cluster.Unreachable},
		{"a voter that knows of no cluster", raft.Server{ID: "two"}, card{ID: "two"}, cluster.Unreachable},
	} {
		m := n.memberOf(test.server, reply{card: test.answered, err: errOtherNode})
		if m.Role != test.want || (m.Trouble == "") != (test.want == cluster.Learner) {
			t.Errorf("%s: %s, %q, want %s", test.what, m.Role, m.Trouble, test.want)
		}
	}
}

func TestMetrics(t *testing.T) {
	r := running(t, 3)
	var leader *machine
	r.await("the leader knows its followers", func() bool {
		leader = r.leader()
		return len(leader.node.Metrics().Followers) == 2
	})
	for _, m := range r.machines {
		got := m.node.Metrics()
		if m == leader {
			if got.Role != cluster.Leader || got.Takeovers == 0 || got.Committed == 0 ||
				got.Last < got.Committed || got.Applied > got.Committed || got.Term == 0 {
				t.Errorf("leader: %+v", got)
			}
		} else if got.Role != cluster.Follower || len(got.Followers) > 0 {
			t.Errorf("follower: %+v", got)
		}
	}
	for _, f := range leader.node.Metrics().Followers {
		if !f.Reachable || f.Ahead < -1 || f.Ahead > 1 {
			t.Errorf("%+v", f)
		}
	}
	waiting := r.add()
	if got := waiting.node.Metrics(); got.Role != "" || got.CommitSeconds == nil {
		t.Errorf("waiting: %+v", got)
	}
}

// A write of the log that takes long ends the process, and one that ends in time does not, however
// many there are.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fatal := make(chan error, 1)
		n := &Node{cfg: Config{Fatal: func(err error) { fatal <- err }}, timed: new(timedLog)}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go n.watchDisk(ctx)
		write := func(last time.Duration) {
			n.timed.begin()
			time.Sleep(last)
			n.timed.end()
		}
		for i := range 5 {
			time.AfterFunc(time.Duration(i)*3*time.Second, func() { write(4 * time.Second) })
		}
		time.Sleep(time.Minute)
		if err := errors.Join(drain(fatal)...); err != nil {
			t.Errorf("writes of 4 s: %v", err)
		}
		go write(7 * time.Second)
		time.Sleep(time.Minute)
		if got := drain(fatal); len(got) != 1 || !strings.Contains(got[0].Error(), "storage hangs") {
			t.Errorf("a write of 7 s: %v", got)
		}
	})
}

// A process that is stopped for a minute in the middle of a write looks twice: the disk has not
// hung.
func TestWatchdogOfStoppedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(timedLog)
		log.begin()
		for range 2 {
			if log.look() {
				t.Error("the disk is said to hang")
			}
			time.Sleep(time.Minute)
		}
	})
}

func drain(errs chan error) (all []error) {
	for {
		select {
		case err := <-errs:
			all = append(all, err)
		default:
			return all
		}
	}
}
