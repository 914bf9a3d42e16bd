package engine

// PurgeQueue removes every message that was sent before it, at one point in time. [PURGE-1, PURGE-2]
type PurgeQueue struct{ Queue QueueName }

func (op PurgeQueue) apply(e *Engine, _ *Command) (Result, error) {
	q, err := e.lookup(op.Queue)
	if err != nil {
		return Result{}, err
	}
	if q.row.purged != 0 && e.now < q.row.purged+e.cfg.PurgeInterval { // [PURGE-3, PURGE-4]
		return Result{}, refuse(CodePurgeInProgress,
			"Only one PurgeQueue operation on "+op.Queue.Name+" is allowed every 60 seconds.")
	}
	// The queue goes on in a new space. A handle of the old one finds nothing there and so counts as
	// the handle of a deleted message. [PURGE-5]
	e.rows.deleteRange(wholeSpace(q.row.space))
	q.setSpace(e.sys.takeSpace(), e.now)
	q.st.boot = e.sys.boot
	q.row.purged = e.now
	e.writeRow(q)
	return Result{}, nil
}
