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

func (t *Task) Encode(b Enc) []byte {
	b.byte(Version)
	b.raw(t.ID[:])
	b.string(t.Destination.Account)
	b.string(t.Destination.Name)
	b.int(t.Rate)
	b.int(t.Started)
	b.byte(byte(t.Status))
	b.string(t.Failure)
	b.int(t.Moved)
	b.int(t.ToMove)
	b.uint(t.Limit)
	b.int(t.Due)
	b.int(t.Stepped)
	return b
}

func DecodeTask(value []byte) (t Task, ok bool) {
	d := Dec{B: value}
	d.Version(Version)
	t.ID = d.ID()
	t.Destination = QueueName{Account: d.string(), Name: d.string()}
	t.Rate, t.Started, t.Status = d.Int(), d.Int(), TaskStatus(d.byte())
	t.Failure = d.string()
	t.Moved, t.ToMove, t.Limit, t.Due, t.Stepped = d.Int(), d.Int(), d.Uint(), d.Int(), d.Int()
	return t, d.Done() && t.Status.known()
}
