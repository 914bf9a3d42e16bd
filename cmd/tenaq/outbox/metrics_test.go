package outbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/cli"
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

func TestOutboxMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := &statsBox{stats: outbox.Stats{Pending: 5, Due: 3, Oldest: 90 * time.Second, Parked: 2}}
		m := NewMetrics(box)
		var log bytes.Buffer
		e := m.events(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
		e.Sent(outbox.Row{Message: outbox.Message{ID: "1", Queue: "q"}, CreatedAt: time.Now().Add(-4 * time.Second)}, "m1")
		e.Sent(outbox.Row{CreatedAt: time.Now().Add(time.Second)}, "m2") // by another clock
		e.Failed(outbox.Row{}, "no", time.Second)
		e.Parked(outbox.Row{}, "no")
		e.Lost(outbox.Row{})
		for _, want := range []string{"msg=sent id=1 queue=q ", " again_in=1s reason=no\n", `msg="set aside" `, `msg="lost: `} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("got the log %q, want %q in it", &log, want)
			}
		}
		for _, err := range []error{nil, nil, errors.New("down")} {
			m.count(3, err)
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

// Once a minute there is a line, if there is anything to say.
func TestSummaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		m := NewMetrics(&statsBox{})
		ticks := make(chan time.Time)
		go m.summaries(t.Context(), log, ticks)
		want := func(count int, last string) {
			t.Helper()
			ticks <- time.Time{}
			synctest.Wait()
			if got := text.String(); strings.Count(got, "msg=relayed") != count || !strings.HasSuffix(got, last) {
				t.Errorf("got %q, want %d summaries and %q at the end", got, count, last)
			}
		}
		e := m.events(log)
		want(0, "")
		e.Sent(outbox.Row{}, "m1")
		e.Sent(outbox.Row{}, "m2")
		e.Failed(outbox.Row{}, "no", time.Second)
		e.Parked(outbox.Row{}, "no")
		want(1, "sent=2 refused=1 parked=1 lost=0\n")
		want(1, "sent=2 refused=1 parked=1 lost=0\n")
		e.Lost(outbox.Row{})
		want(2, "sent=0 refused=0 parked=0 lost=1\n")
		if got, want := m.relayed(), (relayed{2, 1, 1, 1}); got != want {
			t.Errorf("got %+v in all, want %+v", got, want)
		}
	})
}

// A relay run from cron reports a database that does not answer.
func TestVerdictWithoutDatabase(t *testing.T) {
	var out bytes.Buffer
	place, err := newSQLite("app.db")
	if err != nil {
		t.Fatal(err)
	}
	o := &openOutbox{place: place}
	err = o.verdict(t.Context(), &cli.App{Stdout: &out, JSON: true}, NewMetrics(&statsBox{}), nil, errors.New("no table"))
	if cli.ExitCode(err) != cli.ExitFailed || !strings.Contains(err.Error(), "the outbox does not say what is left: no table") || !strings.Contains(out.String(), `"left": null`) {
		t.Errorf("got %v with exit code %d, and %s; want %d, with nothing known of what is left", err, cli.ExitCode(err), &out, cli.ExitFailed)
	}
}

// An asideBox has rows that were set aside.
type asideBox struct {
	rows []outbox.ParkedRow
	read int
}

func (b *asideBox) Parked(_ context.Context, after string, limit int) ([]outbox.ParkedRow, error) {
	from := slices.IndexFunc(b.rows, func(r outbox.ParkedRow) bool { return r.ID == after }) + 1
	page := b.rows[from:min(from+limit, len(b.rows))]
	b.read += len(page)
	return page, nil
}

// A report has what fits, whatever programs have written into their rows, and never their bodies.
// [V1-21]
func TestParkedReport(t *testing.T) {
	for _, tt := range []struct {
		name            string
		rows, body, key int // number of rows, and sizes
		most            int // rows in the report
		more            bool
		read            int // rows
	}{
		{"none", 0, 0, 0, 0, false, 0},
		{"few", 12, 10, 10, 12, false, 12},
		{"as many as fit", 100, 10, 10, 100, false, 110}, // the last page is read again
		{"many", 1000, 10, 10, 100, true, 110},
		{"large keys", 1000, 10, 5000, 50, true, 110},
		{"large bodies", 1000, 1 << 20, 10, 5, true, 10},
	} {
		b := &asideBox{}
		for i := range tt.rows {
			b.rows = append(b.rows, outbox.ParkedRow{Row: outbox.Row{Message: outbox.Message{
				ID: fmt.Sprintf("%04d", i), Queue: "orders", Key: strings.Repeat("k", tt.key), Body: strings.Repeat("s", tt.body),
			}, Attempts: 10}, Reason: strings.Repeat("r", tt.key), At: time.Unix(int64(i), 0)})
		}
		got, err := parkedReport(t.Context(), b.Parked)
		body, _ := json.Marshal(got)
		if err != nil || len(got.Rows) != tt.most || got.More != tt.more || b.read != tt.read || len(body) > 1<<16 || bytes.Contains(body, []byte("sssss")) {
			t.Errorf("%s: %d bytes, %d rows of %d read, more %t, error %v; want %+v", tt.name, len(body), len(got.Rows), b.read, got.More, err, tt)
		}
	}
}

// A report is not taken for whole when a row that a page follows was released meanwhile, whether
// the pages end there or begin anew. [V1-21, V1-27]
func TestParkedReportMeanwhile(t *testing.T) {
	all := make([]outbox.ParkedRow, 25)
	for i := range all {
		all[i] = outbox.ParkedRow{Row: outbox.Row{Message: outbox.Message{ID: fmt.Sprintf("%04d", i)}}}
	}
	for _, anew := range []bool{false, true} {
		rows, pages := slices.Clone(all), 0
		got, err := parkedReport(t.Context(), func(_ context.Context, after string, most int) ([]outbox.ParkedRow, error) {
			if pages++; pages == 2 {
				rows = slices.Delete(rows, 9, 10) // what the first page ended with
			}
			from := slices.IndexFunc(rows, func(r outbox.ParkedRow) bool { return r.ID == after }) + 1
			if from == 0 && after != "" && !anew {
				return nil, nil
			}
			return rows[from:min(from+most, len(rows))], nil
		})
		ids := make(map[string]bool)
		for _, r := range got.Rows {
			ids[r.ID] = true
		}
		if err != nil || len(ids) != len(got.Rows) || len(got.Rows) < 24 && !got.More {
			t.Errorf("anew %t: %d rows, %d different, more %t, error %v", anew, len(got.Rows), len(ids), got.More, err)
		}
	}
}
