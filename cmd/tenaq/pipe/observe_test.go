package pipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/claims"
	"tenaq/internal/observe/metric/metrictest"
	"tenaq/worker"
)

func TestWorkerMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := NewObserver(slog.New(slog.NewTextHandler(&log, nil)), "orders", 4)
		e := m.events(newPipeEnd(nil, "", false, m.log, nil))
		begin := func() *worker.Message {
			msg := new(worker.Message)
			e.Received(msg)
			e.Claimed(msg, nil)
			_ = m.around(t.Context(), []*worker.Message{msg}, func(context.Context) error { return nil })
			return msg
		}
		bad := errors.New("no")
		done, failed, poison, given, lost, abandoned := begin(), begin(), begin(), begin(), begin(), begin()
		begin() // and never heard of again
		time.Sleep(3 * time.Second)
		e.Outcome(done, worker.Outcome{Kind: worker.Done, Took: time.Second})
		e.Outcome(failed, worker.Outcome{Kind: worker.Failed, Err: bad, Took: time.Second})
		e.Outcome(poison, worker.Outcome{Kind: worker.Failed, Err: worker.Poison(bad), Took: time.Second})
		e.Outcome(poison, worker.Outcome{Kind: worker.DeadLettered, Reason: "no", DeadID: "id"})
		e.Outcome(given, worker.Outcome{Kind: worker.Deferred, After: time.Second, Reason: "later"})
		e.Outcome(lost, worker.Outcome{Kind: worker.Lost, Err: bad})
		e.Outcome(abandoned, worker.Outcome{Kind: worker.Abandoned, Err: bad})

		unbegun := new(worker.Message)
		for _, err := range []error{
			&claims.Refused{Why: claims.Busy}, fmt.Errorf("wrapped: %w", &claims.Refused{Why: claims.Done}),
			&claims.Refused{Why: claims.UsedUp}, &claims.Refused{Why: claims.NeedsPerson}, bad, bad,
		} {
			e.Claimed(unbegun, err)
		}
		e.Outcome(unbegun, worker.Outcome{Kind: worker.Busy, Err: &claims.Refused{Why: claims.Busy}})
		e.Outcome(unbegun, worker.Outcome{Kind: worker.Duplicate, Err: &claims.Refused{Why: claims.Done}})
		e.Outcome(unbegun, worker.Outcome{Kind: worker.Deferred, After: time.Second, Reason: "the ledger cannot be used"})
		e.Outcome(unbegun, worker.Outcome{Kind: worker.Failed, Err: worker.Poison(bad)})
		e.Outcome(unbegun, worker.Outcome{Kind: worker.Lost, Err: bad})
		e.Renewed(3, nil)
		e.Renewed(2, bad)
		e.QueueError("receive", 1, bad)
		e.QueueError("send to the dead-letter queue", 1, bad)
		e.QueueError("dance", 1, bad)

		metrictest.Want(t, metrictest.Values(t, m.Write), map[string]string{
			`tenaq_worker_received_total{queue="orders"}`:                             "7",
			`tenaq_worker_claims_total{queue="orders",outcome="won"}`:                 "7",
			`tenaq_worker_claims_total{queue="orders",outcome="busy"}`:                "1",
			`tenaq_worker_claims_total{queue="orders",outcome="done"}`:                "1",
			`tenaq_worker_claims_total{queue="orders",outcome="exhausted"}`:           "1",
			`tenaq_worker_claims_total{queue="orders",outcome="parked"}`:              "1",
			`tenaq_worker_claims_total{queue="orders",outcome="unknown"}`:             "2",
			`tenaq_worker_attempts_total{queue="orders",attempt="first"}`:             "7",
			`tenaq_worker_attempts_total{queue="orders",attempt="repeated"}`:          "0",
			`tenaq_worker_handled_total{queue="orders",result="succeeded"}`:           "1",
			`tenaq_worker_handled_total{queue="orders",result="failed"}`:              "1",
			`tenaq_worker_handled_total{queue="orders",result="poison"}`:              "2",
			`tenaq_worker_handled_total{queue="orders",result="given_back"}`:          "1",
			`tenaq_worker_handled_total{queue="orders",result="lost"}`:                "1",
			`tenaq_worker_handled_total{queue="orders",result="abandoned"}`:           "1",
			`tenaq_worker_handling_seconds_sum{queue="orders"}`:                       "18",
			`tenaq_worker_handling_seconds_count{queue="orders"}`:                     "6",
			`tenaq_worker_running{queue="orders"}`:                                    "1",
			`tenaq_worker_concurrency{queue="orders"}`:                                "4",
			`tenaq_worker_given_back_total{queue="orders"}`:                           "2",
			`tenaq_worker_lost_total{queue="orders"}`:                                 "2",
			`tenaq_worker_dead_lettered_total{queue="orders"}`:                        "1",
			`tenaq_worker_lease_renewals_total{queue="orders",result="renewed"}`:      "3",
			`tenaq_worker_lease_renewals_total{queue="orders",result="failed"}`:       "2",
			`tenaq_worker_queue_errors_total{queue="orders",operation="receive"}`:     "1",
			`tenaq_worker_queue_errors_total{queue="orders",operation="dead_letter"}`: "1",
			`tenaq_worker_queue_errors_total{queue="orders",operation="other"}`:       "1",
		})
		var said []string
		for _, line := range regexp.MustCompile(`msg=("[^"]+"|\S+)`).FindAllStringSubmatch(log.String(), -1) {
			said = append(said, strings.Trim(line[1], `"`))
		}
		want := "received received received received received received received done failed failed dead-lettered given back lost busy duplicate given back failed lost"
		if got := strings.Join(said, " "); got != want {
			t.Errorf("logged %q, want %q", got, want)
		}
		log.Reset()
		m.summary()
		if want := "msg=stopped received=7 done=1 failed=3 given_back=2 busy=1 duplicate=1 dead_lettered=1 lost=2\n"; !strings.HasSuffix(log.String(), want) {
			t.Errorf("logged %q, want %q", &log, want)
		}
	})
}
