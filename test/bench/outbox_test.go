// Package bench compares the libraries that go with the server - package worker, package outbox -
// with what people write by hand, and with other libraries, in the same run. Absolute numbers say
// more about a machine than about a program, so what these benchmarks report is ratios. What the
// server does by itself is measured by "tenaq bench".
//
//	go test ./test/bench -run '^$' -bench . -benchtime 3x
package bench

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tenaq/internal/testing/pgtest"
)

var carriersFlag = flag.String("carriers", "", "have rows sent only by those carriers whose names match this regular expression")

var body = strings.Repeat("x", 200) // of a message

const (
	drained   = 20_000 // rows in each table
	inStreams = 200    // groups of them
	relayed   = 8      // requests that a relay makes at once, see outbox.Config
)

// BenchmarkOutboxDrain has rows that were committed beforehand sent by one relay, and by the loops
// that people write by hand; see the types ours and byHand. All of them take turns on one
// PostgreSQL and one server, each a process of its own that forces every commit to disk, and each
// with a new table and a new queue. The clock stops when the last row is written down as sent. It
// reports
//
//   - how many rows a second the relay sends, and how often that is what each loop sends, the
//     median over rounds;
//   - what part it is of what the queue alone takes, from as many requests at once and without a
//     database, and of what the relay does with a queue that answers at once: these are what bounds
//     it;
//   - how much CPU time a row takes with each, in the program that sends, in the database and in
//     the server.
//
// Nobody receives meanwhile. The relay sends the ordered rows in the order of their group, and so
// does a single loop; several would not, so they are not there.
//
//	go test ./test/bench -run '^$' -bench OutboxDrain -benchtime 3x
func BenchmarkOutboxDrain(b *testing.B) {
	for _, kind := range []struct {
		name   string
		groups int
	}{{"plain", 0}, {"ordered", inStreams}} {
		b.Run(kind.name, func(b *testing.B) {
			db, a := pgtest.New(b), newArena(b, kind.groups)
			ways := []way{
				{"relay", func(d *desk) carrier { return &ours{desk: d} }},
				{"x-loop", func(d *desk) carrier { return &byHand{desk: d, sleep: time.Second} }},
				{"x-loop-in-tens", func(d *desk) carrier { return &byHand{desk: d, batch: 10, sleep: time.Second} }},
				{"of-queue-alone", func(d *desk) carrier { return &direct{desk: d, atOnce: relayed} }},
				{"of-database-alone", func(d *desk) carrier { return &ours{desk: d, queueless: true} }},
			}
			if kind.groups == 0 {
				ways = append(ways, way{fmt.Sprintf("x-%d-loops-in-tens", relayed), func(d *desk) carrier {
					return &byHand{desk: d, batch: 10, atOnce: relayed, sleep: time.Second}
				}})
			}
			chosen, err := regexp.Compile(*carriersFlag)
			if err != nil {
				b.Fatal(err)
			}
			ways = slices.DeleteFunc(ways, func(w way) bool { return !chosen.MatchString(w.name) })
			drains := make(map[string][]drain)
			b.ResetTimer()
			for b.Loop() {
				for _, w := range ways {
					drains[w.name] = append(drains[w.name], newDesk(b, db, a).drain(b, w, drained))
				}
			}
			b.StopTimer()
			for _, w := range ways {
				var rates, ratios []float64
				for i, mine := range drains["relay"] {
					rates = append(rates, drained/mine.took.Seconds())
					ratios = append(ratios, float64(drains[w.name][i].took)/float64(mine.took))
				}
				switch {
				case len(rates) == 0:
				case w.name == "relay":
					b.ReportMetric(median(rates), "rows/s")
				default:
					b.ReportMetric(median(ratios), w.name)
				}
			}
			// The line of a benchmark has room for little.
			fmt.Printf("%s, CPU time in µs per row, median of %d rounds\n\n%s\n", kind.name, b.N, cpuTable(ways, drains))
		})
	}
}

// A way is a way from a committed row to a queue.
type way struct {
	name string
	over func(d *desk) carrier
}

// A desk is where a carrier works: a schema of its own in the database, and a queue of its own.
type desk struct {
	*arena
	app        *pgxpool.Pool // of the program that writes rows
	pool       *pgxpool.Pool // of the carrier
	statements *tally        // of the carrier
	queue, url string
	recorded   func(rows int)
}

var schemas atomic.Int64

func newDesk(b *testing.B, db *pgtest.Server, a *arena) *desk {
	b.Helper()
	schema := fmt.Sprint("desk", schemas.Add(1))
	d := &desk{arena: a, statements: new(tally), queue: schema, recorded: func(int) {}}
	connect := func(tracer pgx.QueryTracer) *pgxpool.Pool {
		cfg, err := pgxpool.ParseConfig(db.URL())
		if err != nil {
			b.Fatal(err)
		}
		cfg.MaxConns = relayed + 1
		cfg.ConnConfig.Tracer = tracer
		cfg.ConnConfig.RuntimeParams["search_path"] = schema
		pool, err := pgxpool.NewWithConfig(b.Context(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		return pool
	}
	d.app, d.pool = connect(nil), connect(d.statements)
	if _, err := d.app.Exec(b.Context(), "CREATE SCHEMA "+schema); err != nil {
		b.Fatal(err)
	}
	attributes := make(map[string]string)
	if a.groups > 0 {
		d.queue += ".fifo"
		attributes["FifoQueue"] = "true"
	}
	out, err := a.client.CreateQueue(b.Context(), &sqs.CreateQueueInput{QueueName: &d.queue, Attributes: attributes})
	if err != nil {
		b.Fatal(err)
	}
	d.url = *out.QueueUrl
	return d
}

// close removes everything of the desk, so that nothing is left for later runs.
func (d *desk) close(b *testing.B) {
	b.Helper()
	d.pool.Close()
	schema, _, _ := strings.Cut(d.queue, ".")
	if _, err := d.app.Exec(b.Context(), "DROP SCHEMA "+schema+" CASCADE"); err != nil {
		b.Fatal(err)
	}
	d.app.Close()
	if _, err := d.client.DeleteQueue(b.Context(), &sqs.DeleteQueueInput{QueueUrl: &d.url}); err != nil {
		b.Fatal(err)
	}
}

// start runs a carrier until it is stopped.
func (d *desk) start(b *testing.B, c carrier) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.carry(ctx) }()
	return func() {
		b.Helper()
		cancel()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	}
}

// A drain is what it took to have all rows of a table sent.
type drain struct {
	took time.Duration
	cpu  cpuShare
}

// cpuTable is the CPU time that rows take, by process.
func cpuTable(ways []way, drains map[string][]drain) string {
	var s strings.Builder
	s.WriteString("| Carrier | All | Program | Database | Server |\n|---|---|---|---|---|\n")
	for _, w := range ways {
		per := func(part func(c cpuShare) time.Duration) float64 {
			var of []float64
			for _, d := range drains[w.name] {
				of = append(of, float64(part(d.cpu).Microseconds())/drained)
			}
			return median(of)
		}
		_, name, ok := strings.Cut(w.name, "-")
		if !ok {
			name = w.name
		}
		fmt.Fprintf(&s, "| %s | %.0f | %.0f | %.0f | %.0f |\n", name, per(cpuShare.total),
			per(func(c cpuShare) time.Duration { return c.program }),
			per(func(c cpuShare) time.Duration { return c.database }),
			per(func(c cpuShare) time.Duration { return c.server }))
	}
	return s.String()
}

// drain fills a table and has all of it sent.
func (d *desk) drain(b *testing.B, w way, n int) (took drain) {
	b.Helper()
	c := w.over(d)
	if err := c.prepare(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := c.fill(b.Context(), n); err != nil {
		b.Fatal(err)
	}
	// Maintenance after the fill must not fall into the measured time.
	if _, err := d.app.Exec(b.Context(), "VACUUM ANALYZE"); err != nil {
		b.Fatal(err)
	}
	runtime.GC()
	var sent atomic.Int64
	done := make(chan struct{})
	d.recorded = func(rows int) {
		if sent.Add(int64(rows)) == int64(n) {
			close(done)
		}
	}
	used, began := cpuShares(b), time.Now()
	stop := d.start(b, c)
	select {
	case <-done:
	case <-time.After(runMax):
		b.Errorf("%s has sent %d rows of %d in %v", w.name, sent.Load(), n, runMax)
	}
	took = drain{time.Since(began), cpuShares(b).minus(used)}
	stop()
	if o, ok := c.(*ours); !ok || !o.queueless {
		d.wantDepth(b, n)
	}
	d.close(b)
	return took
}

// wantDepth checks that the queue has the wanted number of messages.
func (d *desk) wantDepth(b *testing.B, want int) {
	b.Helper()
	const depth = types.QueueAttributeNameApproximateNumberOfMessages
	out, err := d.client.GetQueueAttributes(b.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &d.url, AttributeNames: []types.QueueAttributeName{depth}})
	if err != nil {
		b.Fatal(err)
	}
	if got := out.Attributes[string(depth)]; got != fmt.Sprint(want) {
		b.Errorf("the queue has %s messages, want %d", got, want)
	}
}

// A tally counts the statements of a pool, and how long their answers take.
type tally struct {
	n, busy atomic.Int64
}

type tallyBegan struct{}

func (t *tally) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	t.n.Add(1)
	return context.WithValue(ctx, tallyBegan{}, time.Now())
}

func (t *tally) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if began, ok := ctx.Value(tallyBegan{}).(time.Time); ok {
		t.busy.Add(int64(time.Since(began)))
	}
}
