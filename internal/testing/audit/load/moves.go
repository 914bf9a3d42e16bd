package load

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/testing/audit"
)

// startMove starts a task that moves messages of a dead-letter queue back to where they came from,
// at most rate a second unless that is zero. It returns no handle when there is a task already, or
// no answer.
func (r *recorder) startMove(
	ctx context.Context, q *queue, arn string, rate int,
) (handle string, err error) {
	in := &sqs.StartMessageMoveTaskInput{SourceArn: &arn}
	if rate > 0 {
		in.MaxNumberOfMessagesPerSecond = aws.Int32(int32(rate))
	}
	out, k := do(ctx, r, r.api.StartMessageMoveTask, in)
	m := audit.Move{Span: k.span, Source: q.name}
	m.Outcome, err = k.outcome()
	if k.err == nil {
		handle = aws.ToString(out.TaskHandle)
	} else if isHandleRefused(k.err) { // the answer while a task is active
		err = nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Moves = append(r.history.Moves, m)
	return handle, err
}

// cancelMove tries to stop a task, which may be over. What it has moved stays moved, so there is
// nothing to write down.
func (r *recorder) cancelMove(ctx context.Context, handle string) {
	do(ctx, r, r.api.CancelMessageMoveTask, &sqs.CancelMessageMoveTaskInput{TaskHandle: &handle})
}

// isMoving tells whether a task of a dead-letter queue is active.
func (r *recorder) isMoving(ctx context.Context, arn string) (bool, error) {
	out, k := do(ctx, r, r.api.ListMessageMoveTasks,
		&sqs.ListMessageMoveTasksInput{SourceArn: &arn})
	if k.err != nil {
		return false, k.err
	}
	active := func(e types.ListMessageMoveTasksResultEntry) bool {
		s := aws.ToString(e.Status)
		return s == "RUNNING" || s == "CANCELLING"
	}
	return len(out.Results) > 0 && active(out.Results[0]), nil
}
