package engine

import (
	"slices"
	"strconv"
	"strings"

	"tenaq/internal/work/sqslimits"
)

// Attributes are the settings of a queue, in the units SQS has for them.
type Attributes struct {
	DelaySeconds                  int64
	MaximumMessageSize            int64 // bytes
	MessageRetentionPeriod        int64 // seconds
	ReceiveMessageWaitTimeSeconds int64
	VisibilityTimeout             int64 // seconds

	// The encryption settings are stored and shown. Nothing is encrypted because of them. [ATTR-13]
	KmsMasterKeyID               string
	KmsDataKeyReusePeriodSeconds int64
	SqsManagedSseEnabled         bool

	// Of FIFO queues. [FIFO-3, FIFO-4]
	FIFO                      bool
	ContentBasedDeduplication bool
	GroupScope                bool // DeduplicationScope is messageGroup
	GroupLimit                bool // FifoThroughputLimit is perMessageGroupId; shown, and no limit here

	Redrive      Redrive
	RedriveAllow string // RedriveAllowPolicy, normalised

	Policy string // as it was given, or as AddPermission and RemovePermission have left it
}

func defaultAttributes() Attributes {
	return Attributes{
		MaximumMessageSize:           sqslimits.MessageBytesMax,
		MessageRetentionPeriod:       int64(sqslimits.RetentionDefault / second),
		VisibilityTimeout:            int64(sqslimits.VisibilityDefault / second),
		KmsDataKeyReusePeriodSeconds: 300,
		SqsManagedSseEnabled:         true,
	}
}

func (a *Attributes) retention() int64 { return a.MessageRetentionPeriod * 1000 }

func (a *Attributes) delay() int64 { return a.DelaySeconds * 1000 }

func (a *Attributes) encode(b *enc) {
	b.int(a.DelaySeconds)
	b.int(a.MaximumMessageSize)
	b.int(a.MessageRetentionPeriod)
	b.int(a.ReceiveMessageWaitTimeSeconds)
	b.int(a.VisibilityTimeout)
	b.string(a.KmsMasterKeyID)
	b.int(a.KmsDataKeyReusePeriodSeconds)
	b.bool(a.SqsManagedSseEnabled)
	b.bool(a.FIFO)
	b.bool(a.ContentBasedDeduplication)
	b.bool(a.GroupScope)
	b.bool(a.GroupLimit)
	b.string(a.Redrive.Target.Account)
	b.string(a.Redrive.Target.Name)
	b.int(a.Redrive.MaxReceives)
	b.string(a.RedriveAllow)
	b.string(a.Policy)
}

// decode reads the attributes as each version of a queue row has them.
func (a *Attributes) decode(d *dec, version byte) {
	a.DelaySeconds = d.int()
	a.MaximumMessageSize = d.int()
	a.MessageRetentionPeriod = d.int()
	a.ReceiveMessageWaitTimeSeconds = d.int()
	a.VisibilityTimeout = d.int()
	a.KmsMasterKeyID = d.string()
	a.KmsDataKeyReusePeriodSeconds = d.int()
	a.SqsManagedSseEnabled = d.bool()
	if version == 1 {
		return
	}
	a.FIFO, a.ContentBasedDeduplication, a.GroupScope, a.GroupLimit = d.bool(), d.bool(), d.bool(), d.bool()
	a.Redrive.Target = QueueName{Account: d.string(), Name: d.string()}
	a.Redrive.MaxReceives = d.int()
	a.RedriveAllow = d.string()
	if version > 2 {
		a.Policy = d.string()
	}
}

// An attribute is one row of the table of everything a queue can be asked for or told.
type attribute struct {
	name string
	fifo bool // only FIFO queues have it

	// set parses and stores a value; nil for what cannot be set. What depends on other queues is
	// checked apart.
	set func(e *Engine, a *Attributes, value string) *Error

	// get returns the value as it is shown, and whether there is one.
	get func(e *Engine, q *queue) (string, bool)
}

// attributes is in the order in which they are set, compared and reported.
var attributes = []attribute{
	number("DelaySeconds", 0, delayMax, func(a *Attributes) *int64 { return &a.DelaySeconds }),                                                     // [ATTR-1]
	number("MaximumMessageSize", sqslimits.MessageSizeMin, sqslimits.MessageBytesMax, func(a *Attributes) *int64 { return &a.MaximumMessageSize }), // [ATTR-2]
	number("MessageRetentionPeriod", retentionMin, retentionMax, func(a *Attributes) *int64 { return &a.MessageRetentionPeriod }),                  // [ATTR-3]
	number("ReceiveMessageWaitTimeSeconds", 0, waitMax, func(a *Attributes) *int64 { return &a.ReceiveMessageWaitTimeSeconds }),                    // [ATTR-4]
	number("VisibilityTimeout", 0, visibilityMax, func(a *Attributes) *int64 { return &a.VisibilityTimeout }),                                      // [ATTR-5]
	{name: "KmsMasterKeyId", set: setKey, get: getKey},
	{name: "KmsDataKeyReusePeriodSeconds", set: reusePeriod.set, get: getReusePeriod},
	{name: "SqsManagedSseEnabled", set: setManaged, get: getManaged},
	{name: "FifoQueue", fifo: true, set: setFIFO, get: getFIFO},
	boolean("ContentBasedDeduplication", func(a *Attributes) *bool { return &a.ContentBasedDeduplication }),
	choice("DeduplicationScope", "queue", "messageGroup", func(a *Attributes) *bool { return &a.GroupScope }),
	choice("FifoThroughputLimit", "perQueue", "perMessageGroupId", func(a *Attributes) *bool { return &a.GroupLimit }),
	{name: "RedrivePolicy", set: setRedrive, get: getRedrive},
	{name: "RedriveAllowPolicy", set: setRedriveAllow, get: getRedriveAllow},
	{name: "Policy", set: setPolicy, get: getPolicy},
	shown("QueueArn", func(e *Engine, q *queue) string { return e.arn(q.name) }),
	shown("CreatedTimestamp", func(_ *Engine, q *queue) string { return decimal(q.row.created / 1000) }),
	shown("LastModifiedTimestamp", func(_ *Engine, q *queue) string { return decimal(q.row.modified / 1000) }),
	shown("ApproximateNumberOfMessages", func(_ *Engine, q *queue) string { return decimal(q.visible()) }),
	shown("ApproximateNumberOfMessagesNotVisible", func(_ *Engine, q *queue) string { return decimal(q.st.inFlight) }),
	shown("ApproximateNumberOfMessagesDelayed", func(_ *Engine, q *queue) string { return decimal(q.st.delayed) }),
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

func number(name string, low, high int64, field func(*Attributes) *int64) attribute {
	return attribute{
		name: name,
		set: func(_ *Engine, a *Attributes, value string) *Error {
			n, ok := parseNumber(value, low, high)
			if !ok {
				return errAttribute(name)
			}
			*field(a) = n
			return nil
		},
		get: func(_ *Engine, q *queue) (string, bool) { return decimal(*field(&q.row.attributes)), true },
	}
}

// shown is an attribute that can only be read. [ATTR-26]
func shown(name string, get func(*Engine, *queue) string) attribute {
	return attribute{name: name, get: func(e *Engine, q *queue) (string, bool) { return get(e, q), true }}
}

// The three encryption attributes exclude each other in SQS's own way. [ATTR-9, ATTR-14, ATTR-15]
func setKey(_ *Engine, a *Attributes, value string) *Error {
	if a.KmsMasterKeyID = strings.Clone(value); value != "" {
		a.SqsManagedSseEnabled = false
	} else {
		a.KmsDataKeyReusePeriodSeconds = 300
	}
	return nil
}

func getKey(_ *Engine, q *queue) (string, bool) {
	key := q.row.attributes.KmsMasterKeyID
	return key, key != ""
}

var reusePeriod = number("KmsDataKeyReusePeriodSeconds", 60, 86400, // [ATTR-10]
	func(a *Attributes) *int64 { return &a.KmsDataKeyReusePeriodSeconds })

// getReusePeriod shows the period only while there is a key whose data keys it could be about. [ATTR-11]
func getReusePeriod(e *Engine, q *queue) (string, bool) {
	value, _ := reusePeriod.get(e, q)
	return value, q.row.attributes.KmsMasterKeyID != ""
}

// [ATTR-7, ATTR-8, ATTR-16]
func setManaged(_ *Engine, a *Attributes, value string) *Error {
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
	return strconv.FormatBool(q.row.attributes.SqsManagedSseEnabled), true
}

// checkSettable refuses the names among values that cannot be set on a queue of that type.
// [ATTR-23 to ATTR-26]
func checkSettable(values map[string]string, fifo bool) *Error {
	for _, name := range sortedKeys(values) {
		switch a := findAttribute(name); {
		case !fifo && (name == "DeduplicationScope" || name == "FifoThroughputLimit"): // [ATTR-24]
			return refuse(CodeInvalidAttributeName, "You can specify the "+name+" only when FifoQueue is set to true.")
		case a == nil || a.set == nil || a.fifo && !fifo: // [ATTR-23, ATTR-25, ATTR-26]
			return errUnknownAttribute(name)
		}
	}
	key := values["KmsMasterKeyId"]
	if key != "" && strings.EqualFold(values["SqsManagedSseEnabled"], "true") { // [ATTR-17]
		return refuse(CodeInvalidAttributeName, "You can use one type of server-side encryption (SSE) at one time. "+
			"You can either enable KMS SSE or SQS SSE.")
	}
	return nil
}

// with returns the attributes of the queue of that name after values have been set, all of them or none.
// [ATTR-34]
func (e *Engine) with(name QueueName, a Attributes, values map[string]string) (Attributes, *Error) {
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

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m { // order does not matter: sorted below
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// GetQueueAttributes reads the attributes with the given names; the name All means every one that has a
// value.
type GetQueueAttributes struct {
	Queue QueueName
	Names []string
}

func (op GetQueueAttributes) apply(e *Engine, _ *Command) (Result, error) {
	q, err := e.lookup(op.Queue)
	if err != nil {
		return Result{}, err
	}
	all := false
	for _, name := range op.Names {
		if name == "All" { // [ATTR-28]
			all = true
		} else if a := findAttribute(name); a == nil || a.fifo && !q.fifo() { // [ATTR-30, ATTR-31]
			return Result{}, errUnknownAttribute(name)
		}
	}
	if len(op.Names) == 0 { // [ATTR-27]
		return Result{}, nil
	}
	// The counters are exact: everything that time has done is settled first. [ATTR-42, ATTR-43]
	if !e.ready(q) || !e.settle(q, settleStep) || !e.settleDelayed(q, settleStep) {
		return Result{Again: true}, nil
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
	return Result{Attributes: values}, nil
}

// SetQueueAttributes changes attributes, all of the given ones or none. They take effect at once.
// [ATTR-35]
type SetQueueAttributes struct {
	Queue  QueueName
	Values map[string]string
}

func (op SetQueueAttributes) apply(e *Engine, _ *Command) (Result, error) {
	q, err := e.lookup(op.Queue)
	if err != nil {
		return Result{}, err
	}
	if len(op.Values) == 0 { // [ATTR-33]
		return Result{}, errMissing("Attribute.Name")
	}
	changed, err := e.with(op.Queue, q.row.attributes, op.Values)
	if err != nil {
		return Result{}, err
	}
	// What has expired under the old period must not come back under a longer one. [RET-6]
	if !e.ready(q) {
		return Result{Again: true}, nil
	}
	if changed.MessageRetentionPeriod != q.row.attributes.MessageRetentionPeriod {
		q.expiry = 0
		q.fresh = freshWindow{end: q.st.cursor}
	}
	if q.fifo() && changed.DelaySeconds != q.row.attributes.DelaySeconds {
		e.recountDelayed(q, changed.delay())
	}
	e.writeSource(q, q.row.attributes.Redrive.Target, changed.Redrive.Target)
	e.notePolicy(q.row.attributes.Policy, changed.Policy)
	q.row.attributes, q.row.modified = changed, e.now // [ATTR-36]
	e.writeRow(q)
	e.stir(q)
	return Result{}, nil
}
