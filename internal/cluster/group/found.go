package group

import (
	"github.com/hashicorp/raft"

	"tenaq/internal/cluster/raftlog"
	"tenaq/internal/kv/pebblekv"
)

// Founded is where rows that are older than their group stand in its log.
var Founded = pebblekv.Position{Index: 1, Term: 1}

var termKey = []byte("CurrentTerm") // as Raft names it

// Found writes into an empty log that it belongs to a group of one node, whose rows stand at
// Founded. No log leads to them from nothing, so this one begins behind them: a node that joins
// gets a copy.
func Found(log *raftlog.Store, node raft.Server) error {
	g := &Group{cfg: Config{Log: log}}
	if err := g.saveSnapshot(raft.SnapshotMeta{Index: Founded.Index, Term: Founded.Term,
		Configuration:      raft.Configuration{Servers: []raft.Server{node}},
		ConfigurationIndex: Founded.Index,
	}); err != nil {
		return err
	}
	return log.SetUint64(termKey, Founded.Term)
}
