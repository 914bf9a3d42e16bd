package pipe

import (
	"errors"
	"fmt"
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
		m := NewMetrics("orders", 4)
		var log []string
		note := func(what string) { log = append(log, what) }
		e := m.events(worker.Events{
			Received:     func(*worker.Message) { note("received") },
			Done:         func(*worker.Message, time.Duration) { note("done") },
			Failed:       func(*worker.Message, error, time.Duration) { note("failed") },
			Deferred:     func(*worker.Message, time.Duration, string) { note("deferred") },
			Busy:         func(*worker.Message, *claims.Busy) { note("busy") },
			Duplicate:    func(*worker.Message, *claims.Done) { note("duplicate") },
			DeadLettered: func(*worker.Message, string, string) { note("dead") },
			Lost:         func(*worker.Message, error) { note("lost") },
			Abandoned:    func(*worker.Message, error) { note("abandoned") },
		})
		begin := func() *worker.Message {
			msg := new(worker.Message)
			e.Received(msg)
			e.Claimed(msg, nil)
			e.Started(msg)
			return msg
		}
		bad := errors.New("no")
		done, failed, poison, given, lost, abandoned := begin(), begin(), begin(), begin(), begin(), begin()
		begin() // and never heard of again
		time.Sleep(3 * time.Second)
		e.Done(done, time.Second)
		e.Failed(failed, bad, time.Second)
		e.Failed(poison, worker.Poison(bad), time.Second)
		e.DeadLettered(poison, "no", "id")
		e.Deferred(given, time.Second, "later")
		e.Lost(lost, bad)
		e.Abandoned(abandoned, bad)

		unbegun := new(worker.Message)
		for _, err := range []error{&claims.Busy{}, fmt.Errorf("wrapped: %w", &claims.Done{}), &claims.UsedUp{}, &claims.NeedsPerson{}, bad, bad} {
			e.Claimed(unbegun, err)
		}
		e.Busy(unbegun, &claims.Busy{})
		e.Duplicate(unbegun, &claims.Done{})
		e.Deferred(unbegun, time.Second, "the ledger cannot be used")
		e.Failed(unbegun, worker.Poison(bad), 0)
		e.Lost(unbegun, bad)
		e.Beat(3, nil)
		e.Beat(2, bad)
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
		want := "received received received received received received received done failed failed dead deferred lost abandoned busy duplicate deferred failed lost"
		if got := strings.Join(log, " "); got != want {
			t.Errorf("the log was told %q, want %q", got, want)
		}
	})
}
