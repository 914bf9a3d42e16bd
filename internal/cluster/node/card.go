package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"tenaq/internal/cluster/group"
	"tenaq/internal/cluster/wire"
	"tenaq/internal/kv/pebblekv"
)

// A card is what a node says of itself. Nodes exchange cards to find each other, to be admitted,
// and for their status.
type card struct {
	ID      raft.ServerID
	Address string
	Version string
	Peers   []string // sorted
	State   state
	Group   string `json:",omitempty"`

	// Members are the latest that are committed, by the entry with the index MembersAt.
	Members   []raft.Server `json:",omitempty"`
	MembersAt uint64        `json:",omitempty"`

	Leader   raft.ServerID `json:",omitempty"` // as far as the node knows
	Leads    bool          `json:",omitempty"` // it has taken the lead
	Term     uint64        `json:",omitempty"`
	Position pebblekv.Position
	Wall     time.Time // its clock
	Free     int64     // bytes on its disk
	Low      bool      `json:",omitempty"` // which is below the reserve
	Trouble  string    `json:",omitempty"`
}

// A state is where a node is in its life.
type state string

const (
	empty   state = "empty"   // it belongs to no group
	member  state = "member"  // it takes part in a group
	stopped state = "stopped" // its rows do not match, or it was removed; it votes no more
)

// Requests between nodes, and how long they may take.
const (
	cardPath     = "/card"
	standingPath = "/standing"
	cardTimeout  = 2 * time.Second
	cardMax      = 1 << 20
)

// card is that of this node.
func (n *Node) card() card {
	c := card{ID: n.id, Address: n.cfg.Advertise, Version: n.cfg.Version, Peers: n.peers,
		State: empty, Wall: n.cfg.wall(), Low: n.cfg.Low(), Trouble: n.Trouble()}
	if free, err := n.cfg.Free(); err == nil {
		c.Free = int64(free)
	}
	m := n.membership.Load()
	if m.group == (pebblekv.ID{}) {
		return c
	}
	c.State, c.Group = member, m.group.String()
	if m.removed {
		c.State = stopped
	}
	if p := n.part.Load(); p != nil {
		g, members := p.group, p.group.Members()
		c.Position = g.Position()
		c.Members, c.MembersAt = members.Servers, members.Index
		c.Term = g.Standing().Term
		if g.Err() != nil {
			c.State = stopped
		}
		if c.State == member {
			c.Leader, c.Leads = g.Leader(), n.Leads()
		}
	}
	return c
}

// handler answers the requests of other nodes.
func (n *Node) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+cardPath, func(w http.ResponseWriter, r *http.Request) {
		var c card
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, cardMax)).Decode(&c); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		n.met(c)
		answer(w, n.card())
	})
	mux.HandleFunc("POST "+standingPath, func(w http.ResponseWriter, r *http.Request) {
		p, m := n.part.Load(), n.membership.Load()
		if p == nil || p.group.Err() != nil || m.removed ||
			r.Header.Get(toGroup) != m.group.String() || r.Header.Get(toNode) != string(n.id) {
			http.Error(w, errNotThatNode.Error(), http.StatusMisdirectedRequest)
			return
		}
		answer(w, p.group.Standing())
	})
	return mux
}

// The node that a question is for. One that lost its log must not answer for the one it was.
const (
	toGroup = "Tenaq-Group"
	toNode  = "Tenaq-Node"
)

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// newClient returns what asks other nodes.
func (n *Node) newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(n.life, cancel)()
			return n.port.Dial(ctx, wire.Control, address)
		},
		MaxConnsPerHost: askMax + 4, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
		DisableCompression: true,
	}}
}

// ask puts a question to the node at an address.
func (n *Node) ask(
	ctx context.Context, address, path string, to *raft.Server, question, answer any,
) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+path,
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	if to != nil {
		r.Header.Set(toGroup, n.membership.Load().group.String())
		r.Header.Set(toNode, string(to.ID))
	}
	res, err := n.client.Transport.RoundTrip(r)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("the node at %s does not answer: %w", address, err)
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, cardMax))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, bytes.TrimSpace(text))
	}
	if err == nil {
		err = json.Unmarshal(text, answer)
	}
	return err
}

// askMax is how many questions to one node may wait for their answers. A leader asks before each
// confirmed read, so a node that hangs would gather many.
const askMax = 16

var errAsked = errors.New("the node has not answered earlier questions")

// askStanding is group.Config.Ask.
func (n *Node) askStanding(s raft.Server) (standing group.Standing, err error) {
	asked, _ := n.asked.LoadOrStore(s.ID, new(atomic.Int32))
	waiting := asked.(*atomic.Int32)
	defer waiting.Add(-1)
	if waiting.Add(1) > askMax {
		return standing, errAsked
	}
	ctx, cancel := context.WithTimeout(n.life, n.cfg.Heartbeat)
	defer cancel()
	err = n.ask(ctx, string(s.Address), standingPath, &s, struct{}{}, &standing)
	return standing, err
}

// A reply is the card of the node at an address, or why there is none.
type reply struct {
	address string
	card    card
	err     error
	ahead   time.Duration // its clock, about, of that of this node
}

// exchange exchanges cards with the nodes at some addresses, all at the same time. The replies come
// in the order of their arrival, each within 2 s, and end when all are there.
func (n *Node) exchange(ctx context.Context, addresses []string) <-chan reply {
	replies := make(chan reply, len(addresses))
	own := n.card()
	for _, address := range addresses {
		go func() {
			ctx, cancel := context.WithTimeout(ctx, cardTimeout)
			defer cancel()
			r, begun := reply{address: address}, time.Now()
			r.err = n.ask(ctx, address, cardPath, nil, own, &r.card)
			// It answered halfway between the question and now.
			r.ahead = r.card.Wall.Sub(n.cfg.wall()) + time.Since(begun)/2
			replies <- r
		}()
	}
	return replies
}

var errOtherNode = errors.New("another node answers at the address")

// exchangeWith exchanges cards with members. One that is answered for by another node, or by a node
// of another group, has an error.
func (n *Node) exchangeWith(ctx context.Context, servers []raft.Server) map[raft.ServerID]reply {
	addresses, byAddress := make([]string, 0, len(servers)), make(map[string]raft.ServerID)
	for _, s := range servers {
		if s.ID != n.id {
			addresses = append(addresses, string(s.Address))
			byAddress[string(s.Address)] = s.ID
		}
	}
	group, have := n.membership.Load().group, make(map[raft.ServerID]reply)
	replies := n.exchange(ctx, addresses)
	for range addresses {
		r := <-replies
		id := byAddress[r.address]
		if r.err == nil && (r.card.ID != id ||
			group != pebblekv.ID{} && r.card.Group != group.String()) {
			r.err = errOtherNode
		}
		have[id] = r
	}
	return have
}

// among tells whether a node is one of some servers.
func among(servers []raft.Server, id raft.ServerID) bool {
	return slices.ContainsFunc(servers, func(s raft.Server) bool { return s.ID == id })
}
