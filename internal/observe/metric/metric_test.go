package metric

import (
	"errors"
	"strings"
	"sync"
	"testing"
)

func TestWrite(t *testing.T) {
	h := NewHistogram(0.5, 1, 2.5)
	for _, v := range []float64{0.5, 0.75, 1, 2.5, 2.75, 0} {
		h.Observe(v)
	}
	var c Counter
	c.Add(2)
	c.Add(40)
	var b strings.Builder
	w := NewWriter(&b)
	w.Begin(Family{Name: "a_total", Help: "What\nis \\ there", Kind: KindCounter})
	w.Value(float64(c.Value()))
	w.Begin(Family{Name: "b", Help: "More", Kind: KindGauge, Labels: []string{"queue", "state"}})
	w.Value(0.25, "q\"\\\n", "é")
	w.Value(-3, "", "x")
	w.Begin(Family{Name: "c_seconds", Help: "Time", Kind: KindHistogram, Labels: []string{"queue"}})
	w.Histogram(h, "q")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	want := `# HELP a_total What\nis \\ there
# TYPE a_total counter
a_total 42
# HELP b More
# TYPE b gauge
b{queue="q\"\\\n",state="é"} 0.25
b{queue="",state="x"} -3
# HELP c_seconds Time
# TYPE c_seconds histogram
c_seconds_bucket{queue="q",le="0.5"} 2
c_seconds_bucket{queue="q",le="1"} 4
c_seconds_bucket{queue="q",le="2.5"} 5
c_seconds_bucket{queue="q",le="+Inf"} 6
c_seconds_sum{queue="q"} 7.5
c_seconds_count{queue="q"} 6
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Many at once lose nothing.
func TestObserveAtOnce(t *testing.T) {
	h := NewHistogram(1)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				h.Observe(0.5)
				h.Observe(1.5)
			}
		})
	}
	all.Wait()
	var b strings.Builder
	w := NewWriter(&b)
	w.Begin(Family{Name: "h", Kind: KindHistogram})
	w.Histogram(h)
	_ = w.Flush()
	if !strings.Contains(b.String(), "h_bucket{le=\"1\"} 8000\nh_bucket{le=\"+Inf\"} 16000\nh_sum 16000\nh_count 16000\n") {
		t.Errorf("got\n%s", b.String())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestWriteError(t *testing.T) {
	w := NewWriter(broken{})
	w.Begin(Family{Name: "a", Kind: KindGauge})
	w.Value(1)
	if err := w.Flush(); err == nil {
		t.Error("a writer whose client is gone has no error")
	}
}
