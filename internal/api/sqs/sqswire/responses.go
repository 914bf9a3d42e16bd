package sqswire

// In a response, a string member that is empty and a list or map without entries is left out: SQS
// never sends them, and clients test for their presence. Operations without a struct here are void,
// see Empty.

// Empty is the response of the void operations.
type Empty struct{}

func (*Empty) members(visitor) {}

// CreateQueueResponse is the URL of a queue that now exists.
type CreateQueueResponse struct {
	QueueURL string
}

func (m *CreateQueueResponse) members(v visitor) {
	v.string("QueueUrl", &m.QueueURL)
}

// GetQueueURLResponse is the URL of a queue.
type GetQueueURLResponse struct {
	QueueURL string
}

func (m *GetQueueURLResponse) members(v visitor) {
	v.string("QueueUrl", &m.QueueURL)
}

// ListQueuesResponse is a page of queue URLs and, when there are more, the token of the next page.
type ListQueuesResponse struct {
	QueueURLs []string
	NextToken string
}

func (m *ListQueuesResponse) members(v visitor) {
	v.strings("QueueUrls", "QueueUrl", &m.QueueURLs)
	v.string("NextToken", &m.NextToken)
}

// ListDeadLetterSourceQueuesResponse is like ListQueuesResponse, but its list is sent when empty
// too: the SQS model requires the member, and users of boto3 index it.
type ListDeadLetterSourceQueuesResponse struct {
	QueueURLs []string
	NextToken string
}

func (m *ListDeadLetterSourceQueuesResponse) members(v visitor) {
	// lower-case in the SQS model, unlike in ListQueues
	v.requiredStrings("queueUrls", "QueueUrl", &m.QueueURLs)
	v.string("NextToken", &m.NextToken)
}

// GetQueueAttributesResponse holds the attributes that have a value.
type GetQueueAttributesResponse struct {
	Attributes Pairs
}

func (m *GetQueueAttributesResponse) members(v visitor) {
	v.pairs("Attributes", "Attribute", "Name", &m.Attributes)
}

// ListQueueTagsResponse holds the tags of a queue.
type ListQueueTagsResponse struct {
	Tags Pairs
}

func (m *ListQueueTagsResponse) members(v visitor) {
	v.pairs("Tags", "Tag", "Key", &m.Tags)
}

// Sent tells what became of a message: what the answers of SendMessage and of an entry of
// SendMessageBatch have in common. SequenceNumber is for FIFO queues only.
type Sent struct {
	MD5OfMessageAttributes       string
	MD5OfMessageBody             string
	MD5OfMessageSystemAttributes string
	MessageID                    string
	SequenceNumber               string
}

func (m *Sent) members(v visitor) {
	v.string("MD5OfMessageAttributes", &m.MD5OfMessageAttributes)
	v.string("MD5OfMessageBody", &m.MD5OfMessageBody)
	v.string("MD5OfMessageSystemAttributes", &m.MD5OfMessageSystemAttributes)
	v.string("MessageId", &m.MessageID)
	v.string("SequenceNumber", &m.SequenceNumber)
}

// SendMessageResponse answers SendMessage.
type SendMessageResponse struct {
	Sent
}

func (m *SendMessageResponse) members(v visitor) {
	m.Sent.members(v)
}

// SendMessageBatchResponse answers SendMessageBatch.
type SendMessageBatchResponse struct {
	Successful []SendMessageBatchResultEntry
	Failed     []BatchResultErrorEntry
}

func (m *SendMessageBatchResponse) members(v visitor) {
	v.structs("Successful", "SendMessageBatchResultEntry", listOf(&m.Successful))
	v.structs("Failed", "BatchResultErrorEntry", listOf(&m.Failed))
}

// A SendMessageBatchResultEntry is one message that was sent.
type SendMessageBatchResultEntry struct {
	ID string
	Sent
}

func (m *SendMessageBatchResultEntry) members(v visitor) {
	v.string("Id", &m.ID)
	m.Sent.members(v)
}

// DeleteMessageBatchResponse answers DeleteMessageBatch.
type DeleteMessageBatchResponse struct {
	Successful []BatchResultEntry
	Failed     []BatchResultErrorEntry
}

func (m *DeleteMessageBatchResponse) members(v visitor) {
	v.structs("Successful", "DeleteMessageBatchResultEntry", listOf(&m.Successful))
	v.structs("Failed", "BatchResultErrorEntry", listOf(&m.Failed))
}

// ChangeMessageVisibilityBatchResponse answers ChangeMessageVisibilityBatch.
type ChangeMessageVisibilityBatchResponse struct {
	Successful []BatchResultEntry
	Failed     []BatchResultErrorEntry
}

func (m *ChangeMessageVisibilityBatchResponse) members(v visitor) {
	v.structs("Successful", "ChangeMessageVisibilityBatchResultEntry", listOf(&m.Successful))
	v.structs("Failed", "BatchResultErrorEntry", listOf(&m.Failed))
}

// A BatchResultEntry is an entry of a delete or visibility batch that succeeded. The SQS model has
// two names for it.
type BatchResultEntry struct {
	ID string
}

func (m *BatchResultEntry) members(v visitor) {
	v.string("Id", &m.ID)
}

// A BatchResultErrorEntry is an entry of a batch that was refused; see [Error.Entry].
type BatchResultErrorEntry struct {
	ID          string
	Code        ErrorCode
	Message     string
	SenderFault bool
}

func (m *BatchResultErrorEntry) members(v visitor) {
	v.string("Id", &m.ID)
	v.string("Code", (*string)(&m.Code))
	v.string("Message", &m.Message)
	v.bool("SenderFault", &m.SenderFault)
}

// ReceiveMessageResponse holds the messages received.
type ReceiveMessageResponse struct {
	Messages []Message
}

func (m *ReceiveMessageResponse) members(v visitor) {
	v.structs("Messages", "Message", listOf(&m.Messages))
}

// A Message is a message as it is received. MD5OfMessageAttributes is that of the MessageAttributes
// here, which are the ones asked for.
type Message struct {
	Attributes             Pairs
	Body                   string
	MD5OfBody              string
	MD5OfMessageAttributes string
	MessageAttributes      MessageAttributes
	MessageID              string
	ReceiptHandle          string
}

func (m *Message) members(v visitor) {
	v.pairs("Attributes", "Attribute", "Name", &m.Attributes)
	v.string("Body", &m.Body)
	v.string("MD5OfBody", &m.MD5OfBody)
	v.string("MD5OfMessageAttributes", &m.MD5OfMessageAttributes)
	v.attributes("MessageAttributes", "MessageAttribute", &m.MessageAttributes)
	v.string("MessageId", &m.MessageID)
	v.string("ReceiptHandle", &m.ReceiptHandle)
}

// StartMessageMoveTaskResponse names the task that was started.
type StartMessageMoveTaskResponse struct {
	TaskHandle string
}

func (m *StartMessageMoveTaskResponse) members(v visitor) {
	v.string("TaskHandle", &m.TaskHandle)
}

// CancelMessageMoveTaskResponse tells how far the task came. The number is sent when zero too.
type CancelMessageMoveTaskResponse struct {
	ApproximateNumberOfMessagesMoved int64
}

func (m *CancelMessageMoveTaskResponse) members(v visitor) {
	v.int("ApproximateNumberOfMessagesMoved", &m.ApproximateNumberOfMessagesMoved)
}

// ListMessageMoveTasksResponse holds the move tasks of a queue, most recent first.
type ListMessageMoveTasksResponse struct {
	Results []ListMessageMoveTasksResultEntry
}

func (m *ListMessageMoveTasksResponse) members(v visitor) {
	v.structs("Results", "ListMessageMoveTasksResultEntry", listOf(&m.Results))
}

// A ListMessageMoveTasksResultEntry is one move task. StartedTimestamp is in Unix milliseconds.
type ListMessageMoveTasksResultEntry struct {
	ApproximateNumberOfMessagesMoved  int64
	ApproximateNumberOfMessagesToMove Opt[int64]
	DestinationARN                    string
	FailureReason                     string
	MaxNumberOfMessagesPerSecond      Opt[int64]
	SourceARN                         string
	StartedTimestamp                  int64
	Status                            string
	TaskHandle                        string
}

func (m *ListMessageMoveTasksResultEntry) members(v visitor) {
	v.int("ApproximateNumberOfMessagesMoved", &m.ApproximateNumberOfMessagesMoved)
	v.optInt("ApproximateNumberOfMessagesToMove", &m.ApproximateNumberOfMessagesToMove)
	v.string("DestinationArn", &m.DestinationARN)
	v.string("FailureReason", &m.FailureReason)
	v.optInt("MaxNumberOfMessagesPerSecond", &m.MaxNumberOfMessagesPerSecond)
	v.string("SourceArn", &m.SourceARN)
	v.int("StartedTimestamp", &m.StartedTimestamp)
	v.string("Status", &m.Status)
	v.string("TaskHandle", &m.TaskHandle)
}
