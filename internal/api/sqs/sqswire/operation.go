package sqswire

import (
	"reflect"
	"strings"
)

// An Operation is one action of the SQS API.
type Operation struct {
	Name string

	// Void is true when the operation has no response members: its answer is an empty object in JSON, and has no
	// result element in XML.
	Void bool

	newRequest func() Shape
}

// NewRequest returns an empty request, a pointer to the struct named Name+"Request".
func (op Operation) NewRequest() Shape { return op.newRequest() }

// OnQueue reports whether the operation is one on a queue, which its request names as QueueUrl.
func (op Operation) OnQueue() bool {
	_, ok := reflect.TypeOf(op.newRequest()).Elem().FieldByName("QueueURL")
	return ok
}

// operations is the API: SQS has these actions and no others.
var operations = []Operation{
	{"AddPermission", true, func() Shape { return new(AddPermissionRequest) }},
	{"CancelMessageMoveTask", false, func() Shape { return new(CancelMessageMoveTaskRequest) }},
	{"ChangeMessageVisibility", true, func() Shape { return new(ChangeMessageVisibilityRequest) }},
	{"ChangeMessageVisibilityBatch", false, func() Shape { return new(ChangeMessageVisibilityBatchRequest) }},
	{"CreateQueue", false, func() Shape { return new(CreateQueueRequest) }},
	{"DeleteMessage", true, func() Shape { return new(DeleteMessageRequest) }},
	{"DeleteMessageBatch", false, func() Shape { return new(DeleteMessageBatchRequest) }},
	{"DeleteQueue", true, func() Shape { return new(DeleteQueueRequest) }},
	{"GetQueueAttributes", false, func() Shape { return new(GetQueueAttributesRequest) }},
	{"GetQueueUrl", false, func() Shape { return new(GetQueueURLRequest) }},
	{"ListDeadLetterSourceQueues", false, func() Shape { return new(ListDeadLetterSourceQueuesRequest) }},
	{"ListMessageMoveTasks", false, func() Shape { return new(ListMessageMoveTasksRequest) }},
	{"ListQueueTags", false, func() Shape { return new(ListQueueTagsRequest) }},
	{"ListQueues", false, func() Shape { return new(ListQueuesRequest) }},
	{"PurgeQueue", true, func() Shape { return new(PurgeQueueRequest) }},
	{"ReceiveMessage", false, func() Shape { return new(ReceiveMessageRequest) }},
	{"RemovePermission", true, func() Shape { return new(RemovePermissionRequest) }},
	{"SendMessage", false, func() Shape { return new(SendMessageRequest) }},
	{"SendMessageBatch", false, func() Shape { return new(SendMessageBatchRequest) }},
	{"SetQueueAttributes", true, func() Shape { return new(SetQueueAttributesRequest) }},
	{"StartMessageMoveTask", false, func() Shape { return new(StartMessageMoveTaskRequest) }},
	{"TagQueue", true, func() Shape { return new(TagQueueRequest) }},
	{"UntagQueue", true, func() Shape { return new(UntagQueueRequest) }},
}

var operationByName = func() map[string]Operation {
	m := make(map[string]Operation, len(operations))
	for _, op := range operations {
		m[op.Name] = op
	}
	return m
}()

// Lookup returns the operation that a JSON request names in its X-Amz-Target header, such as
// "AmazonSQS.SendMessage". When ok is false the answer is InvalidAction.
func Lookup(target string) (op Operation, ok bool) {
	name, ok := strings.CutPrefix(target, "AmazonSQS.")
	if !ok {
		return Operation{}, false
	}
	op, ok = operationByName[name]
	return op, ok
}

// LookupAction returns the operation that a Query request names in its parameter Action. When ok is false the
// answer is InvalidAction.
func LookupAction(action string) (op Operation, ok bool) {
	op, ok = operationByName[action]
	return op, ok
}

// Operations returns all operations, sorted by name.
func Operations() []Operation {
	return append([]Operation(nil), operations...)
}
