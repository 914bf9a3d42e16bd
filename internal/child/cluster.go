package child

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tenaq/internal/cluster"
	"tenaq/internal/work/backoff"
)

// Times that nodes are given, on a machine that is busy with other things.
const (
	leadMax  = 30 * time.Second // until one leads
	awaitMax = 2 * time.Minute  // until a change is complete
	askMax   = 3 * time.Second  // for one answer; a node asks the others for 2 s before it reports
	probeMax = time.Second      // for one acknowledgement, before another is asked for
)

// A Cluster is servers that form one cluster on loopback. Each node is a Server with a directory of
// its own. The methods that start and stop nodes are not for concurrent use.
type Cluster struct {
	cfg     Config
	reached func(listen string) (string, error)
	token   string // file
	peers   []string
	Nodes   []*Node
}

// A Node is a server of a cluster.
type Node struct {
	*Server
	Name    string
	Address string // where other nodes reach it
}

// NewCluster chooses addresses for n nodes that are not started yet. Reached returns the address
// at which other nodes reach the one that listens at an address, for a proxy in between; nil is for
// the address itself.
func NewCluster(cfg Config, n int, reached func(listen string) (string, error)) (*Cluster, error) {
	if reached == nil {
		reached = func(listen string) (string, error) { return listen, nil }
	}
	c := &Cluster{cfg: cfg, reached: reached, token: filepath.Join(cfg.Dir, "token")}
	if err := os.WriteFile(c.token, []byte(rand.Text()), 0o600); err != nil {
		return nil, err
	}
	listens := make([]string, n)
	for i := range n {
		var err error
		if listens[i], err = FreeAddr(); err != nil {
			return nil, err
		}
		address, err := reached(listens[i])
		if err != nil {
			return nil, err
		}
		c.peers = append(c.peers, address)
	}
	for i, listen := range listens {
		if err := c.add(listen, c.peers[i]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Add chooses an address for a further node, which is not started and no member yet.
func (c *Cluster) Add() (*Node, error) {
	listen, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	address, err := c.reached(listen)
	if err != nil {
		return nil, err
	}
	if err := c.add(listen, address); err != nil {
		return nil, err
	}
	return c.Nodes[len(c.Nodes)-1], nil
}

func (c *Cluster) add(listen, address string) error {
	node := &Node{Name: fmt.Sprintf("node-%d", len(c.Nodes)+1), Address: address}
	cfg := c.cfg
	cfg.Dir = filepath.Join(c.cfg.Dir, node.Name)
	cfg.Args = append([]string{"--cluster-listen", listen, "--cluster-advertise", address,
		"--cluster-peers", strings.Join(c.peers, ","), "--cluster-token-file", c.token},
		c.cfg.Args...)
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return err
	}
	var err error
	if node.Server, err = New(cfg); err != nil {
		return err
	}
	c.Nodes = append(c.Nodes, node)
	return nil
}

// Start starts the nodes that do not run, and waits until all are ready and one leads. Nodes with
// empty directories found the cluster.
func (c *Cluster) Start(ctx context.Context) error {
	errs := make([]error, len(c.Nodes))
	var starting sync.WaitGroup
	for i, n := range c.Nodes {
		if n.PID() != 0 {
			continue
		}
		starting.Go(func() {
			if _, err := n.Start(ctx); err != nil {
				errs[i] = fmt.Errorf("%s: %w", n.Name, err)
			}
		})
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := c.Leader(ctx)
	return err
}

// Stop ends all running nodes in the orderly way.
func (c *Cluster) Stop() error {
	errs := make([]error, len(c.Nodes))
	var stopping sync.WaitGroup
	for i, n := range c.Nodes {
		if n.PID() != 0 {
			stopping.Go(func() { errs[i] = n.Stop() })
		}
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// Close makes sure that there is no process left.
func (c *Cluster) Close() {
	for _, n := range c.Nodes {
		n.Close()
	}
}

// URLs are the endpoints of the SQS API.
func (c *Cluster) URLs() (urls []string) {
	for _, n := range c.Nodes {
		urls = append(urls, n.URL())
	}
	return urls
}

// Status asks a node for the state of the cluster.
func (n *Node) Status(ctx context.Context) (s cluster.Status, err error) {
	body, err := ask(ctx, http.MethodGet, n.URL()+"/v1/cluster", "", "")
	if err != nil {
		return s, fmt.Errorf("%s: %w", n.Name, err)
	}
	return s, json.Unmarshal(body, &s)
}

// Leader waits until a node says that it leads.
func (c *Cluster) Leader(ctx context.Context) (*Node, error) {
	return first(ctx, c, "no node says that it leads", func(ctx context.Context, n *Node) bool {
		s, err := n.Status(ctx)
		return err == nil && s.Leader != "" && s.Leader == s.Node
	})
}

// FirstAnswer waits until a node acknowledges a message that is sent to it now, and returns how
// long that takes. It sends to all nodes at once, every second anew, until one answers.
func (c *Cluster) FirstAnswer(ctx context.Context, queueURL string) (time.Duration, error) {
	began := time.Now()
	body := fmt.Sprintf(`{"QueueUrl":%q,"MessageBody":"is there an answer?"}`, queueURL)
	_, err := first(ctx, c, "no node acknowledges a message",
		func(ctx context.Context, n *Node) bool {
			ctx, cancel := context.WithTimeout(ctx, probeMax)
			defer cancel()
			_, err := ask(ctx, http.MethodPost, n.URL(), "AmazonSQS.SendMessage", body)
			return err == nil
		})
	return time.Since(began), err
}

// first asks all nodes at once, again and again, and returns the first of which it is so.
func first(
	ctx context.Context, c *Cluster, not string, so func(context.Context, *Node) bool,
) (*Node, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, leadMax,
		fmt.Errorf("%s within %v", not, leadMax))
	defer cancel()
	found := make(chan *Node, len(c.Nodes))
	for _, n := range c.Nodes {
		go func() {
			for ; ctx.Err() == nil; _ = backoff.Sleep(ctx, 10*time.Millisecond) {
				if so(ctx, n) {
					found <- n
					return
				}
			}
		}()
	}
	select {
	case n := <-found:
		return n, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Await asks the leader for the state of the cluster until something is so.
func (c *Cluster) Await(
	ctx context.Context, what string, so func(cluster.Status) bool,
) (s cluster.Status, err error) {
	limit := time.Now().Add(awaitMax)
	for time.Now().Before(limit) && ctx.Err() == nil {
		var leader *Node
		if leader, err = c.Leader(ctx); err != nil {
			break
		}
		if s, err = leader.Status(ctx); err == nil && so(s) {
			return s, nil
		}
		_ = backoff.Sleep(ctx, 50*time.Millisecond)
	}
	text, _ := json.Marshal(s) // plain values
	return s, errors.Join(fmt.Errorf("%s: not so after %v: %s", what, awaitMax, text), err,
		context.Cause(ctx))
}

// Settled waits until the cluster has this many members, all of which vote and have the same rows.
func (c *Cluster) Settled(ctx context.Context, members int) (cluster.Status, error) {
	return c.Await(ctx, fmt.Sprintf("%d members vote and have the same rows", members),
		func(s cluster.Status) bool { return len(s.Members) == members && Same(s) })
}

// Renew empties the directory of a member that does not run, starts it, and makes the cluster
// replace the member that it was. Once it is a member again, it is ready.
func (c *Cluster) Renew(ctx context.Context, n *Node) (id string, ready <-chan error, err error) {
	s, err := c.Await(ctx, n.Name+" is a member", func(s cluster.Status) bool {
		return memberAt(s, n.Address) >= 0
	})
	if err != nil {
		return "", nil, err
	}
	if err := os.RemoveAll(n.DataDir()); err != nil {
		return "", nil, err
	}
	if id, ready, err = c.Introduce(ctx, n); err == nil {
		err = c.Tenaq(ctx, "cluster", "replace", s.Members[memberAt(s, n.Address)].ID, id)
	}
	return id, ready, err
}

func memberAt(s cluster.Status, address string) int {
	return slices.IndexFunc(s.Members, func(m cluster.Member) bool { return m.Address == address })
}

// Introduce starts a node that is no member yet, and waits until it asks to be admitted. Once it is
// a member, it is ready.
func (c *Cluster) Introduce(
	ctx context.Context, n *Node,
) (id string, ready <-chan error, err error) {
	started := make(chan error, 1)
	go func() {
		_, err := n.Start(ctx)
		started <- err
	}()
	_, err = c.Await(ctx, n.Name+" asks to be admitted", func(s cluster.Status) bool {
		i := slices.IndexFunc(s.Waiting, func(w cluster.Waiting) bool {
			return w.Address == n.Address
		})
		if i >= 0 {
			id = s.Waiting[i].ID
		}
		return i >= 0
	})
	return id, started, err
}

// Tenaq runs a command of the program, as an operator does, against the leader.
func (c *Cluster) Tenaq(ctx context.Context, args ...string) error {
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, c.cfg.Program,
		append(args, "--endpoint-url", leader.URL())...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("tenaq %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return err
}

// Same reports whether all members vote and have the same rows, by the chains of their commits.
func Same(s cluster.Status) bool {
	for _, m := range s.Members {
		if !m.Voter || m.Role != cluster.Leader && m.Role != cluster.Follower ||
			m.Hash == "" || m.Hash != s.Members[0].Hash || m.Commit != s.Members[0].Commit {
			return false
		}
	}
	return len(s.Members) > 0
}

// ask makes one request, and returns the body of an answer with status 200.
func ask(ctx context.Context, method, url, target, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if target != "" {
		r.Header.Set("X-Amz-Target", target)
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %.300s", answer.StatusCode, text)
	}
	return text, err
}

// client makes a connection for each request, so that none is tried again on its own.
var client = &http.Client{Transport: &http.Transport{
	DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: askMax}).DialContext,
}}
