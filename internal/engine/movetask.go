package engine

// A MoveTask is what a listing shows of a move task.
type MoveTask struct {
	Handle      string // only while it is running [MOVE-17]
	Status      string // RUNNING, COMPLETED, CANCELLING, CANCELLED or FAILED
	Source      string // ARN of the dead-letter queue
	Destination string // ARN; empty when each message goes back to where it came from
	Rate        int64  // messages a second; zero for as fast as possible
	Started     int64  // Unix milliseconds
	Moved       int64
	ToMove      int64  // how many messages the queue had when the task started
	Failure     string // why it failed [MOVE-18]
}

// StartMessageMoveTask begins to empty a dead-letter queue.
type StartMessageMoveTask struct {
	Account             string // of the caller
	Source, Destination Text   // ARNs
	Rate                Int    // messages a second
}

func (op StartMessageMoveTask) apply(e *Engine, c *Command) (Result, error) { panic("not yet") }

// ListMessageMoveTasks lists the latest move tasks of a queue.
type ListMessageMoveTasks struct {
	Account    string
	Source     Text // ARN
	MaxResults Int
}

func (op ListMessageMoveTasks) apply(e *Engine, _ *Command) (Result, error) { panic("not yet") }

// CancelMessageMoveTask stops a move task.
type CancelMessageMoveTask struct {
	Account string
	Handle  Text
}

func (op CancelMessageMoveTask) apply(e *Engine, _ *Command) (Result, error) { panic("not yet") }

// MoveStep lets the active move tasks go on, each by a bounded number of messages.
type MoveStep struct{}

func (op MoveStep) apply(e *Engine, c *Command) (Result, error) { panic("not yet") }

// NextMove is when, in Unix milliseconds, the next MoveStep has something to do, and whether there is
// such a time.
func (e *Engine) NextMove() (at int64, ok bool) { return 0, false }
