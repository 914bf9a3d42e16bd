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

	Policy string // as it was set, or as AddPermission and RemovePermission have changed it
}

func (a *Attributes) Retention() int64 { return a.MessageRetentionPeriod * 1000 }

func (a *Attributes) Delay() int64 { return a.DelaySeconds * 1000 }

// parts visits the attributes that each version of a queue row has.
func (a *Attributes) parts(c *Codec, version byte) {
	c.Int(&a.DelaySeconds, &a.MaximumMessageSize, &a.MessageRetentionPeriod,
		&a.ReceiveMessageWaitTimeSeconds, &a.VisibilityTimeout)
	c.string(&a.KmsMasterKeyID)
	c.Int(&a.KmsDataKeyReusePeriodSeconds)
	c.bool(&a.SqsManagedSseEnabled)
	if version > 1 {
		c.bool(&a.FIFO, &a.ContentBasedDeduplication, &a.GroupScope, &a.GroupLimit)
		c.string(&a.Redrive.Target.Account, &a.Redrive.Target.Name)
		c.Int(&a.Redrive.MaxReceives)
		c.string(&a.RedriveAllow)
	}
	if version > 2 {
		c.string(&a.Policy)
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
