// Package sqslimits holds the limits of Amazon SQS that both the server and its clients need: the
// engine enforces them, the command line and the libraries check them before they send a request.
//
// Each constant names the parameter of the SQS API that it bounds. The codes in brackets are rules
// in docs/semantics, which cite the source of each limit and the date of the observation.
package sqslimits

import "time"

// Messages.
const (
	// MessageBytesMax bounds the body of a message and the names, types and values of its
	// attributes together. [SIZE-1, ATTR-2] It also bounds the messages of one batch together.
	// [BATCH-8]
	MessageBytesMax = 1 << 20

	// AttributesMax is the number of user attributes of one message. [MA-1]
	AttributesMax = 10

	// IDMax is the length of a MessageGroupId, a MessageDeduplicationId or a
	// ReceiveRequestAttemptId, in bytes. [SEND-10, DEDUP-1]
	IDMax = 128

	// DelayMax is the longest DelaySeconds, of a message and of a queue. [SEND-4, ATTR-1]
	DelayMax = 15 * time.Minute
)

// Requests.
const (
	// BatchMax is the number of entries of one batch request. [BATCH-1]
	BatchMax = 10

	// ReceiveMax is the largest MaxNumberOfMessages of one receive. [RCV-1]
	ReceiveMax = 10

	// WaitMax is the longest WaitTimeSeconds of a receive. [RCV-3, ATTR-4]
	WaitMax = 20 * time.Second

	// VisibilityMax is the longest VisibilityTimeout of one request, and the longest time that a
	// message stays hidden after one receive, however often the timeout is changed.
	// [RCV-2, VIS-10, VIS-11]
	VisibilityMax = 12 * time.Hour

	// ListMax is the largest MaxResults of a listing of queues. [QUEUE-24]
	ListMax = 1000
)

// Queues.
const (
	// MessageSizeMin is the smallest MaximumMessageSize of a queue, in bytes. [ATTR-2]
	MessageSizeMin = 1 << 10

	// RetentionMin, RetentionMax and RetentionDefault bound MessageRetentionPeriod. [ATTR-3]
	RetentionMin     = time.Minute
	RetentionMax     = 14 * 24 * time.Hour
	RetentionDefault = 4 * 24 * time.Hour

	// VisibilityDefault is the VisibilityTimeout of a queue that was created without one. [ATTR-5]
	VisibilityDefault = 30 * time.Second

	// InFlightMax is the number of messages of one queue that may be in flight. [LIM-1]
	InFlightMax = 120_000

	// ReceivesMin and ReceivesMax bound maxReceiveCount of a RedrivePolicy. [DLQ-7]
	ReceivesMin = 1
	ReceivesMax = 1000

	// SourcesMax is the number of queues that a RedriveAllowPolicy can name. [DLQ-18]
	SourcesMax = 10

	// TagsMax is the number of tags of one queue. [TAG-11]
	TagsMax = 50

	// DedupWindow is the time for which a deduplication id or a receive attempt id is remembered.
	// [DEDUP-7, DEDUP-19]
	DedupWindow = 5 * time.Minute
)

// Move tasks.
const (
	// TasksKept is the number of move tasks of one queue that a listing shows. [MOVE-15]
	TasksKept = 10

	// TaskRateMax is the largest MaxNumberOfMessagesPerSecond. [MOVE-6]
	TaskRateMax = 500

	// TaskTimeMax is the longest time that a move task runs. [MOVE-22]
	TaskTimeMax = 36 * time.Hour
)
