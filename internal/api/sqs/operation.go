package sqs

import (
	"maps"
	"slices"
	"strings"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/engine"
)

// An operation is an action of SQS: everything about it but the members of its request and its
// response.
type operation struct {
	sqswire.Operation
	newRequest func() sqswire.Shape

	// queueOf returns the queue that the action itself needs a right to. An empty name stands for
	// every queue of the account.
	queueOf func(c *call, req sqswire.Shape) engine.QueueName

	// also returns the rights that a request needs besides; nil when it never needs any.
	// [AUTH-18, AUTH-19, AUTH-48]
	also func(c *call, req sqswire.Shape) []right

	// class says when the broker refuses the operation under overload: that of its engine.Op.
	class engine.Class

	// onQueue is true when the request must name its queue as QueueUrl.
	onQueue bool

	serve func(c *call, req sqswire.Shape) (response, error)
}

// action is what a key or a policy must allow: a batch is its action several times. [AUTH-18]
func (op *operation) action() string { return strings.TrimSuffix(op.Name, "Batch") }

// rights are those that a request needs: nearly always the one for its action on its queue.
// [AUTH-18, AUTH-19, AUTH-48]
func (op *operation) rights(c *call, req sqswire.Shape) []right {
	rights := []right{{op.action(), op.queueOf(c, req)}}
	if op.also != nil {
		rights = append(rights, op.also(c, req)...)
	}
	return rights
}

// operations are the API, by name. The entries are beside their handlers.
var operations = func() map[string]*operation {
	all := make(map[string]*operation)
	for _, op := range slices.Concat(messageOperations(), queueOperations(), moveTaskOperations()) {
		all[op.Name] = op
	}
	return all
}()

func sortedOperations() []*operation {
	return slices.SortedFunc(maps.Values(operations), func(a, b *operation) int {
		return strings.Compare(a.Name, b.Name)
	})
}

// Actions are all that a key may be allowed to do here, such as sqs:SendMessage. [AUTH-18, AUTH-38]
func Actions() []string {
	var actions []string
	for _, op := range sortedOperations() {
		actions = append(actions, "sqs:"+op.action())
	}
	return slices.Compact(actions)
}

// A queuedOf is a request that names its queue as QueueUrl.
type queuedOf[R any] interface {
	*R
	Queue() sqswire.Opt[string]
}

// onQueue is an operation on the queue that its request names.
func onQueue[R any, P queuedOf[R]](name string, serve func(*call, P) (response, error)) *operation {
	op := onOther(name, func(c *call, req P) engine.QueueName {
		return c.queue(req.Queue())
	}, serve)
	op.onQueue = true
	return op
}

// void is an operation on the queue that its request names. Its answer says only that it was done.
func void[R any, P queuedOf[R]](name string, ask func(*call, P) engine.Op) *operation {
	op := onQueue(name, func(c *call, req P) (response, error) {
		return response{shape: &sqswire.Empty{}}, c.do(ask(c, req))
	})
	op.Void = true
	return op
}

// onOther is an operation whose queue is found in another way.
func onOther[R any, P interface{ *R }](
	name string, queueOf func(*call, P) engine.QueueName, serve func(*call, P) (response, error),
) *operation {
	return &operation{
		Operation:  sqswire.Operation{Name: name},
		newRequest: func() sqswire.Shape { return P(new(R)) },
		queueOf: func(c *call, req sqswire.Shape) engine.QueueName {
			return queueOf(c, req.(P))
		},
		serve: func(c *call, req sqswire.Shape) (response, error) { return serve(c, req.(P)) },
	}
}

// of sets the class of operations that are not listings.
func (op *operation) of(class engine.Class) *operation {
	op.class = class
	return op
}

// with adds the rights that an operation needs besides the one for its action.
func with[R any, P interface{ *R }](op *operation, also func(*call, P) []right) *operation {
	op.also = func(c *call, req sqswire.Shape) []right { return also(c, req.(P)) }
	return op
}

// account stands for every queue of the caller's account.
func (c *call) account() engine.QueueName {
	return engine.QueueName{Account: c.principal.Account()}
}

func (c *call) ownQueue(name string) engine.QueueName {
	return engine.QueueName{Account: c.principal.Account(), Name: name}
}
