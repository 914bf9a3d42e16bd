package node

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"tenaq/internal/cluster"
	"tenaq/internal/cluster/group"
)

const (
	surveyEvery = time.Second
	near        = 1000             // entries by which a learner may be behind to get its vote
	steady      = 10 * time.Second // for how long it must have been so
	patient     = 10 * time.Second // before a member that does nothing is a trouble
	clockMax    = 500 * time.Millisecond
)

// A seat is what the leader knows of another member.
type seat struct {
	server raft.Server
	card   card          // its last one
	ahead  time.Duration // its clock
	silent bool          // it did not answer the last time

	answered time.Time // the last time, or when the leader first asked
	moved    time.Time // it applied an entry, or had none to apply
	nearFrom time.Time // it has been near the leader since then; zero when it is not
}

// survey asks the other members how they are, again and again until ctx is done. A leader gives
// learners their votes; another node finds out whether it was removed.
func (n *Node) survey(ctx context.Context) {
	tick := time.NewTicker(min(surveyEvery, n.cfg.Heartbeat))
	defer tick.Stop()
	for !n.membership.Load().removed {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		g := n.part.Load().group
		if n.Leads() {
			n.visit(ctx, g)
			continue
		}
		n.mu.Lock()
		n.seats = nil
		n.mu.Unlock()
		if n.LeaderSeen() > 2*n.cfg.Heartbeat || !among(g.Servers(), n.id) {
			n.lookForRemoval(ctx)
		}
	}
}

// visit brings the seats up to date, and changes what they call for.
func (n *Node) visit(ctx context.Context, g *group.Group) {
	servers, front := g.Servers(), g.Position().Index
	replies := n.exchangeWith(ctx, servers)
	if ctx.Err() != nil {
		return
	}
	var ready, moved []raft.Server
	seats := make(map[raft.ServerID]seat)
	n.mu.Lock()
	before, now := n.seats, time.Now()
	n.moved[n.id] = raft.ServerAddress(n.cfg.Advertise)
	for _, s := range servers {
		if at, ok := n.moved[s.ID]; ok && at != s.Address {
			s.Address = at
			moved = append(moved, s)
		}
		if s.ID == n.id {
			continue
		}
		seat, known := before[s.ID]
		if !known {
			seat.answered, seat.moved = now, now
		}
		seat.server = s
		seat.take(replies[s.ID], now, front)
		if seat.silent != before[s.ID].silent {
			n.noteSilence(seat, replies[s.ID].err)
		}
		if s.Suffrage != raft.Voter && !seat.nearFrom.IsZero() &&
			now.Sub(seat.nearFrom) >= n.cfg.steady {
			ready = append(ready, s)
		}
		seats[s.ID] = seat
	}
	n.seats = seats
	clear(n.moved)
	n.mu.Unlock()
	for _, s := range moved {
		ctx, cancel := context.WithTimeout(ctx, cardTimeout)
		if g.Add(ctx, s) == nil {
			n.cfg.Logger.Info("member changed its address", "node", s.ID, "address", s.Address)
		}
		cancel()
	}
	for _, s := range ready {
		s.Suffrage = raft.Voter
		ctx, cancel := context.WithTimeout(ctx, cardTimeout)
		if g.Add(ctx, s) == nil {
			n.cfg.Logger.Info("member became a voter", "node", s.ID, "address", s.Address)
		}
		cancel()
	}
}

// take notes an answer, given how far the leader was before.
func (s *seat) take(r reply, now time.Time, front uint64) {
	s.silent = r.err != nil
	if s.silent {
		s.nearFrom = time.Time{}
		return
	}
	if at := r.card.Position.Index; at > s.card.Position.Index || at >= front {
		s.moved = now
	}
	s.card, s.ahead, s.answered = r.card, r.ahead, now
	if r.card.State != member || r.card.Position.Index+near < front {
		s.nearFrom = time.Time{}
	} else if s.nearFrom.IsZero() {
		s.nearFrom = now
	}
}

func (n *Node) noteSilence(s seat, err error) {
	if s.silent {
		n.cfg.Logger.Warn("member does not answer", "node", s.server.ID,
			"address", s.server.Address, "error", err)
	} else {
		n.cfg.Logger.Info("member answers again", "node", s.server.ID, "address", s.server.Address)
	}
}

// AnyLow reports whether the disk of this node, or of another voter by its last answer, is below
// its reserve.
func (n *Node) AnyLow() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.seats {
		if s.server.Suffrage == raft.Voter && s.card.Low {
			return true
		}
	}
	return n.cfg.Low()
}

// Names of troubles.
const (
	followerBehind   = "cluster/follower-behind"
	clockDifference  = "cluster/clock-difference"
	replicaStopped   = "cluster/replica-stopped"
	voterUnreachable = "cluster/voter-unreachable"
)

// Troubles returns what needs an operator, as the leader sees it. Other nodes report none.
func (n *Node) Troubles() (troubles []cluster.Trouble) {
	g, err := n.leading()
	if err != nil {
		return nil
	}
	front, now := g.Position().Index, time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, server := range g.Servers() {
		if s, ok := n.seats[server.ID]; ok {
			troubles = append(troubles, s.troubles(front, n.cfg.patient, now)...)
		}
	}
	return troubles
}

// troubles are those with one member. What lasts for less than patient is none.
func (s seat) troubles(front uint64, patient time.Duration, now time.Time) []cluster.Trouble {
	var troubles []cluster.Trouble
	add := func(name, format string, args ...any) {
		text := fmt.Sprintf("%s at %s ", s.server.ID, s.server.Address)
		troubles = append(troubles, cluster.Trouble{Name: name,
			Text: text + fmt.Sprintf(format, args...)})
	}
	silence, rest := now.Sub(s.answered), now.Sub(s.moved)
	if s.silent {
		if silence >= patient && s.server.Suffrage == raft.Voter {
			add(voterUnreachable, "has not answered for %v: start it, or replace it with: tenaq cluster replace %s NEW", silence.Round(time.Second), s.server.ID)
		}
		return troubles
	}
	switch at := s.card.Position.Index; {
	case s.card.State == stopped:
		add(replicaStopped, "takes no part in the cluster: %s", s.card.Trouble)
	case at < front && rest >= patient:
		add(followerBehind, "is %d entries behind and has applied none for %v: look at its log and its disk, and restart it", front-at, rest.Round(time.Second))
	}
	if s.ahead.Abs() > clockMax {
		add(clockDifference, "has a clock that is %.1f s ahead of that of the leader: synchronize the clocks of all nodes", s.ahead.Seconds())
	}
	return troubles
}
