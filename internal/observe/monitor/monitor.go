// Package monitor watches the queues of a server. Every minute it records the metrics of CloudWatch
// and some more, evaluates alarms on them, and notifies when an alarm changes its state.
//
// What it guarantees:
//
//   - Counts are exact: what happens to a queue is counted in exactly one minute.
//   - An alarm that enters a state runs its enabled actions at least once, even if the process ends
//     in between. A notice that cannot be delivered is retried for an hour, and then logged as
//     lost. [ALARM-42]
//   - Only actions that the configuration declares are ever run. A request can name one, but not
//     create or change one. [ALARM-43]
//   - Alarms and their states survive a restart, and a restart alone changes no state. The data of
//     the metrics is lost. [ALARM-44]
//   - No body of a message is in a notice, in the log or in what is stored.
//
// It leaves the rules of states to package alarm, and HTTP to the packages under api.
package monitor

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tenaq/internal/broker"
	"tenaq/internal/engine"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/series"
	"tenaq/internal/observe/tally"
	"tenaq/internal/work/sqslimits"
)

// A Queues is what the monitor needs of a broker.
type Queues interface {
	Do(ctx context.Context, op engine.Op) error
	ReadContent(d engine.Delivery) (engine.Content, bool)
	ReadStory(d engine.Delivery) (engine.Story, bool)
	Tally() *tally.Queues
}

var _ Queues = (*broker.Broker)(nil)

// Config configures a Monitor. Queues and Keeper are required.
type Config struct {
	Queues  Queues
	Account string // whose queues
	Keeper  Keeper // of the alarms

	// Minute is how long a minute of the alarms takes, for demos and tests; a minute when zero.
	Minute time.Duration

	// DeadLetterQueues are the names of dead-letter queues and parking lots that the configuration
	// redrives. Targets of redrive policies, and queues whose names say so, are found without it.
	DeadLetterQueues []string

	// InFlightMax is how many messages of a queue may be in flight, 120000 when zero.
	InFlightMax int

	// Actions are the actions that may be run, by name; "log" always exists. ShippedActions are the
	// actions of the built-in alarms, the log when nil. NoShipped disables these alarms.
	Actions        map[string]Action
	ShippedActions []string
	NoShipped      bool

	// Troubles returns what is wrong with the cluster that the server is a node of, without
	// waiting. Each trouble raises the built-in alarm of its name while it is reported. Nil for a
	// single server.
	Troubles func() []Trouble

	// LogUnknownActions accepts alarms that name actions which Actions does not have, and logs the
	// notices for these.
	LogUnknownActions bool

	// Repeat is how long after a notice the next one is sent while an alarm lasts and is not
	// acknowledged: four hours when zero, never when negative. [ALARM-47]
	Repeat time.Duration

	// Pages is the address of the page of a built-in alarm, with PageKind in place of its kind;
	// DefaultPages when empty.
	Pages string

	// Endpoint is added to the commands in notices, unless they find the server without it.
	Endpoint string

	Logger *slog.Logger // slog.Default() when nil
}

// PageKind stands for the kind of an alarm in Config.Pages. DefaultPages is the place of the pages
// in the sources, because the project has no address of its own where they are published.
const (
	PageKind     = "{kind}"
	DefaultPages = "docs/alarms/" + PageKind + ".md"
)

// A Trouble is something that is wrong with a cluster.
type Trouble struct {
	Name string // of the alarm, such as cluster/follower-behind
	Text string // for people, with what to do
}

// A Monitor watches. Its methods may be called from any goroutine.
type Monitor struct {
	cfg    Config
	series *series.Store
	runs   map[string]*runner // by name of the action
	began  time.Time
	seen   sync.Mutex
	sights sights // guarded by seen where others than Run may look
	boards boards

	// when all alarms were evaluated last, in Unix milliseconds of the wall clock
	judged atomic.Int64
	disk   sync.Mutex // held while the alarms are stored
	stored uint64     // the version that was stored last; guarded by disk
	dirty  chan struct{}
	noting sync.Mutex // held while a note is put or removed

	mu       sync.Mutex
	version  uint64            // of what is below, in changes
	alarms   map[string]*entry // by name
	silences []Silence
	history  []Change // the newest last; also over a restart
	notes    []Note   // the oldest first
	kicked   chan struct{}
}

// Bounds of what is kept.
const (
	alarmsMax  = 5000
	historyMax = 200

	clientMetricsMax = 20_000         // that programs may put
	seriesKeep       = 25 * time.Hour // a day, and the hour that is going on
	spanMax          = 24 * time.Hour // that an alarm may evaluate
)

// New returns a monitor that knows the alarms of its keeper.
func New(cfg Config) (*Monitor, error) {
	cfg.Minute = cmp.Or(cfg.Minute, time.Minute)
	cfg.InFlightMax = cmp.Or(cfg.InFlightMax, sqslimits.InFlightMax)
	cfg.Repeat = cmp.Or(cfg.Repeat, 4*time.Hour)
	cfg.Pages = cmp.Or(cfg.Pages, DefaultPages)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.ShippedActions == nil {
		cfg.ShippedActions = []string{LogAction}
	}
	m := &Monitor{
		cfg: cfg,
		series: series.New(series.Config{Keep: seriesKeep, Own: []string{awsSQS, tenaqSQS},
			MetricsMax: clientMetricsMax}),
		runs:   make(map[string]*runner),
		began:  time.Now(),
		alarms: make(map[string]*entry),
		kicked: make(chan struct{}, 1),
		dirty:  make(chan struct{}, 1),
	}
	m.sights.since = m.minute()
	m.runs[LogAction] = newRunner(m, LogAction, Action{Log: true})
	for name, a := range cfg.Actions {
		m.runs[name] = newRunner(m, name, a)
	}
	if err := m.checkActions(cfg.ShippedActions); err != nil {
		return nil, err
	}
	return m, m.load()
}

// Now returns the time of the alarms, which is the time of day unless minutes are shortened.
func (m *Monitor) Now() time.Time {
	if m.cfg.Minute == time.Minute {
		return time.Now()
	}
	scale := float64(time.Minute) / float64(m.cfg.Minute)
	return m.began.Add(time.Duration(float64(time.Since(m.began)) * scale))
}

func (m *Monitor) minute() int64 { return m.Now().UnixMilli() / series.Minute * series.Minute }

// real is how long a time of the alarms takes.
func (m *Monitor) real(d time.Duration) time.Duration {
	return time.Duration(float64(d) * float64(m.cfg.Minute) / float64(time.Minute))
}

// Series returns the data of the metrics. Other packages may put metrics of their own into it.
func (m *Monitor) Series() *series.Store { return m.series }

// Told is what programs told in a minute, which began at At, in milliseconds.
type Told struct {
	At   int64
	Most float64
}

// Day is how much of what was told is shown.
const Day = 24 * time.Hour

// Told returns what was told about a queue or an outbox in each minute of the last time.
func (m *Monitor) Told(by Teller, name, about string, last time.Duration) (told []Told) {
	to := m.minute() + series.Minute
	for _, i := range m.series.Sets(by.Metric(name, about), 60, to-last.Milliseconds(), to) {
		told = append(told, Told{i.At, i.Set.Max})
	}
	return told
}

// Outboxes returns the names of the outboxes of which relays told in the last day, at most 500, and
// whether there are more. Any client can put metrics, so what cannot be the name of an outbox is
// left out.
func (m *Monitor) Outboxes() (names []string, more bool) {
	of := series.Filter{Namespace: string(Relays), Name: DueAge,
		Since: m.minute() - Day.Milliseconds()}
	for _, metric := range m.series.List(of) {
		if len(metric.Dimensions) != 1 || metric.Dimensions[0].Name != boxDimension ||
			!IsOutbox(metric.Dimensions[0].Value) {
			continue
		}
		if len(names) == tellersMax {
			return names, true
		}
		names = append(names, metric.Dimensions[0].Value)
	}
	return names, false
}

// Run watches until ctx is done. Notices that wait then are sent after the next start.
func (m *Monitor) Run(ctx context.Context) {
	m.judged.Store(time.Now().UnixMilli())
	var helping sync.WaitGroup
	helping.Go(func() { m.keep(ctx) })
	for _, r := range m.runs { // the order does not matter: each is a goroutine
		helping.Go(func() { r.run(ctx) })
	}
	m.watch(ctx)
	helping.Wait() // not deferred: a panic must not wait
	_ = m.save()   // it is in the log
}

func (m *Monitor) watch(ctx context.Context) {
	for ctx.Err() == nil {
		rest := time.NewTimer(m.look(ctx))
		select {
		case <-ctx.Done():
		case <-rest.C:
		case <-m.kicked:
			m.tell(ctx)
		}
		rest.Stop()
	}
}

// Judged returns the time since all alarms were last evaluated, or else since the start.
func (m *Monitor) Judged() time.Duration {
	at := m.judged.Load()
	if at == 0 {
		return time.Since(m.began)
	}
	return time.Since(time.UnixMilli(at))
}

// look samples the queues, judges the alarms when a minute has ended, and returns how long to rest.
func (m *Monitor) look(ctx context.Context) time.Duration {
	cost := m.sample(ctx)
	if at := m.minute(); at != m.sights.minute {
		if 0 < m.sights.minute && m.sights.minute < at { // the clock may have been put back
			m.endMinute()
			m.judge(ctx, at)
			m.tell(ctx)
		}
		m.seen.Lock()
		m.sights.minute = at
		m.seen.Unlock()
	}
	m.renewBoard()
	now := m.Now().UnixMilli()
	next := time.Duration(now/series.Minute*series.Minute+series.Minute-now) * time.Millisecond
	// However many queues there are, a hundredth of the time goes into looking at them, and one
	// look into each minute.
	return min(max(m.real(sampleEvery), 100*cost), m.real(next)+time.Millisecond)
}

// kick makes Run send the notices that are due.
func (m *Monitor) kick() {
	select {
	case m.kicked <- struct{}{}:
	default:
	}
}

// queueOf names the queue, or the outbox, that a rule is about, empty if it is about none or
// several.
func queueOf(r *alarm.Rule) string {
	name := ""
	for _, q := range r.Queries {
		for _, d := range q.Metric.Dimensions {
			if d.Name != queueDimension && d.Name != boxDimension {
				continue
			}
			if name != "" && name != d.Value {
				return ""
			}
			name = d.Value
		}
	}
	return name
}

// names returns the names of the alarms that were put, in order.
func (m *Monitor) names() []string {
	var names []string
	for name, e := range m.alarms {
		if !e.Shipped {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
