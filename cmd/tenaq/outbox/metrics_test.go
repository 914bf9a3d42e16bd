package outbox

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/observe/metric/metrictest"
	"tenaq/outbox"
)

// A statsBox is an outbox that is asked how many rows there are.
type statsBox struct {
	outbox.Box
	asked int
	stats outbox.Stats
	err   error
}

func (b *statsBox) Stats(context.Context) (outbox.Stats, error) {
	b.asked++
	return b.stats, b.err
}

// A batchClient is a queue that answers with an error, if it has one.
type batchClient struct {
	outbox.SQS
	err error
}

func (c *batchClient) SendMessageBatch(context.Context, *sqs.SendMessageBatchInput, ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	return &sqs.SendMessageBatchOutput{}, c.err
}

func TestOutboxMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := &statsBox{stats: outbox.Stats{Pending: 5, Due: 3, Oldest: 90 * time.Second, Parked: 2}}
		m := NewMetrics(box)
		var log []string
		e := m.events(outbox.Events{
			Sent:   func(outbox.Row, string) { log = append(log, "sent") },
			Failed: func(outbox.Row, string, time.Duration) { log = append(log, "failed") },
			Parked: func(outbox.Row, string) { log = append(log, "parked") },
			Lost:   func(outbox.Row) { log = append(log, "lost") },
		})
		e.Sent(outbox.Row{CreatedAt: time.Now().Add(-4 * time.Second)}, "m1")
		e.Sent(outbox.Row{CreatedAt: time.Now().Add(time.Second)}, "m2") // by another clock
		e.Failed(outbox.Row{}, "no", time.Second)
		e.Parked(outbox.Row{}, "no")
		e.Lost(outbox.Row{})
		if want := []string{"sent", "sent", "failed", "parked", "lost"}; !slices.Equal(log, want) {
			t.Errorf("the log was told %q, want %q", log, want)
		}
		queue := &batchClient{}
		for _, queue.err = range []error{nil, nil, errors.New("down")} {
			_, _ = m.client(queue).SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{Entries: make([]types.SendMessageBatchRequestEntry, 3)})
		}
		rows := map[string]string{
			"tenaq_outbox_up": "1", "tenaq_outbox_pending_rows": "5", "tenaq_outbox_due_rows": "3",
			"tenaq_outbox_parked_rows": "2", "tenaq_outbox_oldest_due_age_seconds": "90",
		}
		metrictest.Want(t, metrictest.Values(t, m.Write), rows)
		metrictest.Want(t, metrictest.Values(t, m.Write), map[string]string{
			"tenaq_outbox_sent_total": "2", "tenaq_outbox_refused_total": "1", "tenaq_outbox_parked_total": "1", "tenaq_outbox_lost_total": "1",
			`tenaq_outbox_batches_total{result="answered"}`: "2", `tenaq_outbox_batches_total{result="failed"}`: "1",
			"tenaq_outbox_batch_rows_sum": "9", "tenaq_outbox_batch_rows_count": "3",
			"tenaq_outbox_wait_seconds_sum": "4", "tenaq_outbox_wait_seconds_count": "2",
		})

		// Many who scrape cost no more than one.
		box.stats, box.err = outbox.Stats{}, errors.New("no table")
		time.Sleep(StatsKeep - time.Millisecond)
		metrictest.Want(t, metrictest.Values(t, m.Write), rows)
		if box.asked != 1 {
			t.Errorf("asked %d times, want once", box.asked)
		}
		time.Sleep(time.Millisecond)
		for range 3 {
			metrictest.Want(t, metrictest.Values(t, m.Write), map[string]string{
				"tenaq_outbox_up": "0", "tenaq_outbox_pending_rows": "", "tenaq_outbox_due_rows": "", "tenaq_outbox_sent_total": "2",
			})
		}
		if box.asked != 2 {
			t.Errorf("asked %d times, want twice", box.asked)
		}
	})
}
