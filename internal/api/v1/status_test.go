package v1

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/broker"
	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

// A slowStore waits so long for the disk with each commit.
type slowStore struct {
	kv.Store
	takes *atomic.Int64 // nanoseconds
}

type slowBatch struct {
	kv.Batch
	takes *atomic.Int64 // nanoseconds
}

func (s slowStore) NewBatch() kv.Batch { return slowBatch{s.Store.NewBatch(), s.takes} }

func (b slowBatch) Force() func() error {
	takes, wait := time.Duration(b.takes.Load()), b.Batch.Force()
	return func() error { time.Sleep(takes); return wait() }
}

// The figures are those of the writer, of the requests and of what the server adds. They need no
// commit, so they come while the disk hangs. [V1-25, CONSOLE-9]
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var takes atomic.Int64
		w := newWorldOn(t, slowStore{kv.NewMemory(), &takes}, 0)
		w.useMonitor(t)
		began := time.Now().UTC()
		w.cfg.Version = "v1.2.3"
		w.cfg.Status = func(s *ServerStatus) {
			s.Region, s.Started = "eu-west-1", began
			s.Disk.ReserveBytes = 1 << 30
			s.Disk.SetFree(4<<30, 9<<30, began)
			s.Memory = MemoryStatus{ResidentBytes: 35 << 20, LimitBytes: 512 << 20, Goroutines: 42}
			s.Backups = &BackupStatus{Running: true, Taken: &began, Bytes: 12345}
		}
		ask := func() (s ServerStatus, body string) {
			t.Helper()
			status, body := w.ask("GET", "/v1/status", "", "")
			if err := json.Unmarshal([]byte(body), &s); err != nil || status != http.StatusOK {
				t.Fatalf("got %d %s: %v", status, body, err)
			}
			return s, body
		}
		submit := func(ops ...engine.Op) (pending []broker.Pending) {
			t.Helper()
			for _, op := range ops {
				p, err := w.broker.Submit(op)
				if err != nil {
					t.Fatal(err)
				}
				pending = append(pending, p)
			}
			synctest.Wait()
			return pending
		}
		q := engine.QueueName{Account: account, Name: "q"}
		send := func() engine.Op {
			return &engine.SendMessage{Queue: q, Draft: engine.NewDraft(engine.Entry{Body: engine.Text{Value: "b", Set: true}})}
		}
		poll := func() engine.Op { return &engine.ReceiveMessage{Queue: q, Wait: engine.Int{Value: 20, Set: true}} }
		synctest.Wait()
		if s, _ := ask(); s.Turns != (TurnStatus{Since: began}) || s.Requests != (RequestStatus{}) {
			t.Errorf("before the first request: %+v", s)
		}
		w.create(t, "q", "30")
		for _, d := range []time.Duration{2 * time.Millisecond, 2 * time.Millisecond, 8 * time.Millisecond} {
			takes.Store(int64(d))
			w.do(t, send())
			w.do(t, &engine.PurgeQueue{Queue: q})
			time.Sleep(time.Minute)
		}
		takes.Store(int64(10 * time.Second))
		first := submit(send())
		turn := append(submit(send(), send(), send()), first...) // three wait for the first, and then go together
		time.Sleep(time.Minute)
		for _, p := range turn {
			if err := p.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		takes.Store(0)
		w.do(t, &engine.PurgeQueue{Queue: q})
		polls := append(submit(poll()), submit(poll())...)
		time.Sleep(1500 * time.Millisecond)
		for range 3 {
			w.cfg.Intake.Ends.Add("SendMessage", "RequestThrottled", time.Now())
		}
		w.cfg.Intake.Ends.Add("v1.PeekMessages", "RequestThrottled", time.Now())
		w.cfg.Intake.Ends.Add("SendMessage", "ServiceUnavailable", time.Now())
		_, body := ask()
		// Times are the middles of the buckets of 2 ms and 10 s.
		const want = `{"version":"v1.2.3","region":"eu-west-1","started":"2000-01-01T00:00:00Z","now":"2000-01-01T00:04:01.524Z","silenceMs":1500,"sendsRefused":false,` +
			`"disk":{"freeBytes":4294967296,"totalBytes":9663676416,"at":"2000-01-01T00:00:00Z","reserveBytes":1073741824,"near":false},` +
			`"commits":{"count":13,"since":"2000-01-01T00:00:00Z","p50Ms":1.983,"p99Ms":9961.471},"turns":{"count":12,"since":"2000-01-01T00:00:00Z","p50":1,"p99":3},` +
			`"requests":{"waiting":0,"polls":2,"throttled":4},"memory":{"residentBytes":36700160,"limitBytes":536870912,"goroutines":42},` +
			`"backups":{"running":true,"taken":"2000-01-01T00:00:00Z","bytes":12345},"alarmsJudgedMs":241524}`
		if body != want+"\n" {
			t.Errorf("got  %s\nwant %s", body, want)
		}

		for _, p := range polls {
			p.Abandon()
		}
		synctest.Wait()
		takes.Store(int64(time.Hour)) // the disk hangs
		w.broker.RefuseSends(true)
		before, _ := ask()
		hung := submit(&engine.TagQueue{Queue: q, Tags: []engine.Tag{{Key: "a", Value: "b"}}})
		hung = append(hung, submit(&engine.ListQueueTags{Queue: q}, &engine.ListQueueTags{Queue: q})...)
		time.Sleep(40 * time.Second)
		s, _ := ask()
		if s.Requests.Waiting != 2 || s.SilenceMS != before.SilenceMS+40_000 || !s.SendsRefused || s.Requests.Polls != 0 || s.Commits.Count != before.Commits.Count {
			t.Errorf("while the disk hangs: got %+v, before it was %+v", s, before)
		}
		takes.Store(0)
		for _, p := range hung {
			if err := p.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// Only a key of the account of the server with the right sees the figures. A server that has none
// has no such route. [V1-25]
func TestStatusRights(t *testing.T) {
	k := newKeyed(t, keyOf("TQALL001", "*", ""), keyOf("TQVIEW01", "tenaq:ViewSettings", ""), keyOf("TQSEES01", "tenaq:Get*", ""),
		keyOf("TQOTHER1", "*", `, "account": "111122223333"`))
	has := func() bool {
		_, body := k.as(t, "key TQALL001", "GET", "/v1", "")
		_, features, _ := strings.Cut(body, `"features":[`)
		features, _, _ = strings.Cut(features, "]")
		return strings.Contains(features, `"status"`)
	}
	if status, body := k.as(t, "key TQALL001", "GET", "/v1/status", ""); status != http.StatusNotFound || has() {
		t.Errorf("without figures: got %d %s, and the feature is there: %t", status, body, has())
	}
	k.cfg.Status = func(s *ServerStatus) { s.Region = "eu-west-1" }
	if !has() {
		t.Error("the feature is not there")
	}
	for key, want := range map[string]int{"TQALL001": 200, "TQVIEW01": 200, "TQSEES01": 403, "TQOTHER1": 403} {
		status, body := k.as(t, "key "+key, "GET", "/v1/status", "")
		if status != want || strings.Contains(body, "eu-west-1") != (want == 200) {
			t.Errorf("%s: got %d %s, want %d", key, status, body, want)
		}
		if status != http.StatusOK {
			continue
		}
		if err := matchesSchema(k.Handler, httptest.NewRequest("GET", "/v1/status", nil), status, body); err != nil {
			t.Error(err)
		}
	}
}

// A disk is near its reserve while less than four times that is free, and without a reserve while
// less than 256 MiB is. [V1-25]
func TestDiskNear(t *testing.T) {
	for _, test := range []struct {
		free, reserve int64
		near          bool
	}{
		{4<<30 - 1, 1 << 30, true}, {4 << 30, 1 << 30, false}, {0, 1 << 30, true}, {256<<20 - 1, 0, true}, {256 << 20, 0, false},
		{256 << 20, -1, false}, {1 << 62, 1 << 62, true}, {300 << 20, 10, false},
	} {
		if got := IsDiskNear(test.free, test.reserve); got != test.near {
			t.Errorf("%d free of a reserve of %d: got %t", test.free, test.reserve, got)
		}
	}
}
