package engine

import (
	"encoding/json"
	"slices"
	"strings"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/sqslimits"
)

// errRedrive refuses a redrive policy. [DLQ-5]
func errRedrive(value, reason string) *Error { return errValue(value, "RedrivePolicy", reason) }

// setRedrive parses a redrive policy. checkRedrive checks its target.
// [DLQ-3 to DLQ-8, DLQ-12]
func setRedrive(e *Engine, a *row.Attributes, value string) *Error {
	if value == "" { // [ATTR-22]
		a.Redrive = row.Redrive{}
		return nil
	}
	var policy map[string]json.RawMessage
	if err := json.Unmarshal([]byte(value), &policy); err != nil || policy == nil {
		return refuse(CodeInvalidAttribute,
			"Invalid value for the parameter RedrivePolicy. Reason: Redrive policy is not a valid JSON map.")
	}
	for _, name := range []string{"maxReceiveCount", "deadLetterTargetArn"} {
		if _, ok := policy[name]; !ok {
			return errRedrive(value, "Redrive policy does not contain mandatory attribute: "+name+
				".")
		}
	}
	if len(policy) > 2 {
		return errRedrive(value, "Only following attributes are supported: [maxReceiveCount, deadLetterTargetArn].")
	}
	count := text(policy["maxReceiveCount"])
	n, ok := parseNumber(count, sqslimits.ReceivesMin, sqslimits.ReceivesMax)
	if !ok {
		return errRedrive(value, "Invalid value for maxReceiveCount: "+count+
			", valid values are from 1 to 1000 both inclusive.")
	}
	arn := strings.Split(text(policy["deadLetterTargetArn"]), ":")
	switch {
	case len(arn) != 6 || arn[0] != "arn" || slices.Contains(arn[1:], ""):
		return errRedrive(value, "Dead-letter target ARN should be fully qualified ARN.")
	case arn[2] != "sqs":
		return errRedrive(value, "Only SQS queues are valid resources for deadLetterTargetArn.")
	}
	target, _ := e.queueOfARN(strings.Join(arn, ":"))
	a.Redrive = row.Redrive{Target: target.Clone(), MaxReceives: n}
	return nil
}

// text returns a JSON string or, for anything else, the JSON itself.
func text(raw json.RawMessage) string {
	var s *string
	if json.Unmarshal(raw, &s) == nil && s != nil {
		return *s
	}
	return string(raw)
}

// queueOfARN returns the queue that an ARN names; false if the ARN is not of a queue on this
// server.
func (e *Engine) queueOfARN(arn string) (QueueName, bool) {
	parts := strings.Split(arn, ":")
	if len(parts) != 6 || parts[0] != "arn" || parts[1] != "aws" || parts[2] != "sqs" ||
		parts[3] != e.cfg.Region {
		return QueueName{}, false
	}
	return QueueName{Account: parts[4], Name: parts[5]}, true
}

// checkRedrive checks the target of a policy when it is set for the queue of that name. What
// happens to the target later leaves the policy as it is. [DLQ-9 to DLQ-14]
func (e *Engine) checkRedrive(name QueueName, a *row.Attributes, value string) *Error {
	target := a.Redrive.Target
	if target.Account != name.Account {
		return errRedrive(value, "Dead letter target does not exist.")
	}
	allow := a.RedriveAllow
	if target != name { // a queue may be its own, from its creation on
		q, err := e.lookup(target)
		if err != nil {
			return errRedrive(value, "Dead letter target does not exist.")
		}
		if q.fifo() != a.FIFO {
			return errRedrive(value, "Dead-letter queue must be same type of queue as the source..")
		}
		allow = q.row.Attributes.RedriveAllow
	}
	if !allows(allow, e.arn(name)) {
		return errRedrive(value, "Queue "+e.arn(target)+
			" does not allow this queue to use it as a dead-letter queue.")
	}
	return nil
}

func getRedrive(e *Engine, q *queue) (string, bool) { // [DLQ-1]
	r := q.row.Attributes.Redrive
	if r == (row.Redrive{}) {
		return "", false
	}
	arn, _ := json.Marshal(e.arn(r.Target)) // a string can always be encoded
	return `{"deadLetterTargetArn":` + string(arn) + `,"maxReceiveCount":` + decimal(r.MaxReceives) + `}`, true
}

// A redriveAllow is a RedriveAllowPolicy: which queues may have this one as their dead-letter
// queue. Its fields are in the order in which they are shown.
type redriveAllow struct {
	Permission string   `json:"redrivePermission"`
	Sources    []string `json:"sourceQueueArns,omitempty"`
}

func setRedriveAllow(_ *Engine, a *row.Attributes, value string) *Error { // [DLQ-15 to DLQ-19]
	if value == "" { // [ATTR-22]
		a.RedriveAllow = ""
		return nil
	}
	p, ok := parseRedriveAllow(value)
	if !ok {
		return refuse(CodeInvalidAttribute, "Invalid value for the parameter RedriveAllowPolicy. "+
			"Reason: Amazon SQS can't create the redrive allow policy, as it’s in an unsupported format.")
	}
	refused := func(reason string) *Error {
		return errValue(value, "RedriveAllowPolicy",
			"Amazon SQS can't create the redrive allow policy. "+reason)
	}
	switch byQueue := p.Permission == "byQueue"; {
	case byQueue && len(p.Sources) == 0:
		return refused("When you specify the byQueue permission type, you must also specify one or more sourceQueueArns values.")
	case len(p.Sources) > sqslimits.SourcesMax:
		return refused("The maximum number of source queue ARNs you can specify is 10.")
	case !byQueue && len(p.Sources) > 0:
		return refused("To specify one or more source queue ARNs, you must set redrivePermission to byQueue.")
	}
	normal, _ := json.Marshal(p) // strings can always be encoded
	a.RedriveAllow = string(normal)
	return nil
}

// parseRedriveAllow reads a policy. Names of members are case-sensitive, unlike in encoding/json.
func parseRedriveAllow(value string) (p redriveAllow, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(value), &members) != nil {
		return p, false
	}
	for name := range members { // order does not matter: any other refuses the policy
		if name != "redrivePermission" && name != "sourceQueueArns" {
			return p, false
		}
	}
	known := []string{"allowAll", "denyAll", "byQueue"}
	return p, json.Unmarshal([]byte(value), &p) == nil && slices.Contains(known, p.Permission)
}

func getRedriveAllow(_ *Engine, q *queue) (string, bool) {
	policy := q.row.Attributes.RedriveAllow
	return policy, policy != ""
}

// allows reports whether a normalised RedriveAllowPolicy lets the queue with that ARN be a source.
func allows(policy, source string) bool {
	var p redriveAllow
	if policy == "" || json.Unmarshal([]byte(policy), &p) != nil {
		return true
	}
	return p.Permission == "allowAll" || slices.Contains(p.Sources, source)
}

// writeSource keeps the index of sources when the target of a queue's policy changes.
func (e *Engine) writeSource(q *queue, from, to QueueName) {
	if from == to {
		return
	}
	if from != (QueueName{}) {
		e.rows.delete(row.SourceKey(from, q.name.Name))
	}
	if to != (QueueName{}) {
		e.rows.set(row.SourceKey(to, q.name.Name), []byte{row.Version})
	}
}

// sources yields the queues whose policy names target and whose names come after the given one.
func (e *Engine) sources(target QueueName, after string) func(yield func(QueueName) bool) {
	s := row.Below(row.SourcePrefix(target))
	if after != "" {
		s.Lo = append(row.SourceKey(target, after), 0)
	}
	return func(yield func(QueueName) bool) {
		for k := range e.scan(s) {
			name, ok := row.SourceOf(k)
			if !ok {
				e.rows.damaged("source", k)
			}
			if !yield(name) {
				return
			}
		}
	}
}

// isDeadLetterQueue reports whether some queue's policy names this one.
func (e *Engine) isDeadLetterQueue(name QueueName) bool {
	for range e.sources(name, "") {
		return true
	}
	return false
}

// ListDeadLetterSourceQueues lists the queues whose redrive policy names Queue, by name. [DLQ-35]
type ListDeadLetterSourceQueues struct {
	Queue      QueueName
	MaxResults Int
	NextToken  string

	// The answer: a page, and the token of the next one; empty after the last.
	Queues []QueueName
	Next   string
}

func (op *ListDeadLetterSourceQueues) apply(e *Engine, _ *Command) *Error {
	if _, err := e.lookup(op.Queue); err != nil {
		return err
	}
	after, err := checkPage(op.MaxResults, op.NextToken)
	if err != nil {
		return err
	}
	op.Queues, op.Next = page(e.sources(op.Queue, after), op.MaxResults)
	return nil
}
