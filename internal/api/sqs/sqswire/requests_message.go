package sqswire

// The requests of operations on messages.

// Outgoing is a message to send: what SendMessage and an entry of SendMessageBatch have in common.
type Outgoing struct {
	MessageBody             Opt[string]
	DelaySeconds            Opt[int64]
	MessageAttributes       MessageAttributes
	MessageSystemAttributes MessageAttributes
	MessageGroupID          Opt[string]
	MessageDeduplicationID  Opt[string]
}

func (m *Outgoing) members(v visitor) {
	v.optString("MessageBody", &m.MessageBody)
	v.optInt("DelaySeconds", &m.DelaySeconds)
	v.attributes("MessageAttributes", "MessageAttribute", &m.MessageAttributes)
	v.attributes("MessageSystemAttributes", "MessageSystemAttribute", &m.MessageSystemAttributes)
	v.optString("MessageGroupId", &m.MessageGroupID)
	v.optString("MessageDeduplicationId", &m.MessageDeduplicationID)
}

// SendMessageRequest sends one message.
type SendMessageRequest struct {
	OnQueue
	Outgoing
}

func (m *SendMessageRequest) members(v visitor) {
	v.optString("QueueUrl", &m.QueueURL)
	m.Outgoing.members(v)
}

// SendMessageBatchRequest sends several messages.
type SendMessageBatchRequest struct {
	OnQueue
	Entries []SendMessageBatchRequestEntry
}

func (m *SendMessageBatchRequest) members(v visitor) {
	v.optString("QueueUrl", &m.QueueURL)
	v.structs("Entries", "SendMessageBatchRequestEntry", listOf(&m.Entries))
}

// A SendMessageBatchRequestEntry is one message of a batch.
type SendMessageBatchRequestEntry struct {
	ID Opt[string]
	Outgoing
}

func (m *SendMessageBatchRequestEntry) members(v visitor) {
	v.optString("Id", &m.ID)
	m.Outgoing.members(v)
}

// ReceiveMessageRequest asks for messages. AttributeNames is the old name of
// MessageSystemAttributeNames; what is wanted is the union of both. Most clients of the Query
// protocol send either as AttributeName.N.
type ReceiveMessageRequest struct {
	OnQueue
	AttributeNames              []string
	MessageSystemAttributeNames []string
	MessageAttributeNames       []string
	MaxNumberOfMessages         Opt[int64]
	VisibilityTimeout           Opt[int64]
	WaitTimeSeconds             Opt[int64]
	ReceiveRequestAttemptID     Opt[string]
}

func (m *ReceiveMessageRequest) members(v visitor) {
	v.optString("QueueUrl", &m.QueueURL)
	v.strings("AttributeNames", "AttributeName", &m.AttributeNames)
	v.strings("MessageSystemAttributeNames", "MessageSystemAttributeName",
		&m.MessageSystemAttributeNames)
	v.strings("MessageAttributeNames", "MessageAttributeName", &m.MessageAttributeNames)
	v.optInt("MaxNumberOfMessages", &m.MaxNumberOfMessages)
	v.optInt("VisibilityTimeout", &m.VisibilityTimeout)
	v.optInt("WaitTimeSeconds", &m.WaitTimeSeconds)
	v.optString("ReceiveRequestAttemptId", &m.ReceiveRequestAttemptID)
}

// DeleteMessageRequest deletes a received message.
type DeleteMessageRequest struct {
	OnQueue
	ReceiptHandle Opt[string]
}

func (m *DeleteMessageRequest) members(v visitor) {
	v.optString("QueueUrl", &m.QueueURL)
	v.optString("ReceiptHandle", &m.ReceiptHandle)
}

// DeleteMessageBatchRequest deletes several received messages.
type DeleteMessageBatchRequest struct {
	OnQueue
	Entries []DeleteMessageBatchRequestEntry
}

func (m *DeleteMessageBatchRequest) members(v visitor) {
	v.optString("QueueUrl", &m.QueueURL)
	v.structs("Entries", "DeleteMessageBatchRequestEntry", listOf(&m.Entries))
}

// A DeleteMessageBatchRequestEntry is one deletion of a batch.
type DeleteMessageBatchRequestEntry struct {
	ID            Opt[string]
	ReceiptHandle Opt[string]
}

func (m *DeleteMessageBatchRequestEntry) members(v visitor) {
	v.optString("Id", &m.ID)
	v.optString("ReceiptHandle", &m.ReceiptHandle)
}

// ChangeMessageVisibilityRequest sets when a received message becomes visible again.
type ChangeMessageVisibilityRequest struct {
	OnQueue
	ReceiptHandle     Opt[string]
	VisibilityTimeout Opt[int64]
}

func (m *ChangeMessageVisibilityRequest) members(v visitor) {
	v.optString("QueueUrl", &m.QueueURL)
	v.optString("ReceiptHandle", &m.ReceiptHandle)
	v.optInt("VisibilityTimeout", &m.VisibilityTimeout)
}

// ChangeMessageVisibilityBatchRequest does so for several messages.
type ChangeMessageVisibilityBatchRequest struct {
	OnQueue
	Entries []ChangeMessageVisibilityBatchRequestEntry
}

func (m *ChangeMessageVisibilityBatchRequest) members(v visitor) {
	v.optString("QueueUrl", &m.QueueURL)
	v.structs("Entries", "ChangeMessageVisibilityBatchRequestEntry", listOf(&m.Entries))
}

// A ChangeMessageVisibilityBatchRequestEntry is one change of a batch.
type ChangeMessageVisibilityBatchRequestEntry struct {
	ID                Opt[string]
	ReceiptHandle     Opt[string]
	VisibilityTimeout Opt[int64]
}

func (m *ChangeMessageVisibilityBatchRequestEntry) members(v visitor) {
	v.optString("Id", &m.ID)
	v.optString("ReceiptHandle", &m.ReceiptHandle)
	v.optInt("VisibilityTimeout", &m.VisibilityTimeout)
}
