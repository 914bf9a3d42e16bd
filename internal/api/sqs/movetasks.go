package sqs

import (
	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/engine"
)

func moveTaskOperations() []*operation {
	return []*operation{
		with(onOther("StartMessageMoveTask",
			func(_ *call, req *sqswire.StartMessageMoveTaskRequest) engine.QueueName {
				return queueOfARN(req.SourceARN)
			}, (*call).startMessageMoveTask), rightsToMove),
		onOther("ListMessageMoveTasks",
			func(_ *call, req *sqswire.ListMessageMoveTasksRequest) engine.QueueName {
				return queueOfARN(req.SourceARN)
			}, (*call).listMessageMoveTasks),
		onOther("CancelMessageMoveTask",
			func(c *call, req *sqswire.CancelMessageMoveTaskRequest) engine.QueueName {
				if source, ok := engine.TaskSource(req.TaskHandle.Value); ok {
					return queueOfARN(sqswire.Some(source))
				}
				return c.account()
			}, (*call).cancelMessageMoveTask),
	}
}

// rightsToMove are those that a move task needs because it receives, deletes and sends. [AUTH-48]
func rightsToMove(_ *call, req *sqswire.StartMessageMoveTaskRequest) (rights []right) {
	for _, action := range []string{"ReceiveMessage", "DeleteMessage", "GetQueueAttributes"} {
		rights = append(rights, right{action, queueOfARN(req.SourceARN)})
	}
	if req.DestinationARN.Set {
		rights = append(rights, right{"SendMessage", queueOfARN(req.DestinationARN)})
	}
	return rights
}

func (c *call) startMessageMoveTask(req *sqswire.StartMessageMoveTaskRequest) (response, error) {
	op := &engine.StartMessageMoveTask{
		Account:     c.principal.Account(),
		Source:      engine.Text(req.SourceARN),
		Destination: engine.Text(req.DestinationARN),
		Rate:        engine.Int(req.MaxNumberOfMessagesPerSecond),
	}
	if err := c.do(op); err != nil {
		return response{}, err
	}
	return answer(&sqswire.StartMessageMoveTaskResponse{TaskHandle: op.Task.Handle})
}

func (c *call) listMessageMoveTasks(req *sqswire.ListMessageMoveTasksRequest) (response, error) {
	op := &engine.ListMessageMoveTasks{
		Account:    c.principal.Account(),
		Source:     engine.Text(req.SourceARN),
		MaxResults: engine.Int(req.MaxResults),
	}
	if err := c.do(op); err != nil {
		return response{}, err
	}
	resp := new(sqswire.ListMessageMoveTasksResponse)
	for i := range op.Tasks {
		resp.Results = append(resp.Results, moveTask(&op.Tasks[i]))
	}
	return answer(resp)
}

// moveTask is the entry of a listing. What was not asked for when the task was started is not in
// it. [MOVE-16, MOVE-17]
func moveTask(t *engine.MoveTask) sqswire.ListMessageMoveTasksResultEntry {
	return sqswire.ListMessageMoveTasksResultEntry{
		ApproximateNumberOfMessagesMoved:  t.Moved,
		ApproximateNumberOfMessagesToMove: sqswire.Some(t.ToMove),
		DestinationARN:                    t.Destination,
		FailureReason:                     t.Failure,
		MaxNumberOfMessagesPerSecond:      sqswire.Opt[int64]{Value: t.Rate, Set: t.Rate != 0},
		SourceARN:                         t.Source,
		StartedTimestamp:                  t.Started,
		Status:                            t.Status,
		TaskHandle:                        t.Handle,
	}
}

func (c *call) cancelMessageMoveTask(req *sqswire.CancelMessageMoveTaskRequest) (response, error) {
	op := &engine.CancelMessageMoveTask{Account: c.principal.Account(),
		Handle: engine.Text(req.TaskHandle)}
	if err := c.do(op); err != nil {
		return response{}, err
	}
	return answer(&sqswire.CancelMessageMoveTaskResponse{ApproximateNumberOfMessagesMoved: op.Moved})
}
