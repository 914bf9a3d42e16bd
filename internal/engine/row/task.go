package row

// TaskStatus is what a task shows as its status.
type TaskStatus byte

func (s TaskStatus) known() bool { return s >= TaskRunning && s <= TaskFailed }

func (s TaskStatus) Active() bool { return s == TaskRunning || s == TaskCancelling }

const (
	TaskRunning TaskStatus = iota + 1
	TaskCompleted
	TaskCancelling
	TaskCancelled
	TaskFailed
)

var TaskNames = [...]string{"", "RUNNING", "COMPLETED", "CANCELLING", "CANCELLED", "FAILED"}

// A Task is a move task.
type Task struct {
	Number uint64
	Source QueueName

	ID          [16]byte
	Destination QueueName // zero when each message goes back to where it came from
	Rate        int64     // messages a second; zero for as fast as possible
	Started     int64
	Status      TaskStatus
	Failure     string
	Moved       int64
	ToMove      int64
	Limit       uint64 // messages with this number or a later one came after the start [MOVE-24]
	Due         int64  // when the next message may move, in microseconds
	Stepped     int64  // when the last step was
}

func (t *Task) Encode(b []byte) []byte {
	c := Codec{B: b}
	t.parts(&c)
	return c.B
}

func (t *Task) parts(c *Codec) {
	c.Version(Version)
	c.ID(&t.ID)
	c.string(&t.Destination.Account, &t.Destination.Name)
	c.Int(&t.Rate, &t.Started)
	c.Byte((*byte)(&t.Status))
	c.string(&t.Failure)
	c.Int(&t.Moved, &t.ToMove)
	c.Uint(&t.Limit)
	c.Int(&t.Due, &t.Stepped)
}

func DecodeTask(value []byte) (t Task, ok bool) {
	c := Codec{B: value, Reading: true}
	t.parts(&c)
	return t, c.Done() && t.Status.known()
}
