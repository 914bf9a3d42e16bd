package server

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"tenaq/internal/api/relay"
	"tenaq/internal/api/v1"
	"tenaq/internal/broker"
	"tenaq/internal/cluster/forward"
	"tenaq/internal/cluster/group"
	"tenaq/internal/cluster/node"
	"tenaq/internal/cluster/wire"
	"tenaq/internal/door/auth"
	"tenaq/internal/observe/monitor"
)

// A node of a cluster has the same addresses as a single server, and answers the same requests on
// them. While it leads, it has a service over the replicated store. Otherwise it passes requests on
// to the node that leads, and holds them while none does.

// turnBytes bounds what one turn writes in a cluster: a turn is one entry of the log, and Raft
// copies whole entries.
const turnBytes = 4 << 20

// leaderless is how long a node may know of no leader before it should get no requests. Nodes hold
// requests for as long.
const leaderless = 3 * time.Second

// openNode opens this node of a cluster.
func (s *Server) openNode() error {
	c := node.Config{
		Dir:       s.cfg.DataDir,
		Listen:    s.cfg.ClusterListen,
		Advertise: cmp.Or(s.cfg.ClusterAdvertise, s.cfg.ClusterListen),
		Peers:     s.cfg.ClusterPeers,
		Version:   s.cfg.Version,
		Lead:      s.lead,
		Free: func() (uint64, error) {
			on, err := roomOn(s.cfg.DataDir)
			return uint64(on.free), err
		},
		Low:      s.disk.low,
		Requests: s.counted(forwarded(s.here())),
		Fatal:    func(err error) { s.cfg.Fatal(storeError(s.cfg.DataDir, err)) },
		Logger:   s.cfg.Logger,
	}
	var err error
	if s.cfg.ClusterIdentity != "" {
		if c.Identity, err = wire.OpenIdentity(s.cfg.ClusterIdentity); err != nil {
			return &Error{ErrConfig, err}
		}
	} else if c.Token, err = s.cfg.token(); err != nil {
		return err
	}
	if s.node, err = node.Open(c); err != nil {
		return storeError(s.cfg.DataDir, err)
	}
	s.backups = s.newBackups(s.node.Checkpoint, func() ([]byte, error) {
		if v := s.writer.Load(); v != nil {
			return monitor.Rows(v.broker).Load()
		}
		return nil, broker.ErrNotLeader
	})
	s.cluster = v1.NewCluster(v1.ClusterConfig{Door: s.door, Intake: s.intake, Control: s.node,
		Logger: s.cfg.Logger})
	s.relay = relay.New(relay.Config{
		Forwarder: forward.New(forward.Config{Leader: s.node.Leader, Dial: s.node.Dial,
			Here: func() bool { return s.writer.Load() != nil }}),
		Door: s.door, Intake: s.intake, Logger: s.cfg.Logger, Here: s.here(),
	})
	return nil
}

// here answers requests that this node is asked for as the leader.
func (s *Server) here() http.Handler {
	notLeader := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		relay.Refuse(w, r, broker.ErrNotLeader)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, r, notLeader)
	})
}

// forwarded answers requests that other nodes forward, and whose Host they have checked.
func forwarded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, auth.Forwarded(r))
	})
}

// token returns the secret that nodes without certificates share.
func (c *Config) token() (string, error) {
	if c.ClusterTokenFile == "" {
		return c.ClusterToken, nil
	}
	b, err := os.ReadFile(c.ClusterTokenFile)
	if err != nil {
		return "", configError("cannot read the token of the cluster: %w: correct --cluster-token-file", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", configError("%s is empty: write the token of the cluster into it",
			c.ClusterTokenFile)
	}
	return token, nil
}

// lead serves one term of this node.
func (s *Server) lead(t group.Term) error {
	v, err := s.newService(t.Store, func(c *broker.Config) {
		c.Applied, c.Confirm, c.TurnBytes = t.Applied, t.Store.Confirm, turnBytes
	})
	if err != nil {
		return err
	}
	v.start()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		select {
		case <-t.Over:
			v.broker.Abandon()
		case <-t.Yield:
		case <-v.written:
		}
	}()
	// A queue that cannot be declared is no reason to leave the cluster without a leader.
	if err := v.declare(ctx); err != nil {
		s.cfg.Logger.Error("declared queues not created", "error", err)
	}
	if err := s.importAlarms(v.broker); err != nil {
		s.cfg.Logger.Error("alarms not imported", "error", err)
	}
	v.open(ctx)
	<-ctx.Done()
	s.writer.Store(nil) // what comes from now on waits for the next leader
	v.drain()
	return v.stop()
}

// troubles are those of the cluster, as alarms show them.
func (s *Server) troubles() (all []monitor.Trouble) {
	for _, t := range s.node.Troubles() {
		all = append(all, monitor.Trouble{Name: t.Name, Text: t.Text})
	}
	return all
}

// A converted Keeper reads the alarms of a single server that became the first node of a cluster,
// until the cluster has stored its own.
type converted struct {
	monitor.Keeper
	single monitor.Keeper
}

func (c converted) Load() ([]byte, error) {
	if document, err := c.Keeper.Load(); document != nil || err != nil {
		return document, err
	}
	return c.single.Load()
}

// importAlarms stores the alarms of that server in the cluster, unless it has alarms already. The
// monitor would store them with their first change, which may be long after this node has led.
func (s *Server) importAlarms(b *broker.Broker) error {
	rows := monitor.Rows(b)
	if document, err := rows.Load(); document != nil || err != nil {
		return err
	}
	document, err := monitor.File(s.cfg.DataDir).Load()
	if document == nil || err != nil {
		return err
	}
	return rows.Store(document)
}

// runNode serves until ctx is done. It hands over the lead before it stops.
func (s *Server) runNode(ctx context.Context) error {
	running, stop := context.WithCancel(context.Background())
	failed := make(chan error, 4)
	var node sync.WaitGroup
	node.Go(func() {
		if err := s.node.Run(running); err != nil {
			failed <- err
		}
	})
	err := s.serve(ctx, failed)
	s.handlers.Wait()
	stop()
	node.Wait()
	return err
}
