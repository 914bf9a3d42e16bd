package sqs

import (
	"strings"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/engine"
)

// A right is an action on a queue.
type right struct {
	action string
	queue  engine.QueueName
}

// allow refuses an action on a queue; without a name it is on every queue of the account.
func (c *call) allow(action string, queue engine.QueueName) error {
	return c.h.cfg.Policies.Allow(c.principal, c.http, action, queue)
}

// permit refuses a request that the principal has not every right for.
func (c *call) permit(op *operation, req sqswire.Shape) error {
	if !c.principal.Signed() {
		return nil
	}
	for _, r := range op.rights(c, req) {
		if err := c.allow("sqs:"+r.action, r.queue); err != nil {
			return err
		}
	}
	if start, ok := req.(*sqswire.StartMessageMoveTaskRequest); ok && !start.DestinationARN.Set {
		return c.h.cfg.Policies.AllowReturn(c.principal, c.http, c.do)
	}
	return nil
}

// queueOfARN reads arn:aws:sqs:region:account:name. What is something else is no queue, as the
// engine will say.
func queueOfARN(arn sqswire.Opt[string]) engine.QueueName {
	parts := strings.Split(arn.Value, ":")
	if len(parts) != 6 {
		return engine.QueueName{}
	}
	return engine.QueueName{Account: parts[4], Name: parts[5]}
}
