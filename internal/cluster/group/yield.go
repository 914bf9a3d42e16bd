package group

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"tenaq/internal/kv"
)

// serve calls Lead. It returns when Lead has.
func (g *Group) serve(t Term) error {
	over, yield, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	end := sync.OnceFunc(func() { close(over) })
	defer end()
	t.Over, t.Yield = over, yield
	go func() { done <- g.cfg.Lead(t) }()
	asked, err := g.untilOver(end, done, g.yields)
	if asked.then == nil {
		return err
	}
	close(yield)
	_, err = g.untilOver(end, done, nil)
	switch {
	case errors.Is(err, kv.ErrLost):
		asked.done <- errNotLeading
		return err
	case err != nil:
		asked.done <- err
		return err
	}
	asked.done <- asked.then()
	return nil
}

// untilOver waits until Lead returns, or is to yield. It ends the term when another node may lead.
func (g *Group) untilOver(end func(), done <-chan error, yields <-chan yielding) (yielding, error) {
	select {
	case err := <-done:
		return yielding{}, err
	case y := <-yields:
		return y, nil
	case <-g.raft.LeaderCh(): // also when it says that the lead was regained
	case <-g.ended:
	}
	end()
	return yielding{}, <-done
}

// A yielding asks the leader to stop serving and to do something then. It serves again afterwards,
// if it still leads.
type yielding struct {
	then func() error
	done chan error
}

var errNotLeading = errors.New("this node does not lead")

// yield has Lead stop in order and calls then. The error is that of then, or errNotLeading.
func (g *Group) yield(ctx context.Context, then func() error) error {
	y := yielding{then, make(chan error, 1)}
	look := time.NewTicker(g.cfg.Heartbeat / 10)
	defer look.Stop()
	for g.raft.State() == raft.Leader && !g.isEnded() {
		select {
		case g.yields <- y:
			select {
			case err := <-y.done:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errNotLeading
}

// HandOver ends the lead of this node in order and has another voter elected: the one with the
// given id, or when that is empty the one that has got furthest. If none can be, this node leads on
// in a new session, and the error says why. It is nil when this node does not lead.
func (g *Group) HandOver(ctx context.Context, to raft.ServerID) error {
	err := g.yield(ctx, func() error { return g.transfer(to) })
	if errors.Is(err, errNotLeading) {
		return nil
	}
	return err
}

// transfer asks Raft to have another node elected. Lead must have returned: Raft refuses entries
// during a transfer, and takes the next ones when the transfer fails. Of one session, those would
// not follow the last commit, and every node would stop.
func (g *Group) transfer(to raft.ServerID) error {
	var attempts []func() raft.Future
	for _, s := range g.successors() {
		if to == "" || s.ID == to {
			attempts = append(attempts, func() raft.Future {
				return g.raft.LeadershipTransferToServer(s.ID, s.Address)
			})
		}
	}
	if len(attempts) == 0 && to == "" {
		attempts = append(attempts, g.raft.LeadershipTransfer) // an answer may only be late
	}
	err := errors.New("that node does not answer, or has no vote")
	for _, attempt := range attempts {
		for {
			err = g.await(attempt())
			if g.raft.State() != raft.Leader {
				return nil
			}
			if !errors.Is(err, raft.ErrLeadershipTransferInProgress) || g.isEnded() {
				break
			}
			g.pause(g.cfg.Heartbeat / 100) // Raft notes the end of an attempt after it has answered
		}
	}
	return err
}

// successors returns the other voters that answer within a heartbeat, the furthest first.
func (g *Group) successors() (servers []raft.Server) {
	type answer struct {
		raft.Server
		index uint64
	}
	configuration := g.raft.GetConfiguration().Configuration()
	answers, asked := make(chan answer, len(configuration.Servers)), 0
	for _, s := range configuration.Servers {
		if s.Suffrage != raft.Voter || s.ID == g.cfg.Node {
			continue
		}
		asked++
		go func() {
			standing, err := g.cfg.Ask(s)
			if err != nil {
				s.ID = ""
			}
			answers <- answer{s, standing.Position.Index}
		}()
	}
	var have []answer
	for late := time.After(g.cfg.Heartbeat); asked > 0; asked-- {
		select {
		case a := <-answers:
			if a.ID != "" {
				have = append(have, a)
			}
		case <-late:
			asked = 1
		}
	}
	slices.SortFunc(have, func(a, b answer) int { return cmp.Compare(b.index, a.index) })
	for _, a := range have {
		servers = append(servers, a.Server)
	}
	return servers
}
