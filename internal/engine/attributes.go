package engine

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/sqslimits"
)

// An attribute is one row of the table of all queue attributes.
type attribute struct {
	name string
	fifo bool // only FIFO queues have it

	// set parses and stores a value; nil for an attribute that cannot be set. What depends on other
	// queues is checked elsewhere.
	set func(e *Engine, a *row.Attributes, value string) *Error

	// get returns the value as SQS shows it, and whether there is one.
	get func(e *Engine, q *queue) (string, bool)
}

// attributes is in the order in which they are set, compared and reported.
var attributes = []attribute{
	// [ATTR-1]
	number("DelaySeconds", 0, delayMax, func(a *row.Attributes) *int64 { return &a.DelaySeconds }),
	number("MaximumMessageSize", sqslimits.MessageSizeMin, sqslimits.MessageBytesMax,
		func(a *row.Attributes) *int64 {
			return &a.MaximumMessageSize
		}), // [ATTR-2]
	number("MessageRetentionPeriod", retentionMin, retentionMax, func(a *row.Attributes) *int64 {
		return &a.MessageRetentionPeriod
	}), // [ATTR-3]
	number("ReceiveMessageWaitTimeSeconds", 0, waitMax, func(a *row.Attributes) *int64 {
		return &a.ReceiveMessageWaitTimeSeconds
	}), // [ATTR-4]
	number("VisibilityTimeout", 0, visibilityMax, func(a *row.Attributes) *int64 {
		return &a.VisibilityTimeout
	}), // [ATTR-5]
	{name: "KmsMasterKeyId", set: setKey, get: getKey},
	{name: "KmsDataKeyReusePeriodSeconds", set: reusePeriod.set, get: getReusePeriod},
	{name: "SqsManagedSseEnabled", set: setManaged, get: getManaged},
	{name: "FifoQueue", fifo: true, set: setFIFO, get: getFIFO},
	choice("ContentBasedDeduplication", "false", "true", strings.ToLower, // [ATTR-7]
		func(a *row.Attributes) *bool { return &a.ContentBasedDeduplication }),
	choice("DeduplicationScope", "queue", "messageGroup", exact,
		func(a *row.Attributes) *bool { return &a.GroupScope }),
	choice("FifoThroughputLimit", "perQueue", "perMessageGroupId", exact,
		func(a *row.Attributes) *bool { return &a.GroupLimit }),
	{name: "RedrivePolicy", set: setRedrive, get: getRedrive},
	{name: "RedriveAllowPolicy", set: setRedriveAllow, get: getRedriveAllow},
	{name: "Policy", set: setPolicy, get: getPolicy},
	shown("QueueArn", func(e *Engine, q *queue) string { return e.arn(q.name) }),
	shown("CreatedTimestamp", func(_ *Engine, q *queue) string {
		return decimal(q.row.Created / 1000)
	}),
	shown("LastModifiedTimestamp", func(_ *Engine, q *queue) string {
		return decimal(q.row.Modified / 1000)
	}),
	shown("ApproximateNumberOfMessages", func(_ *Engine, q *queue) string {
		return decimal(q.visible())
	}),
	shown("ApproximateNumberOfMessagesNotVisible", func(_ *Engine, q *queue) string {
		return decimal(q.st.InFlight)
	}),
	shown("ApproximateNumberOfMessagesDelayed", func(_ *Engine, q *queue) string {
		return decimal(q.st.Delayed)
	}),
}

func findAttribute(name string) *attribute {
	for i := range attributes {
		if attributes[i].name == name {
			return &attributes[i]
		}
	}
	return nil
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// parseNumber reads an attribute's number: decimal digits and nothing else. [ATTR-6]
func parseNumber(value string, low, high int64) (int64, bool) {
	if value == "" || strings.Trim(value, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return n, err == nil && low <= n && n <= high
}

func number(name string, low, high int64, field func(*row.Attributes) *int64) attribute {
	return attribute{
		name: name,
		set: func(_ *Engine, a *row.Attributes, value string) *Error {
			n, ok := parseNumber(value, low, high)
			if !ok {
				return errAttribute(name)
			}
			*field(a) = n
			return nil
		},
		get: func(_ *Engine, q *queue) (string, bool) {
			return decimal(*field(&q.row.Attributes)), true
		},
	}
}

// shown is an attribute that can only be read. [ATTR-26]
func shown(name string, get func(*Engine, *queue) string) attribute {
	return attribute{name: name, get: func(e *Engine, q *queue) (string, bool) {
		return get(e, q), true
	}}
}

// The three encryption attributes exclude each other in SQS's own way. [ATTR-9, ATTR-14, ATTR-15]
func setKey(_ *Engine, a *row.Attributes, value string) *Error {
	if a.KmsMasterKeyID = strings.Clone(value); value != "" {
		a.SqsManagedSseEnabled = false
	} else {
		a.KmsDataKeyReusePeriodSeconds = 300
	}
	return nil
}

func getKey(_ *Engine, q *queue) (string, bool) {
	key := q.row.Attributes.KmsMasterKeyID
	return key, key != ""
}

var reusePeriod = number("KmsDataKeyReusePeriodSeconds", 60, 86400, // [ATTR-10]
	func(a *row.Attributes) *int64 { return &a.KmsDataKeyReusePeriodSeconds })

// getReusePeriod shows the period only while a key is set. [ATTR-11]
func getReusePeriod(e *Engine, q *queue) (string, bool) {
	value, _ := reusePeriod.get(e, q)
	return value, q.row.Attributes.KmsMasterKeyID != ""
}

// [ATTR-7, ATTR-8, ATTR-16]
func setManaged(_ *Engine, a *row.Attributes, value string) *Error {
	managed, ok := parseBool(value)
	if !ok {
		return errAttribute("SqsManagedSseEnabled")
	}
	if a.SqsManagedSseEnabled = managed; managed {
		a.KmsMasterKeyID, a.KmsDataKeyReusePeriodSeconds = "", 300
	}
	return nil
}

func getManaged(_ *Engine, q *queue) (string, bool) {
	return strconv.FormatBool(q.row.Attributes.SqsManagedSseEnabled), true
}

// checkSettable refuses the names among values that cannot be set on a queue of that type.
// [ATTR-23 to ATTR-26]
func checkSettable(values map[string]string, fifo bool) *Error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch a := findAttribute(name); {
		case !fifo && (name == "DeduplicationScope" || name == "FifoThroughputLimit"): // [ATTR-24]
			return refuse(CodeInvalidAttributeName,
				"You can specify the "+name+" only when FifoQueue is set to true.")
		case a == nil || a.set == nil || a.fifo && !fifo: // [ATTR-23, ATTR-25, ATTR-26]
			return errUnknownAttribute(name)
		}
	}
	key := values["KmsMasterKeyId"]
	if key != "" && strings.EqualFold(values["SqsManagedSseEnabled"], "true") { // [ATTR-17]
		return refuse(CodeInvalidAttributeName,
			"You can use one type of server-side encryption (SSE) at one time. "+
				"You can either enable KMS SSE or SQS SSE.")
	}
	return nil
}

// with returns the attributes of the queue of that name after values have been set, all of them or
// none. [ATTR-34]
func (e *Engine) with(
	name QueueName, a row.Attributes, values map[string]string,
) (row.Attributes, *Error) {
	if err := checkSettable(values, a.FIFO); err != nil {
		return a, err
	}
	for i := range attributes {
		if value, ok := values[attributes[i].name]; ok {
			if err := attributes[i].set(e, &a, value); err != nil {
				return a, err
			}
		}
	}
	if a.GroupLimit && !a.GroupScope { // [FIFO-6, FIFO-7]
		return a, refuse(CodeInvalidAttribute,
			"The perMessageGroupId value is allowed only when the value for DeduplicationScope is messageGroup")
	}
	if value := values["RedrivePolicy"]; value != "" {
		return a, e.checkRedrive(name, &a, value)
	}
	return a, nil
}

// arn is the queue's Amazon Resource Name. [ATTR-38]
func (e *Engine) arn(n QueueName) string {
	return "arn:aws:sqs:" + e.cfg.Region + ":" + n.Account + ":" + n.Name
}

// GetQueueAttributes reads the attributes with the given names; the name All means every one that
// has a value.
type GetQueueAttributes struct {
	Queue QueueName
	Names []string

	// The answer: the values by name, and what tells the queue from another one of its name.
	Attributes  map[string]string
	Incarnation [16]byte
}

func (op *GetQueueAttributes) apply(e *Engine, _ *Command) *Error {
	q, err := e.lookup(op.Queue)
	if err != nil {
		return err
	}
	all := false
	for _, name := range op.Names {
		if name == "All" { // [ATTR-28]
			all = true
		} else if a := findAttribute(name); a == nil || a.fifo && !q.fifo() { // [ATTR-30, ATTR-31]
			return errUnknownAttribute(name)
		}
	}
	op.Attributes, op.Incarnation = nil, q.row.Incarnation
	if len(op.Names) == 0 { // [ATTR-27]
		return nil
	}
	// The counters are exact: everything that time has done is settled first. [ATTR-42, ATTR-43]
	if !e.settled(q) {
		return ErrAgain
	}
	values := make(map[string]string)
	for i := range attributes {
		a := &attributes[i]
		if a.fifo && !q.fifo() {
			continue
		}
		if all || slices.Contains(op.Names, a.name) {
			if value, ok := a.get(e, q); ok {
				values[a.name] = value
			}
		}
	}
	op.Attributes = values
	return nil
}

// SetQueueAttributes changes attributes, all of the given ones or none. They take effect at once.
// [ATTR-35]
type SetQueueAttributes struct {
	Queue  QueueName
	Values map[string]string
}

func (op *SetQueueAttributes) apply(e *Engine, _ *Command) *Error {
	q, err := e.lookup(op.Queue)
	if err != nil {
		return err
	}
	if len(op.Values) == 0 { // [ATTR-33]
		return errMissing("Attribute.Name")
	}
	changed, err := e.with(op.Queue, q.row.Attributes, op.Values)
	if err != nil {
		return err
	}
	// Messages that expired under the old period must not return under a longer one. [RET-6]
	if !e.ready(q) {
		return ErrAgain
	}
	if changed.MessageRetentionPeriod != q.row.Attributes.MessageRetentionPeriod {
		q.expiry = 0
		q.fresh = freshWindow{end: q.st.Cursor}
	}
	if q.fifo() && changed.DelaySeconds != q.row.Attributes.DelaySeconds {
		e.recountDelayed(q, changed.Delay())
	}
	e.writeSource(q, q.row.Attributes.Redrive.Target, changed.Redrive.Target)
	e.notePolicy(q.row.Attributes.Policy, changed.Policy)
	q.row.Attributes, q.row.Modified = changed, e.now // [ATTR-36]
	e.writeRow(q)
	e.stir(q)
	return nil
}
