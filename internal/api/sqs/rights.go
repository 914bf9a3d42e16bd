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
		return c.permitReturn()
	}
	return nil
}

// permitReturn refuses to bring the messages of a dead-letter queue back to where they came from,
// unless the principal may send to every queue of the account: its key allows it, and the policy of
// none of them denies it. Each message says itself where it came from, and that need not be a queue
// that has the dead-letter queue now. [AUTH-48]
func (c *call) permitReturn() error {
	account := c.principal.Account()
	if err := c.allow("sqs:SendMessage", engine.QueueName{Account: account}); err != nil {
		return err
	}
	list := &engine.ListQueues{Account: account,
		MaxResults: engine.Int{Value: returnPage, Set: true}}
	for {
		if err := c.do(list); err != nil {
			return err
		}
		for _, queue := range list.Queues {
			if err := c.allow("sqs:SendMessage", queue); err != nil {
				return err
			}
		}
		if list.NextToken = list.Next; list.NextToken == "" {
			return nil
		}
	}
}

// returnPage is how many queues are asked for at a time, the most that a listing has. [QUEUE-24]
const returnPage = 1000

// queueOfARN reads arn:aws:sqs:region:account:name. What is something else is no queue, as the
// engine will say.
func queueOfARN(arn sqswire.Opt[string]) engine.QueueName {
	parts := strings.Split(arn.Value, ":")
	if len(parts) != 6 {
		return engine.QueueName{}
	}
	return engine.QueueName{Account: parts[4], Name: parts[5]}
}
