package enginetest

import (
	"encoding/json"

	"tenaq/internal/engine"
)

// A modelRedrive is a redrive policy. Without one its target is no name of a queue.
type modelRedrive struct {
	target engine.QueueName
	count  uint32
}

func (m *Model) redrive(policy string) modelRedrive {
	var p struct {
		DeadLetterTargetArn string
		MaxReceiveCount     uint32
	}
	if err := json.Unmarshal([]byte(policy), &p); err != nil {
		return modelRedrive{}
	}
	return modelRedrive{m.byARN(p.DeadLetterTargetArn), p.MaxReceiveCount}
}

func (m *Model) arn(name engine.QueueName) string {
	return "arn:aws:sqs:" + m.cfg.Region + ":" + name.Account + ":" + name.Name
}

// byARN is the name of the queue of the default account that an ARN names.
func (m *Model) byARN(arn string) engine.QueueName {
	return engine.QueueName{Account: accountDefault, Name: queueOfARN(arn)}
}

// checkRedrive refuses a policy for the queue of that name whose target is not there or of another
// type. [DLQ-9, DLQ-10, DLQ-14]
func (m *Model) checkRedrive(name engine.QueueName, fifo bool, policy string) *engine.Error {
	to := m.redrive(policy).target
	target := m.queues[to]
	switch {
	case policy == "" || to == name:
		return nil
	case target == nil:
		return modelBadValue(policy, "RedrivePolicy", "Dead letter target does not exist.")
	case target.fifo() != fifo:
		return modelBadValue(policy, "RedrivePolicy",
			"Dead-letter queue must be same type of queue as the source..")
	}
	return nil
}

// exhausted reports whether a message is to move instead of being delivered: it was received as
// often as the policy allows, and the dead-letter queue exists. [DLQ-2, DLQ-33]
func (m *Model) exhausted(q *modelQueue, msg *modelMessage) bool {
	r := m.redrive(q.attributes["RedrivePolicy"])
	return m.queues[r.target] != nil && msg.receives >= r.count
}

// deadLetter moves a message to the dead-letter queue, where it is available at once, and after all
// that was available before. [DLQ-22 to DLQ-31]
func (m *Model) deadLetter(q *modelQueue, msg *modelMessage) *modelMessage {
	target := m.queues[m.redrive(q.attributes["RedrivePolicy"]).target]
	q.remove(msg)
	m.end(q, msg, "dead_lettered", target.name)
	m.countTimeout(q, msg)
	m.of(q).DeadLetters.Add(1)
	m.of(target).Arrived.Add(1)
	moved := *msg
	moved.source, moved.origin = m.arn(q.name), !target.fifo()
	if target.fifo() {
		moved.base = m.now
		moved.dedup = msg.id.String()
	}
	m.enter(target, &moved, 0)
	if msg.carry(q, target, &moved); m.holds(q) {
		since := modelRank{0, m.now, msg.seq}
		if others := m.heldBy(q, msg.entry.Group.Value); len(others) > 0 {
			since = others[0].holds.since
		}
		moved.holds = modelHold{q.incarnation, q.space, msg.entry.Group.Value, msg.place, since}
	}
	moved.kind = available
	return &moved
}

// sources lists the queues whose policy names this one. [DLQ-35]
func (m *Model) sources(op *engine.ListDeadLetterSourceQueues) {
	op.Queues, op.Next = m.page(op.NextToken, op.MaxResults, func(q *modelQueue) bool {
		return m.pointsTo(q, op.Queue)
	})
}

func (m *Model) pointsTo(q *modelQueue, target engine.QueueName) bool {
	return m.redrive(q.attributes["RedrivePolicy"]).target == target
}
