package row

import "tenaq/internal/work/sqslimits"

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
	// FifoThroughputLimit is perMessageGroupId; shown, and no limit here
	GroupLimit bool

	Redrive      Redrive
	RedriveAllow string // RedriveAllowPolicy, normalised

	Policy string // as it was given, or as AddPermission and RemovePermission have left it
}

func (a *Attributes) Retention() int64 { return a.MessageRetentionPeriod * 1000 }

func (a *Attributes) Delay() int64 { return a.DelaySeconds * 1000 }

func (a *Attributes) encode(b *Enc) {
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
func (a *Attributes) decode(d *Dec, version byte) {
	a.DelaySeconds = d.Int()
	a.MaximumMessageSize = d.Int()
	a.MessageRetentionPeriod = d.Int()
	a.ReceiveMessageWaitTimeSeconds = d.Int()
	a.VisibilityTimeout = d.Int()
	a.KmsMasterKeyID = d.string()
	a.KmsDataKeyReusePeriodSeconds = d.Int()
	a.SqsManagedSseEnabled = d.bool()
	if version == 1 {
		return
	}
	a.FIFO, a.ContentBasedDeduplication, a.GroupScope, a.GroupLimit = d.bool(), d.bool(), d.bool(),
		d.bool()
	a.Redrive.Target = QueueName{Account: d.string(), Name: d.string()}
	a.Redrive.MaxReceives = d.Int()
	a.RedriveAllow = d.string()
	if version > 2 {
		a.Policy = d.string()
	}
}

func DefaultAttributes() Attributes {
	return Attributes{
		MaximumMessageSize:           sqslimits.MessageBytesMax,
		MessageRetentionPeriod:       int64(sqslimits.RetentionDefault / 1_000_000_000),
		VisibilityTimeout:            int64(sqslimits.VisibilityDefault / 1_000_000_000),
		KmsDataKeyReusePeriodSeconds: 300,
		SqsManagedSseEnabled:         true,
	}
}

// A Redrive is the redrive policy of a queue: where messages go that were received too often. The
// zero value is no policy.
type Redrive struct {
	Target      QueueName
	MaxReceives int64
}

// A Tag is a label of a queue. Tags mean nothing to the engine; those that begin with "tenaq:" are
// kept for switching on extensions.
type Tag struct{ Key, Value string }
