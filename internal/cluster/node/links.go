package node

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"tenaq/internal/cluster/wire"
	"tenaq/internal/kv/pebblekv"
)

// A transport carries Raft between nodes by their ids. Raft does not check which node it talks to,
// so a connection begins with the node that it is meant for: a node that lost its log has another
// id, and so never votes or confirms entries in the place of the one that it was.
type transport struct {
	*raft.NetworkTransport
	links *links
}

// newTransport opens the transport of the node with the given id in a group. Raft compares the
// addresses of candidates, so ids stand in for them.
func newTransport(port *wire.Port, group pebblekv.ID, id raft.ServerID) *transport {
	l := &links{port: port, group: group, id: id, accepted: make(chan net.Conn),
		open: make(map[net.Conn]bool)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return &transport{raft.NewNetworkTransport(l, poolMax, raftTimeout, io.Discard), l}
}

const (
	poolMax     = 3                // idle connections to each node
	raftTimeout = 10 * time.Second // of a request; a copy has more, by its size
)

// forNode is the address of a node as links.Dial takes it.
func forNode(id raft.ServerID, at raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(id) + "@" + at
}

func (t *transport) LocalAddr() raft.ServerAddress { return raft.ServerAddress(t.links.id) }

func (t *transport) EncodePeer(id raft.ServerID, _ raft.ServerAddress) []byte { return []byte(id) }

func (t *transport) AppendEntries(
	id raft.ServerID, at raft.ServerAddress, args *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse,
) error {
	return t.NetworkTransport.AppendEntries(id, forNode(id, at), args, resp)
}

func (t *transport) RequestVote(
	id raft.ServerID, at raft.ServerAddress, args *raft.RequestVoteRequest,
	resp *raft.RequestVoteResponse,
) error {
	return t.NetworkTransport.RequestVote(id, forNode(id, at), args, resp)
}

func (t *transport) RequestPreVote(
	id raft.ServerID, at raft.ServerAddress, args *raft.RequestPreVoteRequest,
	resp *raft.RequestPreVoteResponse,
) error {
	return t.NetworkTransport.RequestPreVote(id, forNode(id, at), args, resp)
}

func (t *transport) InstallSnapshot(
	id raft.ServerID, at raft.ServerAddress, args *raft.InstallSnapshotRequest,
	resp *raft.InstallSnapshotResponse, data io.Reader,
) error {
	return t.NetworkTransport.InstallSnapshot(id, forNode(id, at), args, resp, data)
}

func (t *transport) TimeoutNow(
	id raft.ServerID, at raft.ServerAddress, args *raft.TimeoutNowRequest,
	resp *raft.TimeoutNowResponse,
) error {
	return t.NetworkTransport.TimeoutNow(id, forNode(id, at), args, resp)
}

// Close closes all connections.
func (t *transport) Close() error {
	err := t.NetworkTransport.Close() // which closes links
	t.NetworkTransport.CloseStreams()
	return err
}

// links are the connections of a transport. They are its raft.StreamLayer.
type links struct {
	port   *wire.Port
	group  pebblekv.ID
	id     raft.ServerID
	ctx    context.Context // until Close
	cancel context.CancelFunc

	accepted chan net.Conn

	mu   sync.Mutex
	open map[net.Conn]bool
}

// A preface says which node of which group a connection is for: the two ids. The other end answers
// with the byte linkVersion, or closes.
const (
	linkVersion  = 1
	linkPreface  = 16 + 16
	linkDeadline = 5 * time.Second
)

var errNotThatNode = errors.New("another node is at this address, or it is not in the group yet")

func (l *links) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id, address, _ := strings.Cut(string(to), "@")
	ctx, cancel := context.WithTimeout(l.ctx, timeout)
	defer cancel()
	conn, err := l.port.Dial(ctx, wire.Raft, address)
	if err != nil {
		return nil, err
	}
	return l.keep(conn, func() error {
		preface, err := hex.AppendDecode(l.group[:], []byte(id))
		if err != nil {
			return err
		}
		if _, err := conn.Write(preface); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			return fmt.Errorf("%w: %s", errNotThatNode, address)
		}
		return nil
	})
}

// welcome takes a connection of another node, if it is for this one.
func (l *links) welcome(conn net.Conn) {
	kept, err := l.keep(conn, func() error {
		preface := make([]byte, linkPreface)
		if _, err := io.ReadFull(conn, preface); err != nil {
			return err
		}
		group, id := pebblekv.ID(preface[:16]), pebblekv.ID(preface[16:])
		if group != l.group || id.String() != string(l.id) {
			return errNotThatNode
		}
		_, err := conn.Write([]byte{linkVersion})
		return err
	})
	if err != nil {
		return
	}
	select {
	case l.accepted <- kept:
	case <-l.ctx.Done():
	}
}

// keep notes a connection, which Close closes, and has both ends introduce themselves.
func (l *links) keep(conn net.Conn, introduce func() error) (net.Conn, error) {
	kept := &link{conn, l}
	l.mu.Lock()
	l.open[conn] = true
	closed := l.ctx.Err() != nil
	l.mu.Unlock()
	err := conn.SetDeadline(time.Now().Add(linkDeadline))
	if err == nil && !closed {
		err = introduce()
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil || closed {
		return nil, errors.Join(err, kept.Close())
	}
	return kept, nil
}

func (l *links) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (l *links) Addr() net.Addr { return l.port.Addr() }

func (l *links) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel()
	for conn := range l.open {
		_ = conn.Close()
	}
	return nil
}

// A link is a connection that is forgotten when it is closed.
type link struct {
	net.Conn
	links *links
}

func (c *link) Close() error {
	c.links.mu.Lock()
	delete(c.links.open, c.Conn)
	c.links.mu.Unlock()
	return c.Conn.Close()
}
