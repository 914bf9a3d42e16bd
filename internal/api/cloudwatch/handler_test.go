package cloudwatch

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/observe/series"
)

// The signature, the target or the path names the service. What names another, or none, is not for
// this one.
func TestIs(t *testing.T) {
	signed := func(service string) string {
		return "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260131/us-east-1/" + service + "/aws4_request, SignedHeaders=host, Signature=00"
	}
	for _, test := range []struct {
		path   string
		header [2]string
		want   bool
	}{
		{"/", [2]string{"Authorization", signed("monitoring")}, true},
		{"/", [2]string{"Authorization", signed("sqs")}, false},
		{"/", [2]string{"Authorization", "AWS4-ECDSA-P256-SHA256 Credential=AKIDEXAMPLE/20260131/monitoring/aws4_request,SignedHeaders=host"}, true},
		{"/", [2]string{"Authorization", "monitoring"}, false},
		{"/", [2]string{"Authorization", "Bearer a/b/c/monitoring/d"}, false},
		{"/", [2]string{"X-Amz-Target", "GraniteServiceVersion20100801.ListMetrics"}, true},
		{"/", [2]string{"X-Amz-Target", "AmazonSQS.ListQueues"}, false},
		{"/service/GraniteServiceVersion20100801/operation/ListMetrics", [2]string{}, true},
		{"/service/Another/operation/ListMetrics", [2]string{}, false},
		{"/?Action=ListMetrics&X-Amz-Credential=AKIDEXAMPLE%2F20260131%2Fus-east-1%2Fmonitoring%2Faws4_request", [2]string{}, true},
		{"/?Action=ListQueues&X-Amz-Credential=AKIDEXAMPLE%2F20260131%2Fus-east-1%2Fsqs%2Faws4_request", [2]string{}, false},
		{"/?Action=ListMetrics", [2]string{}, false},
		{"/000000000000/monitoring", [2]string{}, false},
	} {
		r := httptest.NewRequest(http.MethodPost, test.path, nil)
		if test.header[0] != "" {
			r.Header.Set(test.header[0], test.header[1])
		}
		if got := Is(r); got != test.want {
			t.Errorf("%s %v: got %v, want %v", test.path, test.header, got, test.want)
		}
	}
}

// ask makes a request of AWS JSON, and returns status and body of the answer.
func ask(h http.Handler, action, body string) (int, string) {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", targetPrefix+action)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

// Nothing runs, and nothing is read, before somebody has decided who may ask.
func TestAuthenticate(t *testing.T) {
	w := newWorld(t)
	unread := io.NopCloser(readFunc(func([]byte) (int, error) {
		t.Error("the body was read")
		return 0, io.EOF
	}))
	for name, test := range map[string]struct {
		authenticate func(*http.Request) (Finish, error)
		want         string
	}{
		"nobody decides": {nil, "403 AccessDenied;Sender"},
		"an error":       {func(*http.Request) (Finish, error) { return nil, errors.New("no") }, "403 AccessDenied;Sender"},
		"an Error": {func(*http.Request) (Finish, error) {
			return nil, fmt.Errorf("who: %w", &Error{SignatureMismatch, "no"})
		},
			"403 SignatureDoesNotMatch;Sender"},
	} {
		h := New(Config{Monitor: w.Monitor, Authenticate: test.authenticate})
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Body = unread
		r.Header.Set("X-Amz-Target", targetPrefix+"ListMetrics")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if got := fmt.Sprint(rec.Code, " ", exact(rec.Header(), "x-amzn-query-error")[0]); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// The body is shown as it came, before it is inflated, and the action before it runs.
func TestFinish(t *testing.T) {
	w := newWorld(t)
	var sent bytes.Buffer
	z := gzip.NewWriter(&sent)
	z.Write([]byte("{}"))
	z.Close()
	for name, test := range map[string]struct {
		body   string
		finish error
		action error
		want   string
	}{
		"let":            {sent.String(), nil, nil, "200"},
		"a wrong body":   {"no gzip", &Error{SignatureMismatch, "no"}, nil, "403 SignatureDoesNotMatch;Sender"},
		"broken gzip":    {"no gzip", nil, nil, "400 MalformedInput;Sender"},
		"a wrong action": {sent.String(), nil, &Error{AccessDenied, "no"}, "403 AccessDenied;Sender"},
		"another error":  {sent.String(), errors.New("no"), nil, "403 AccessDenied;Sender"},
	} {
		h := New(Config{Monitor: w.Monitor, Authenticate: func(*http.Request) (Finish, error) {
			return func(body []byte) (Authorize, error) {
				if string(body) != test.body {
					t.Errorf("%s: got the body %q, want %q", name, body, test.body)
				}
				return func(action, resource string) error {
					if action != "cloudwatch:ListMetrics" || resource != "*" {
						t.Errorf("%s: got %s on %s, want cloudwatch:ListMetrics on *", name, action, resource)
					}
					return test.action
				}, test.finish
			}, nil
		}})
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(test.body))
		r.Header.Set("X-Amz-Target", targetPrefix+"ListMetrics")
		r.Header.Set("Content-Encoding", "gzip")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if got := strings.TrimSpace(fmt.Sprint(rec.Code, " ", strings.Join(exact(rec.Header(), "x-amzn-query-error"), ""))); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// let lets everybody do everything.
func let(*http.Request) (Finish, error) {
	return func([]byte) (Authorize, error) { return func(string, string) error { return nil }, nil }, nil
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }

// broken is a monitor whose disk is.
type broken struct{ *monitor.Monitor }

func (broken) Put(monitor.Definition) error {
	return errors.New("write /secret/alarms.json: no space left on device")
}

// full is a monitor that has no room, and no history.
type full struct {
	m     *monitor.Monitor
	store *series.Store
}

func (full) Put(monitor.Definition) error {
	return fmt.Errorf("%w: there are 5000, delete some", monitor.ErrLimit)
}
func (f full) Delete(names ...string) error                       { return f.m.Delete(names...) }
func (f full) Alarms() []monitor.Status                           { return f.m.Alarms() }
func (f full) SetState(string, alarm.State, string, string) error { return nil }
func (f full) EnableActions(bool, ...string) error                { return nil }
func (f full) SetTags(string, map[string]string, []string) error  { return nil }
func (f full) Series() *series.Store                              { return f.store }
func (f full) Now() time.Time                                     { return f.m.Now() }

// What goes wrong inside is for the log, and what there is no room for is a refusal.
func TestFailures(t *testing.T) {
	const put = `{"AlarmName":"a","Namespace":"N","MetricName":"M","Statistic":"Sum","Period":60,"EvaluationPeriods":1,"Threshold":0,"ComparisonOperator":"GreaterThanThreshold"}`
	w := newWorld(t)
	var log bytes.Buffer
	h := New(Config{Monitor: broken{w.Monitor}, Authenticate: let, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	status, body := ask(h, "PutMetricAlarm", put)
	if status != 500 || !strings.Contains(body, "#InternalServiceFault") || strings.Contains(body, "secret") || !strings.Contains(log.String(), "no space left") {
		t.Errorf("got %d %s, log %s, want what happened in the log only", status, body, &log)
	}

	h = New(Config{Monitor: full{w.Monitor, series.New(series.Config{MetricsMax: 1})}, Authenticate: let})
	if status, body = ask(h, "PutMetricAlarm", put); status != 400 || !strings.Contains(body, "#LimitExceededFault") {
		t.Errorf("got %d %s, want LimitExceededFault", status, body)
	}
	if status, body = ask(h, "PutMetricData", `{"Namespace":"N","MetricData":[{"MetricName":"a","Value":1},{"MetricName":"b","Value":1}]}`); status != 400 {
		t.Errorf("got %d %s, want a refusal of one metric too many", status, body)
	}
	if status, body = ask(h, "DescribeAlarmHistory", `{}`); status != 400 || !strings.Contains(body, "#UnknownOperationException") {
		t.Errorf("got %d %s, want that there is no history", status, body)
	}
}

// Readers that wait with larger bodies hold up neither small requests nor each other, and one that
// leaves leaves no place taken.
func TestSlowBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, leave := context.WithCancel(t.Context())
		for range readings {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", readFunc(func([]byte) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			}))
			r.ContentLength = small + 1
			go func() {
				defer func() {
					if why := recover(); why != http.ErrAbortHandler {
						t.Errorf("a reader that leaves: got %v, want its connection closed", why)
					}
				}()
				w.ServeHTTP(httptest.NewRecorder(), r)
			}()
		}
		synctest.Wait()
		if status, body := ask(w, "ListMetrics", "{}"); status != 200 {
			t.Errorf("a small request: got %d %s", status, body)
		}
		answered := make(chan int, 1)
		go func() {
			status, _ := ask(w, "ListMetrics", "{}"+strings.Repeat(" ", small))
			answered <- status
		}()
		synctest.Wait()
		select {
		case status := <-answered:
			t.Errorf("a larger one got %d, want that it waits", status)
		default:
		}
		time.Sleep(placeWait - time.Second)
		late := make(chan string, 1)
		go func() {
			_, body := ask(w, "ListMetrics", "{}"+strings.Repeat(" ", small))
			late <- body
		}()
		if status := <-answered; status != 400 {
			t.Errorf("a larger one that waited for long: got %d, want 400", status)
		}
		go func() {
			status, _ := ask(w, "ListMetrics", "{}"+strings.Repeat(" ", small))
			answered <- status
		}()
		if body := <-late; !strings.Contains(body, "#ThrottlingException") {
			t.Errorf("another: got %s, want that it is throttled", body)
		}
		leave()
		synctest.Wait()
		if status := <-answered; status != 200 {
			t.Errorf("a larger one afterwards: got %d", status)
		}
		if len(w.reading) != 0 || len(w.decoding) != 0 {
			t.Errorf("%d and %d places are taken", len(w.reading), len(w.decoding))
		}
	})
}

// past is a monitor with a history.
type past struct {
	*monitor.Monitor
	changes []monitor.Change
}

func (p past) History() []monitor.Change { return slices.Clone(p.changes) }

// The alarms that every queue has are not shown in the history either.
func TestHistoryOfShipped(t *testing.T) {
	w := newWorld(t)
	h := New(Config{Authenticate: let, Monitor: past{w.Monitor, []monitor.Change{
		{Alarm: "orders/expired", Was: alarm.OK, State: alarm.Alarm, At: w.Now()},
		{Alarm: "mine", Was: alarm.OK, State: alarm.Alarm, At: w.Now()},
	}}})
	if _, body := ask(h, "DescribeAlarmHistory", "{}"); strings.Contains(body, "orders/expired") || !strings.Contains(body, `"mine"`) {
		t.Errorf("got %s, want what became of mine", body)
	}
}
