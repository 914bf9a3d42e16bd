package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/aws/smithy-go"

	"tenaq/internal/cli"
	"tenaq/internal/cluster"
	"tenaq/internal/cluster/wire"
)

// Bounds of what is well in a cluster.
const (
	lagWarns   = 1000                   // entries; a node that is further behind gets no vote
	clocksWarn = 500 * time.Millisecond // between two nodes
	copyNeeds  = 1 << 30                // free bytes, for a copy of the rows

	certificateWarns = 30 * 24 * time.Hour
	clusterLack      = "is not a node of a cluster"
	startANode       = "start nodes until a majority runs, and check that they reach each other; docs/cluster.md says what to do if they are lost"
	joinTwoOthers    = "start nodes with empty data directories until there are three, and admit each: tenaq cluster join NODE"
)

// examineCluster asks the server for its cluster. A server that has none, and one of an earlier
// version, have no findings.
func (d *Doctor) examineCluster(ctx context.Context) {
	v, err := d.connect.ConnectV1(ctx, clusterLack)
	if err != nil {
		return
	}
	status, err := GetCluster(ctx, v)
	refusal, refused := errors.AsType[smithy.APIError](err)
	switch {
	case refused && cli.ErrorKind(refusal) == "NotFound":
	case refused && strings.HasPrefix(cli.ErrorKind(refusal), "AccessDenied"):
		d.find("cluster", "cluster",
			unchecked("allow tenaq:GetCluster for the key", "it cannot be read: %s",
				cli.ErrorKind(refusal)))
	case err != nil:
		d.find("cluster", "cluster", unchecked("", "it cannot be read: %v", err))
	default:
		d.seen = append(d.seen, CheckCluster(&status, d.settings.DiskReserve)...)
	}
}

// checkIdentity looks when the certificate of the node of this configuration expires: without one,
// no other node talks to it.
func checkIdentity(dir string, now time.Time) Finding {
	if dir == "" {
		return Finding{}
	}
	const renew = "make another one with tenaq cluster ca node, and put its node.pem and node-key.pem in the place of those in "
	id, err := wire.OpenIdentity(dir)
	if errors.Is(err, fs.ErrPermission) {
		return unchecked("run this as the user of the server", "%v", err)
	}
	var ends time.Time
	if err == nil {
		ends, err = id.Ends()
	}
	left := ends.Sub(now)
	switch {
	case err != nil:
		return problem(renew+dir, "%v", err)
	case left < certificateWarns:
		return warning(renew+dir, "it expires in %s, and other nodes refuse this one then",
			cli.RoughDuration(left))
	}
	return fine("valid until %s", ends.UTC().Format(time.DateOnly))
}

// GetCluster asks a server for the state of its cluster.
func GetCluster(ctx context.Context, v *cli.V1Client) (s cluster.Status, err error) {
	return s, v.Get(ctx, "look at the cluster", "", "/cluster", nil, &s)
}

// CheckCluster examines a cluster and each of its nodes. Below reserve bytes of free disk, a node
// makes the cluster refuse sends.
func CheckCluster(s *cluster.Status, reserve int64) (findings []Finding) {
	add := func(subject, check string, f Finding) {
		if f.State != "" {
			f.Subject, f.Check = subject, check
			findings = append(findings, f)
		}
	}
	if add("cluster", "membership", checkMembership(s)); len(findings) > 0 {
		return findings // it knows nothing of the cluster any more
	}
	add("cluster", "leader", checkLeader(s))
	add("cluster", "quorum", checkQuorum(s))
	add("cluster", "same rows", checkRows(s))
	add("cluster", "versions", checkVersions(s))
	add("cluster", "waiting nodes", checkWaiting(s))
	for i := range s.Members {
		m := &s.Members[i]
		subject := fmt.Sprintf("node %s, %s", m.Address, cluster.Short(m.ID))
		add(subject, "state", checkMember(m))
		if m.Role == cluster.Unreachable {
			continue
		}
		add(subject, "lag", checkLag(m))
		add(subject, "clock", checkNodeClock(m))
		add(subject, "disk", checkNodeDisk(m, reserve))
	}
	return findings
}

func checkLeader(s *cluster.Status) Finding {
	switch own := slices.IndexFunc(s.Waiting, func(w cluster.Waiting) bool {
		return w.ID == s.Node && w.Trouble != ""
	}); {
	case s.Group == "" && own >= 0: // which ends with what to do
		return problem("", "this node belongs to no cluster yet: %s", s.Waiting[own].Trouble)
	case s.Group == "":
		return problem("start the other new nodes with the same --cluster-peers, or admit this one to a cluster: tenaq cluster join "+
			cluster.Short(s.Node), "this node belongs to no cluster yet")
	case s.Leader == "":
		return problem(startANode, "no node leads: every request is refused with 503")
	}
	for _, m := range s.Members {
		if m.ID == s.Leader {
			return fine("%s leads in term %d", m.Address, s.Term)
		}
	}
	return fine("%s leads in term %d", cluster.Short(s.Leader), s.Term)
}

func checkQuorum(s *cluster.Status) Finding {
	q := s.Quorum()
	figures := map[string]float64{"voters": float64(q.Voters), "reachable": float64(q.Reachable),
		"majority": float64(q.Majority())}
	says := fmt.Sprintf("%d of %s reachable", q.Reachable,
		cli.Counted(q.Voters, "voter is", "voters are"))
	switch {
	case s.Group == "":
		return Finding{}
	case q.Spare() < 0:
		return problem(startANode, "%s, and %d are needed", says, q.Majority()).with(figures)
	case q.Voters < 3 && len(s.Members) > q.Voters:
		return problem("wait until the others have caught up and have a vote",
			"%s: the loss of one stops a cluster of fewer than three", says).with(figures)
	case q.Voters < 3:
		return problem(joinTwoOthers, "%s: the loss of one stops a cluster of fewer than three",
			says).with(figures)
	case q.Spare() == 0:
		return problem("start the others, or replace what is lost: tenaq cluster replace OLD NEW",
			"%s, and %d are needed: the loss of another one stops the cluster", says,
			q.Majority()).with(figures)
	}
	return fine("%s: %d may fail", says, q.Spare()).with(figures)
}

// checkMembership looks for a node that was removed.
func checkMembership(s *cluster.Status) Finding {
	own := func(m cluster.Member) bool { return m.ID == s.Node }
	if s.Group == "" || slices.ContainsFunc(s.Members, own) {
		return Finding{}
	}
	return problem("stop it; to use its machine again, empty its data directory and start it",
		"the node that answers was removed from the cluster")
}

// checkRows compares the hashes of nodes that are at the same commit.
func checkRows(s *cluster.Status) Finding {
	at := make(map[uint64]*cluster.Member)
	for i := range s.Members {
		m := &s.Members[i]
		if m.Role == cluster.Unreachable || m.Hash == "" {
			continue
		}
		other, ok := at[m.Commit]
		if ok && other.Hash != m.Hash {
			return problem("take a backup, keep the data directories of both nodes, and report this",
				"%s and %s have different rows at commit %d", other.Address, m.Address, m.Commit)
		}
		at[m.Commit] = m
	}
	return Finding{}
}

func checkVersions(s *cluster.Status) Finding {
	nodes := make(map[string][]string)
	for _, m := range s.Members {
		if m.Role != cluster.Unreachable {
			nodes[m.Version] = append(nodes[m.Version], m.Address)
		}
	}
	versions := slices.Sorted(maps.Keys(nodes))
	switch len(versions) {
	case 0:
		return Finding{}
	case 1:
		return fine("%s on every node", versions[0])
	}
	var says []string
	for _, v := range versions {
		says = append(says, v+" on "+strings.Join(nodes[v], ", "))
	}
	return warning("finish the upgrade, one node at a time", "%s", strings.Join(says, "; "))
}

func checkWaiting(s *cluster.Status) Finding {
	var says []string
	var id string
	for _, w := range s.Waiting {
		if w.ID != s.Node {
			id = cluster.Short(w.ID)
			says = append(says, fmt.Sprintf("%s (%s)", w.Address, id))
		}
	}
	if says == nil || s.Group == "" {
		return Finding{}
	}
	return warning(fmt.Sprintf("admit it: tenaq cluster join %s; in the place of a lost node: tenaq cluster replace OLD %s", id, id),
		"waiting to be admitted: %s", strings.Join(says, ", "))
}

func checkMember(m *cluster.Member) Finding {
	switch {
	case m.Trouble != "":
		return problem("", "%s", m.Trouble) // which ends with what to do
	case m.Role == cluster.Unreachable:
		return problem("start it, or check the network between the nodes; if it is lost, replace it: tenaq cluster replace "+
			cluster.Short(m.ID)+" NEW", "it does not answer other nodes")
	case m.Role == cluster.Stopped:
		return problem("stop it, empty its data directory, start it, and run: tenaq cluster replace "+
			cluster.Short(m.ID)+" NEW", "its rows did not match, so it takes no part any more")
	case !m.Voter:
		return fine("%s, without a vote until it has caught up", m.Role)
	}
	return fine("%s", m.Role)
}

func checkLag(m *cluster.Member) Finding {
	figures := map[string]float64{"entries": float64(m.Lag)}
	if m.Lag > lagWarns && m.Voter {
		return problem("wait before you restart another node; if the number does not shrink, check its disk and network",
			"%d entries behind the leader: the loss of another node may stop the cluster until it has caught up",
			m.Lag).with(figures)
	}
	if m.Lag > lagWarns {
		return warning("run this again: if the number does not shrink, check its disk and network",
			"%d entries behind the leader", m.Lag).with(figures)
	}
	return fine("%s behind the leader", cli.Counted(int64(m.Lag), "entry", "entries")).with(figures)
}

func checkNodeClock(m *cluster.Member) Finding {
	ahead := time.Duration(m.Clock * float64(time.Second))
	figures := map[string]float64{"aheadSeconds": math.Round(m.Clock*1000) / 1000}
	if ahead.Abs() > clocksWarn {
		text := cli.ShortDuration(ahead.Abs())
		if ahead.Abs() >= time.Minute {
			text = cli.RoughDuration(ahead.Abs())
		}
		return warning("synchronize the clocks of all nodes with NTP: timedatectl set-ntp true, or chrony",
			"its clock is %s %s that of the node that answers: visibility timeouts may end early when it leads",
			text, aheadOrBehind(ahead)).with(figures)
	}
	return fine("within %s of the node that answers", cli.ShortDuration(clocksWarn)).with(figures)
}

func checkNodeDisk(m *cluster.Member, reserve int64) Finding {
	figures := map[string]float64{"freeBytes": float64(m.FreeBytes)}
	says := cli.HumanSize(m.FreeBytes) + " free"
	switch {
	case reserve > 0 && m.FreeBytes < reserve:
		return problem("free space on the disk of this node",
			"%s, which is below the reserve of %s: the cluster refuses sends", says,
			cli.HumanSize(reserve)).with(figures)
	case m.FreeBytes < copyNeeds:
		return warning("free space on the disk of this node",
			"%s: below 1 GiB a node accepts no copy of the rows", says).with(figures)
	}
	return fine("%s", says).with(figures)
}
