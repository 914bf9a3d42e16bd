package enginetest

import (
	"cmp"
	"slices"

	"tenaq/internal/engine"
)

// groups divides the messages of a FIFO queue into its groups, each in the order of its messages.
func (q *modelQueue) groups() (groups [][]*modelMessage) {
	at := make(map[string]int)
	for _, msg := range q.messages {
		name := msg.entry.Group.Value
		i, ok := at[name]
		if !ok {
			i = len(groups)
			at[name], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], msg)
	}
	for _, group := range groups {
		slices.SortFunc(group, func(a, b *modelMessage) int {
			return cmp.Compare(a.place, b.place)
		})
	}
	return groups
}

// receivableByGroup is receivable for FIFO queues: of every group the messages before the first
// that is hidden or delayed [FIFO-17], and the groups in the order in which the first message of
// each became available [FIFO-24]. A first message whose expiry is paused holds its group back.
// [FIFO-37]
func (m *Model) receivableByGroup(q *modelQueue, now int64) (ready []*modelMessage) {
	groups := m.open(q)
	slices.SortFunc(groups, func(a, b []*modelMessage) int { return q.earlier(a[0], b[0]) })
	past := 0
	for _, group := range groups {
		if head := group[0]; q.due(head) <= now && q.expired(head, now) && head.placed() {
			if past++; past > modelLooksMax {
				break
			}
		}
		for _, msg := range group {
			if q.due(msg) > now || q.expired(msg, now) {
				break
			}
			ready = append(ready, msg)
		}
	}
	return ready
}

// isFirst reports whether a message is the first one of its group.
func (q *modelQueue) isFirst(msg *modelMessage) bool {
	return !slices.ContainsFunc(q.messages, func(other *modelMessage) bool {
		return other.entry.Group.Value == msg.entry.Group.Value && other.place < msg.place
	})
}

// sequence is the sequence number of a message. Those of standard queues have none.
func (q *modelQueue) sequence(msg *modelMessage) engine.Sequence {
	if q.fifo() {
		return engine.Sequence(msg.seq)
	}
	return 0
}

// checkHandle refuses a handle of a FIFO queue that is not of the newest receive or whose message
// is no longer hidden [FIFO-31, FIFO-33, FIFO-35], and one of a standard queue that is 12 hours
// old, unless it is of the newest receive and the message is still hidden [HND-20]. With strict
// handles it refuses every one that is not of the newest receive [EXT-5].
func (q *modelQueue) checkHandle(msg *modelMessage, h engine.Handle, now int64) *engine.Error {
	held := msg.at > now && msg.generation == uint64(h.Generation)
	stale := q.is(strictHandles) && msg.generation != uint64(h.Generation)
	if !held && (q.fifo() || stale || now-h.Received >= 43200*1000) {
		return modelBadValue(h.Text, "ReceiptHandle", "The receipt handle has expired.")
	}
	return nil
}

// lacksID refuses a message for a FIFO queue that has no group id, or no deduplication id and
// cannot be given one. [FIFO-8, FIFO-9, DEDUP-4]
func (q *modelQueue) lacksID(e engine.Entry) *engine.Error {
	switch {
	case !q.fifo():
		return nil
	case !e.Group.Set:
		return modelRefusal(engine.CodeMissingParameter,
			"The request must contain the parameter MessageGroupId.")
	case !e.Dedup.Set && q.attributes["ContentBasedDeduplication"] != "true":
		return modelRefusal(engine.CodeInvalidParameter,
			"The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly")
	}
	return nil
}
