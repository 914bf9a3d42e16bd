package cloudwatch

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tenaq/internal/observe/series"
	"tenaq/internal/testing/proof"
)

// The cost of expressions is bounded.
func TestExpressions(t *testing.T) {
	w := newWorld(t)
	ask := func(h http.Handler, letters int) string {
		_, body := ask(h, "GetMetricData", fmt.Sprintf(`{"StartTime":0,"EndTime":%d,"MetricDataQueries":[{"Id":"e","Expression":"m%s"},`+
			`{"Id":"m","ReturnData":false,"MetricStat":{"Metric":{"Namespace":"N","MetricName":"A"},"Period":60,"Stat":"Sum"}}]}`,
			20_000*60, strings.Repeat("+1", letters/2)))
		return body
	}
	if got := ask(w, 400); !strings.Contains(got, `"StatusCode":"Complete"`) {
		t.Errorf("400 letters: got %s", got)
	}
	if got := ask(w, 600); !strings.Contains(got, "too long for 20000 periods") {
		t.Errorf("600 letters: got %s, want that they are too long", got)
	}
	if len(w.computing) != 0 {
		t.Errorf("%d places are taken", len(w.computing))
	}
}

// The pages of an answer add up to the answer without pages.
func TestPages(t *testing.T) {
	seed := proof.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	now := w.Now()
	queries := []metricDataQuery{}
	for i := range 6 {
		m := series.Metric{Namespace: "N", Name: fmt.Sprint("m", i)}
		for minute := range 30 {
			if rnd.IntN(2) == 0 && i != 3 {
				w.Series().Put(m, now.Add(time.Duration(minute-30)*time.Minute).UnixMilli(), series.One(rnd.Float64()), "")
			}
		}
		queries = append(queries, metricDataQuery{Id: fmt.Sprint("q", i), MetricStat: &metricStat{Metric: metric{"N", m.Name, nil}, Period: 60, Stat: "Sum"}})
	}
	type got struct {
		at     []time.Time
		values []float64
	}
	c := &call{t.Context(), w.Handler, operations["GetMetricData"]}
	for _, order := range []string{"TimestampAscending", "TimestampDescending", ""} {
		in := &getMetricDataInput{MetricDataQueries: queries, StartTime: now.Add(-time.Hour), EndTime: now.Add(time.Minute), ScanBy: order}
		whole := make(map[string]got)
		out, err := c.getMetricData(in)
		if err != nil || out.NextToken != "" {
			t.Fatal(out, err)
		}
		for _, r := range out.MetricDataResults {
			whole[r.Id] = got{r.Timestamps, r.Values}
			sorted := slices.IsSortedFunc(r.Timestamps, time.Time.Compare)
			if len(r.Timestamps) > 1 && sorted != (order == "TimestampAscending") {
				t.Errorf("%q: %v", order, r.Timestamps)
			}
		}
		for most := int64(1); most < 12; most++ {
			in.MaxDatapoints, in.NextToken = &most, ""
			paged := make(map[string]got)
			for pages := 0; ; pages++ {
				out, err := c.getMetricData(in)
				if err != nil || pages > 200 {
					t.Fatal(pages, err)
				}
				for _, r := range out.MetricDataResults {
					sofar := paged[r.Id]
					paged[r.Id] = got{slices.Concat(sofar.at, r.Timestamps), slices.Concat(sofar.values, r.Values)}
				}
				if in.NextToken = out.NextToken; in.NextToken == "" {
					break
				}
			}
			for id, want := range whole {
				if len(want.at) == 0 && len(paged[id].at) == 0 {
					continue
				}
				if !reflect.DeepEqual(paged[id], want) {
					t.Errorf("%q, pages of %d: got %v of %s, want %v", order, most, paged[id], id, want)
				}
			}
		}
	}
}

// A span consists of whole periods. The first begins with the minute of the start.
func TestSpan(t *testing.T) {
	c := &call{op: operations["GetMetricStatistics"]}
	for _, test := range []struct{ start, end, period, from, to int64 }{
		{0, 60, 60, 0, 60},
		{59, 60, 60, 0, 60},
		{59, 61, 60, 0, 120},
		{61, 62, 300, 60, 360},
		{-1, 1, 60, -60, 60},
		{-60, 0, 60, -60, 0},
	} {
		got, err := c.span(time.Unix(test.start, 0), time.Unix(test.end, 0), test.period, 10)
		if want := (span{test.from * 1000, test.to * 1000}); err != nil || got != want {
			t.Errorf("%d to %d by %d: got %v, %v, want %v", test.start, test.end, test.period, got, err, want)
		}
	}
	for _, test := range []struct{ start, end, period int64 }{{0, 0, 60}, {1, 0, 60}, {0, 60, 90}, {0, 661, 60}, {0, 60, 60_000_000_000}} {
		if got, err := c.span(time.Unix(test.start, 0), time.Unix(test.end, 0), test.period, 10); err == nil {
			t.Errorf("%d to %d by %d: got %v, want an error", test.start, test.end, test.period, got)
		}
	}
}

// Each metric is on one page of a list.
func TestListPages(t *testing.T) {
	w := newWorld(t)
	for i := range 2*metricsMax + 1 {
		m := series.Metric{Namespace: "N", Name: fmt.Sprint("m", i%7), Dimensions: []series.Dimension{{Name: "Q", Value: fmt.Sprint(i)}}}
		w.Series().Put(m, w.Now().UnixMilli(), series.One(1), "")
	}
	c := &call{t.Context(), w.Handler, operations["ListMetrics"]}
	in, pages := &listMetricsInput{}, []int{}
	seen := make(map[string]bool)
	for {
		out, err := c.listMetrics(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range out.Metrics {
			seen[m.Dimensions[0].Value] = true
		}
		pages = append(pages, len(out.Metrics))
		if in.NextToken = out.NextToken; in.NextToken == "" || len(pages) > 3 {
			break
		}
	}
	if !slices.Equal(pages, []int{metricsMax, metricsMax, 1}) || len(seen) != 2*metricsMax+1 {
		t.Errorf("pages of %v metrics, %d in all, want %d", pages, len(seen), 2*metricsMax+1)
	}
}
