package archtest

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// may lists, for each package, what it may import besides the standard library. Paths of this
// module are written from its root; a path that ends in /... stands for everything below it too. A
// package that is missing here fails the test: placing it is a decision.
//
// Imports point down: cmd > server > sqs, admin > broker > engine > kv, key. Pebble, Prometheus and
// the command line each have one home, so that each can be replaced by changing one package.
var may = map[string][]string{
	// Leaves: the standard library only.
	"internal/archtest":        {},
	"docs/alarms":              {},
	"internal/testing/audit":   {},
	"internal/work/backoff":    {},
	"internal/server/backup":   {},
	"redrive/breaker":          {},
	"internal/child":           {"internal/cluster", "internal/work/backoff"},
	"internal/child/postgres":  {},
	"internal/testing/proof":   {},
	"internal/invariant":       {},
	"internal/cluster":         {},
	"internal/cluster/wire":    {},
	"internal/cluster/forward": {},
	"internal/engine/key":      {},
	"internal/kv":              {"internal/kv/tree"},
	"internal/kv/tree":         {},
	"internal/observe/metric":  {},
	"internal/door/sigv4":      {},
	"internal/api/sqs/sqswire": {"internal/work/sqslimits"},
	"internal/work/sqslimits":  {},
	"internal/work/extension":  {"internal/testing/proof"}, // in its tests

	"internal/work/fingerprint": {},

	"internal/api/sqs/sqswire/wiretest": {},

	"internal/door/policy":    {},
	"internal/observe/series": {},

	"internal/door/credentials": {"internal/door/policy"},
	"internal/door/auth":        {"internal/door/credentials", "internal/door/policy", "internal/door/sigv4", "internal/engine"},

	// The files for the browser. Only the command that makes them imports esbuild, which is never
	// linked into the program.
	"internal/console":       {},
	"internal/console/build": {"github.com/evanw/esbuild/pkg/api"},

	"internal/api/framing": {},
	"internal/api/handle":  {},
	"internal/api/http1":   {"internal/api/framing"},
	"internal/api/intake":  {"internal/door/auth", "internal/observe/metric"},
	"internal/api/refusal": {"internal/api/intake", "internal/api/sqs/sqswire", "internal/api/wire", "internal/broker", "internal/cluster/forward", "internal/door/auth", "internal/engine"},
	"internal/api/suspend": {"internal/api/http1", "internal/api/intake"},
	"internal/api/wire":    {"internal/api/intake", "github.com/aws/smithy-go/encoding/cbor"},

	"internal/observe/alarm": {"internal/observe/series"},
	"internal/engine/kept":   {},
	"internal/observe/tally": {"internal/observe/metric"},

	"internal/observe/metric/metrictest": {"internal/observe/metric"},

	"internal/kv/kvtest":           {"internal/kv", "internal/testing/proof", "pgregory.net/rapid"},
	"internal/kv/kvtest/crashdisk": {"github.com/cockroachdb/pebble/v2/vfs"},
	"internal/kv/replica":          {"internal/kv", "internal/kv/tree", "github.com/cespare/xxhash/v2"},
	"internal/kv/pebblekv": {
		"internal/kv", "internal/kv/replica", "internal/invariant",
		"github.com/cockroachdb/pebble/v2/...", "github.com/cockroachdb/errors",
		"github.com/cespare/xxhash/v2", "golang.org/x/sys/unix",
	},

	// Only the packages of one node know Raft.
	"internal/cluster/group": {
		"internal/cluster/raftlog", "internal/kv", "internal/kv/pebblekv", "internal/kv/replica",
		"internal/observe/metric", "internal/server/backup", "github.com/hashicorp/raft",
		"internal/broker", "internal/engine", "internal/engine/row", "github.com/hashicorp/go-hclog", // in its tests
	},
	"internal/cluster/raftlog": {"internal/kv", "github.com/hashicorp/raft/..."},
	"internal/cluster/node": {
		"internal/cluster", "internal/cluster/forward", "internal/cluster/group",
		"internal/cluster/raftlog", "internal/cluster/wire", "internal/kv", "internal/kv/pebblekv",
		"internal/observe/metric", "github.com/hashicorp/raft",
	},

	"internal/engine/row":     {"internal/engine/key", "internal/work/sqslimits"},
	"internal/engine/verify":  {"internal/engine/row", "internal/engine/key", "internal/work/extension", "internal/work/sqslimits"},
	"internal/engine/history": {"internal/engine/row"},
	"internal/engine/salvage": {"internal/engine/row", "internal/engine/key", "internal/kv", "internal/work/extension", "internal/work/sqslimits"},
	"internal/engine":         {"internal/engine/history", "internal/engine/kept", "internal/engine/row", "internal/kv", "internal/engine/key", "internal/invariant", "internal/door/policy", "internal/observe/tally", "internal/work/dedupid", "internal/work/extension", "internal/work/fingerprint", "internal/work/sqslimits"},
	"internal/engine/enginetest": {
		"internal/engine", "internal/engine/verify", "internal/invariant", "internal/engine/key", "internal/kv", "internal/kv/pebblekv", "internal/observe/tally", "internal/work/fingerprint",
		"github.com/cockroachdb/datadriven", "pgregory.net/rapid",
	},
	"internal/broker": {"internal/engine", "internal/kv", "internal/observe/metric", "internal/observe/tally"},

	"internal/api/sqs": {
		"internal/api/framing", "internal/api/handle", "internal/api/http1", "internal/api/intake", "internal/api/refusal", "internal/api/sqs/sqswire",
		"internal/api/suspend", "internal/api/wire", "internal/broker", "internal/door/auth", "internal/engine",
	},
	"internal/observe/monitor": {
		"docs/alarms", // in its tests
		"internal/observe/alarm", "internal/broker", "internal/engine", "internal/observe/series", "internal/observe/tally", "internal/work/group", "internal/work/sqslimits",
	},
	"internal/api/cloudwatch": {"internal/api/intake", "internal/api/refusal", "internal/api/sqs/sqswire", "internal/api/wire", "internal/door/auth", "internal/observe/alarm", "internal/observe/monitor", "internal/observe/series"},
	"internal/api/sts":        {"internal/api/wire", "internal/door/auth"},
	"internal/api/relay": {
		"internal/api/cloudwatch", "internal/api/http1", "internal/api/intake", "internal/api/refusal", "internal/api/sqs", "internal/api/sqs/sqswire", "internal/api/v1", "internal/api/wire",
		"internal/cluster/forward", "internal/door/auth",
		"internal/api/handle", "internal/broker", "internal/engine", "internal/observe/monitor", // of the leader, in its tests
	},
	"internal/api/v1": {
		"claims", "records", // which it serves over HTTP
		"internal/work/plainjson",
		"internal/api/handle", "internal/work/fingerprint", "internal/work/timeline",
		"internal/api/intake", "internal/api/refusal", "internal/api/sqs/sqswire", "internal/api/wire", "internal/broker", "internal/cluster", "internal/door/auth",
		"internal/engine", "internal/observe/alarm", "internal/observe/metric", "internal/observe/monitor", "internal/observe/tally", "internal/work/extension",
	},
	"internal/server": {
		"internal/api/...", "internal/broker", "internal/cluster/...", "internal/console", "internal/door/...", "internal/engine", "internal/engine/salvage", "internal/engine/verify", "internal/kv", "internal/kv/pebblekv",
		"internal/observe/alarm", "internal/observe/metric", "internal/observe/monitor", "internal/observe/tally",
		"internal/server/backup", "internal/work/sqslimits",
		"golang.org/x/sys/unix",
	},

	// The public libraries. They see a queue through its API, and never the server.
	"claims":                 {"internal/work/backoff", "internal/work/clip", "internal/work/plainjson", "records"},
	"claims/pgclaims":        {"claims", "internal/work/backoff", "internal/work/pgdb", "records", "records/pgrecords", "github.com/jackc/pgx/v5/..."},
	"offload":                {"internal/work/sqslimits", "github.com/aws/aws-sdk-go-v2/..."},
	"offload/offloadtest":    {"offload", "internal/testing/proof"},
	"offload/s3offload":      {"offload", "github.com/aws/aws-sdk-go-v2/..."},
	"producer":               {"claims", "internal/work/backoff", "internal/work/dedupid", "internal/work/parallel", "internal/work/queuename", "internal/work/sqslimits", "internal/work/trail", "records", "github.com/aws/aws-sdk-go-v2/...", "github.com/aws/smithy-go/..."},
	"records":                {},
	"outbox":                 {"claims", "internal/work/backoff", "internal/work/clip", "internal/work/dedupid", "internal/work/invalid", "internal/work/parallel", "internal/work/queuename", "internal/work/sqslimits", "internal/work/trail", "offload", "github.com/aws/aws-sdk-go-v2/...", "github.com/aws/smithy-go/..."},
	"outbox/outboxtest":      {"outbox", "internal/testing/proof"},
	"outbox/internal/layout": {"outbox"},
	"outbox/pgoutbox":        {"internal/work/backoff", "internal/work/pgdb", "outbox", "outbox/internal/layout", "github.com/jackc/pgx/v5/..."},
	"outbox/sqliteoutbox":    {"internal/work/backoff", "internal/work/sqlitedb", "outbox", "outbox/internal/layout"},
	"redrive":                {"claims", "internal/work/backoff", "internal/work/fingerprint", "redrive/breaker", "internal/work/clip", "internal/work/invalid", "internal/work/parallel", "internal/work/pulse", "internal/work/queuename", "internal/work/sqslimits", "internal/work/sqsqueue", "internal/work/trail", "internal/work/v1client", "records", "github.com/aws/aws-sdk-go-v2/...", "github.com/aws/smithy-go/..."},
	"records/recordstest":    {"records", "internal/testing/proof", "github.com/anishathalye/porcupine"},
	"records/serverrecords":  {"internal/work/plainjson", "internal/work/v1client", "records", "github.com/aws/aws-sdk-go-v2/service/sqs"},
	"records/sqliterecords":  {"internal/work/sqlitedb", "records"},
	"records/pgrecords":      {"internal/work/pgdb", "records", "github.com/jackc/pgx/v5/..."},
	"records/dynamorecords":  {"internal/work/backoff", "internal/work/parallel", "records", "github.com/aws/aws-sdk-go-v2/...", "github.com/aws/smithy-go/..."},

	"worker": {"claims", "internal/work/v1client", "internal/work/backoff", "internal/work/clip", "internal/work/handed", "internal/work/invalid", "internal/work/pulse", "internal/work/queuename", "internal/work/sqslimits", "internal/work/sqsqueue", "internal/work/trail", "offload", "records", "github.com/aws/aws-sdk-go-v2/...", "github.com/aws/smithy-go/..."},
	"worker/otelworker": {
		"internal/work/queuename", "worker", "github.com/aws/aws-sdk-go-v2/aws", "go.opentelemetry.io/otel/...",
	},
	"workertest":              {"claims", "internal/work/handed", "records", "worker", "github.com/aws/aws-sdk-go-v2/..."},
	"internal/work/handed":    {"claims"},
	"worker/pginbox":          {"claims/pgclaims", "internal/work/pgdb", "worker", "github.com/jackc/pgx/v5/..."},
	"worker/pipe":             {"claims", "internal/work/sqslimits", "worker", "golang.org/x/sys/unix"},
	"internal/work/pulse":     {"records"},
	"internal/work/timeline":  {"claims", "producer", "records"},
	"internal/work/dedupid":   {"internal/work/sqslimits"},
	"internal/work/clip":      {},
	"internal/work/plainjson": {},
	"internal/work/group":     {},
	"internal/work/pgdb":      {"github.com/jackc/pgx/v5/..."},
	"internal/work/sqlitedb":  {"internal/work/backoff", "modernc.org/sqlite"},
	"internal/work/queuename": {},
	"internal/work/invalid":   {},
	"internal/work/parallel":  {},
	"internal/work/sqsqueue":  {"github.com/aws/aws-sdk-go-v2/..."},
	"internal/work/v1client":  {"github.com/aws/aws-sdk-go-v2/...", "github.com/aws/smithy-go"},
	"internal/work/trail":     {"internal/work/clip", "internal/work/sqslimits", "records", "github.com/aws/aws-sdk-go-v2/..."},

	// Programs to start from. They use what a stranger can use.
	"examples/...": {
		"examples/...", "claims", "claims/pgclaims", "outbox/...", "producer", "records/...", "worker", "worker/pipe",
		"github.com/aws/aws-sdk-go-v2/...", "github.com/jackc/pgx/v5/...", "modernc.org/sqlite",
	},

	// The kit for the tests of users is the one public package that has the server in it.
	"queuetest": {
		"internal/api/handle", "internal/api/intake", "internal/api/sqs", "internal/api/v1", "internal/broker", "internal/door/auth", "internal/engine", "internal/kv", "internal/work/sqslimits",
		"github.com/aws/aws-sdk-go-v2/...",
	},

	// Other people's servers, for tests, and the program itself.
	"internal/testing/built":      {},
	"internal/testing/faultproxy": {"internal/work/backoff"},
	"internal/testing/sqstest":    {"queuetest", "github.com/aws/aws-sdk-go-v2/..."},
	"internal/testing/dynamotest": {"internal/testing/mototest", "github.com/aws/aws-sdk-go-v2/..."},
	"internal/testing/mototest":   {"internal/child", "internal/testing/proof"},
	"internal/testing/pgtest":     {"internal/child/postgres", "internal/testing/proof", "github.com/jackc/pgx/v5"},

	// Benchmarks of servers through their API, and of the engine beside them.
	"internal/bench": {
		"internal/child", "internal/engine", "internal/kv/pebblekv", "internal/work/backoff", "internal/work/sqslimits", "github.com/aws/aws-sdk-go-v2/...", "github.com/HdrHistogram/hdrhistogram-go",
		"golang.org/x/sync/errgroup",
	},
	"internal/bench/peers": {"internal/bench", "internal/child", "internal/child/postgres", "internal/cli", "github.com/jackc/pgx/v5", "github.com/rabbitmq/amqp091-go"},
	"internal/bench/budget": {
		"internal/bench", "internal/child", "internal/cli", "internal/cluster", "internal/testing/audit", "internal/testing/audit/load",
		"internal/ops/doctor", // which has the same measure of a forced write
		"github.com/aws/aws-sdk-go-v2/...",
		"golang.org/x/sys/unix",
	},

	// Tools for operators, which examine and watch endpoints.
	"internal/ops/doctor": {
		"internal/api/v1", "internal/cli", "internal/cluster", "internal/cluster/wire", "internal/door/policy", "internal/observe/metric", "internal/settings", "internal/work/extension", "internal/work/sqsqueue",
		"github.com/aws/aws-sdk-go-v2/...", "github.com/aws/smithy-go/...", "golang.org/x/sync/...",
	},
	"internal/ops/sweep": {"claims", "internal/cli", "producer", "records", "worker", "github.com/aws/aws-sdk-go-v2/..."},
	"internal/ops/watch": {
		"internal/cli", "internal/observe/alarm", "internal/observe/monitor", "internal/observe/series", "internal/ops/doctor", "internal/work/group",
		"github.com/aws/aws-sdk-go-v2/...", "github.com/aws/smithy-go/...",
	},

	// Tests and demos disturb and judge a server with these, through its API.
	"internal/testing/audit/load": {"internal/testing/audit", "internal/work/backoff", "github.com/aws/aws-sdk-go-v2/...", "github.com/aws/smithy-go/..."},

	// Shared by commands, and by a server and the commands.
	"internal/cli": {
		"internal/observe/metric", "internal/work/backoff", "internal/work/sqslimits", "internal/work/v1client", "internal/observe/monitor", "internal/server", "claims", "offload", "records", "records/...", "producer",
		"github.com/aws/aws-sdk-go-v2/...", "github.com/aws/smithy-go/...", "github.com/jackc/pgx/v5/...",
		"github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term",
	},
	"internal/redrivehost": {
		"redrive/breaker", "internal/cli", "internal/observe/metric", "internal/observe/monitor", "claims", "records", "redrive",
		"github.com/aws/aws-sdk-go-v2/...", "github.com/aws/smithy-go/...", "github.com/robfig/cron/v3", "github.com/spf13/pflag",
	},
	"internal/settings": {
		"internal/api/v1", "internal/cli", "internal/cluster/wire", "internal/observe/monitor", "internal/redrivehost", "internal/server", "redrive",
		"github.com/spf13/pflag", "go.yaml.in/yaml/v3",
	},

	// A command knows no other command, but for one.
	"cmd/tenaq":     append(slices.Clone(commandsMay), "cmd/tenaq/...", "go.yaml.in/yaml/v3", "mvdan.cc/sh/v3/syntax"), // in its tests
	"cmd/tenaq/...": commandsMay,

	// A trace looks into an outbox, at the address that the command outbox takes.
	"cmd/tenaq/messages": append(slices.Clone(commandsMay), "cmd/tenaq/outbox"),

	// The demo runs the examples. Its command takes the same addresses of databases as the command
	// outbox.
	"cmd/tenaq/demo":       append(slices.Clone(commandsMay), "cmd/tenaq/demo/...", "cmd/tenaq/outbox"),
	"cmd/tenaq/demo/stage": append(slices.Clone(commandsMay), "modernc.org/sqlite"),
	"cmd/tenaq/demo/...":   append(slices.Clone(commandsMay), "cmd/tenaq/demo/stage", "examples/..."),

	// The builder of releases. It knows the program from outside, as a user does.
	"release":      {},
	"release/site": {"github.com/yuin/goldmark/...", "golang.org/x/mod/semver", "internal/api/v1"},

	// Programs against the built binary. They use the front door.
	"test/...": {
		"internal/testing/audit", "internal/testing/audit/load", "internal/bench", "internal/child", "internal/cluster", "internal/testing/faultproxy", "internal/server", "internal/work/extension", "internal/work/group", "internal/work/v1client",
		"claims", "claims/pgclaims", "outbox", "outbox/...", "producer", "records/...", "worker", "worker/pipe",
		"github.com/aws/aws-sdk-go-v2/...", "github.com/aws/smithy-go/...", "github.com/jackc/pgx/v5/...", "modernc.org/sqlite",
		"golang.org/x/sync/...", "pgregory.net/rapid",
	},
	// The console in a real browser.
	"test/console": {"internal/child", "redrive", "github.com/chromedp/...", "github.com/evanw/esbuild/pkg/api"},
	// The bugs that tests must notice.
	"test/mutants": {},
	// Charts and other descriptions of servers, which are read as YAML.
	"test/deploy": {"go.yaml.in/yaml/v3"},
	// Other people's clients, against a server that verifies signatures.
	"test/interop": {"internal/door/credentials", "internal/server", "github.com/aws/aws-sdk-go-v2/...", "github.com/aws/smithy-go/..."},
}

// commandsMay is what the packages of commands may import.
var commandsMay = []string{
	"docs/alarms", "internal/...", "claims", "claims/pgclaims", "offload", "outbox/...", "producer", "records/...", "redrive/...", "worker", "worker/pipe",
	"github.com/aws/aws-sdk-go-v2/...", "github.com/aws/smithy-go/...",
	"github.com/jackc/pgx/v5/...",
	"github.com/spf13/cobra", "github.com/spf13/pflag",
	"golang.org/x/sync/...", "golang.org/x/term",
}

// testsMay lists what the test files of every package may import besides that. Pebble's vfs is here
// and Pebble is not: it is the file system on which power is cut. The audit judges what clients
// saw, whatever door they came through.
var testsMay = []string{
	"claims", "internal/api/v1", "worker", "workertest", "go.opentelemetry.io/otel/...", "internal/testing/audit", "internal/door/...", "internal/observe/metric", "internal/kv", "internal/kv/kvtest/...", "internal/kv/pebblekv", "internal/engine/enginetest", "internal/observe/metric/metrictest",
	"internal/testing/built", "internal/testing/dynamotest", "internal/testing/faultproxy", "internal/testing/mototest", "internal/testing/proof", "internal/testing/pgtest", "internal/observe/series", "internal/server", "internal/testing/sqstest", "queuetest", "internal/api/sqs/sqswire/wiretest",
	"offload", "offload/offloadtest", "records", "records/dynamorecords", "records/pgrecords", "records/recordstest", "records/serverrecords", "records/sqliterecords",
	"outbox", "outbox/outboxtest", "outbox/pgoutbox", "outbox/sqliteoutbox",
	"internal/engine/verify",
	"github.com/anishathalye/porcupine",
	"github.com/aws/aws-sdk-go-v2/...", "github.com/aws/smithy-go/...",
	"github.com/cockroachdb/datadriven",
	"github.com/cockroachdb/pebble/v2/vfs/...",
	"github.com/google/go-cmp/...",
	"github.com/rogpeppe/go-internal/...",
	"github.com/santhosh-tekuri/jsonschema/v6",
	"go.uber.org/goleak",
	"pgregory.net/rapid",
}

// importRule holds a tree to a table like may.
func importRule(may map[string][]string, testsMay []string) rule {
	return func(t *tree) (problems []string) {
		for _, dir := range t.packages() {
			if isStandard(dir) {
				problems = append(problems, fmt.Sprintf("%s: looks like the standard library; add its folder to folders", dir))
			}
			allowed, ok := placeOf(may, dir)
			if !ok {
				problems = append(problems, fmt.Sprintf("%s: not in the table; place it", dir))
				continue
			}
			for _, f := range t.files {
				if !f.isGo() || f.dir() != dir {
					continue
				}
				for _, spec := range f.syntax.Imports {
					imported := t.local(spec.Path.Value)
					if isStandard(imported) || matchesAny(allowed, imported) {
						continue
					}
					// An external test imports the package it tests, and may import the one above
					// it.
					if f.isTest() && (imported == dir || imported == path.Dir(dir) || matchesAny(testsMay, imported)) {
						continue
					}
					problems = append(problems, fmt.Sprintf("%s: %s may not import %s", t.at(spec.Pos()), dir, imported))
				}
			}
		}
		return problems
	}
}

// placeOf returns the entry of the table for a package: its own, else that of the nearest /...
// above.
func placeOf(may map[string][]string, dir string) ([]string, bool) {
	if allowed, ok := may[dir]; ok {
		return allowed, true
	}
	for above := dir; above != "."; above = path.Dir(above) {
		if allowed, ok := may[above+"/..."]; ok {
			return allowed, true
		}
	}
	return nil, false
}

// local returns an import path without its quotes, and from the root of the module if it is in it.
// The standard library's own internal packages cannot be meant by what remains: no other code
// may import them.
func (t *tree) local(quoted string) string {
	p, err := strconv.Unquote(quoted)
	if err != nil {
		return quoted
	}
	return strings.TrimPrefix(p, t.module+"/")
}

// folders are those at the root of the module that hold packages.
var folders = []string{"claims", "cmd", "docs", "examples", "internal", "offload", "outbox", "producer", "queuetest", "records", "redrive", "release", "test", "worker", "workertest"}

// isStandard says whether a path from local is in the standard library. Only hosts have dots in
// their first element, and the module's own packages live in a few folders.
func isStandard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".") && !slices.Contains(folders, first)
}

func matchesAny(patterns []string, p string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		root, deep := strings.CutSuffix(pattern, "/...")
		return p == root || deep && strings.HasPrefix(p, root+"/")
	})
}

func TestImports(t *testing.T) { holds(t, importRule(may, testsMay)) }

func TestImportsFinds(t *testing.T) {
	may := map[string][]string{
		"internal/low":    {},
		"internal/high":   {"internal/low", "example.com/db/..."},
		"internal/helper": {},
		"strange":         {},
		"test/...":        {"internal/high"},
	}
	finds(t, importRule(may, []string{"internal/helper"}), map[string]string{
		"internal/low/low.go":          "package low\nimport _ \"fixture/internal/high\"\n",
		"internal/low/low_test.go":     "package low_test\nimport (\n_ \"fixture/internal/low\"\n_ \"fixture/internal/helper\"\n_ \"example.com/db\"\n)\n",
		"internal/high/high.go":        "package high\nimport (\n_ \"fixture/internal/low\"\n_ \"example.com/db/sub\"\n_ \"net/http\"\n_ \"example.com/dbx\"\n)\n",
		"internal/high/helped.go":      "package high\nimport _ \"fixture/internal/helper\"\n",
		"internal/helper/helper.go":    "package helper\n",
		"internal/new/new.go":          "package newer\n",
		"test/deep/down/down.go":       "package down\nimport _ \"fixture/internal/high\"\n",
		"strange/strange.go":           "package strange\n",
		"internal/low/testdata/bad.go": "not even Go",
	},
		"internal/high/helped.go:2: may not import internal/helper",
		"internal/high/high.go:6: may not import example.com/dbx",
		"internal/low/low.go:2: may not import internal/high",
		"internal/low/low_test.go:5: may not import example.com/db",
		"internal/new: not in the table",
		"strange: looks like the standard library",
	)
}

// A misspelt entry would allow nothing and say so nowhere.
func TestImportTableNamesItself(t *testing.T) {
	for _, dir := range slices.Sorted(maps.Keys(may)) {
		for _, p := range may[dir] {
			host, _, _ := strings.Cut(p, "/")
			_, ok := placeOf(may, strings.TrimSuffix(p, "/..."))
			if above, isFolder := strings.CutSuffix(p, "..."); isFolder {
				ok = ok || slices.ContainsFunc(slices.Collect(maps.Keys(may)), func(dir string) bool { return strings.HasPrefix(dir, above) })
			}
			if !ok && !isStandard(p) && !strings.Contains(host, ".") {
				t.Errorf("%s may import %s, which is not in the table itself", dir, p)
			}
		}
	}
}
