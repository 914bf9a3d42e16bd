package console_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// quantile is the value that a part of the measured ones does not exceed.
func quantile(measured []float64, part float64) float64 {
	slices.Sort(measured)
	return measured[min(int(part*float64(len(measured))), len(measured)-1)]
}

// BenchmarkPaint opens pages with nothing cached: how long until a person sees something.
func BenchmarkPaint(b *testing.B) {
	s := newShop(b)
	for _, p := range [][2]string{{"overview", "#/"}, {"queue", "#/q/orders"}, {"messages", "#/q/orders/messages"}} {
		b.Run(p[0], func(b *testing.B) {
			var paints []float64
			for b.Loop() {
				tab := s.blank(b)
				tab.visit(s.URL() + "/console/" + p[1])
				tab.until("it is painted", `performance.getEntriesByName("first-contentful-paint").length`)
				paints = append(paints, eval[float64](tab, `performance.getEntriesByName("first-contentful-paint")[0].startTime`))
				tab.end()
			}
			b.ReportMetric(quantile(paints, 0.5), "p50-ms")
			b.ReportMetric(quantile(paints, 0.95), "p95-ms")
		})
	}
}

// BenchmarkManyQueues asks for pages of a list of 100,000 queues, twenty at a time, and jumps about
// in it in the browser, a hundred times at a time.
func BenchmarkManyQueues(b *testing.B) {
	s := serve(b, nil)
	n := manyQueues()
	s.createMany(n)
	s.waits(n)
	b.Run("page", func(b *testing.B) {
		var pages []float64
		sorts := []string{"trouble", "name", "visible", "age"}
		for b.Loop() {
			for range 20 {
				i, began := len(pages), time.Now()
				s.ask(fmt.Sprintf("/v1/queues?sort=%s&from=%d&limit=100", sorts[i%len(sorts)], i*7919%n), nil, nil)
				pages = append(pages, float64(time.Since(began))/1e6)
			}
		}
		b.ReportMetric(quantile(pages, 0.99), "p99-ms")
	})
	tab := s.open(b, "#/?sort=name")
	tab.until("the list is there", `document.querySelector(".tall .row a[data-row]")`)
	b.Run("scroll", func(b *testing.B) {
		var frames []float64
		for b.Loop() {
			frames = append(frames, eval[[]float64](tab, fmt.Sprintf(jumps, 100))...)
		}
		b.ReportMetric(quantile(frames, 0.95), "frame-p95-ms")
		b.ReportMetric(slices.Max(frames), "frame-max-ms")
		if _, err := chromedp.Call(tab.ctx, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			b.Fatal(err)
		}
		heap, err := chromedp.Call(tab.ctx, runtime.GetHeapUsage, cdp.Empty{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(heap.UsedSize/1e6, "heap-MB")
	})
}

// BenchmarkManyClaims asks for pages of a list of 100,000 claims, by the beginning of their keys
// and one after the other, twenty at a time, and searches all for the one that awaits a decision.
func BenchmarkManyClaims(b *testing.B) {
	s := serve(b, nil)
	n := manyQueues()
	s.addManyClaims(n)
	type page struct {
		Claims []struct{ Key string }
		Next   string
	}
	b.Run("page", func(b *testing.B) {
		var pages []float64
		after := ""
		for b.Loop() {
			for range 20 {
				query := fmt.Sprintf("prefix=order-%06d", len(pages)*7919%n)
				if len(pages)%2 == 0 {
					query = "after=" + after
				}
				var got page
				began := time.Now()
				s.ask("/v1/claims?limit=50&"+query, nil, &got)
				pages = append(pages, float64(time.Since(began))/1e6)
				if len(got.Claims) == 0 {
					b.Fatalf("%s finds no claim", query)
				}
				if len(pages)%2 == 1 {
					after = got.Next
				}
			}
		}
		b.ReportMetric(quantile(pages, 0.99), "p99-ms")
	})
	b.Run("search", func(b *testing.B) {
		var parts []float64
		for b.Loop() {
			for after, found := "", false; !found; {
				var got page
				began := time.Now()
				s.ask("/v1/claims?state=parked&after="+after, nil, &got)
				parts = append(parts, float64(time.Since(began))/1e6)
				if after, found = got.Next, len(got.Claims) > 0; after == "" && !found {
					b.Fatal("the search does not find the claim")
				}
			}
		}
		b.ReportMetric(quantile(parts, 0.99), "request-p99-ms")
	})
}
