package alarm

import (
	"reflect"
	"testing"

	"tenaq/internal/observe/series"
)

func TestCompute(t *testing.T) {
	store := series.New(series.Config{})
	sent, removed := series.Metric{Namespace: "n", Name: "sent"}, series.Metric{Namespace: "n", Name: "removed"}
	for minute, v := range []float64{2, 4, 8} {
		at := int64(minute+1) * series.Minute
		if err := store.Put(sent, at, series.One(v), "Count"); err != nil {
			t.Fatal(err)
		}
		if minute != 1 {
			if err := store.Put(removed, at, series.One(2), "Count"); err != nil {
				t.Fatal(err)
			}
		}
	}
	queries := []Query{
		{ID: "s", Metric: sent, Stat: series.Sum, Period: 60},
		{ID: "r", Metric: removed, Stat: series.Sum, Period: 60, Return: true},
		{ID: "hour", Metric: sent, Stat: series.Sum, Period: 3600},
		{ID: "e", Expression: "100 * r / s", Return: true},
	}
	got, err := Compute(queries, store, 60, series.Minute, 4*series.Minute)
	want := map[string][]series.Point{
		"r": {{At: series.Minute, Value: 2}, {At: 3 * series.Minute, Value: 2}},
		"e": {{At: series.Minute, Value: 100}, {At: 2 * series.Minute, Value: 0}, {At: 3 * series.Minute, Value: 25}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, expression := range []string{"r /", "x + 1", "hour + 1", "e + 1"} {
		queries[3].Expression = expression
		if got, err := Compute(queries, store, 60, 0, series.Minute); err == nil {
			t.Errorf("%s: got %v, want an error", expression, got)
		}
	}
}
