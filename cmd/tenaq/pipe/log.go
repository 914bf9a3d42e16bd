package pipe

import (
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"tenaq/claims"
	"tenaq/worker"
)

// A pipeLog logs and counts the events of messages.
type pipeLog struct {
	*slog.Logger
	queue string

	received, done, failed, deferred, busy, duplicate, deadLettered, lost atomic.Int64
}

// events go to the log, and to what ends the worker; that sees deletions as the client of the
// worker.
func (l *pipeLog) events(end *pipeEnd) worker.Events {
	return worker.Events{
		Received: func(m *worker.Message) {
			l.received.Add(1)
			l.about(m).Info("received", "receives", m.Receives)
		},
		Outcome: func(m *worker.Message, o worker.Outcome) {
			l.outcome(m, o)
			if !deleted(o.Kind) {
				end.givenBack(m.ID)
			}
		},
	}
}

// deleted reports whether the worker deletes a message next.
func deleted(k worker.Kind) bool {
	return k == worker.Done || k == worker.Duplicate || k == worker.DeadLettered
}

// outcome writes a line about what became of a message.
func (l *pipeLog) outcome(m *worker.Message, o worker.Outcome) {
	log, refused := l.about(m), new(claims.Refused)
	if r, ok := errors.AsType[*claims.Refused](o.Err); ok {
		refused = r
	}
	switch o.Kind {
	case worker.Done:
		l.done.Add(1)
		log.Info("done", "attempt", m.Attempt(), "took", o.Took.Round(time.Millisecond))
	case worker.Failed:
		l.failed.Add(1)
		log.Warn("failed", "attempt", m.Attempt(), "took", o.Took.Round(time.Millisecond), "error",
			o.Err)
	case worker.Deferred:
		l.deferred.Add(1)
		log.Info("given back", "for", o.After.Round(time.Millisecond), "reason", o.Reason)
	case worker.Busy:
		l.busy.Add(1)
		log.Info("busy", "owner", refused.Owner, "retry_in", o.After.Round(time.Millisecond))
		l.checkMemo(m, refused.Memo)
	case worker.Duplicate:
		l.duplicate.Add(1)
		log.Info("duplicate", "done_by", refused.Owner)
		l.checkMemo(m, refused.Memo)
	case worker.DeadLettered:
		l.deadLettered.Add(1)
		log.Warn("dead-lettered", "reason", o.Reason, "dead_letter", o.DeadID)
	case worker.Lost:
		l.lost.Add(1)
		log.Warn("lost", "error", o.Err)
	}
}

func (l *pipeLog) about(m *worker.Message) *slog.Logger {
	return l.With("key", m.Key, "message", m.ID)
}

// checkMemo warns of a key that was first claimed for another queue. That is right if the message
// moved here from there. If two queues use one key for different work, the second piece of work is
// never done.
func (l *pipeLog) checkMemo(m *worker.Message, text []byte) {
	var memo pipeMemo
	if json.Unmarshal(text, &memo) == nil && memo.Queue != "" && memo.Queue != l.queue {
		l.about(m).Warn("this key was first claimed for another queue; if that was different work, give one of them a --ledger of its own",
			"other_queue", memo.Queue)
	}
}

// summary logs the counts.
func (l *pipeLog) summary() {
	l.Info("stopped",
		"received", l.received.Load(), "done", l.done.Load(), "failed", l.failed.Load(),
		"given_back", l.deferred.Load(),
		"busy", l.busy.Load(), "duplicate", l.duplicate.Load(), "dead_lettered",
		l.deadLettered.Load(), "lost", l.lost.Load())
}
