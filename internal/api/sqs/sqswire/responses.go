package sqswire

// In a response, a string member that is empty and a list or map without entries is left out: SQS
// never sends them, and clients test for their presence. Operations without a struct here are void,
// see Empty.

// Empty is the response of the void operations.
type Empty struct{}

// CreateQueueResponse is the URL of a queue that now exists.
type CreateQueueResponse struct {
	QueueURL string `wire:"QueueUrl"`
}

// GetQueueURLResponse is the URL of a queue.
type GetQueueURLResponse struct {
	QueueURL string `wire:"QueueUrl"`
}

// ListQueuesResponse is a page of queue URLs and, when there are more, the token of the next page.
type ListQueuesResponse struct {
	QueueURLs []string `wire:"QueueUrls,QueueUrl"`
	NextToken string
}

// ListDeadLetterSourceQueuesResponse is like ListQueuesResponse, but its list is sent when empty
// too: the SQS model requires the member, and users of boto3 index it.
type ListDeadLetterSourceQueuesResponse struct {
	QueueURLs []string `wire:"queueUrls,QueueUrl,,required"`
	NextToken string
}

// GetQueueAttributesResponse holds the attributes that have a value.
type GetQueueAttributesResponse struct {
	Attributes Pairs `wire:",Attribute,Name"`
}

// ListQueueTagsResponse holds the tags of a queue.
type ListQueueTagsResponse struct {
	Tags Pairs `wire:",Tag,Key"`
}

// Sent is the outcome of one message, in the answers of SendMessage and of SendMessageBatch. Only
// FIFO queues have a SequenceNumber.
type Sent struct {
	MD5OfMessageAttributes       string
	MD5OfMessageBody             string
	MD5OfMessageSystemAttributes string
	MessageID                    string `wire:"MessageId"`
	SequenceNumber               string
}

// SendMessageResponse answers SendMessage.
type SendMessageResponse struct {
	Sent
}

// SendMessageBatchResponse answers SendMessageBatch.
type SendMessageBatchResponse struct {
	Successful []SendMessageBatchResultEntry `wire:",SendMessageBatchResultEntry"`
	Failed     []BatchResultErrorEntry       `wire:",BatchResultErrorEntry"`
}

// A SendMessageBatchResultEntry is one message that was sent.
type SendMessageBatchResultEntry struct {
	ID string `wire:"Id"`
	Sent
}

// DeleteMessageBatchResponse answers DeleteMessageBatch.
type DeleteMessageBatchResponse struct {
	Successful []BatchResultEntry      `wire:",DeleteMessageBatchResultEntry"`
	Failed     []BatchResultErrorEntry `wire:",BatchResultErrorEntry"`
}

// ChangeMessageVisibilityBatchResponse answers ChangeMessageVisibilityBatch.
type ChangeMessageVisibilityBatchResponse struct {
	Successful []BatchResultEntry      `wire:",ChangeMessageVisibilityBatchResultEntry"`
	Failed     []BatchResultErrorEntry `wire:",BatchResultErrorEntry"`
}

// A BatchResultEntry is an entry of a delete or visibility batch that succeeded. The SQS model has
// two names for it.
type BatchResultEntry struct {
	ID string `wire:"Id"`
}

// A BatchResultErrorEntry is an entry of a batch that was refused; see [Error.Entry].
type BatchResultErrorEntry struct {
	ID          string `wire:"Id"`
	Code        ErrorCode
	Message     string
	SenderFault bool
}

// ReceiveMessageResponse holds the messages received.
type ReceiveMessageResponse struct {
	Messages []Message `wire:",Message"`
}

// A Message is a message as it is received. MD5OfMessageAttributes is that of the MessageAttributes
// here, which are the ones asked for.
type Message struct {
	Attributes             Pairs `wire:",Attribute,Name"`
	Body                   string
	MD5OfBody              string
	MD5OfMessageAttributes string
	MessageAttributes      MessageAttributes `wire:",MessageAttribute"`
	MessageID              string            `wire:"MessageId"`
	ReceiptHandle          string
}

func (m *Message) show(members []member, v visitor) {
	v.pairs(&members[0], &m.Attributes)
	v.string(&members[1], &m.Body)
	v.string(&members[2], &m.MD5OfBody)
	v.string(&members[3], &m.MD5OfMessageAttributes)
	v.attributes(&members[4], &m.MessageAttributes)
	v.string(&members[5], &m.MessageID)
	v.string(&members[6], &m.ReceiptHandle)
}

// StartMessageMoveTaskResponse names the task that was started.
type StartMessageMoveTaskResponse struct {
	TaskHandle string
}

// CancelMessageMoveTaskResponse has the number of messages that the task moved. It is also sent
// when zero.
type CancelMessageMoveTaskResponse struct {
	ApproximateNumberOfMessagesMoved int64
}

// ListMessageMoveTasksResponse holds the move tasks of a queue, most recent first.
type ListMessageMoveTasksResponse struct {
	Results []ListMessageMoveTasksResultEntry `wire:",ListMessageMoveTasksResultEntry"`
}

// A ListMessageMoveTasksResultEntry is one move task. StartedTimestamp is in Unix milliseconds.
type ListMessageMoveTasksResultEntry struct {
	ApproximateNumberOfMessagesMoved  int64
	ApproximateNumberOfMessagesToMove Opt[int64]
	DestinationARN                    string `wire:"DestinationArn"`
	FailureReason                     string
	MaxNumberOfMessagesPerSecond      Opt[int64]
	SourceARN                         string `wire:"SourceArn"`
	StartedTimestamp                  int64
	Status                            string
	TaskHandle                        string
}
