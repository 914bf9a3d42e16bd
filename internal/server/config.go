package server

import (
	"context"
	"log/slog"
	"time"

	"tenaq/internal/api/v1"
	"tenaq/internal/door/credentials"
	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/observe/metric"
	"tenaq/internal/observe/monitor"
)

// A Config configures a server. The zero value is a server on loopback with defaults. Only DataDir
// has no default, because where data is stored is a decision.
type Config struct {
	// Listen is the address of the SQS API, 127.0.0.1:9324 when empty. Without credentials it must
	// be a loopback address unless AllowUnauthenticated is set.
	Listen string

	// AdminListen is the address of /livez, /readyz and /metrics, 127.0.0.1:9325 when empty; "off"
	// means none.
	AdminListen string

	// Console says where the console is: "on" is the address of the SQS API, "off" nowhere, "auto",
	// also when empty, "on" if Listen is loopback and else "off"; anything else is an address of
	// its own. [CONSOLE-1]
	Console string

	// ConsoleReadOnly lets pages of the console change nothing. [CONSOLE-14]
	ConsoleReadOnly bool

	// HeapBallast is how many bytes of the heap exist only to pace the garbage collector and have
	// no memory behind them. Metrics leave them out.
	HeapBallast int

	// NoQueueMetrics leaves the metrics of each queue out of /metrics: with many thousands of
	// queues they are too much for most monitoring systems.
	NoQueueMetrics bool

	// Metrics, if set, writes more families into /metrics, behind those of the server. It is called
	// for each scrape, from any goroutine, and should take no longer than one may.
	Metrics func(w *metric.Writer)

	// DataDir is the directory that holds the store, its witness and its lock file. It is created
	// when it does not exist.
	DataDir string

	// ConfigFiles are files that the configuration was read from. They may be in DataDir before
	// there is a store; files of anything else may not.
	ConfigFiles []string

	// Account (twelve digits) and Region are what queue URLs and ARNs show; 000000000000 and
	// us-east-1 when empty.
	Account, Region string

	// PublicURL, such as https://queue.example.com, begins every queue URL that is handed out. When
	// empty, URLs begin with the scheme and Host of the request.
	PublicURL string

	// AllowUnauthenticated permits an address that is not loopback although no credentials are set.
	AllowUnauthenticated bool

	// Credentials are the keys that requests must be signed with. When nil, anyone who reaches the
	// server may do everything.
	Credentials *credentials.Set

	// TLSCert and TLSKey are the certificate with its chain, and the key to it, in PEM. With them
	// the SQS API is served over TLS, and only so. They are read again when they change.
	TLSCert, TLSKey string

	// AllowedHosts are the names, besides loopback ones and the listen address, that a request may
	// carry in its Host header while no credentials are set.
	AllowedHosts []string

	// TimeScale multiplies the speed of the broker's clock, for demos and tests; 1 when zero.
	// Refused when Listen is not loopback.
	TimeScale float64

	// VisibilityGrace bounds how long deliveries that were in flight at an unclean stop stay hidden
	// after the restart: 60 s when zero, none when negative.
	VisibilityGrace time.Duration

	// PurgeInterval is the least time between two purges of a queue, RecreateDelay how long the
	// name of a deleted queue is blocked: 60 s as in SQS when zero, none when negative.
	PurgeInterval, RecreateDelay time.Duration

	// InFlightMax is how many messages of one queue may be in flight; 120000 as in SQS when zero.
	InFlightMax int

	// Window is how many entries of each index of a queue are kept in memory; 4096 when zero. It
	// has an influence on speed only.
	Window int

	// DiskReserve is the number of free bytes below which sends are refused; 512 MiB when zero,
	// none when negative.
	DiskReserve int64

	// AcceptLoss opens a store that is known to lack up to this many acknowledged commits.
	AcceptLoss uint64

	// Queues are created when the server starts, before it is ready. Their order does not matter:
	// one may name another as its dead-letter queue wherever that stands.
	Queues []Queue

	// Actions are what alarms may run, by name; "log" always exists. AlarmActions are the actions
	// of the built-in alarms, the log when nil; NoShippedAlarms disables these alarms.
	Actions         map[string]monitor.Action
	AlarmActions    []string
	NoShippedAlarms bool

	// AlarmActionsUnknown decides about an alarm whose actions are not in Actions: "refuse", also
	// when empty, rejects it; "log" accepts it and logs the notices for these actions.
	AlarmActionsUnknown string

	// DeadLetterQueues are the names of queues that get the alarms of dead-letter queues, besides
	// the targets of redrive policies.
	DeadLetterQueues []string

	// AlarmRepeat is how long after a notice the next one is sent while an alarm lasts: 4 hours
	// when zero, never when negative.
	AlarmRepeat time.Duration

	// AlarmPages is where the pages of built-in alarms are published, see monitor.Config.Pages.
	AlarmPages string

	// AlarmMinute is how long a minute of the alarms takes, for demos and tests; a minute when
	// zero. Anything else is refused when Listen is not loopback.
	AlarmMinute time.Duration

	// ClusterListen is the address where the other nodes of a cluster connect; empty for a single
	// server. ClusterAdvertise is where they reach this node; ClusterListen when empty.
	ClusterListen, ClusterAdvertise string

	// ClusterPeers are the advertised addresses of the first nodes, the same on each of them.
	ClusterPeers []string

	// ClusterIdentity is the directory of ca.pem, node.pem and node-key.pem. Without it, nodes
	// share the secret in ClusterTokenFile and have loopback addresses only.
	ClusterIdentity, ClusterTokenFile string

	// ClusterToken is that secret when no file holds it.
	ClusterToken string

	// Writing, if set, is called when the server has begun to write the store, on a goroutine of
	// its own. Its context ends when the server stops, or when it is a node of a cluster and does
	// no longer lead; Writing then returns soon.
	Writing func(context.Context, *Server)

	// Redrivers, if set, are those that Writing runs, for /v1/redrivers.
	Redrivers v1.Redrivers

	// Stores, if set, are stores outside the server whose claims /v1/claims shows.
	Stores v1.Stores

	// Settings lists this configuration for /v1/settings, as its user wrote it and without
	// passwords. A server without a list has no such route.
	Settings []v1.Setting

	// Version is the version of the program.
	Version string

	// Logger receives the log; slog.Default() when nil.
	Logger *slog.Logger

	// Fatal is called with one sentence when storage can no longer be trusted, on the goroutine
	// that noticed it, and must not return. errors.Is tells ErrDamaged from ErrStorage. When nil,
	// the sentence goes to standard error and the process exits with status 6 or 7.
	Fatal func(err error)

	// store, if set, changes how the store is opened. It is for tests of this package, which put a
	// failing disk under it.
	store func(*pebblekv.Options)
}

// A Queue is a declared queue, with the arguments of CreateQueue.
type Queue struct {
	Name       string            `json:"name"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Tags       map[string]string `json:"tags,omitempty"`
}
