package server

import (
	"tenaq/internal/cluster"
	"tenaq/internal/cluster/node"
	"tenaq/internal/observe/metric"
)

// nodeTable lists the families that a node of a cluster has besides those of every server. Each
// node reports about itself, and the leader about the others.
var nodeTable = []row{
	oneValue("tenaq_cluster_has_leader", "1 while this node knows which node leads",
		func(r *reading) float64 { return oneIf(r.s.node.LeaderSeen() == 0) }),
	family("tenaq_cluster_role", gauge,
		"1 for the role of this node: leader, follower, learner or stopped; none before it is a member",
		func(w *metric.Writer, r *reading) {
			if r.node.Role == "" {
				return
			}
			for _, role := range []cluster.Role{cluster.Leader, cluster.Follower, cluster.Learner,
				cluster.Stopped} {
				w.Value(oneIf(role == r.node.Role), string(role))
			}
		}, "role"),
	oneValue("tenaq_cluster_term", "Term of Raft that this node knows; it grows with each election",
		func(r *reading) float64 { return float64(r.node.Term) }),
	family("tenaq_cluster_index", gauge,
		"Index of an entry of the log: the last one that this node has applied, knows to be committed, and has",
		func(w *metric.Writer, r *reading) {
			w.Value(float64(r.node.Applied), "applied")
			w.Value(float64(r.node.Committed), "committed")
			w.Value(float64(r.node.Last), "last")
		}, "entry"),
	nodeCounter("tenaq_cluster_takeovers_total", "Times that this node has taken the lead",
		func(m *node.Metrics) int64 { return m.Takeovers }),
	nodeCounter("tenaq_cluster_fenced_total",
		"Entries of replaced leaders that this node has passed over",
		func(m *node.Metrics) int64 { return m.Fenced }),
	nodeCounter("tenaq_cluster_copies_total", "Copies of the leader's rows that this node has received",
		func(m *node.Metrics) int64 { return m.Copies }),
	nodeTimes("tenaq_cluster_takeover_seconds",
		"Time from the election of this node until it begins to serve",
		func(m *node.Metrics) *metric.Histogram { return m.TakeoverSeconds }),
	nodeTimes("tenaq_cluster_commit_seconds",
		"Time from the proposal of an entry until a majority has it and it is applied here",
		func(m *node.Metrics) *metric.Histogram { return m.CommitSeconds }),
	nodeTimes("tenaq_cluster_confirm_seconds",
		"Time until a majority has confirmed the lead, for answers that wrote nothing",
		func(m *node.Metrics) *metric.Histogram { return m.ConfirmSeconds }),
	ofFollowers("tenaq_cluster_follower_reachable",
		"On the leader: 1 while another member answers",
		func(f *node.FollowerMetrics) float64 { return oneIf(f.Reachable) }),
	ofFollowers("tenaq_cluster_follower_lag_entries",
		"On the leader: entries that another member has not applied yet",
		func(f *node.FollowerMetrics) float64 { return float64(f.Lag) }),
	ofFollowers("tenaq_cluster_clock_ahead_seconds",
		"On the leader: how far the clock of another member is ahead of that of the leader",
		func(f *node.FollowerMetrics) float64 { return f.Ahead }),
}

func nodeCounter(name, help string, of func(*node.Metrics) int64) row {
	return family(name, counter, help, func(w *metric.Writer, r *reading) {
		w.Value(float64(of(&r.node)))
	})
}

func nodeTimes(name, help string, of func(*node.Metrics) *metric.Histogram) row {
	return family(name, histogram, help, func(w *metric.Writer, r *reading) {
		w.Histogram(of(&r.node))
	})
}

// ofFollowers returns the row of a gauge that each other member has on the leader.
func ofFollowers(name, help string, of func(*node.FollowerMetrics) float64) row {
	return family(name, gauge, help, func(w *metric.Writer, r *reading) {
		for i := range r.node.Followers {
			f := &r.node.Followers[i]
			w.Value(of(f), f.ID)
		}
	}, "node")
}
