package node

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"tenaq/internal/cluster/group"
	"tenaq/internal/cluster/raftlog"
	"tenaq/internal/kv/pebblekv"
)

// A membership is what a node has promised: which group it belongs to, or belonged to. It is a row
// of the log, so it is as durable as the votes of the node.
type membership struct {
	group   pebblekv.ID
	removed bool   // the node must never vote again
	index   uint64 // of an entry by which it is a member

	// founders are the first members, on the node that founds the group.
	founders []raft.Server
}

const (
	groupNumber    = 1 // of the only group
	membershipForm = 1
)

var membershipKey = []byte("Membership")

func (m membership) save(log *raftlog.Store) error {
	state := byte(0)
	if m.removed {
		state = 1
	}
	b := append([]byte{membershipForm, state}, m.group[:]...)
	b = binary.BigEndian.AppendUint64(b, m.index)
	b = append(b, raft.EncodeConfiguration(raft.Configuration{Servers: m.founders})...)
	return log.Set(membershipKey, b)
}

// readMembership returns the membership; the zero value when the node has none.
func readMembership(log *raftlog.Store) (m membership, err error) {
	b, err := log.Get(membershipKey)
	if err != nil || len(b) == 0 {
		return m, err
	}
	const fixed = 2 + 16 + 8
	if len(b) <= fixed || b[0] != membershipForm {
		return m, errors.New("the row with the membership of this node cannot be read, or is of a newer version of this program: run the version that wrote it, or a later one")
	}
	m.removed = b[1] == 1
	m.group, m.index = pebblekv.ID(b[2:18]), binary.BigEndian.Uint64(b[18:fixed])
	m.founders = raft.DecodeConfiguration(b[fixed:]).Servers
	return m, nil
}

// Adopt makes the node of an empty log the founder of a group that has no other member yet. Its
// rows are already in the state of the group, at group.Founded. The address is where other nodes
// will reach it. To adopt the same group again changes nothing.
func Adopt(log *pebblekv.Log, id pebblekv.ID, address string) error {
	store := raftlog.Open(log, groupNumber)
	m, err := readMembership(store)
	switch {
	case err != nil:
		return err
	case m.group == id && !m.removed:
		return nil
	case m.group != pebblekv.ID{}:
		return fmt.Errorf("the log belongs to group %s already: pass a directory without a log",
			m.group)
	}
	self := raft.Server{ID: raft.ServerID(log.ID().String()), Address: raft.ServerAddress(address)}
	if err := group.Found(store, self); err != nil {
		return err
	}
	return membership{group: id, index: group.Founded.Index,
		founders: []raft.Server{self}}.save(store)
}
