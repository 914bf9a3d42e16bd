package cloudwatch

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"tenaq/internal/door/auth"
	"tenaq/internal/door/credentials"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/observe/series"
)

// The signature, the target or the path names the service. A request that names another service, or
// none, is not for this one.
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

// open lets every request in.
var open = auth.New(auth.Config{Account: "000000000000"})

// closed returns a door for keys that may do everything, nothing, and something in another account.
func closed(t *testing.T) *auth.Door {
	path := filepath.Join(t.TempDir(), "keys.json")
	keys := `{"credentials": [
		{"id": "TQALL001", "secret": "a-secret-of-all-the-keys", "allow": ["*"]},
		{"id": "TQSEND01", "secret": "a-secret-of-the-sender", "allow": ["sqs:*"]},
		{"id": "TQOTHER1", "secret": "a-secret-of-the-other", "account": "111122223333", "allow": ["*"]}]}`
	if err := os.WriteFile(path, []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := credentials.Open(credentials.Config{File: path})
	if err != nil {
		t.Fatal(err)
	}
	return auth.New(auth.Config{Credentials: set, Account: "000000000000", Region: "us-east-1"})
}

// Nothing is read before the door has let the request in.
func TestAuthenticate(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Body = io.NopCloser(readFunc(func([]byte) (int, error) {
		t.Error("the body was read")
		return 0, io.EOF
	}))
	r.Header.Set("X-Amz-Target", targetPrefix+"ListMetrics")
	rec := httptest.NewRecorder()
	New(Config{Monitor: newWorld(t).Monitor, Door: closed(t)}).ServeHTTP(rec, r)
	if got := fmt.Sprint(rec.Code, " ", exact(rec.Header(), "x-amzn-query-error")[0]); got != "403 MissingAuthenticationToken;Sender" {
		t.Errorf("got %s", got)
	}
}

// The signature is of the body as it came, before it is inflated, and the key is asked before the
// action runs.
func TestFinish(t *testing.T) {
	var sent bytes.Buffer
	z := gzip.NewWriter(&sent)
	z.Write([]byte("{}"))
	z.Close()
	h := New(Config{Monitor: newWorld(t).Monitor, Door: closed(t)})
	for name, test := range map[string]struct {
		signed, body, id, secret string
		want                     string
	}{
		"let":             {sent.String(), sent.String(), "TQALL001", "a-secret-of-all-the-keys", "200"},
		"a wrong body":    {sent.String(), "no gzip", "TQALL001", "a-secret-of-all-the-keys", "403 SignatureDoesNotMatch;Sender"},
		"broken gzip":     {"no gzip", "no gzip", "TQALL001", "a-secret-of-all-the-keys", "400 MalformedInput;Sender"},
		"a wrong action":  {sent.String(), sent.String(), "TQSEND01", "a-secret-of-the-sender", "403 AccessDenied;Sender"},
		"another account": {sent.String(), sent.String(), "TQOTHER1", "a-secret-of-the-other", "403 AccessDenied;Sender"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(test.body))
		r.Header.Set("X-Amz-Target", targetPrefix+"ListMetrics")
		r.Header.Set("Content-Encoding", "gzip")
		sum := sha256.Sum256([]byte(test.signed))
		if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: test.id, SecretAccessKey: test.secret}, r,
			hex.EncodeToString(sum[:]), "monitoring", "us-east-1", time.Now()); err != nil {
			t.Fatal(err)
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if got := strings.TrimSpace(fmt.Sprint(rec.Code, " ", strings.Join(exact(rec.Header(), "x-amzn-query-error"), ""))); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }

// broken is a monitor whose disk is.
type broken struct{ *monitor.Monitor }

func (broken) Put(monitor.Definition) error {
	return errors.New("write /secret/alarms.json: no space left on device")
}

// full is a monitor that has no room.
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
func (full) History() []monitor.Change                            { return nil }
func (f full) Now() time.Time                                     { return f.m.Now() }

// Internal errors go to the log; a request for which there is no room is refused.
func TestFailures(t *testing.T) {
	const put = `{"AlarmName":"a","Namespace":"N","MetricName":"M","Statistic":"Sum","Period":60,"EvaluationPeriods":1,"Threshold":0,"ComparisonOperator":"GreaterThanThreshold"}`
	w := newWorld(t)
	var log bytes.Buffer
	h := New(Config{Monitor: broken{w.Monitor}, Door: open, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	status, body := ask(h, "PutMetricAlarm", put)
	if status != 500 || !strings.Contains(body, "#InternalServiceFault") || strings.Contains(body, "secret") || !strings.Contains(log.String(), "no space left") {
		t.Errorf("got %d %s, log %s, want what happened in the log only", status, body, &log)
	}

	h = New(Config{Monitor: full{w.Monitor, series.New(series.Config{MetricsMax: 1})}, Door: open})
	if status, body = ask(h, "PutMetricAlarm", put); status != 400 || !strings.Contains(body, "#LimitExceededFault") {
		t.Errorf("got %d %s, want LimitExceededFault", status, body)
	}
	if status, body = ask(h, "PutMetricData", `{"Namespace":"N","MetricData":[{"MetricName":"a","Value":1},{"MetricName":"b","Value":1}]}`); status != 400 {
		t.Errorf("got %d %s, want a refusal of one metric too many", status, body)
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
	h := New(Config{Door: open, Monitor: past{w.Monitor, []monitor.Change{
		{Alarm: "orders/expired", Was: alarm.OK, State: alarm.Alarm, At: w.Now()},
		{Alarm: "mine", Was: alarm.OK, State: alarm.Alarm, At: w.Now()},
	}}})
	if _, body := ask(h, "DescribeAlarmHistory", "{}"); strings.Contains(body, "orders/expired") || !strings.Contains(body, `"mine"`) {
		t.Errorf("got %s, want what became of mine", body)
	}
}
