// Package cluster describes a cluster in plain values: its state as any node reports it, and the
// reasons for which a change is refused. The node, /v1/cluster and the commands share them.
//
// It guarantees that the JSON of a Status keeps its keys: a program may talk to a node of another
// version. A reader must accept keys and roles that it does not know.
//
// Packages below this one run the cluster. This one imports none of them.
package cluster

import "errors"

// A Status is the state of a cluster as one node sees it. What a node could not learn from another
// within 2 s is missing: that member is "unreachable".
type Status struct {
	// Group is the identity of the replicated store, 32 hexadecimal digits. It is empty while the
	// node that answers belongs to no cluster yet.
	Group string `json:"group"`

	Node   string `json:"node"`             // id of the node that answers
	Leader string `json:"leader,omitempty"` // id of the node that leads; empty while none does
	Term   uint64 `json:"term"`             // the term of Raft that the answering node knows

	Members []Member  `json:"members"`
	Waiting []Waiting `json:"waiting,omitempty"` // nodes that ask to be admitted
}

// A Role is what a member is doing.
type Role string

const (
	Leader      Role = "leader"
	Follower    Role = "follower"
	Learner     Role = "learner"     // copies and catches up; it has no vote yet
	Unreachable Role = "unreachable" // it gave no answer
	Stopped     Role = "stopped"     // it left the group because its rows did not match
)

// A Member is a node that belongs to the cluster.
type Member struct {
	ID      string `json:"id"`      // 32 hexadecimal digits
	Address string `json:"address"` // host:port where other nodes reach it
	Role    Role   `json:"role"`
	Voter   bool   `json:"voter"`

	Applied uint64 `json:"applied"` // index of the last entry applied; 0 when unreachable
	Commit  uint64 `json:"commit"`  // number of the last commit in its rows
	Hash    string `json:"hash"`    // hash of the chain of commits up to there, hexadecimal
	Lag     uint64 `json:"lag"`     // entries behind the leader

	// Clock is by how many seconds its clock is ahead of that of the node that answers.
	Clock float64 `json:"clock"`

	Version   string `json:"version"`
	FreeBytes int64  `json:"freeBytes"` // on the disk of its data directory

	// Trouble is a sentence that ends with what to do; empty when the member is well.
	Trouble string `json:"trouble,omitempty"`
}

// A Waiting node has an empty data directory and asks to be admitted.
type Waiting struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Version string `json:"version"`

	// Trouble says why the node that answers is not a member yet, and what to do. It is empty for
	// other nodes.
	Trouble string `json:"trouble,omitempty"`
}

// A Trouble is a state of the cluster that needs an operator.
type Trouble struct {
	Name string // of its alarm, such as cluster/follower-behind
	Text string // a sentence that ends with what to do
}

// Reasons for which a change is not carried out. An error that wraps one says more; errors.Is tells
// them apart.
var (
	// ErrNotLeader reports that another node leads. The request may be sent to that one.
	ErrNotLeader = errors.New("this node does not lead the cluster")

	// ErrUnknownNode reports that no node, or more than one, matches the given id or address.
	ErrUnknownNode = errors.New("unknown node")

	// ErrRefused reports that the present state of the cluster does not permit the change.
	ErrRefused = errors.New("refused")
)

// A Quorum counts the voters of a cluster. Answers need a majority of them.
type Quorum struct {
	Voters    int
	Reachable int // of them, those that answer and take part
}

// Quorum counts the voters of s.
func (s *Status) Quorum() (q Quorum) {
	for _, m := range s.Members {
		if !m.Voter {
			continue
		}
		q.Voters++
		if m.Role != Unreachable && m.Role != Stopped {
			q.Reachable++
		}
	}
	return q
}

// Majority is how many voters must be reachable.
func (q Quorum) Majority() int { return q.Voters/2 + 1 }

// Spare is how many more voters may fail; negative when there is no majority.
func (q Quorum) Spare() int { return q.Reachable - q.Majority() }

// Short is the beginning of an id that people read and type.
func Short(id string) string { return id[:min(8, len(id))] }
