package engine

// ListDeadLetterSourceQueues lists the queues whose redrive policy names Queue, by name. [DLQ-35]
type ListDeadLetterSourceQueues struct {
	Queue      QueueName
	MaxResults Int
	NextToken  string
}

func (op ListDeadLetterSourceQueues) apply(e *Engine, _ *Command) (Result, error) { panic("not yet") }
