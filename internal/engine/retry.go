package engine

import "tenaq/internal/work/extension"

// The pause after a failed attempt. When a receive hides a message, the end of its timeout is
// known, and so is the pause after it. So the message goes to its place after the pause at once,
// and nothing is written or searched when the timeout ends. [EXT-17 to EXT-21]

// untilRetry returns when a message is available that was received, and whose timeout ends at a
// time: after the pause of its queue. A message that a receive would move to the dead-letter queue
// waits for no attempt. [EXT-19] No message is hidden for longer than SQS allows. [VIS-11]
func (e *Engine) untilRetry(q *queue, m *message, end int64) int64 {
	pauses := q.ext.Retry
	if pauses == (extension.Backoff{}) || q.exhausted(m) && e.deadTarget(q) != nil {
		return end
	}
	return min(end+pauses.Pause(m.Receives, m.Seq), m.LastReceive+visibilityMax*1000)
}
