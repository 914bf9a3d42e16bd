package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	outboxcmd "tenaq/cmd/tenaq/outbox"
	"tenaq/cmd/tenaq/pipe"
	"tenaq/internal/observe/metric"
	"tenaq/internal/redrivehost"
	"tenaq/internal/server"
	"tenaq/internal/testing/proof"
	"tenaq/outbox"
)

// examples/monitoring has alarms and a dashboard. An alarm on a metric that does not exist never
// fires, and nothing shows that. So every metric that they name must be in the tables.

func monitoringFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "monitoring", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// An expression is one of PromQL, with what is shown beside its values.
type expression struct {
	where, promql string
	shown         string // texts with {{label}} or {{ $labels.label }}
}

// ruleExpressions are those of the alarms.
func ruleExpressions(t *testing.T) (all []expression) {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations struct{ Summary, Description string }
			}
		}
	}
	if err := yaml.Unmarshal(monitoringFile(t, "tenaq.rules.yml"), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Annotations.Summary == "" || r.Annotations.Description == "" {
				t.Errorf("%s does not say what it means and what to do", r.Alert)
			}
			all = append(all, expression{r.Alert, r.Expr, r.Annotations.Summary + r.Annotations.Description})
		}
	}
	return all
}

// dashboardExpressions are those of the panels.
func dashboardExpressions(t *testing.T) (all []expression) {
	t.Helper()
	var file struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(monitoringFile(t, "tenaq.dashboard.json"), &file); err != nil {
		t.Fatal(err)
	}
	for _, p := range file.Panels {
		for _, target := range p.Targets {
			promql := strings.NewReplacer("$__rate_interval", "5m", "$queue", "orders").Replace(target.Expr)
			all = append(all, expression{p.Title, promql, target.LegendFormat})
		}
	}
	return all
}

var (
	promString   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	promRange    = regexp.MustCompile(`\[[^\]]*\]`)
	promList     = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	promMatchers = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*\{([^}]*)\}`)
	promName     = regexp.MustCompile(`\b([a-zA-Z_][a-zA-Z0-9_]*)\b\s*(\(?)`)
	promLabel    = regexp.MustCompile(`[a-zA-Z_][a-zA-Z0-9_]*`)
	shownLabel   = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}`)
)

// named returns the metrics of an expression with the labels that it asks of each, and those that
// it groups by.
func named(promql string) (metrics map[string][]string, grouped []string) {
	metrics = make(map[string][]string)
	text := promRange.ReplaceAllString(promString.ReplaceAllString(promql, ``), ``)
	for _, m := range promList.FindAllStringSubmatch(text, -1) {
		grouped = append(grouped, promLabel.FindAllString(m[1], -1)...)
	}
	text = promList.ReplaceAllString(text, ` `)
	for _, m := range promMatchers.FindAllStringSubmatch(text, -1) {
		metrics[m[1]] = append(metrics[m[1]], promLabel.FindAllString(m[2], -1)...)
	}
	text = promMatchers.ReplaceAllString(text, ` `)
	for _, m := range promName.FindAllStringSubmatch(text, -1) {
		word := slices.Contains([]string{"and", "or", "unless", "bool", "offset"}, m[1])
		if _, known := metrics[m[1]]; m[2] == "" && !known && !word {
			metrics[m[1]] = nil
		}
	}
	return metrics, grouped
}

func TestNamed(t *testing.T) {
	for promql, want := range map[string]string{
		`up{job=~"a.*"} == 0`: "map[up:[job]] []",
		`histogram_quantile(0.99, sum by (le, queue) (rate(a_bucket{queue=~"b{c",le!="d"}[5m]))) > 1e9`: "map[a_bucket:[queue le]] [le queue]",
		`a > 1 and delta(b{x="}"}[30m]) > 0 or c`:                                                       "map[a:[] b:[x] c:[]] []",
		`sum without (x) (rate(a[1m])) / ignoring(y) b`:                                                 "map[a:[] b:[]] [x y]",
	} {
		metrics, grouped := named(promql)
		if got := fmt.Sprint(metrics, " ", grouped); got != want {
			t.Errorf("%s: got %s, want %s", promql, got, want)
		}
	}
}

// labelsOf returns the labels of a metric: those of its family, and what Prometheus adds.
func labelsOf(name string) (labels []string, ok bool) {
	labels = []string{"job", "instance"}
	if name == "up" {
		return labels, true
	}
	for _, f := range append(server.Families(), commandFamilies()...) {
		if f.Kind != metric.KindHistogram && name == f.Name {
			return append(labels, f.Labels...), true
		}
		part, ok := strings.CutPrefix(name, f.Name)
		if f.Kind == metric.KindHistogram && ok && slices.Contains([]string{"_bucket", "_sum", "_count"}, part) {
			if part == "_bucket" {
				labels = append(labels, "le")
			}
			return append(labels, f.Labels...), true
		}
	}
	return nil, false
}

func TestMonitoringNames(t *testing.T) {
	all := append(ruleExpressions(t), dashboardExpressions(t)...)
	if len(all) < 50 {
		t.Fatalf("there are %d expressions, want more than 50", len(all))
	}
	for _, e := range all {
		metrics, grouped := named(e.promql)
		if len(metrics) == 0 {
			t.Errorf("%s: no metric in %s", e.where, e.promql)
		}
		var have []string
		for name, asked := range metrics {
			labels, ok := labelsOf(name)
			if !ok {
				t.Errorf("%s: there is no %s", e.where, name)
			}
			for _, label := range asked {
				if ok && !slices.Contains(labels, label) {
					t.Errorf("%s: %s has no label %s", e.where, name, label)
				}
			}
			have = append(have, labels...)
		}
		for _, m := range shownLabel.FindAllStringSubmatch(e.shown, -1) {
			grouped = append(grouped, m[1])
		}
		for _, label := range grouped {
			if !slices.Contains(have, label) {
				t.Errorf("%s: no metric in %s has a label %s", e.where, e.promql, label)
			}
		}
	}
}

// Texts and alarm tests of the monitoring examples name only metrics that exist, too.
func TestMonitoringTexts(t *testing.T) {
	operations, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string][]byte{
		"docs/operations/metrics.md": operations, "README.md": monitoringFile(t, "README.md"),
		"tenaq.rules.yml": monitoringFile(t, "tenaq.rules.yml"), "tenaq.rules.test.yml": monitoringFile(t, "tenaq.rules.test.yml"),
		"tenaq.dashboard.json": monitoringFile(t, "tenaq.dashboard.json"),
	} {
		for _, name := range regexp.MustCompile(`\btenaq_[a-z_]+`).FindAllString(string(text), -1) {
			_, ok := labelsOf(name)
			whole := slices.ContainsFunc(append(server.Families(), commandFamilies()...), func(f metric.Family) bool {
				return f.Name == name || strings.HasSuffix(name, "_") && strings.HasPrefix(f.Name, name)
			})
			if !ok && !whole {
				t.Errorf("%s: there is no %s", where, name)
			}
		}
	}
	tried := string(monitoringFile(t, "tenaq.rules.test.yml"))
	for _, e := range ruleExpressions(t) {
		if !strings.Contains(string(operations), "`"+e.where+"`") {
			t.Errorf("%s is not in docs/operations/metrics.md", e.where)
		}
		if !strings.Contains(tried, "alertname: "+e.where+"\n") {
			t.Errorf("%s is not tried", e.where)
		}
	}
}

// findPromtool finds the tool of Prometheus that tries rules and reads metrics.
func findPromtool(t *testing.T) (path string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		proof.Missing(t, "no promtool here, so nobody tries the alarms of examples/monitoring: apt-get install prometheus")
	}
	return path
}

// Prometheus itself understands the alarms and the expressions of the dashboard, and the alarms
// ring when they should.
func TestPromtool(t *testing.T) {
	promtool := findPromtool(t)
	dir, err := filepath.Abs(filepath.Join("..", "..", "examples", "monitoring"))
	if err != nil {
		t.Fatal(err)
	}
	type recorded struct{ Record, Expr string }
	var rules []recorded
	for i, e := range dashboardExpressions(t) {
		rules = append(rules, recorded{fmt.Sprintf("panel_%d", i), e.promql})
	}
	panels, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "panels", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "panels.yml")
	if err := os.WriteFile(file, panels, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", "rules", "tenaq.rules.yml"},
		{"check", "config", "prometheus.yml"},
		{"test", "rules", "tenaq.rules.test.yml"},
		{"check", "rules", file},
	} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// An emptyOutbox has no rows.
type emptyOutbox struct{ outbox.Box }

func (emptyOutbox) Stats(context.Context) (outbox.Stats, error) { return outbox.Stats{}, nil }

// The metrics have the format that Prometheus reads.
func TestPromtoolReads(t *testing.T) {
	promtool := findPromtool(t)
	for name, write := range map[string]func(*metric.Writer){
		"worker":  pipe.NewObserver(slog.Default(), "orders", 1).Write,
		"redrive": redrivehost.NewMetrics([]redrivehost.Spec{{DeadLetter: "orders-dlq", Parking: "parking"}}).Write,
		"outbox":  outboxcmd.NewMetrics(emptyOutbox{}).Write,
	} {
		var b strings.Builder
		w := metric.NewWriter(&b)
		write(w)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), promtool, "check", "metrics")
		cmd.Stdin = strings.NewReader(b.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: promtool check metrics: %v\n%s\n%s", name, err, out, &b)
		}
	}
}

// The dashboard begins with single numbers and the alarms that are raised, has CPU time beside
// memory, and no panel covers another.
func TestDashboardLayout(t *testing.T) {
	type place struct{ X, Y, W, H int }
	var file struct {
		Panels []struct {
			ID          int
			Type, Title string
			GridPos     place
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(monitoringFile(t, "tenaq.dashboard.json"), &file); err != nil {
		t.Fatal(err)
	}
	ids, taken, stats, asked := make(map[int]bool), make(map[[2]int]string), 0, make(map[string]string)
	for _, p := range file.Panels {
		if ids[p.ID] {
			t.Errorf("%s: another panel has the id %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies over %s at %d, %d", p.Title, other, x, y)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "stat" {
			if p.GridPos.Y != 0 {
				t.Errorf("%s is a single number, and not in the first row", p.Title)
			}
			stats += p.GridPos.W
		}
		for _, target := range p.Targets {
			asked[p.Type] += target.Expr + "\n"
		}
	}
	if stats != 24 {
		t.Errorf("single numbers take %d columns of the first row, want 24", stats)
	}
	for kind, metric := range map[string]string{"table": "tenaq_alarm_raised", "timeseries": "process_cpu_seconds_total", "stat": "tenaq_alarms"} {
		if !strings.Contains(asked[kind], metric) {
			t.Errorf("no panel of the kind %s shows %s", kind, metric)
		}
	}
}
