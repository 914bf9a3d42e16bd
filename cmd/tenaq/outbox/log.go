package outbox

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"tenaq/outbox"
)

// An eventLog tells what a relay does: of each row to who debugs it, and to all others once a minute.
type eventLog struct {
	*slog.Logger

	mu           sync.Mutex
	total, since relayed // in all, and since the last summary
}

// A relayed counts what has become of rows.
type relayed struct{ sent, refused, parked, lost int }

func NewLog(logger *slog.Logger) *eventLog { return &eventLog{Logger: logger} }

func (l *eventLog) events() outbox.Events {
	return outbox.Events{
		Sent: func(r outbox.Row, messageID string) {
			l.count(func(n *relayed) { n.sent++ })
			l.about(&r).Debug("sent", "message", messageID, "after", time.Since(r.CreatedAt).Round(time.Millisecond))
		},
		Failed: func(r outbox.Row, reason string, after time.Duration) {
			l.count(func(n *relayed) { n.refused++ })
			l.about(&r).Debug("refused", "attempt", r.Attempts+1, "again-in", after.Round(time.Millisecond), "reason", reason)
		},
		Parked: func(r outbox.Row, reason string) { // the relay itself says so, too
			l.count(func(n *relayed) { n.parked++ })
			l.about(&r).Debug("parked", "reason", reason)
		},
		Lost: func(r outbox.Row) {
			l.count(func(n *relayed) { n.lost++ })
			l.about(&r).Debug("lost: its lease ended, and another relay sends it")
		},
	}
}

func (l *eventLog) about(r *outbox.Row) *slog.Logger {
	return l.With("id", r.ID, "queue", r.Queue, "key", r.Key)
}

func (l *eventLog) count(one func(*relayed)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one(&l.total)
	one(&l.since)
}

// summaries says at each tick what happened since the one before, if anything did.
func (l *eventLog) summaries(ctx context.Context, ticks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
			l.mu.Lock()
			n := l.since
			l.since = relayed{}
			l.mu.Unlock()
			if n != (relayed{}) {
				l.Info("relayed", n.attributes()...)
			}
		}
	}
}

// stopped says what happened in all.
func (l *eventLog) stopped() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Info("stopped", l.total.attributes()...)
}

func (n relayed) attributes() []any {
	return []any{"sent", n.sent, "refused", n.refused, "parked", n.parked, "lost", n.lost}
}
