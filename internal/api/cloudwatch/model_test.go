package cloudwatch

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tenaq/internal/testing/proof"
)

// A model is what botocore knows of CloudWatch: it comes with the emulator that make emulators
// installs.
type model struct {
	Metadata struct {
		TargetPrefix, XMLNamespace, APIVersion string
	}
	Operations map[string]struct {
		Input, Output *struct{ Shape string }
		Errors        []struct{ Shape string }
	}
	Shapes map[string]*shape
}

type shape struct {
	Type     string
	Required []string
	Members  map[string]struct{ Shape string }
	Member   struct{ Shape string }
	Min, Max *float64
	Enum     []string
	Error    *struct {
		Code           string
		HTTPStatusCode int
	}
}

func readModel(t *testing.T) *model {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(proof.Installed("moto"), "lib", "python*", "site-packages", "botocore", "data", "cloudwatch", apiVersion, "service-2.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		proof.Missing(t, "no botocore here, which has the model of CloudWatch: apt-get install python3-venv, and make emulators")
	}
	f, err := os.Open(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var m model
	if err := json.NewDecoder(z).Decode(&m); err != nil {
		t.Fatal(err)
	}
	return &m
}

// unanswered are members of answers that there is nothing to say in.
var unanswered = map[string]string{
	"DescribeAlarmsOutput.CompositeAlarms.1":       "there are none",
	"DescribeAlarmsOutput.LogAlarms.1":             "there are none",
	"MetricAlarm.ExtendedStatistic":                "refused",
	"MetricAlarm.EvaluateLowSampleCountPercentile": "refused",
	"MetricAlarm.ThresholdMetricId":                "refused",
	"MetricAlarm.EvaluationState":                  "of what is refused",
	"MetricAlarm.EvaluationWindow":                 "refused",
	"MetricAlarm.WarmUpConfiguration":              "refused",
	"MetricAlarm.EvaluationCriteria":               "refused",
	"MetricAlarm.EvaluationInterval":               "refused",
	"MetricAlarm.ActionConfiguration":              "refused",
	"Datapoint.ExtendedStatistics":                 "refused",
	"AlarmHistoryItem.AlarmContributorId":          "alarms have no contributors",
	"AlarmHistoryItem.AlarmContributorAttributes":  "alarms have no contributors",
}

// ourLimits are limits of lists that the documentation has and the model has not.
var ourLimits = []string{"MetricData", "MetricDataQueries", "Values", "Counts", "Tags", "TagKeys", "Metrics", "AlarmTypes", "Statistics"}

// Members that are misspelt or missing, and limits and codes that differ, are found.
func TestModel(t *testing.T) {
	m := readModel(t)
	h := holder{t: t, model: m, seen: make(map[string]bool)}
	if got, want := targetPrefix, m.Metadata.TargetPrefix+"."; got != want {
		t.Errorf("target prefix %q, want %q", got, want)
	}
	if got, want := namespace, m.Metadata.XMLNamespace; got != want {
		t.Errorf("namespace %q, want %q", got, want)
	}
	for _, name := range slices.Sorted(maps.Keys(operations)) {
		op := operations[name]
		modelled, ok := m.Operations[name]
		if !ok {
			t.Errorf("%s is not an action of CloudWatch", name)
			continue
		}
		h.structure(op.in, modelled.Input.Shape, true)
		if (op.out == nil) != (modelled.Output == nil) {
			t.Errorf("%s: output %v, the model has %v", name, op.out, modelled.Output)
		} else if op.out != nil {
			h.structure(op.out, modelled.Output.Shape, false)
		}
		want := onlyGeneral
		for _, e := range modelled.Errors {
			switch e.Shape {
			case "MissingRequiredParameterException":
				want = namesEveryOne
			case "InvalidParameterValueException":
				want = max(want, namesValue)
			}
		}
		if op.fit != want {
			t.Errorf("%s: errors of kind %d, want %d", name, op.fit, want)
		}
	}
	for code, info := range catalogue {
		name, ok := strings.CutPrefix(info.shape, modelled)
		if !ok {
			continue
		}
		s := m.Shapes[name]
		if s == nil || s.Error == nil || s.Error.Code != string(code) || s.Error.HTTPStatusCode != info.status {
			t.Errorf("%s: got %+v, want what the model has", code, info)
		}
	}
	for key := range unanswered {
		if name, member, _ := strings.Cut(key, "."); m.Shapes[name] == nil || strings.Contains(member, ".") {
			continue
		} else if _, ok := m.Shapes[name].Members[member]; !ok {
			t.Errorf("nothing needs the exception for %s", key)
		}
	}
}

// A holder holds structs to a model.
type holder struct {
	*model
	t    *testing.T
	seen map[string]bool
}

func (h holder) structure(typ reflect.Type, name string, input bool) {
	key := fmt.Sprint(name, input)
	if h.seen[key] {
		return
	}
	h.seen[key] = true
	s := h.Shapes[name]
	known := make(map[string]field)
	for _, f := range fields(typ) {
		known[f.name] = f
		if _, ok := s.Members[f.name]; !ok {
			h.t.Errorf("%s has no member %s", name, f.name)
		}
	}
	for _, member := range slices.Sorted(maps.Keys(s.Members)) {
		at := name + "." + member
		f, ok := known[member]
		if !ok {
			if _, exempt := unanswered[at]; input || !exempt {
				h.t.Errorf("%s is missing", at)
			}
			continue
		}
		if required := slices.Contains(s.Required, member); input && f.required != required && f.refuse == "" {
			h.t.Errorf("%s: required %v, want %v", at, f.required, required)
		}
		h.value(typ.Field(f.index).Type, s.Members[member].Shape, at, f.rule, f.each, input)
	}
}

// kinds are the kinds of Go for the types of the model.
var kinds = map[string]reflect.Kind{
	"string": reflect.String, "integer": reflect.Int64, "double": reflect.Float64, "boolean": reflect.Bool,
	"structure": reflect.Struct, "timestamp": reflect.Struct, "list": reflect.Slice,
}

func (h holder) value(typ reflect.Type, name, at string, rule, each limits, input bool) {
	if typ == reflect.TypeFor[given]() {
		return
	}
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	s := h.Shapes[name]
	if typ.Kind() != kinds[s.Type] || (s.Type == "timestamp") != (typ == timeType) {
		h.t.Errorf("%s: a field of type %v for a %s", at, typ, s.Type)
		return
	}
	if input {
		h.limits(s, at, rule)
	}
	switch s.Type {
	case "structure":
		h.structure(typ, name, input)
	case "list":
		if _, none := unanswered[at+".1"]; !none {
			h.value(typ.Elem(), s.Member.Shape, at+".1", each, limits{math.MinInt64, math.MaxInt64, nil}, input)
		}
	}
}

func (h holder) limits(s *shape, at string, rule limits) {
	least, most := int64(math.MinInt64), int64(math.MaxInt64)
	if s.Min != nil && *s.Min > 0 {
		least = int64(*s.Min)
	}
	if s.Max != nil {
		most = int64(*s.Max)
	}
	ours := s.Type == "list" && s.Max == nil && slices.ContainsFunc(ourLimits, func(name string) bool { return strings.HasSuffix(at, "."+name) })
	if rule.min != least || rule.max != most && !ours {
		h.t.Errorf("%s: between %d and %d, want between %d and %d", at, rule.min, rule.max, least, most)
	}
	if s.Type == "list" && rule.max == math.MaxInt64 {
		h.t.Errorf("%s: nothing bounds how long the list may be", at)
	}
	if !slices.Equal(rule.enum, s.Enum) {
		h.t.Errorf("%s: one of %q, want %q", at, rule.enum, s.Enum)
	}
}
