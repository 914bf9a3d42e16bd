package pgoutbox

import (
	"testing"
	"time"

	"tenaq/internal/testing/pgtest"
	"tenaq/outbox"
)

// The id of a row that was deleted with the triggers off may be that of a new row. State about the
// old row does not keep the new one from being settled.
func TestSettleIDUsedBefore(t *testing.T) {
	u := pgtest.URL(t)
	b := over(t, u, Config{})
	exec(t, u, `INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT 'q', 'k', n::text FROM generate_series(1, 3) n`)
	exec(t, u, `INSERT INTO outbox_sent SELECT id, '2026-01-01Z', 'before', 'before', 9, 0 FROM outbox WHERE payload = '2'`)
	rows, _, err := b.Claim(t.Context(), outbox.Claim{Relay: "r", Lease: time.Minute, Rows: 10, Bytes: 1000, Stream: 10})
	if err != nil || len(rows) != 3 {
		t.Fatal(rows, err)
	}
	var outcomes []outbox.Outcome
	for _, r := range rows {
		outcomes = append(outcomes, outbox.Outcome{ID: r.ID, Fate: outbox.Sent, SentTo: "q", MessageID: "m" + r.Body})
	}
	if err := b.Settle(t.Context(), "r", outcomes); err != nil {
		t.Fatal(err)
	}
	_, past, err := b.Look(t.Context(), outbox.Source{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)}, 10)
	if err != nil || len(past) != 3 {
		t.Fatal(past, err)
	}
	for _, p := range past {
		if p.SentTo != "q" || p.MessageID != "m"+p.Body {
			t.Errorf("row %s went to %s as %s", p.Body, p.SentTo, p.MessageID)
		}
	}
	if s, err := b.Stats(t.Context()); err != nil || s.Pending != 0 {
		t.Errorf("%d rows are pending, %v", s.Pending, err)
	}
}

// A database whose transactions are read-only by default, and not serializable, needs a transaction
// for each call, and gets one.
func TestReadOnlyByDefault(t *testing.T) {
	u := pgtest.URL(t)
	over(t, u, Config{})
	exec(t, u, `INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ('q', 'k', 'one')`)
	b, err := New(Config{URL: u + "&default_transaction_read_only=on"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if got := bodies(t, b); got != "one" {
		t.Errorf("%q was claimed", got)
	}
	if err := b.Wait(t.Context(), time.Millisecond); err != nil {
		t.Error(err)
	}
}
