package server

import (
	"log/slog"
	"time"

	"tenaq/internal/door/credentials"
	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/observe/metric"
	"tenaq/internal/observe/monitor"
)

// A Config says everything about a server. The zero value is a server on loopback with its defaults;
// only DataDir has none, because where data lies is a decision.
type Config struct {
	// Listen is the address of the SQS API, 127.0.0.1:9324 when empty. Without credentials it must be a
	// loopback address unless AllowUnauthenticated is set.
	Listen string

	// AdminListen is the address of /livez, /readyz and /metrics, 127.0.0.1:9325 when empty; "off"
	// means none.
	AdminListen string

	// HeapBallast is how many bytes of the heap are there for the collector's sake alone and have no memory behind them.
	// Metrics leave them out.
	HeapBallast int

	// NoQueueMetrics leaves out of /metrics what there is for each queue: with many thousands of queues that
	// is too much for most who watch.
	NoQueueMetrics bool

	// Metrics, if set, writes more families into /metrics, behind those of the server. It is called for each
	// scrape, from any goroutine, and should take no longer than one may.
	Metrics func(w *metric.Writer)

	// DataDir is the directory that holds the store, its witness and its lock file. It is created when
	// it does not exist.
	DataDir string

	// ConfigFiles are files that the configuration was read from. They may lie in DataDir before there is
	// a store; files of anything else may not.
	ConfigFiles []string

	// Account (twelve digits) and Region are what queue URLs and ARNs show; 000000000000 and us-east-1
	// when empty.
	Account, Region string

	// PublicURL, such as https://queue.example.com, begins every queue URL that is handed out. When
	// empty, URLs begin with the scheme and Host of the request.
	PublicURL string

	// AllowUnauthenticated permits an address that is not loopback although no credentials are set.
	AllowUnauthenticated bool

	// Credentials are the keys that requests must be signed with; nil for none, and everybody who reaches the server may
	// do everything.
	Credentials *credentials.Set

	// TLSCert and TLSKey are the certificate with its chain, and the key to it, in PEM. With them the SQS API is
	// served over TLS, and only so. They are read again when they change.
	TLSCert, TLSKey string

	// AllowedHosts are the names, besides loopback ones and the listen address, that a request may
	// carry in its Host header while no credentials are set.
	AllowedHosts []string

	// TimeScale multiplies the speed of the broker's clock, for demos and tests; 1 when zero. Refused
	// when Listen is not loopback.
	TimeScale float64

	// VisibilityGrace bounds how long deliveries that were in flight at an unclean stop stay hidden
	// after the restart: 60 s when zero, none when negative.
	VisibilityGrace time.Duration

	// PurgeInterval is the least time between two purges of a queue, RecreateDelay how long the name of
	// a deleted queue is blocked: 60 s as in SQS when zero, none when negative.
	PurgeInterval, RecreateDelay time.Duration

	// InFlightMax is how many messages of one queue may be in flight; 120000 as in SQS when zero.
	InFlightMax int

	// Window is how many entries of each index of a queue are kept in memory; 4096 when zero. It has an
	// influence on speed only.
	Window int

	// DiskReserve is the number of free bytes below which sends are refused; 512 MiB when zero, none
	// when negative.
	DiskReserve int64

	// AcceptLoss opens a store that is known to lack up to this many acknowledged commits.
	AcceptLoss uint64

	// Queues are created when the server starts, before it is ready. Their order does not matter: one
	// may name another as its dead-letter queue wherever that stands.
	Queues []Queue

	// Actions are what alarms may run, by name; there always is "log". AlarmActions are what those run that every
	// queue has, the log when nil; NoShippedAlarms leaves these alarms out.
	Actions         map[string]monitor.Action
	AlarmActions    []string
	NoShippedAlarms bool

	// AlarmActionsUnknown says what becomes of an alarm that a client puts with actions that Actions does not have:
	// "refuse", also when empty, or "log", which accepts it and logs the notices for these actions.
	AlarmActionsUnknown string

	// DeadLetterQueues are the names of queues that have the alarms of dead-letter queues, besides those that a redrive
	// policy names as its target.
	DeadLetterQueues []string

	// AlarmRepeat is after how long one is told again of an alarm that goes on; 4 hours when zero, never when negative.
	AlarmRepeat time.Duration

	// AlarmMinute is how long a minute of the alarms takes, for demos and tests; a minute when zero. Anything else is
	// refused when Listen is not loopback.
	AlarmMinute time.Duration

	// Version is what the program calls itself.
	Version string

	// Logger receives the log; slog.Default() when nil.
	Logger *slog.Logger

	// Fatal is called with one sentence when storage can no longer be trusted, on whatever goroutine
	// noticed it, and must not return. errors.Is tells ErrDamaged from ErrStorage. When nil, the
	// sentence goes to standard error and the process exits with status 6 or 7.
	Fatal func(err error)

	// store, if set, changes how the store is opened. It is for tests of this package, which put a failing disk
	// under it.
	store func(*pebblekv.Options)
}

// A Queue is a declared queue: what CreateQueue would be told.
type Queue struct {
	Name       string
	Attributes map[string]string
	Tags       map[string]string
}
