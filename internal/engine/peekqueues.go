package engine

import "tenaq/internal/engine/row"

// PeekQueues shows the queues of an account, by name, with what waits in them. [PEEK-8]
type PeekQueues struct {
	Account string
	Prefix  string // of the names
	After   string // Next of the page before; empty to begin with the first
	Max     int    // queues of a page, at most PeekQueuesMax

	// The answer: a page, and where the next one begins; empty after the last.
	Queues []QueueView
	Next   string
}

// PeekQueuesMax is how many queues a page may have. The writer brings each of them up to date, so a
// page costs about as much as that many requests.
const PeekQueuesMax = 50

// viewSources is how many of its sources a QueueView names.
const viewSources = 10

// A QueueView is a queue as PeekQueues shows it.
type QueueView struct {
	Gauge
	Redrive row.Redrive // the zero value when it has no dead-letter queue

	// Sources are the first queues, by name, whose dead letters come here; MoreSources says that
	// there are others.
	Sources     []QueueName
	MoreSources bool
}

func (op *PeekQueues) apply(e *Engine, _ *Command) *Error {
	after, ok := openToken(op.After)
	switch {
	case !ok:
		return errValue(op.After, "after", "It is not a place in the list of queues.")
	case op.Max < 1 || op.Max > PeekQueuesMax:
		return errNumber(int64(op.Max), "limit", "Must be between 1 and 50.")
	}
	var names []QueueName
	more := false
	for name := range e.names(op.Account, op.Prefix, after) {
		if len(names) == op.Max {
			more = true
			break
		}
		names = append(names, name)
	}
	op.Queues, op.Next = nil, ""
	for _, name := range names {
		q, err := e.lookup(name)
		if err != nil {
			continue
		}
		if !e.settled(q) {
			if len(op.Queues) == 0 {
				return ErrAgain
			}
			more = true
			break
		}
		op.Queues = append(op.Queues, e.view(q))
	}
	if n := len(op.Queues); more && n > 0 {
		op.Next = sealToken(op.Queues[n-1].Queue.Name)
	}
	return nil
}

func (e *Engine) view(q *queue) QueueView {
	gauge, _ := e.gauge(q)
	v := QueueView{
		Gauge:   gauge,
		Redrive: q.row.Attributes.Redrive,
	}
	for name := range e.sources(q.name, "") {
		if len(v.Sources) == viewSources {
			v.MoreSources = true
			break
		}
		v.Sources = append(v.Sources, name)
	}
	return v
}
