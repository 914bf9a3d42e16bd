// Package bench has the commands that measure: an endpoint under load, tenaq beside other queues,
// and the performance budget of the project.
package bench

import (
	"cmp"
	"context"
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
	rounds int
}

func NewCmd(a *cli.App) *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench send|receive|life",
		Short: "Load an SQS endpoint and measure it",
		Long: `Load an SQS endpoint over raw HTTP and measure it. Without --endpoint-url, the
command starts a server as a separate process on an empty directory, and removes
both at the end.

  send      one request that sends --batch messages
  receive   receive --batch existing messages and delete them; needs --depth
  life      send --batch messages, receive as many, delete them: three requests

Each client is a connection with one request at a time. It sends the next one
after the response or, with --rate, when the next one is due; latencies then
count from the due time, so a stall of the server lengthens all latencies that
fall into it. Latencies are those of a step, which is one request or three.

--baseline alternates the endpoint with a plain net/http server that does
nothing but give the same responses. The ratio is the median over all rounds.
Absolute numbers describe the machine more than the program.

Queues are named tenaq-bench-... and deleted at the end. Amazon charges for each
request.`,
		Example: `  tenaq bench send --baseline
  tenaq bench life --batch 10 --clients 16
  tenaq bench life --groups 1000 --depth 100000  # FIFO, with a backlog
  tenaq bench send --rate 2000 --rounds 20       # latencies below the limit
  tenaq bench receive --depth 200000 --batch 10 --json
  tenaq bench send --endpoint-url http://127.0.0.1:9324 --signed`,
		Args:      cli.Wants(1, 1),
		ValidArgs: []string{string(bench.Send), string(bench.Receive), string(bench.Life)},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.work.Kind = bench.Kind(args[0])
			return f.run(cmd.Context(), a)
		},
	}
	p := cmd.Flags()
	p.StringVar(&f.endpointURL, "endpoint-url", "",
		"SQS API `URL`, or aws (default: a server of its own)")
	p.StringVar(&f.region, "region", "", "sign for this `region` (default: tenaq --help)")
	p.BoolVar(&f.signed, "signed", false, "sign the requests (always done for Amazon)")
	p.BoolVar(&f.baseline, "baseline", false, "compare with a server that does nothing")
	cli.Value(p, &f.dir, "dir", "", "keep the data under this `directory`", readableDir)
	cli.Number(p, &f.load.Clients, "clients", 64, 1, 100_000, "`number` of connections")
	p.Float64Var(&f.load.Rate, "rate", 0, "steps per second of all clients (default: maximum)")
	cli.Value(p, &f.load.Round, "round", "1s", "`duration` of a round", parseRound)
	cli.Number(p, &f.rounds, "rounds", 5, 1, 0, "`number` of rounds, after a warm-up")
	p.IntVar(&f.work.Batch, "batch", 1, "`number` of messages in a request, 1 to 10")
	p.IntVar(&f.work.Size, "size", 200, "`bytes` of a body")
	cli.Number(p, &f.work.Groups, "groups", 0, 0, 0,
		"use a FIFO queue with this `number` of groups")
	cli.Number(p, &f.work.Depth, "depth", 0, 0, 0, "`number` of messages in the queue beforehand")
	cli.Number(p, &f.work.Polls, "polls", 0, 0, 0,
		"`number` of long polls on another queue meanwhile")
	cmd.AddCommand(newBaselineCmd(a), newBudgetCmd(a), newClusterCmd(a), newPeersCmd(a))
	return cmd
}

func parseRound(text string) (time.Duration, error) {
	d, err := cli.ParseDuration(text)
	if err == nil && d < 100*time.Millisecond {
		err = fmt.Errorf("%s is too short to measure anything: at least 100ms", text)
	}
	return d, err
}

// readableDir refuses a directory that cannot be read.
func readableDir(dir string) (string, error) {
	_, err := os.ReadDir(dir)
	return dir, err
}

// run carries out one comparison and prints it.
func (f *benchFlags) run(ctx context.Context, a *cli.App) (err error) {
	switch {
	case f.load.Rate < 0:
		return cli.Usagef("--rate: %v is negative", f.load.Rate)
	case f.dir != "" && f.endpointURL != "":
		return cli.Usagef("--dir and --endpoint-url exclude each other; leave one out")
	}
	if _, err := bench.New(f.work); err != nil {
		return cli.Usagef("%v", err)
	}
	own := &bench.Servers{Dir: f.dir, Signed: f.signed}
	defer func() { err = outcome(ctx, err, own.Close()) }()
	line := cli.NewProgress(a.Stderr, "bench")
	defer line.Done()
	if f.work.Endpoint, err = f.endpoint(ctx, own); err != nil {
		return err
	}
	f.work.Queue = "tenaq-bench-" + time.Now().UTC().Format("20060102-150405")
	report, err := f.compare(ctx, own, line)
	if err != nil {
		return err
	}
	line.Done()
	return report.print(a)
}

// outcome is the error of a comparison, and of the end of its servers. An interrupt reaches these
// too, so what else fails then says nothing.
func outcome(ctx context.Context, err, closed error) error {
	switch {
	case ctx.Err() != nil:
		return cli.Codedf(cli.ExitFailed, "bench: interrupted")
	case err != nil && closed != nil:
		return fmt.Errorf("%w; %w", err, closed)
	}
	return cmp.Or(err, closed)
}

// endpoint finds what is measured, or starts it.
func (f *benchFlags) endpoint(
	ctx context.Context, own *bench.Servers,
) (e bench.Endpoint, err error) {
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
	Rate     float64          `json:"rate"` // 0 is the maximum
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

func newBenchContender(name string, r *bench.Result) benchContender {
	seconds := max(r.Took.Seconds(), 1e-9)
	at := func(percent float64) float64 {
		return float64(r.Latency.At(percent).Microseconds()) / 1000
	}
	return benchContender{
		Name: name, Messages: r.Rate(), Requests: float64(r.Requests) / seconds, Empty: r.Empty,
		Throttled: r.Throttled, P50: at(50), P99: at(99), P999: at(99.9), Most: at(100),
		Ratio: r.Ratio, Low: r.Least, High: r.Most,
	}
}

func (f *benchFlags) compare(
	ctx context.Context, own *bench.Servers, line *cli.Progress,
) (*benchReport, error) {
	w, l := &f.work, &f.load
	report := &benchReport{
		Workload: string(w.Kind), Endpoint: w.Endpoint.URL.String(), Batch: w.Batch, Size: w.Size,
		Groups: w.Groups, Depth: w.Depth, Polls: w.Polls, Clients: l.Clients, Rate: l.Rate,
		Rounds: f.rounds, Round: l.Round.Seconds(),
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

func (r *benchReport) print(a *cli.App) error {
	if a.JSON {
		return a.PrintJSON(r)
	}
	t := cli.Table{Head: []string{"", "MESSAGES/S", "REQUESTS/S", "P50", "P99", "P99.9", "MAX",
		"RATIO", "LEAST TO MOST"}}
	var notes []string
	for _, c := range r.Results {
		ratio, extremes := fmt.Sprintf("%.2f", c.Ratio), fmt.Sprintf("%.2f to %.2f", c.Low, c.High)
		if len(r.Results) == 1 {
			ratio, extremes = "", ""
		}
		ms := func(v float64) string { return fmt.Sprintf("%.1f ms", v) }
		t.Add(c.Name, fmt.Sprintf("%.0f", c.Messages), fmt.Sprintf("%.0f", c.Requests), ms(c.P50),
			ms(c.P99), ms(c.P999), ms(c.Most), ratio, extremes)
		if c.Throttled > 0 {
			notes = append(notes, fmt.Sprintf("%s refused %s because of overload", c.Name,
				cli.Counted(c.Throttled, "request", "requests")))
		}
		if c.Empty > 0 {
			notes = append(notes, fmt.Sprintf("%s from %s returned no message",
				cli.Counted(c.Empty, "receive", "receives"), c.Name))
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
