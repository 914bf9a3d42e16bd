// Package peers compares tenaq with other queues, which it starts on this machine.
//
// Each peer that is installed runs beside the others, on loopback, with its data in a temporary
// directory. All take turns with the same clients, bodies and batches, so the ratios of one run say
// more than its rates. A Peer says what it has on disk before it acknowledges a message; only peers
// with the same answer do the same work. A peer that is not installed is a row that says how to
// install it.
//
// Clients are connections that wait for each answer. The protocols of Redis, NATS and STOMP are
// small enough to write and read them here, with as little work as package bench does for SQS: a
// library would take processor time from the peer. RabbitMQ gets its own library, because AMQP is
// not small, and PostgreSQL gets pgx, which tenaq has anyway.
//
// A peer ends with the process that started it, however that ends.
package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tenaq/internal/bench"
	"tenaq/internal/cli"
)

// A Peer is a queue server.
type Peer struct {
	Name   string // on the command line
	Title  string
	Forced string // what is on disk before an acknowledgement

	install string // what installs it
	start   func(ctx context.Context, at *place) (server, error)
}

// errMissing is the error of a peer that is not installed.
var errMissing = errors.New("not installed")

// A place is where a peer is started.
type place struct {
	dir  string         // its own, which is removed in the end
	port string         // a free one of loopback
	own  *bench.Servers // has tenaq, and the server that does nothing
}

// A server is a peer that runs.
type server interface {
	// contender returns what does a workload on a queue of its own.
	contender(ctx context.Context, w bench.Work) (bench.Contender, error)

	// pid is the process whose CPU time counts, with its descendants.
	pid() int

	close()
}

// All has the peers in the order of the table. The first two are always there.
var All = []Peer{
	{"tenaq", "tenaq", "every send, receive and delete", "", startTenaq},
	{"nothing", "no-op net/http server", "nothing, it stores nothing", "", startNothing},
	{"redis", "Redis Streams", "every send, receive and delete (appendfsync always)",
		"apt install redis-server", startRedis},
	{"rabbitmq", "RabbitMQ", "every send (quorum queue with confirms); deletes are not confirmed",
		"apt install rabbitmq-server", startRabbitMQ},
	{"rabbitmq-get", "RabbitMQ, basic.get", "the same; consumers ask for each message",
		"apt install rabbitmq-server", startRabbitMQGet},
	{"artemis", "ActiveMQ Artemis", "every send and delete (journal with datasync)",
		"make bench-peers, in a checkout of tenaq", startArtemis},
	{"postgresql", "PostgreSQL", "every send, and every receive with its delete (SKIP LOCKED, one commit)",
		"apt install postgresql", startPostgreSQL},
	{"nats", "NATS JetStream", "every send (sync_interval always); deletes are not confirmed",
		"make bench-peers, in a checkout of tenaq", startNATS},
	{"elasticmq", "ElasticMQ", "nothing, all is in memory",
		"make bench-peers, in a checkout of tenaq", startElasticMQ},
	{"fauxqs", "fauxqs", "nothing, all is in memory",
		"make bench-peers, in a checkout of tenaq", startFauxqs},
}

// always is how many peers of All take part in every comparison.
const always = 2

// Config configures a comparison.
type Config struct {
	Dir    string // for the data; the temporary directory if empty
	Load   bench.Load
	Rounds int
}

// The columns of the table.
var columns = []struct {
	name string
	work bench.Work
}{
	{"lives", bench.Work{Kind: bench.Life, Size: 100}},
	{"lives in tens", bench.Work{Kind: bench.Life, Size: 100, Batch: 10}},
	{"sends of 100 B", bench.Work{Kind: bench.Send, Size: 100}},
	{"sends of 4 KiB", bench.Work{Kind: bench.Send, Size: 4 << 10}},
}

// Choose returns the peers with these names, and those that always take part. No names choose all.
func Choose(names []string) (chosen []Peer, err error) {
	if len(names) == 0 {
		return All, nil
	}
	chosen = append(chosen, All[:always]...)
	for _, name := range names {
		p, err := named(name)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, p)
	}
	return chosen, nil
}

func named(name string) (p Peer, err error) {
	known := ""
	for _, p := range All[always:] {
		if p.Name == name {
			return p, nil
		}
		known += ", " + p.Name
	}
	return p, cli.Usagef("there is no peer %q: choose from %s", name, known[2:])
}

// Compare starts the peers and measures them.
func Compare(
	ctx context.Context, c *Config, chosen []Peer, p *cli.Progress,
) (report *Report, err error) {
	report = newReport(c, chosen)
	dir, err := os.MkdirTemp(c.Dir, "tenaq-peers-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	own := &bench.Servers{Dir: dir}
	defer func() { err = errors.Join(err, own.Close()) }()
	var running []server
	defer func() {
		for _, s := range running {
			s.close()
		}
	}()
	var rows []*Row // of those that run
	for i, peer := range chosen {
		p.Line("start %s", peer.Title)
		s, err := peer.launch(ctx, dir, own)
		switch row := &report.Rows[i]; {
		case err == nil:
			running, rows = append(running, s), append(rows, row)
		case errors.Is(err, errMissing):
			row.Missing = peer.install
		default:
			return nil, fmt.Errorf("%s: %w", peer.Title, err)
		}
	}
	for i := range columns {
		if err := measure(ctx, c, i, running, rows, p); err != nil {
			return nil, err
		}
	}
	report.judge()
	return report, nil
}

// launch starts a peer in a directory of its own, below one that all may enter: PostgreSQL does not
// run as root.
func (p *Peer) launch(
	ctx context.Context, under string, own *bench.Servers,
) (server, error) {
	if err := os.Chmod(under, 0o711); err != nil {
		return nil, err
	}
	dir := filepath.Join(under, p.Name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	return p.start(ctx, &place{dir, port, own})
}

// A watched contender names its peer when a round fails, and shows what the peer has printed.
type watched struct {
	bench.Contender
	title string
	on    server
}

func (w *watched) Round(ctx context.Context, load bench.Load) (bench.Tally, error) {
	t, err := w.Contender.Round(ctx, load)
	if err != nil {
		err = fmt.Errorf("%s: %w", w.title, err)
		if p, ok := w.on.(interface{ log() string }); ok {
			err = fmt.Errorf("%w; it printed: %s", err, p.log())
		}
	}
	return t, err
}

// measure fills a column of the table.
func measure(
	ctx context.Context, c *Config, column int, running []server, rows []*Row, p *cli.Progress,
) error {
	var contenders []bench.Named
	var costs []*bench.Costed
	for i, s := range running {
		w := columns[column].work
		w.Queue, w.Random = fmt.Sprintf("tenaq-peers-%d", column), true
		contender, err := s.contender(ctx, w)
		if err != nil {
			return err
		}
		costs = append(costs, &bench.Costed{Contender: &watched{contender, rows[i].Title, s},
			PID: s.pid()})
		contenders = append(contenders, bench.Named{Name: rows[i].Title, Contender: costs[i]})
	}
	results, err := bench.Compare(ctx, c.Load, c.Rounds, func(what string, share float64) {
		p.Line("%s %s, %s", cli.Bar(int(1000*share), 1000), columns[column].name, what)
	}, contenders...)
	if err != nil {
		return err
	}
	for i := range results {
		rows[i].Cells = append(rows[i].Cells, Cell{Column: columns[column].name,
			Rate:   bench.Median(append([]float64(nil), results[i].Rates...)),
			CPU:    costs[i].Each().Seconds() * 1e6,
			rounds: results[i].Rates})
	}
	return nil
}

// Optional reports whether a peer takes part only if it is chosen and installed.
func (p *Peer) Optional() bool { return p.install != "" }
