package main

import (
	"regexp"
	"strings"
	"testing"

	"tenaq/cmd/tenaq/outbox"
	"tenaq/cmd/tenaq/pipe"
	"tenaq/internal/observe/metric"
	"tenaq/internal/redrivehost"
	"tenaq/internal/server"
)

// commandFamilies are those of all commands.
func commandFamilies() (all []metric.Family) {
	for _, r := range pipe.Table {
		all = append(all, r.Family)
	}
	for _, r := range redrivehost.MetricTable {
		all = append(all, r.Family)
	}
	for _, r := range outbox.Table {
		all = append(all, r.Family)
	}
	return all
}

// The names follow the rules of Prometheus, and those of a server and its redriver do not collide.
func TestCommandMetricNames(t *testing.T) {
	seen := make(map[string]bool)
	for _, f := range append(server.Families(), commandFamilies()...) {
		if seen[f.Name] {
			t.Errorf("%s is there twice", f.Name)
		}
		seen[f.Name] = true
	}
	for _, f := range commandFamilies() {
		if !regexp.MustCompile(`^tenaq_(worker|redrive|outbox)_[a-z_]+$`).MatchString(f.Name) {
			t.Errorf("%s is of no command", f.Name)
		}
		if (f.Kind == metric.KindCounter) != strings.HasSuffix(f.Name, "_total") {
			t.Errorf("%s is a %s", f.Name, f.Kind)
		}
		if f.Kind == metric.KindHistogram && !regexp.MustCompile(`_(seconds|rows)$`).MatchString(f.Name) {
			t.Errorf("%s has no unit", f.Name)
		}
		if f.Help == "" || strings.HasSuffix(f.Help, ".") {
			t.Errorf("%s: the help is %q", f.Name, f.Help)
		}
	}
}
