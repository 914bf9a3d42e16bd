package doctor

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tenaq/internal/cli"
)

// handlingTimes are measurements of the work on the messages of a queue.
type handlingTimes struct {
	asked bool // metrics were read
	// from the newest receive to the delete, without late deletes
	server *histogram
	worker *histogram // of handlers, with any outcome

	renewed bool    // workers renew the leases of the queue
	changes bool    // visibility timeouts are changed at the server, of any queue
	deleted float64 // deletes that removed a message
	stale   float64 // deletes with the handle of an earlier delivery
}

// add adds the metrics of a server or a worker.
func (t *handlingTimes) add(samples []sample, queue string) {
	t.asked = true
	for i := range samples {
		s := &samples[i]
		switch {
		case s.name == "tenaq_requests_total" && strings.HasPrefix(s.labels["action"],
			"ChangeMessageVisibility") && s.labels["code"] == "" && s.value > 0:
			t.changes = true
		case s.labels["queue"] != queue:
		case s.name == "tenaq_queue_handling_seconds_bucket":
			addBucket(&t.server, s)
		case s.name == "tenaq_worker_handling_seconds_bucket":
			addBucket(&t.worker, s)
		case s.name == "tenaq_worker_lease_renewals_total" && s.labels["result"] == "renewed" &&
			s.value > 0:
			t.renewed = true
		case s.name == "tenaq_queue_deleted_total" && s.labels["handle"] == "current":
			t.deleted += s.value
		case s.name == "tenaq_queue_deleted_total" && s.labels["handle"] == "stale":
			t.stale += s.value
		}
	}
}

type histogram struct {
	bounds []float64
	counts []float64 // cumulative
}

func addBucket(to **histogram, s *sample) {
	bound, err := strconv.ParseFloat(s.labels["le"], 64)
	if err != nil {
		return
	}
	if *to == nil {
		*to = &histogram{}
	}
	h := *to
	i, found := slices.BinarySearch(h.bounds, bound)
	if !found {
		h.bounds = slices.Insert(h.bounds, i, bound)
		h.counts = slices.Insert(h.counts, i, 0)
	}
	h.counts[i] += s.value // another worker of the same queue
}

func (h *histogram) count() float64 {
	if h == nil || len(h.counts) == 0 {
		return 0
	}
	return h.counts[len(h.counts)-1]
}

// between returns the bounds of the bucket of a quantile. The upper bound of the last is infinite.
func (h *histogram) between(quantile float64) (low, high float64) {
	rank := math.Ceil(quantile * h.count())
	for i, n := range h.counts {
		if n >= rank {
			if i > 0 {
				low = h.bounds[i-1]
			}
			return low, h.bounds[i]
		}
	}
	return 0, math.Inf(1)
}

// text formats the bounds of a quantile.
func (h *histogram) text(quantile float64) string {
	low, high := h.between(quantile)
	switch {
	case math.IsInf(high, 1):
		return "more than " + secondsShort(low)
	case low == 0:
		return "less than " + secondsShort(high)
	}
	return secondsShort(low) + " to " + secondsShort(high)
}

func secondsShort(s float64) string {
	if d := time.Duration(s * float64(time.Second)); d < time.Second {
		return cli.ShortDuration(d)
	}
	return cli.SecondsText(s)
}

type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// parseMetrics reads the text format, without lines that it does not understand.
func parseMetrics(text []byte) []sample {
	var samples []sample
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if s, ok := parseSample(lines.Text()); ok {
			samples = append(samples, s)
		}
	}
	return samples
}

func parseSample(line string) (sample, bool) {
	i := strings.IndexAny(line, "{ ")
	if i <= 0 || line[0] == '#' {
		return sample{}, false
	}
	s := sample{name: line[:i], labels: map[string]string{}}
	rest := line[i:]
	for rest[0] == '{' || rest[0] == ',' {
		name, after, ok := strings.Cut(rest[1:], "=")
		if !ok {
			break // no labels between the braces
		}
		quoted, err := strconv.QuotedPrefix(after)
		if err != nil {
			return sample{}, false
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			return sample{}, false
		}
		s.labels[name] = value
		if rest = after[len(quoted):]; rest == "" {
			return sample{}, false
		}
	}
	fields := strings.Fields(strings.TrimLeft(rest, "{}"))
	if len(fields) == 0 {
		return sample{}, false
	}
	var err error
	s.value, err = strconv.ParseFloat(fields[0], 64)
	return s, err == nil
}

// metricsMax bounds the bytes read from one address: about those of a hundred thousand queues.
const metricsMax = 256 << 20

// addTimes reads the metrics at the given addresses, or at the admin address of the server if the
// configuration is its own.
func (d *Doctor) addTimes(ctx context.Context, subject string, queues []*Examined) {
	if len(queues) == 0 {
		return
	}
	addresses := d.metricsURLs
	if admin := d.adminURL(); len(addresses) == 0 && admin != "" {
		addresses = []string{admin}
	}
	if len(addresses) == 0 {
		d.find(subject, "measurements",
			unchecked("name the metrics of the server or its workers with --metrics-url",
				"no server or worker was asked how long work takes"))
		return
	}
	for _, address := range addresses {
		samples, err := d.metrics(ctx, address)
		if err != nil {
			d.find(subject, "measurements",
				unchecked("name another address with --metrics-url", "%s: %v", address, err))
			continue
		}
		d.find(subject, "measurements", fine("%s has metrics", address))
		for _, q := range queues {
			q.times.add(samples, q.Name)
		}
	}
}

// adminURL is the address of the metrics of the server, if the configuration is its own.
func (d *Doctor) adminURL() string {
	u, err := url.Parse(d.Endpoint.URL)
	if d.kind != KindTenaq || err != nil || d.settings.AdminListen == "off" {
		return ""
	}
	listen := &url.URL{Scheme: u.Scheme, Host: d.settings.Listen}
	if !sameHost(u, listen) {
		return ""
	}
	return "http://" + cli.ReachableAddress(d.settings.AdminListen) + "/metrics"
}

// metrics reads the metrics at an address. The default path is /metrics.
func (d *Doctor) metrics(ctx context.Context, address string) ([]sample, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("not a URL such as http://127.0.0.1:9325/metrics")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/metrics"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := d.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, metricsMax))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("HTTP status %d", resp.StatusCode)
	}
	samples := parseMetrics(body)
	if !slices.ContainsFunc(samples, func(s sample) bool {
		return strings.HasPrefix(s.name, "tenaq_")
	}) {
		return nil, fmt.Errorf("no metrics of a tenaq program")
	}
	return samples, nil
}
