package engine

import "tenaq/internal/engine/row"

// PurgeQueue removes every message that was sent before it, at one point in time.
// [PURGE-1, PURGE-2]
type PurgeQueue struct{ Queue QueueName }

func (op *PurgeQueue) apply(e *Engine, _ *Command) *Error {
	q, err := e.lookup(op.Queue)
	if err != nil {
		return err
	}
	if q.row.Purged != 0 && e.now < q.row.Purged+e.cfg.PurgeInterval { // [PURGE-3, PURGE-4]
		return refuse(CodePurgeInProgress,
			"Only one PurgeQueue operation on "+op.Queue.Name+" is allowed every 60 seconds.")
	}
	if q.past != nil && !e.ready(q) {
		return ErrAgain // what has expired before has its outcome [HIST-4]
	}
	// The queue continues in a new space. A handle of the old one finds nothing there and so counts
	// as the handle of a deleted message. [PURGE-5]
	if q.fifo() && !e.letAllGo(q) {
		return ErrAgain
	}
	e.rows.deleteRange(row.WholeSpace(q.row.Space))
	q.setSpace(e.sys.takeSpace(), e.now)
	e.own(q.row.Space, q.name)
	e.sys.fell()
	q.st.Boot = e.sys.Boot
	q.row.Purged = e.now
	e.writeRow(q)
	return nil
}
