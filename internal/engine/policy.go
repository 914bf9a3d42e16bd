package engine

import (
	"errors"
	"strings"

	"tenaq/internal/door/policy"
	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
)

// The access policy of a queue. The engine stores and changes it. The API applies it before it
// makes a command: ReadPolicy reads it off the writer, and TakePolicyChanges says when to read it
// again.

// setPolicy stores a policy as it was given. It never stores a policy that cannot be evaluated.
// [AUTH-22 to AUTH-24, ATTR-22]
func setPolicy(_ *Engine, a *row.Attributes, value string) *Error {
	if value == "" {
		a.Policy = ""
		return nil
	}
	_, err := policy.Parse(value)
	var excess *policy.Excess
	var unsupported *policy.Unsupported
	switch {
	case errors.As(err, &excess):
		return refuse(CodeOverLimit, excess.Reason)
	case errors.As(err, &unsupported):
		return refuse(CodeInvalidAttribute, "Invalid value for the parameter Policy. Reason: "+
			err.Error()+".")
	case err != nil:
		return errAttribute("Policy")
	}
	a.Policy = strings.Clone(value)
	return nil
}

func getPolicy(_ *Engine, q *queue) (string, bool) {
	text := q.row.Attributes.Policy
	return text, text != ""
}

// notePolicy notes that the policy of a queue has changed.
func (e *Engine) notePolicy(from, to string) {
	if from != to {
		e.policyChanged = true
	}
}

// TakePolicyChanges reports whether the policy of any queue has changed since the last call.
func (e *Engine) TakePolicyChanges() bool {
	changed := e.policyChanged
	e.policyChanged = false
	return changed
}

// ReadPolicy reads the policy of a queue. It is empty if there is none, or no such queue.
// ReadPolicy may be called on any goroutine, and sees every turn that was committed before. It
// reports rows that do not decode to fault, which must not return.
func ReadPolicy(store kv.Store, name QueueName, fault func(string)) string {
	r := rows{store: store, fault: fault}
	stored, _ := r.queue(name)
	return stored.Attributes.Policy
}

// AddPermission adds a statement to the policy of a queue that allows actions to accounts. It reads
// and writes the policy in one command, so concurrent changes are not lost.
// [AUTH-25 to AUTH-29, AUTH-43]
type AddPermission struct {
	Queue    QueueName
	Label    Text
	Accounts []string
	Actions  []string // without the prefix SQS:
}

func (op *AddPermission) apply(e *Engine, _ *Command) *Error {
	return e.changePolicy(op.Queue, op.Label, func(text, arn string) (string, error) {
		return policy.Add(text, arn, op.Label.Value, op.Accounts, op.Actions)
	})
}

// RemovePermission removes the statements with a label from the policy of a queue.
// [AUTH-30, AUTH-31]
type RemovePermission struct {
	Queue QueueName
	Label Text
}

func (op *RemovePermission) apply(e *Engine, _ *Command) *Error {
	return e.changePolicy(op.Queue, op.Label, func(text, arn string) (string, error) {
		return policy.Remove(text, arn, op.Label.Value)
	})
}

// changePolicy replaces the policy of a queue by what change makes of it.
func (e *Engine) changePolicy(
	name QueueName, label Text, change func(text, arn string) (string, error),
) *Error {
	if !label.Set {
		return errMissing("Label")
	}
	q, err := e.lookup(name)
	if err != nil {
		return err
	}
	before := q.row.Attributes.Policy
	after, refusal := change(before, e.arn(q.name))
	if refusal != nil {
		return permissionError(refusal)
	}
	q.row.Attributes.Policy, q.row.Modified = after, e.now // [ATTR-36]
	e.notePolicy(before, after)
	e.writeRow(q)
	return nil
}

// permissionError is the refusal of a permission with the code that SQS has for it.
func permissionError(err error) *Error {
	r, ok := policy.IsRefusal(err)
	switch {
	case !ok: // a policy that an earlier version of this program took, and this one does not
		return errAttribute("Policy")
	case r.Reason == policy.Missing:
		return refuse(CodeMissingParameter, r.Message)
	case r.Reason == policy.OverLimit:
		return refuse(CodeOverLimit, r.Message)
	}
	return invalid(r.Message)
}
