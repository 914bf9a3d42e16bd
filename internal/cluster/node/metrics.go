package node

import (
	"tenaq/internal/cluster"
	"tenaq/internal/observe/metric"
)

// Metrics are the numbers of a node, for monitoring.
type Metrics struct {
	Role cluster.Role // empty while the node belongs to no cluster
	Term uint64

	// Applied, Committed and Last are indexes of entries of the log: the last one in the rows, the
	// last one known to be committed, and the last one in the log of this node.
	Applied, Committed, Last uint64

	Fenced    int64 // entries of replaced leaders that were passed over since the start
	Copies    int64 // of the leader's rows that this node has received since the start
	Takeovers int64 // how often it has taken the lead since the start

	TakeoverSeconds *metric.Histogram // from an election until Lead is called
	CommitSeconds   *metric.Histogram // from a proposal until it is committed and applied here
	ConfirmSeconds  *metric.Histogram // until a majority has confirmed the lead for reads

	// Followers are the other members, on the node that leads.
	Followers []FollowerMetrics
}

// FollowerMetrics are the numbers of another member.
type FollowerMetrics struct {
	ID        string
	Reachable bool
	Lag       uint64  // entries behind the leader, by its last answer
	Ahead     float64 // seconds by which its clock is ahead of the leader's
}

// Metrics returns the numbers of now.
func (n *Node) Metrics() Metrics {
	m := Metrics{Takeovers: n.takeovers.Value(), TakeoverSeconds: n.takeoverSeconds}
	own := n.card()
	m.Term = own.Term
	p := n.part.Load()
	if p == nil {
		m.CommitSeconds, m.ConfirmSeconds = n.noSeconds, n.noSeconds
		return m
	}
	g := p.group
	m.CommitSeconds, m.ConfirmSeconds = g.Commits, g.Confirms
	m.Fenced, m.Copies = g.Fenced(), g.Copies()
	m.Committed, m.Last = g.Progress()
	m.Applied = own.Position.Index
	servers := g.Servers()
	for _, s := range servers {
		if s.ID == n.id {
			m.Role = n.memberOf(s, reply{card: own}).Role
		}
	}
	if !own.Leads {
		return m
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range servers {
		seat, ok := n.seats[s.ID]
		if !ok {
			continue
		}
		f := FollowerMetrics{ID: string(s.ID), Reachable: !seat.silent, Ahead: seat.ahead.Seconds()}
		if at := seat.card.Position.Index; at < m.Applied {
			f.Lag = m.Applied - at
		}
		m.Followers = append(m.Followers, f)
	}
	return m
}
