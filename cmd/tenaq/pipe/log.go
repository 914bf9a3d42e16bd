package pipe

import (
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"time"

	"tenaq/claims"
	"tenaq/worker"
)

// A pipeLog writes a line for everything that happens to a message, and counts.
type pipeLog struct {
	*slog.Logger
	queue string

	received, done, failed, deferred, busy, duplicate, deadLettered, lost atomic.Int64
}

// events go to the log, and to what ends the worker. That hears of the deletion of a message from the client.
func (l *pipeLog) events(end *pipeEnd) worker.Events {
	return worker.Events{
		Received: func(m *worker.Message) {
			l.received.Add(1)
			l.about(m).Info("received", "receives", m.Receives)
		},
		Done: func(m *worker.Message, took time.Duration) {
			l.done.Add(1)
			l.about(m).Info("done", "attempt", m.Attempt(), "took", took.Round(time.Millisecond))
		},
		Failed: func(m *worker.Message, err error, took time.Duration) {
			end.givenBack(m.ID)
			l.failed.Add(1)
			l.about(m).Warn("failed", "attempt", m.Attempt(), "took", took.Round(time.Millisecond), "error", err)
		},
		Deferred: func(m *worker.Message, after time.Duration, reason string) {
			end.givenBack(m.ID)
			l.deferred.Add(1)
			l.about(m).Info("given back", "for", after.Round(time.Millisecond), "reason", reason)
		},
		Busy: func(m *worker.Message, busy *claims.Busy) {
			end.givenBack(m.ID)
			l.busy.Add(1)
			l.about(m).Info("busy", "owner", busy.Owner, "retry-in", busy.RetryIn.Round(time.Millisecond))
			l.checkMemo(m, busy.Memo)
		},
		Duplicate: func(m *worker.Message, done *claims.Done) {
			l.duplicate.Add(1)
			l.about(m).Info("duplicate", "done-by", done.Owner)
			l.checkMemo(m, done.Memo)
		},
		DeadLettered: func(m *worker.Message, reason, deadID string) {
			l.deadLettered.Add(1)
			l.about(m).Warn("dead-lettered", "reason", reason, "dead-letter", deadID)
		},
		Lost: func(m *worker.Message, err error) {
			end.givenBack(m.ID)
			l.lost.Add(1)
			l.about(m).Warn("lost", "error", err)
		},
		Abandoned: func(m *worker.Message, cause error) { end.givenBack(m.ID) }, // the worker itself says so
	}
}

func (l *pipeLog) about(m *worker.Message) *slog.Logger { return l.With("key", m.Key, "message", m.ID) }

// checkMemo warns of a key that was first claimed for another queue. That is right when the message came here from there.
// It is wrong when two queues mean different work by one key: then the second is never done.
func (l *pipeLog) checkMemo(m *worker.Message, text []byte) {
	var memo pipeMemo
	if json.Unmarshal(text, &memo) == nil && memo.Queue != "" && memo.Queue != l.queue {
		l.about(m).Warn("this key was first claimed for a message of another queue; if that was different work, give one of them a --ledger of its own",
			"other-queue", memo.Queue)
	}
}

// summary counts what has happened.
func (l *pipeLog) summary() {
	l.Info("stopped",
		"received", l.received.Load(), "done", l.done.Load(), "failed", l.failed.Load(), "given-back", l.deferred.Load(),
		"busy", l.busy.Load(), "duplicate", l.duplicate.Load(), "dead-lettered", l.deadLettered.Load(), "lost", l.lost.Load())
}
