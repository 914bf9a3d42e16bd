package engine

// A dueKind says why a message stands in due, and so which counter it belongs to until its time comes.
type dueKind byte

const (
	dueDelayed  dueKind = 1 // sent with a delay; standard queues only
	dueInFlight dueKind = 2 // received and hidden
	dueReturned dueKind = 3 // given back or dead-lettered: receivable since its time
)

func (k dueKind) known() bool { return k >= dueDelayed && k <= dueReturned }

// dueIndex holds every message that waits or has waited, by the time at which it is, was or will be
// receivable.
var dueIndex = index[dueKind]{
	name: "due",
	kind: kindDue,
	read: func(v []byte) (dueKind, bool) {
		if len(v) != 1 {
			return 0, false
		}
		return dueKind(v[0]), dueKind(v[0]).known()
	},
}

// originIndex holds the messages of a standard queue that were dead-lettered into it, by the time from
// which their retention counts, which is not the order in which they came. [DLQ-25]
var originIndex = index[struct{}]{
	name: "origin",
	kind: kindOrigin,
	read: readMark,
}

// elderIndex holds the messages whose work was first sent before the time at which the queue finds them, by the time of
// that first send: those that a move task brought, dead letters of FIFO queues, and those that were sent again with the
// attribute that says so. [METRIC-9, METRIC-24]
var elderIndex = index[struct{}]{
	name: "elder",
	kind: kindElder,
	read: readMark,
}

// readMark reads the value of a row that says everything by being there.
func readMark(v []byte) (struct{}, bool) { return struct{}{}, len(v) == 1 && v[0] == rowVersion }
