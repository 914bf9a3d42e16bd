package sqswire

// OnQueue is the queue that a request is about, part of most requests.
type OnQueue struct {
	QueueURL Opt[string] `wire:"QueueUrl"`
}

// Queue returns the URL of the queue. Requests without this method are about no single queue, or
// name it in another way.
func (q *OnQueue) Queue() Opt[string] { return q.QueueURL }

// Requests of operations on messages.

// Outgoing is a message to send: what SendMessage and an entry of SendMessageBatch have in common.
type Outgoing struct {
	MessageBody             Opt[string]
	DelaySeconds            Opt[int64]
	MessageAttributes       MessageAttributes `wire:",MessageAttribute"`
	MessageSystemAttributes MessageAttributes `wire:",MessageSystemAttribute"`
	MessageGroupID          Opt[string]       `wire:"MessageGroupId"`
	MessageDeduplicationID  Opt[string]       `wire:"MessageDeduplicationId"`
}

// SendMessageRequest sends one message.
type SendMessageRequest struct {
	OnQueue
	Outgoing
}

// SendMessageBatchRequest sends several messages.
type SendMessageBatchRequest struct {
	OnQueue
	Entries []SendMessageBatchRequestEntry `wire:",SendMessageBatchRequestEntry"`
}

// A SendMessageBatchRequestEntry is one message of a batch.
type SendMessageBatchRequestEntry struct {
	ID Opt[string] `wire:"Id"`
	Outgoing
}

// ReceiveMessageRequest asks for messages. AttributeNames is the old name of
// MessageSystemAttributeNames; what is wanted is the union of both. Most clients of the Query
// protocol send either as AttributeName.N.
type ReceiveMessageRequest struct {
	OnQueue
	AttributeNames              []string `wire:",AttributeName"`
	MessageSystemAttributeNames []string `wire:",MessageSystemAttributeName"`
	MessageAttributeNames       []string `wire:",MessageAttributeName"`
	MaxNumberOfMessages         Opt[int64]
	VisibilityTimeout           Opt[int64]
	WaitTimeSeconds             Opt[int64]
	ReceiveRequestAttemptID     Opt[string] `wire:"ReceiveRequestAttemptId"`
}

// DeleteMessageRequest deletes a received message.
type DeleteMessageRequest struct {
	OnQueue
	ReceiptHandle Opt[string]
}

// DeleteMessageBatchRequest deletes several received messages.
type DeleteMessageBatchRequest struct {
	OnQueue
	Entries []DeleteMessageBatchRequestEntry `wire:",DeleteMessageBatchRequestEntry"`
}

// A DeleteMessageBatchRequestEntry is one deletion of a batch.
type DeleteMessageBatchRequestEntry struct {
	ID            Opt[string] `wire:"Id"`
	ReceiptHandle Opt[string]
}

// ChangeMessageVisibilityRequest sets when a received message becomes visible again.
type ChangeMessageVisibilityRequest struct {
	OnQueue
	ReceiptHandle     Opt[string]
	VisibilityTimeout Opt[int64]
}

// ChangeMessageVisibilityBatchRequest does so for several messages.
type ChangeMessageVisibilityBatchRequest struct {
	OnQueue
	Entries []ChangeMessageVisibilityBatchRequestEntry `wire:",ChangeMessageVisibilityBatchRequestEntry"`
}

// A ChangeMessageVisibilityBatchRequestEntry is one change of a batch.
type ChangeMessageVisibilityBatchRequestEntry struct {
	ID                Opt[string] `wire:"Id"`
	ReceiptHandle     Opt[string]
	VisibilityTimeout Opt[int64]
}

// Requests of operations on queues: their life, attributes, tags, permissions and move tasks.

// CreateQueueRequest asks for a queue, new or existing with the same attributes.
type CreateQueueRequest struct {
	QueueName  Opt[string]
	Attributes Pairs `wire:",Attribute,Name"`
	Tags       Pairs `wire:"tags,Tag,Key"`
}

// DeleteQueueRequest removes a queue and everything in it.
type DeleteQueueRequest struct{ OnQueue }

// PurgeQueueRequest removes the messages of a queue.
type PurgeQueueRequest struct{ OnQueue }

// GetQueueURLRequest asks for the URL of a queue by its name.
type GetQueueURLRequest struct {
	QueueName              Opt[string]
	QueueOwnerAWSAccountID Opt[string] `wire:"QueueOwnerAWSAccountId"`
}

// ListQueuesRequest asks for a page of queue URLs.
type ListQueuesRequest struct {
	QueueNamePrefix Opt[string]
	NextToken       Opt[string]
	MaxResults      Opt[int64]
}

// ListDeadLetterSourceQueuesRequest asks which queues have this one as their dead-letter queue.
type ListDeadLetterSourceQueuesRequest struct {
	OnQueue
	NextToken  Opt[string]
	MaxResults Opt[int64]
}

// GetQueueAttributesRequest asks for attributes of a queue by name.
type GetQueueAttributesRequest struct {
	OnQueue
	AttributeNames []string `wire:",AttributeName"`
}

// SetQueueAttributesRequest changes attributes of a queue.
type SetQueueAttributesRequest struct {
	OnQueue
	Attributes Pairs `wire:",Attribute,Name"`
}

// TagQueueRequest adds tags to a queue.
type TagQueueRequest struct {
	OnQueue
	Tags Pairs `wire:",Tag,Key"`
}

// UntagQueueRequest removes tags from a queue.
type UntagQueueRequest struct {
	OnQueue
	TagKeys []string `wire:",TagKey"`
}

// ListQueueTagsRequest asks for the tags of a queue.
type ListQueueTagsRequest struct{ OnQueue }

// AddPermissionRequest adds a statement to the policy of a queue.
type AddPermissionRequest struct {
	OnQueue
	Label         Opt[string]
	AWSAccountIDs []string `wire:"AWSAccountIds,AWSAccountId"`
	Actions       []string `wire:",ActionName"`
}

// RemovePermissionRequest removes a statement from the policy of a queue.
type RemovePermissionRequest struct {
	OnQueue
	Label Opt[string]
}

// StartMessageMoveTaskRequest starts moving the messages of a dead-letter queue elsewhere.
type StartMessageMoveTaskRequest struct {
	SourceARN                    Opt[string] `wire:"SourceArn"`
	DestinationARN               Opt[string] `wire:"DestinationArn"`
	MaxNumberOfMessagesPerSecond Opt[int64]
}

// CancelMessageMoveTaskRequest stops a move task.
type CancelMessageMoveTaskRequest struct {
	TaskHandle Opt[string]
}

// ListMessageMoveTasksRequest asks for the latest move tasks of a dead-letter queue.
type ListMessageMoveTasksRequest struct {
	SourceARN  Opt[string] `wire:"SourceArn"`
	MaxResults Opt[int64]
}
