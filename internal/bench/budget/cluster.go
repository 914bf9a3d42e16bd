package budget

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"tenaq/internal/bench"
	"tenaq/internal/child"
	"tenaq/internal/cli"
	"tenaq/internal/cluster"
	"tenaq/internal/testing/audit"
	"tenaq/internal/testing/audit/load"
)

// ClusterLines is the budget of a cluster of three nodes, which share the cores with the load.
var ClusterLines = []Line{
	{"sends", "single sends to three nodes, against one node", []bound{
		atLeast("256 clients", 0.50, 0.15),
		atLeast("64 clients", 0.35, 0.10),
		atMost("CPU time of the leader for a send", 1.5, "", 5),
	}, 2 << 30, clustered(measureClusterSends)},
	{"failover", "ten kills of the leader (short: 3) under load on a FIFO queue", []bound{
		atMost("longest without an answer", 3, "s", 0),
		atMost("lost", 0, "messages", 0),
		atMost("stored twice", 0, "messages", 0),
		atMost("out of order", 0, "deliveries", 0),
		atMost("delivered while hidden or after a delete", 0, "deliveries", 0),
		atMost("nodes with other rows", 0, "nodes", 0),
	}, 1 << 30, clustered(measureFailover)},
	{"copy", "the rows of a cluster of 1 GB (short: 64 MB) to an empty node", []bound{
		atMost("seconds for a GB", 60, "s", 0),
	}, 8 << 30, clustered(measureCopy)},
}

// clustered returns what measures a cluster that was started for it.
func clustered(run runner) runner {
	return func(ctx context.Context, e *env) ([]measure, error) {
		if err := e.own.StartCluster(ctx, 3); err != nil {
			return nil, err
		}
		return run(ctx, e)
	}
}

// leader returns the node that leads, and its endpoint.
func (e *env) leader(ctx context.Context) (*child.Node, error) {
	n, err := e.own.Cluster.Leader(ctx)
	if err != nil {
		return nil, err
	}
	e.endpoint = bench.Endpoint{Region: "us-east-1"}
	e.endpoint.URL, err = url.Parse(n.URL())
	return n, err
}

// measureClusterSends compares sends to the leader of a cluster with sends to a server of its own.
func measureClusterSends(ctx context.Context, e *env) (found []measure, err error) {
	if err := e.start(ctx); err != nil {
		return nil, err
	}
	alone := e.endpoint
	leader, err := e.leader(ctx)
	if err != nil {
		return nil, err
	}
	for _, clients := range []int{256, 64} {
		one := &bench.Costed{PID: e.own.Server.PID()}
		three := &bench.Costed{PID: leader.PID()}
		for _, c := range []struct {
			costed   *bench.Costed
			endpoint bench.Endpoint
		}{{one, alone}, {three, e.endpoint}} {
			w := e.work(bench.Work{Kind: bench.Send})
			w.Endpoint = c.endpoint
			if c.costed.Contender, err = bench.New(w); err != nil {
				return found, err
			}
		}
		s, err := e.costed(ctx, clients, "one node", one, "three nodes", three)
		if err != nil {
			return found, err
		}
		found = append(found, measure{fmt.Sprintf("%d clients", clients), s.ratio, s.note})
		if clients == 256 {
			found = append(found, s.processor("CPU time of the leader for a send"))
		}
	}
	return found, nil
}

// measureFailover kills leaders under load, and accounts for each message afterwards.
func measureFailover(ctx context.Context, e *env) ([]measure, error) {
	if _, err := e.leader(ctx); err != nil {
		return nil, err
	}
	probe, err := bench.Fill(ctx, e.work(bench.Work{Kind: bench.Send}), e.telling("create a queue"))
	if err != nil {
		return nil, err
	}
	w := e.work(bench.Work{Kind: bench.Send, Groups: 40})
	queueURL, err := bench.Fill(ctx, w, e.telling("create a FIFO queue"))
	if err != nil {
		return nil, err
	}
	l := load.New(load.Config{
		AWS: aws.Config{Region: e.endpoint.Region,
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", "")},
		Endpoint: e.endpoint.URL.String(), Nodes: e.own.Cluster.URLs(), QueueURL: queueURL,
		Seed: 1, Groups: w.Groups, Producers: 4, Workers: 6,
		Body:  func(n int) string { return fmt.Sprintf(`{"order": %d}`, n) },
		Pause: 20 * time.Millisecond, Work: 5 * time.Millisecond, Visibility: visibility,
		Overruns: 10, Changes: 30, Canaries: 30,
	})
	var took []time.Duration
	kills := int(e.choose(10, 3))
	err = l.Run(ctx, func(ctx context.Context) error {
		for n := range kills {
			e.tell("kill leaders", float64(n)/float64(kills))
			one, err := e.failover(ctx, probe)
			if err != nil {
				return err
			}
			took = append(took, one)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// Broker time that follows the wall clock is a twentieth faster.
	r := audit.Check(l.History(), audit.Options{Tolerance: visibility/20 + 20*time.Millisecond})
	slices.Sort(took)
	found := []measure{
		{"longest without an answer", took[len(took)-1].Seconds(),
			fmt.Sprintf("%s, median %s", cli.Counted(len(took), "kill", "kills"),
				cli.ShortDuration(took[len(took)/2]))},
		{"lost", float64(r.Count(audit.Lost)), fmt.Sprintf("of %d", r.Acknowledged)},
		{"stored twice", float64(r.Count(audit.Deduplicated, audit.Multiplied)), ""},
		{"out of order", float64(r.Count(audit.Order, audit.Sequence)),
			fmt.Sprintf("of %d behind others of their group", r.Ordered)},
		{"delivered while hidden or after a delete",
			float64(r.Count(audit.InFlight, audit.Deleted)), fmt.Sprintf("of %d", r.Deliveries)},
	}
	s, err := e.own.Cluster.Settled(ctx, len(e.own.Cluster.Nodes))
	differ := 0
	for _, m := range s.Members {
		if m.Hash != s.Members[0].Hash {
			differ++
		}
	}
	if err != nil && differ == 0 {
		return found, err
	}
	return append(found, measure{"nodes with other rows", float64(differ), ""}), nil
}

// visibility is the timeout of receives under measureFailover.
const visibility = time.Second

// failover kills the leader, and returns how long it takes until the next acknowledgement.
func (e *env) failover(ctx context.Context, probe string) (took time.Duration, err error) {
	if err := rest(ctx, time.Second); err != nil {
		return 0, err
	}
	leader, err := e.leader(ctx)
	if err != nil {
		return 0, err
	}
	if err := leader.Kill(); err != nil {
		return 0, err
	}
	if took, err = e.own.Cluster.FirstAnswer(ctx, probe); err == nil {
		_, err = leader.Start(ctx)
	}
	return took, err
}

// copied is the size of a message of measureCopy, of which ten fit into a request.
const copied = 100_000

// measureCopy empties the directory of a node and measures how long it takes until it has the rows
// of the others.
func measureCopy(ctx context.Context, e *env) ([]measure, error) {
	leader, err := e.leader(ctx)
	if err != nil {
		return nil, err
	}
	nodes := e.own.Cluster.Nodes
	empty := nodes[slices.IndexFunc(nodes, func(n *child.Node) bool { return n != leader })]
	if err := empty.Stop(); err != nil {
		return nil, err
	}
	n := e.count(10_000, 640)
	if _, err := bench.Fill(ctx, e.work(bench.Work{Kind: bench.Send, Depth: n, Size: copied}),
		e.telling("send messages")); err != nil {
		return nil, err
	}
	e.tell("copy", 0)
	began := time.Now()
	id, ready, err := e.own.Cluster.Renew(ctx, empty)
	if err != nil {
		return nil, err
	}
	_, err = e.own.Cluster.Await(ctx, "the empty node has the rows", func(s cluster.Status) bool {
		i := slices.IndexFunc(s.Members, func(m cluster.Member) bool { return m.ID == id })
		j := slices.IndexFunc(s.Members, func(m cluster.Member) bool { return m.ID == s.Leader })
		return i >= 0 && j >= 0 && s.Members[i].Hash == s.Members[j].Hash
	})
	took := time.Since(began)
	if err == nil {
		err = <-ready
	}
	size := float64(n) * copied / 1e9
	return []measure{{"seconds for a GB", took.Seconds() / size,
			fmt.Sprintf("%s for %.2g GB, start and admission included", cli.ShortDuration(took), size)}},
		errors.Join(err, ctx.Err())
}
