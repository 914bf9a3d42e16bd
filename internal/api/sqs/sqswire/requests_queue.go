package sqswire

// The requests of operations on queues: their life, attributes, tags, permissions and move tasks.

// CreateQueueRequest asks for a queue, new or existing with the same attributes.
type CreateQueueRequest struct {
	QueueName  Opt[string]
	Attributes Pairs
	Tags       Pairs
}

func (m *CreateQueueRequest) members(v visitor) {
	v.optString("QueueName", &m.QueueName)
	v.pairs("Attributes", "Attribute", "Name", &m.Attributes)
	v.pairs("tags", "Tag", "Key", &m.Tags) // lower-case in the SQS model, unlike in TagQueue
}

// DeleteQueueRequest removes a queue and everything in it.
type DeleteQueueRequest struct {
	OnQueue
}

func (m *DeleteQueueRequest) members(v visitor) {
	v.optString("QueueUrl", &m.QueueURL)
}

// PurgeQueueRequest removes the messages of a queue.
type PurgeQueueRequest struct {
	OnQueue
}

func (m *PurgeQueueRequest) members(v visitor) {
	v.optString("QueueUrl", &m.QueueURL)
}

// GetQueueURLRequest asks for the URL of a queue by its name.
type GetQueueURLRequest struct {
	QueueName              Opt[string]
	QueueOwnerAWSAccountID Opt[string]
}

func (m *GetQueueURLRequest) members(v visitor) {
	v.optString("QueueName", &m.QueueName)
	v.optString("QueueOwnerAWSAccountId", &m.QueueOwnerAWSAccountID)
}

// ListQueuesRequest asks for a page of queue URLs.
type ListQueuesRequest struct {
	QueueNamePrefix Opt[string]
	NextToken       Opt[string]
	MaxResults      Opt[int64]
}

func (m *ListQueuesRequest) members(v visitor) {
	v.optString("QueueNamePrefix", &m.QueueNamePrefix)
	v.optString("NextToken", &m.NextToken)
	v.optInt("MaxResults", &m.MaxResults)
}

// ListDeadLetterSourceQueuesRequest asks which queues have this one as their dead-letter queue.
type ListDeadLetterSourceQueuesRequest struct {
	OnQueue
	NextToken  Opt[string]
	MaxResults Opt[int64]
}

func (m *ListDeadLetterSourceQueuesRequest) members(v visitor) {
	v.optString("QueueUrl", &m.QueueURL)
	v.optString("NextToken", &m.NextToken)
	v.optInt("MaxResults", &m.MaxResults)
}

// GetQueueAttributesRequest asks for attributes of a queue by name.
type GetQueueAttributesRequest struct {
	OnQueue
	AttributeNames []string
}

func (m *GetQueueAttributesRequest) members(v visitor) {
	v.optString("QueueUrl", &m.QueueURL)
	v.strings("AttributeNames", "AttributeName", &m.AttributeNames)
}

// SetQueueAttributesRequest changes attributes of a queue.
type SetQueueAttributesRequest struct {
	OnQueue
	Attributes Pairs
}

func (m *SetQueueAttributesRequest) members(v visitor) {
	v.optString("QueueUrl", &m.QueueURL)
	v.pairs("Attributes", "Attribute", "Name", &m.Attributes)
}

// TagQueueRequest adds tags to a queue.
type TagQueueRequest struct {
	OnQueue
	Tags Pairs
}

func (m *TagQueueRequest) members(v visitor) {
	v.optString("QueueUrl", &m.QueueURL)
	v.pairs("Tags", "Tag", "Key", &m.Tags)
}

// UntagQueueRequest removes tags from a queue.
type UntagQueueRequest struct {
	OnQueue
	TagKeys []string
}

func (m *UntagQueueRequest) members(v visitor) {
	v.optString("QueueUrl", &m.QueueURL)
	v.strings("TagKeys", "TagKey", &m.TagKeys)
}

// ListQueueTagsRequest asks for the tags of a queue.
type ListQueueTagsRequest struct {
	OnQueue
}

func (m *ListQueueTagsRequest) members(v visitor) {
	v.optString("QueueUrl", &m.QueueURL)
}

// AddPermissionRequest adds a statement to the policy of a queue.
type AddPermissionRequest struct {
	OnQueue
	Label         Opt[string]
	AWSAccountIDs []string
	Actions       []string
}

func (m *AddPermissionRequest) members(v visitor) {
	v.optString("QueueUrl", &m.QueueURL)
	v.optString("Label", &m.Label)
	v.strings("AWSAccountIds", "AWSAccountId", &m.AWSAccountIDs)
	v.strings("Actions", "ActionName", &m.Actions)
}

// RemovePermissionRequest removes a statement from the policy of a queue.
type RemovePermissionRequest struct {
	OnQueue
	Label Opt[string]
}

func (m *RemovePermissionRequest) members(v visitor) {
	v.optString("QueueUrl", &m.QueueURL)
	v.optString("Label", &m.Label)
}

// StartMessageMoveTaskRequest starts moving the messages of a dead-letter queue elsewhere.
type StartMessageMoveTaskRequest struct {
	SourceARN                    Opt[string]
	DestinationARN               Opt[string]
	MaxNumberOfMessagesPerSecond Opt[int64]
}

func (m *StartMessageMoveTaskRequest) members(v visitor) {
	v.optString("SourceArn", &m.SourceARN)
	v.optString("DestinationArn", &m.DestinationARN)
	v.optInt("MaxNumberOfMessagesPerSecond", &m.MaxNumberOfMessagesPerSecond)
}

// CancelMessageMoveTaskRequest stops a move task.
type CancelMessageMoveTaskRequest struct {
	TaskHandle Opt[string]
}

func (m *CancelMessageMoveTaskRequest) members(v visitor) {
	v.optString("TaskHandle", &m.TaskHandle)
}

// ListMessageMoveTasksRequest asks for the latest move tasks of a dead-letter queue.
type ListMessageMoveTasksRequest struct {
	SourceARN  Opt[string]
	MaxResults Opt[int64]
}

func (m *ListMessageMoveTasksRequest) members(v visitor) {
	v.optString("SourceArn", &m.SourceARN)
	v.optInt("MaxResults", &m.MaxResults)
}
