package budget

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"tenaq/internal/bench"
	"tenaq/internal/cli"
	"tenaq/internal/ops/doctor"
)

// An env is what a line has: servers that end with it, and a progress line.
type env struct {
	short    bool
	scale    float64
	own      *bench.Servers
	endpoint bench.Endpoint // of the server that start has started
	line     *cli.Progress
	said     time.Time
	queues   int // made so far
	more     int // how many times as many rounds the line takes; zero for one
}

func newEnv(c *Config, line *cli.Progress) *env {
	return &env{short: c.Short, scale: c.Scale, own: &bench.Servers{Dir: c.Dir}, line: line}
}

// room refuses the full form on a disk that is too small, because a full disk harms every program
// that uses it.
func (e *env) room(need int64) error {
	const least = 512 << 20
	need = max(int64(float64(need)*e.scale), least)
	if e.short {
		need = least
	}
	dir := e.own.Dir
	if dir == "" {
		dir = os.TempDir()
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return cli.Usagef("--dir: %s: %v", dir, err)
	}
	if free := int64(st.Bavail) * int64(st.Bsize); free < need {
		return fmt.Errorf("%s are free in %s, and %s are needed: pass another directory to --dir, or a smaller --scale", cli.HumanSize(free), dir, cli.HumanSize(need))
	}
	return nil
}

// served returns what measures a server that was started for it.
func served(run runner) runner {
	return func(ctx context.Context, e *env) ([]measure, error) {
		if err := e.start(ctx); err != nil {
			return nil, err
		}
		return run(ctx, e)
	}
}

func (e *env) start(ctx context.Context) (err error) {
	e.endpoint, err = e.own.Start(ctx)
	return err
}

// empty stops the server and removes its data.
func (e *env) empty() error {
	if err := e.own.Server.Stop(); err != nil {
		return err
	}
	return os.RemoveAll(e.own.Server.DataDir())
}

// count returns a number of items for the form that runs.
func (e *env) count(full, short int64) int64 {
	if e.short {
		return short
	}
	return max(1, int64(float64(full)*e.scale))
}

// rounds returns the number of rounds of a comparison.
func (e *env) rounds() int { return int(e.choose(9, 3)) * max(1, e.more) }

// choose is count for numbers that --scale does not change.
func (e *env) choose(full, short float64) float64 {
	if e.short {
		return short
	}
	return full
}

// seconds returns a duration for the form that runs.
func (e *env) seconds(full, short float64) time.Duration {
	return time.Duration(e.choose(full, short) * float64(time.Second))
}

func (e *env) load() bench.Load {
	return bench.Load{Clients: 64, Round: e.seconds(1, 0.5)}
}

// work completes a workload with the endpoint and the name of a new queue.
func (e *env) work(w bench.Work) bench.Work {
	e.queues++
	w.Endpoint, w.Queue = e.endpoint, "budget-"+strconv.Itoa(e.queues)
	return w
}

// warm returns the contender of a workload after one round, in which everything was cold.
func (e *env) warm(ctx context.Context, w bench.Work, load bench.Load) (bench.Contender, error) {
	c, err := bench.New(e.work(w))
	if err != nil {
		return nil, err
	}
	if err = c.Prepare(ctx, e.telling("prepare")); err == nil {
		_, err = c.Round(ctx, load)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (e *env) contender(name string, w bench.Work) (bench.Named, error) {
	c, err := bench.New(e.work(w))
	return bench.Named{Name: name, Contender: c}, err
}

// baseline returns the contender of a workload on a server that does nothing.
func (e *env) baseline(ctx context.Context, w bench.Work) (bench.Contender, error) {
	return e.own.Baseline(ctx, e.work(w))
}

// compare returns the ratio of the second contender to the first. The rates of the others are in
// the note.
func (e *env) compare(
	ctx context.Context, first, second bench.Named, others ...bench.Named,
) (ratio float64, note string, err error) {
	all := append([]bench.Named{first, second}, others...)
	results, err := bench.Compare(ctx, e.load(), e.rounds(), e.tell, all...)
	if err != nil {
		return 0, "", err
	}
	r := &results[1]
	note = fmt.Sprintf("%.0f/s against %.0f/s, rounds %.2f to %.2f", r.Rate(), results[0].Rate(),
		r.Least, r.Most)
	for i := 2; i < len(all); i++ {
		note += fmt.Sprintf("; %s %.0f/s", all[i].Name, results[i].Rate())
	}
	return r.Ratio, note, nil
}

func (e *env) versus(
	ctx context.Context, firstName string, first bench.Work, secondName string, second bench.Work,
) (ratio float64, note string, err error) {
	a, err := e.contender(firstName, first)
	if err != nil {
		return 0, "", err
	}
	b, err := e.contender(secondName, second)
	if err != nil {
		return 0, "", err
	}
	return e.compare(ctx, a, b)
}

// tellEvery is how often progress is printed to a file or a pipe.
const tellEvery = 10 * time.Second

func (e *env) tell(what string, share float64) {
	e.line.Line("%s %s", cli.Bar(int(1000*share), 1000), what)
	if time.Since(e.said) >= tellEvery {
		e.said = time.Now()
		e.line.Say("%s, %.0f %%", what, 100*share)
	}
}

// telling returns tell for one step.
func (e *env) telling(what string) func(float64) {
	return func(share float64) { e.tell(what, share) }
}

// readyAgain kills the server and measures how long it takes to be ready again.
func (e *env) readyAgain(ctx context.Context) (measure, error) {
	e.tell("start again after kill -9", 0)
	if err := e.own.Server.Kill(); err != nil {
		return measure{}, err
	}
	took, err := e.own.Server.Start(ctx)
	return measure{what: "ready after kill -9", value: took.Seconds()}, err
}

// memory returns the resident memory of the server in MiB: the present value, or the maximum so
// far.
func (e *env) memory(most bool) (float64, error) {
	name := "VmRSS:"
	if most {
		name = "VmHWM:"
	}
	n := doctor.StatusBytes(e.proc("status"), name)
	if n == 0 {
		return 0, fmt.Errorf("%s does not report the memory of the server; this needs Linux",
			e.proc("status"))
	}
	return float64(n) / (1 << 20), nil
}

// memories measures both.
func (e *env) memories() ([]measure, error) {
	now, err := e.memory(false)
	if err != nil {
		return nil, err
	}
	most, err := e.memory(true)
	return []measure{{what: "memory", value: now}, {what: "most memory", value: most}}, err
}

func (e *env) proc(file string) string {
	return filepath.Join("/proc", strconv.Itoa(e.own.Server.PID()), file)
}

// medianRate runs rounds of a prepared contender. It returns the median of their rates, and the
// tally of all.
func medianRate(
	ctx context.Context, c bench.Contender, load bench.Load, rounds int,
) (median float64, total bench.Tally, err error) {
	var rates []float64
	for range rounds {
		t, err := c.Round(ctx, load)
		if err != nil {
			return 0, total, err
		}
		rates = append(rates, t.Rate())
		total.Add(&t)
	}
	return bench.Median(rates), total, nil
}

func rest(ctx context.Context, d time.Duration) error {
	cli.Pause(ctx, d)
	return context.Cause(ctx)
}
