package sqswire

// A testedOperation is an operation and its request. The server's own table is in package sqs.
type testedOperation struct {
	Operation
	NewRequest func() Shape
}

var operations = []testedOperation{
	{Operation{"AddPermission", true}, func() Shape { return new(AddPermissionRequest) }},
	{Operation{"CancelMessageMoveTask", false}, func() Shape { return new(CancelMessageMoveTaskRequest) }},
	{Operation{"ChangeMessageVisibility", true}, func() Shape { return new(ChangeMessageVisibilityRequest) }},
	{Operation{"ChangeMessageVisibilityBatch", false}, func() Shape { return new(ChangeMessageVisibilityBatchRequest) }},
	{Operation{"CreateQueue", false}, func() Shape { return new(CreateQueueRequest) }},
	{Operation{"DeleteMessage", true}, func() Shape { return new(DeleteMessageRequest) }},
	{Operation{"DeleteMessageBatch", false}, func() Shape { return new(DeleteMessageBatchRequest) }},
	{Operation{"DeleteQueue", true}, func() Shape { return new(DeleteQueueRequest) }},
	{Operation{"GetQueueAttributes", false}, func() Shape { return new(GetQueueAttributesRequest) }},
	{Operation{"GetQueueUrl", false}, func() Shape { return new(GetQueueURLRequest) }},
	{Operation{"ListDeadLetterSourceQueues", false}, func() Shape { return new(ListDeadLetterSourceQueuesRequest) }},
	{Operation{"ListMessageMoveTasks", false}, func() Shape { return new(ListMessageMoveTasksRequest) }},
	{Operation{"ListQueueTags", false}, func() Shape { return new(ListQueueTagsRequest) }},
	{Operation{"ListQueues", false}, func() Shape { return new(ListQueuesRequest) }},
	{Operation{"PurgeQueue", true}, func() Shape { return new(PurgeQueueRequest) }},
	{Operation{"ReceiveMessage", false}, func() Shape { return new(ReceiveMessageRequest) }},
	{Operation{"RemovePermission", true}, func() Shape { return new(RemovePermissionRequest) }},
	{Operation{"SendMessage", false}, func() Shape { return new(SendMessageRequest) }},
	{Operation{"SendMessageBatch", false}, func() Shape { return new(SendMessageBatchRequest) }},
	{Operation{"SetQueueAttributes", true}, func() Shape { return new(SetQueueAttributesRequest) }},
	{Operation{"StartMessageMoveTask", false}, func() Shape { return new(StartMessageMoveTaskRequest) }},
	{Operation{"TagQueue", true}, func() Shape { return new(TagQueueRequest) }},
	{Operation{"UntagQueue", true}, func() Shape { return new(UntagQueueRequest) }},
}

func lookup(action string) (op testedOperation, ok bool) {
	for _, op := range operations {
		if op.Name == action {
			return op, true
		}
	}
	return testedOperation{}, false
}
