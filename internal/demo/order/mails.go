package order

import "context"

// The mails are sent by a relay from the outbox that the workers write to, in the transaction that writes the
// order. SMTP knows no idempotency key: a worker that sent the mail itself, and died before it said so, would
// send it again. The relay is one process, and is not killed here. If it died between sending and marking it
// would send one mail again, with the same Message-ID; that is as good as mail gets.
type mails struct {
	table *table
	sent  map[string]int // mails, by order
}

func newMails(t *table) *mails { return &mails{table: t, sent: make(map[string]int)} }

// relay sends what waits in the outbox.
func (m *mails) relay(ctx context.Context) error {
	found, err := m.table.db.QueryContext(ctx, `SELECT key FROM outbox WHERE NOT sent ORDER BY key`)
	if err != nil {
		return err
	}
	var keys []string
	for found.Next() {
		var key string
		if err := found.Scan(&key); err != nil {
			return err
		}
		keys = append(keys, key)
	}
	if err := found.Err(); err != nil {
		return err
	}
	for _, key := range keys {
		m.sent[key]++ // it is on its way
		if _, err := m.table.db.ExecContext(ctx, `UPDATE outbox SET sent = TRUE WHERE key = ?`, key); err != nil {
			return err
		}
	}
	return nil
}
