// Package bench has the commands that measure: an endpoint under load, and the performance budget of the
// project.
package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/bench"
	"tenaq/internal/cli"
)

// benchFlags say what is measured.
type benchFlags struct {
	endpointURL, region string
	signed, baseline    bool
	dir                 string

	work   bench.Work
	load   bench.Load
	round  string
	rounds int
}

func NewCmd(a *cli.App) *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench send|receive|life",
		Short: "Load an SQS endpoint and measure what it does",
		Long: `Load an SQS endpoint over raw HTTP and measure what it does. Without --endpoint-url it starts a server of
its own on an empty directory, as a process of its own, and removes both in the end.

  send      one request that sends --batch messages
  receive   receive --batch messages that were there before, and delete them; wants --depth
  life      send --batch messages, receive as many, delete them: three requests

Each client is a connection that has one request under way. It sends the next when the answer is there, or,
with --rate, when the next one is due; latencies then count from the moment at which a request was due, so a
server that stands still makes all of them longer that fell into that time. Latencies are those of a step,
which is one request or three.

With --baseline a server that does nothing takes turns with the endpoint: the same HTTP stack, limits and
answers, and nothing behind them. The ratio is the median, over all rounds, of what both did in the same
round. Numbers by themselves say more about the machine than about the program.

The queues are called tenaq-bench-..., and are deleted in the end. At Amazon each request costs money.`,
		Example: `  tenaq bench send --baseline
  tenaq bench life --batch 10 --clients 16
  tenaq bench life --groups 1000 --depth 100000      # a FIFO queue, with a backlog
  tenaq bench send --rate 2000 --rounds 20           # honest latencies below the limit
  tenaq bench receive --depth 200000 --batch 10 --json
  tenaq bench send --endpoint-url http://127.0.0.1:9324 --signed`,
		Args:      cli.Wants(1, 1),
		ValidArgs: []string{string(bench.Send), string(bench.Receive), string(bench.Life)},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.work.Kind = bench.Kind(args[0])
			return runBench(a, cmd.Context(), f)
		},
	}
	p := cmd.Flags()
	p.StringVar(&f.endpointURL, "endpoint-url", "", "`URL` of the SQS API, or the word aws (default a server of its own)")
	p.StringVar(&f.region, "region", "", "`region` that requests are signed for (default $TENAQ_REGION, $AWS_REGION, "+cli.DefaultRegion+")")
	p.BoolVar(&f.signed, "signed", false, "sign the requests, as is always done at Amazon")
	p.BoolVar(&f.baseline, "baseline", false, "compare with a server that does nothing on the same HTTP stack")
	p.StringVar(&f.dir, "dir", "", "keep the data of the server of its own in this `directory`, on the disk to be measured (default the temporary one)")
	p.IntVar(&f.load.Clients, "clients", 64, "`number` of connections")
	p.Float64Var(&f.load.Rate, "rate", 0, "steps a second of all clients together, at fixed moments (default as many as they can)")
	p.StringVar(&f.round, "round", "1s", "`duration` of a round")
	p.IntVar(&f.rounds, "rounds", 5, "`number` of rounds; one more before them does not count")
	p.IntVar(&f.work.Batch, "batch", 1, "`number` of messages in a request, 1 to 10")
	p.IntVar(&f.work.Size, "size", 200, "`bytes` of a body")
	p.IntVar(&f.work.Groups, "groups", 0, "use a FIFO queue with this `number` of message groups")
	p.Int64Var(&f.work.Depth, "depth", 0, "let this `number` of messages wait in the queue beforehand")
	p.IntVar(&f.work.Polls, "polls", 0, "let this `number` of long polls wait on another queue meanwhile")
	cmd.AddCommand(newBaselineCmd(a), newBudgetCmd(a))
	return cmd
}

// check refuses what cannot be measured.
func (f *benchFlags) check() (err error) {
	if f.load.Round, err = cli.ParseDuration(f.round); err != nil {
		return cli.Usagef("--round: %v", err)
	}
	switch {
	case f.load.Round < 100*time.Millisecond:
		return cli.Usagef("--round: %s is too short to measure anything: at least 100ms", f.round)
	case f.rounds < 1:
		return cli.Usagef("--rounds: %d is not a number of rounds", f.rounds)
	case f.load.Clients < 1 || f.load.Clients > 100_000:
		return cli.Usagef("--clients: %d is not between 1 and 100000", f.load.Clients)
	case f.load.Rate < 0:
		return cli.Usagef("--rate: %v is negative", f.load.Rate)
	case f.work.Groups < 0 || f.work.Depth < 0 || f.work.Polls < 0:
		return cli.Usagef("--groups, --depth and --polls cannot be negative")
	case f.dir != "" && f.endpointURL != "":
		return cli.Usagef("--dir is for a server of its own, and --endpoint-url names another")
	}
	if _, err := bench.New(f.work); err != nil {
		return cli.Usagef("%v", err)
	}
	return checkDir(f.dir)
}

// runBench carries out one comparison and prints it.
func runBench(a *cli.App, ctx context.Context, f *benchFlags) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	own := &bench.Servers{Dir: f.dir, Signed: f.signed}
	defer func() { err = errors.Join(err, own.Close()) }()
	line := cli.NewProgress(a.Stderr)
	defer line.Done()
	line.Begin("bench")
	if f.work.Endpoint, err = f.endpoint(ctx, own); err != nil {
		return err
	}
	f.work.Queue = "tenaq-bench-" + time.Now().UTC().Format("20060102-150405")
	report, err := f.compare(ctx, own, line)
	if err != nil {
		return err
	}
	line.Done()
	return printBench(a, report)
}

// endpoint finds what is measured, or starts it.
func (f *benchFlags) endpoint(ctx context.Context, own *bench.Servers) (e bench.Endpoint, err error) {
	if f.endpointURL == "" {
		return own.Start(ctx)
	}
	at, err := cli.ResolveEndpoint(f.endpointURL, os.Getenv)
	if err != nil {
		return e, err
	}
	cfg, err := cli.AWSConfig(ctx, at, cli.ResolveRegion(f.region, os.Getenv))
	if err != nil {
		return e, err
	}
	address := at.URL
	if at.IsAmazon() {
		address = "https://sqs." + cfg.Region + ".amazonaws.com"
	}
	e.Region = cfg.Region
	if f.signed || at.IsAmazon() {
		e.Credentials = cfg.Credentials
	}
	e.URL, err = url.Parse(address)
	return e, err
}

// A benchReport is what bench prints with --json.
type benchReport struct {
	Workload string           `json:"workload"`
	Endpoint string           `json:"endpoint"`
	Batch    int              `json:"batch"`
	Size     int              `json:"size"`
	Groups   int              `json:"groups"`
	Depth    int64            `json:"depth"`
	Polls    int              `json:"polls"`
	Clients  int              `json:"clients"`
	Rate     float64          `json:"rate"` // 0 is as many as they can
	Rounds   int              `json:"rounds"`
	Round    float64          `json:"roundSeconds"`
	Results  []benchContender `json:"results"`
}

// A benchContender is one line of the table.
type benchContender struct {
	Name      string  `json:"name"`
	Messages  float64 `json:"messagesPerSecond"`
	Requests  float64 `json:"requestsPerSecond"`
	Empty     int64   `json:"emptyReceives"`
	Throttled int64   `json:"throttled"`
	P50       float64 `json:"p50Milliseconds"`
	P99       float64 `json:"p99Milliseconds"`
	P999      float64 `json:"p999Milliseconds"`
	Most      float64 `json:"maxMilliseconds"`
	Ratio     float64 `json:"ratio"` // to the first line, the median of the rounds
	Low       float64 `json:"ratioLeast"`
	High      float64 `json:"ratioMost"`
}

// newBenchContender describes what became of one.
func newBenchContender(name string, r *bench.Result) benchContender {
	seconds := max(r.Took.Seconds(), 1e-9)
	at := func(percent float64) float64 { return float64(r.Latency.At(percent).Microseconds()) / 1000 }
	return benchContender{
		Name: name, Messages: r.Rate(), Requests: float64(r.Requests) / seconds, Empty: r.Empty, Throttled: r.Throttled,
		P50: at(50), P99: at(99), P999: at(99.9), Most: at(100), Ratio: r.Ratio, Low: r.Least, High: r.Most,
	}
}

func (f *benchFlags) compare(ctx context.Context, own *bench.Servers, line *cli.Progress) (*benchReport, error) {
	report := &benchReport{
		Workload: string(f.work.Kind), Endpoint: f.work.Endpoint.URL.String(), Batch: f.work.Batch, Size: f.work.Size,
		Groups: f.work.Groups, Depth: f.work.Depth, Polls: f.work.Polls, Clients: f.load.Clients, Rate: f.load.Rate,
		Rounds: f.rounds, Round: f.load.Round.Seconds(),
	}
	contender, err := bench.New(f.work)
	if err != nil {
		return nil, err
	}
	contenders := []bench.Named{{Name: "endpoint", Contender: contender}}
	if f.baseline {
		base, err := own.Baseline(ctx, f.work)
		if err != nil {
			return nil, err
		}
		contenders = append([]bench.Named{{Name: "baseline", Contender: base}}, contenders...)
	}
	results, err := bench.Compare(ctx, f.load, f.rounds, func(what string, share float64) {
		line.Line("%s %s", cli.Bar(int(1000*share), 1000), what)
	}, contenders...)
	if err != nil {
		return nil, err
	}
	for i := range results {
		report.Results = append(report.Results, newBenchContender(contenders[i].Name, &results[i]))
	}
	return report, nil
}

func printBench(a *cli.App, r *benchReport) error {
	if a.JSON {
		return a.PrintJSON(r)
	}
	t := cli.Table{Head: []string{"", "MESSAGES/S", "REQUESTS/S", "P50", "P99", "P99.9", "MAX", "RATIO", "LEAST TO MOST"}}
	var notes []string
	for _, c := range r.Results {
		ratio, extremes := fmt.Sprintf("%.2f", c.Ratio), fmt.Sprintf("%.2f to %.2f", c.Low, c.High)
		if len(r.Results) == 1 {
			ratio, extremes = "", ""
		}
		ms := func(v float64) string { return fmt.Sprintf("%.1f ms", v) }
		t.Add(c.Name, fmt.Sprintf("%.0f", c.Messages), fmt.Sprintf("%.0f", c.Requests), ms(c.P50), ms(c.P99), ms(c.P999), ms(c.Most), ratio, extremes)
		if c.Throttled > 0 {
			notes = append(notes, fmt.Sprintf("%s refused %s for overload", c.Name, cli.Counted(c.Throttled, "request", "requests")))
		}
		if c.Empty > 0 {
			notes = append(notes, fmt.Sprintf("%s from %s found nothing", cli.Counted(c.Empty, "receive", "receives"), c.Name))
		}
	}
	if err := a.PrintTable(t); err != nil {
		return err
	}
	if len(notes) > 0 {
		return a.Result(nil, "%s", strings.Join(notes, "; "))
	}
	return nil
}
