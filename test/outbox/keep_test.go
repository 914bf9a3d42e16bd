package outbox_test

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/testing/sqstest"
	"tenaq/outbox"
	"tenaq/outbox/sqliteoutbox"
)

// A record is what the tables of an outbox say about a message.
type record struct{ Body, Queue, MessageID string }

// Usual: an expired message has left no trace, and 14 days are the limit. Ours: its row and its
// message id are in the database of the program, within reach of SQL, for as long as Config.Keep
// says.
func TestExpiredIsInTheTables_FD11_FD16(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := sqstest.New(t)
		url := server.Queue(t, "jobs", "MessageRetentionPeriod", "1209600") // 14 days, the most
		db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(20000)&_txlock=immediate")
		must(t, err)
		t.Cleanup(func() { db.Close() })
		box, err := sqliteoutbox.New(sqliteoutbox.Config{DB: db})
		must(t, err)
		must(t, box.Migrate(t.Context()))
		_, err = db.ExecContext(t.Context(), "INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ('jobs', '17', 'unread')")
		must(t, err)
		var messageID string
		relayFor(t, outbox.Config{
			Box: box, Client: server.Client(),
			Events: outbox.Events{Sent: func(_ outbox.Row, id string) { messageID = id }},
		})

		time.Sleep(20 * 24 * time.Hour)
		got, err := server.Client().ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url})
		must(t, err)
		if len(got.Messages) != 0 {
			t.Fatalf("after 20 days the queue has %q", aws.ToString(got.Messages[0].Body))
		}
		// SQLite asks the machine for the time, which knows nothing of these days.
		_, err = db.ExecContext(t.Context(), "UPDATE outbox_sent SET sent_at = sent_at - 20 * 24 * 60 * 60 * 1000")
		must(t, err)

		there := record{"unread", "jobs", messageID}
		for _, test := range []struct {
			keep time.Duration
			want record
		}{{-1, there}, {0, there}, {21 * 24 * time.Hour, there}, {19 * 24 * time.Hour, record{}}} {
			relayFor(t, outbox.Config{Box: box, Client: server.Client(), Keep: test.keep})
			var got record
			err = db.QueryRowContext(t.Context(), `SELECT o.payload, s.queue, s.message_id FROM outbox o JOIN outbox_sent s ON s.id = o.id`).
				Scan(&got.Body, &got.Queue, &got.MessageID)
			if err != nil && err != sql.ErrNoRows || got != test.want {
				t.Errorf("kept for %v, after 20 days there is %+v, error %v; want %+v", test.keep, got, err, test.want)
			}
		}
	})
}

// relayFor runs a relay for a while, in which it removes what was sent too long ago.
func relayFor(t *testing.T, cfg outbox.Config) {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	relay, err := outbox.New(cfg)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	must(t, relay.Run(ctx))
}
