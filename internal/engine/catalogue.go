package engine

import (
	"encoding/base64"
	"iter"
	"maps"
	"slices"
	"strings"

	"tenaq/internal/door/policy"
	"tenaq/internal/engine/key"
	"tenaq/internal/engine/row"
	"tenaq/internal/work/extension"
	"tenaq/internal/work/sqslimits"
)

// CreateQueue creates a queue, or finds an existing one that the request does not contradict.
type CreateQueue struct {
	Queue      QueueName
	NameSet    bool
	Attributes map[string]string
	Tags       []Tag
}

func (op *CreateQueue) apply(e *Engine, c *Command) *Error {
	if err := op.checkName(); err != nil {
		return err
	}
	defaults := row.DefaultAttributes()
	defaults.FIFO = op.isFIFO()
	wanted, err := e.with(op.Queue, defaults, op.Attributes) // [QUEUE-13]
	if err != nil {
		return err
	}
	tags, err := withTags(op.Queue.Name, op.isFIFO(), nil, op.Tags)
	if err != nil {
		return err
	}
	old, err := e.lookup(op.Queue)
	if err == nil {
		return op.compare(e, old, tags)
	}
	if err := e.checkGrave(op.Queue); err != nil {
		return err
	}
	q := &queue{name: op.Queue.Clone(), row: row.Queue{
		Incarnation: identity(c.Seed, 0),
		Created:     e.now,
		Modified:    e.now,
		Attributes:  wanted,
		Tags:        tags,
	}}
	q.setSpace(e.sys.takeSpace(), e.now)
	q.st.Boot = e.sys.Boot
	e.own(q.row.Space, q.name)
	q.readExtensions()
	e.beginTokens(q)
	e.reschedule(q.name, nil, tags)
	e.turnFair(q)
	e.writeRow(q)
	e.writeSource(q, QueueName{}, wanted.Redrive.Target)
	e.notePolicy("", wanted.Policy)
	e.add(q)
	e.touch(q)
	e.stir(q)
	return nil
}

// isFIFO reports whether the request is for a FIFO queue.
func (op *CreateQueue) isFIFO() bool {
	return strings.EqualFold(op.Attributes["FifoQueue"], "true")
}

// checkName refuses names that a queue of its type cannot have.
// [QUEUE-1, QUEUE-2, QUEUE-3, QUEUE-5, FIFO-1]
func (op *CreateQueue) checkName() *Error {
	if !op.NameSet {
		return errMissing("QueueName")
	}
	name, fifo := op.Queue.Name, op.isFIFO()
	stem, suffixed := strings.CutSuffix(name, row.FIFOSuffix)
	switch {
	case fifo && (len(stem) < 1 || len(name) > 80 || !suffixed || !isIdentifier(stem)):
		return invalid("The name of a FIFO queue can only include alphanumeric characters, " +
			"hyphens, or underscores, must end with .fifo suffix and be 1 to 80 in length")
	case !fifo && (len(name) < 1 || len(name) > 80 || !isIdentifier(name)):
		return invalid("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
	}
	return nil
}

// isIdentifier reports whether s has only letters, digits, hyphens and underscores.
func isIdentifier(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c|0x20 < 'a' || c|0x20 > 'z' {
			if (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

// compare refuses a creation whose attributes or tags differ from those of the queue. Only
// attributes in the request count. Their meaning is compared with the present attributes of the
// queue. Tags count if the request has any. [QUEUE-6 to QUEUE-12]
func (op *CreateQueue) compare(e *Engine, q *queue, tags []Tag) *Error {
	for _, name := range slices.Sorted(maps.Keys(op.Attributes)) {
		value := op.Attributes[name]
		if value == "" {
			continue
		}
		want := q.row.Attributes
		if err := findAttribute(name).set(e, &want, value); err != nil {
			return err
		}
		if policy.Equal(want.Policy, q.row.Attributes.Policy) {
			want.Policy = q.row.Attributes.Policy
		}
		if want != q.row.Attributes {
			return refuse(CodeQueueExists,
				"A queue already exists with the same name and a different value for attribute "+
					name)
		}
	}
	if len(tags) > 0 && !slices.Equal(tags, q.row.Tags) {
		return refuse(CodeQueueExists,
			"A queue already exists with the same name and different tags")
	}
	return nil
}

// checkGrave refuses the name of a queue that was deleted a moment ago. [QUEUE-18, QUEUE-19]
func (e *Engine) checkGrave(name QueueName) *Error {
	var deleted int64
	if q := e.queues[name]; q != nil {
		deleted = q.row.Deleted
	} else if stored, ok := e.rows.queue(name); ok {
		deleted = stored.Deleted
	}
	if deleted != 0 && e.now < deleted+e.cfg.RecreateDelay {
		return refuse(CodeDeletedRecently,
			"You must wait 60 seconds after deleting a queue before you can create another with the same name.")
	}
	return nil
}

// DeleteQueue removes a queue and everything in it.
type DeleteQueue struct{ Queue QueueName }

func (op *DeleteQueue) apply(e *Engine, _ *Command) *Error {
	q, err := e.lookup(op.Queue)
	if err != nil {
		return err
	}
	if q.fifo() && !e.letAllGo(q) {
		return ErrAgain
	}
	e.rows.deleteRange(row.WholeSpace(q.row.Space))
	if q.past != nil { // [HIST-4]
		e.rows.deleteRange(row.WholeHistory(q.row.Incarnation))
	}
	e.writeSource(q, q.row.Attributes.Redrive.Target, QueueName{})
	e.notePolicy(q.row.Attributes.Policy, "")
	e.removeTasks(q.name)
	e.reschedule(q.name, q.row.Tags, nil)
	e.sys.fell()
	q.row = row.Queue{Deleted: e.now}
	q.gone = true
	e.writeRow(q)
	e.stir(q)
	e.cfg.Tally.Drop(q.name.Account, q.name.Name)
	return nil
}

// GetQueueURL looks for a queue.
type GetQueueURL struct {
	Queue   QueueName
	NameSet bool
}

func (op *GetQueueURL) apply(e *Engine, _ *Command) *Error {
	if !op.NameSet || op.Queue.Name == "" { // [QUEUE-28]
		return invalid("Value for parameter QueueName is invalid. Reason: Must specify a queue name.")
	}
	_, err := e.lookup(op.Queue)
	return err
}

// ListQueues lists the queues of an account, by name. [QUEUE-21 to QUEUE-26]
type ListQueues struct {
	Account    string
	Prefix     string
	MaxResults Int
	NextToken  string

	// The answer: a page, and the token of the next one; empty after the last.
	Queues []QueueName
	Next   string
}

func (op *ListQueues) apply(e *Engine, _ *Command) *Error {
	after, err := checkPage(op.MaxResults, op.NextToken)
	if err != nil {
		return err
	}
	op.Queues, op.Next = page(e.names(op.Account, op.Prefix, after), op.MaxResults)
	return nil
}

// checkPage checks the parameters of a listing and returns the name after which it begins.
func checkPage(size Int, token string) (after string, err *Error) {
	if n := size.or(sqslimits.ListMax); n < 1 || n > sqslimits.ListMax {
		return "", invalid("Value for parameter MaxResults is invalid. " +
			"Reason: MaxResults must be an integer between 1 and 1000.")
	}
	after, ok := openToken(token)
	if !ok {
		return "", invalid("Invalid or expired next token.")
	}
	return after, nil
}

// page cuts a listing to its size. Next is the token of the next page.
func page(names iter.Seq[QueueName], size Int) (page []QueueName, next string) {
	limit := size.or(sqslimits.ListMax)
	for name := range names {
		if int64(len(page)) == limit {
			if size.Set {
				next = sealToken(page[limit-1].Name)
			}
			break
		}
		page = append(page, name)
	}
	return page, next
}

// names yields the queues of an account whose names begin with prefix, after the given one.
func (e *Engine) names(account, prefix, after string) iter.Seq[QueueName] {
	s := row.Span{Lo: row.QueueKey(QueueName{Account: account, Name: prefix})}
	// The encoded name ends with a terminator; without it the key is the prefix of all longer
	// names.
	s.Lo = s.Lo[:len(s.Lo)-len(key.AppendString(nil, ""))]
	s.Hi = key.Next(s.Lo)
	if after >= prefix && after != "" {
		s.Lo = append(row.QueueKey(QueueName{Account: account, Name: after}), 0)
	}
	return func(yield func(QueueName) bool) {
		for name, stored := range e.queuesIn(s) {
			if stored.Deleted == 0 && !yield(name) {
				return
			}
		}
	}
}

// A catalogued queue is one whose row a scan has found.
type catalogued struct {
	name QueueName
	row  row.Queue
}

// queuesIn yields the queues and the graves whose rows are in a span, with these.
func (e *Engine) queuesIn(s row.Span) iter.Seq2[QueueName, row.Queue] {
	return func(yield func(QueueName, row.Queue) bool) {
		for k, v := range e.scan(s) {
			name, ok := row.QueueOf(k)
			stored, known := row.DecodeQueue(v)
			if !ok || !known {
				e.rows.damaged("queue", k)
			}
			if !yield(name, stored) {
				return
			}
		}
	}
}

// queuesBehind covers the rows of the queues behind a name, in the order of accounts and names. The
// zero name covers all.
func queuesBehind(name QueueName) row.Span {
	s := row.Span{Lo: []byte{row.FamilyQueue}, Hi: []byte{row.FamilyQueue + 1}}
	if name != (QueueName{}) {
		s.Lo = append(row.QueueKey(name), 0)
	}
	return s
}

// tokenPrefix marks a paging token as ours.
const tokenPrefix = "1:"

func sealToken(name string) string {
	return base64.URLEncoding.EncodeToString([]byte(tokenPrefix + name))
}

func openToken(token string) (name string, ok bool) {
	if token == "" {
		return "", true
	}
	b, err := base64.URLEncoding.DecodeString(token)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(string(b), tokenPrefix)
}

// Sweep removes expired messages from a few queues behind After, as every command does for its own
// queue. It stops at a queue that has more to remove than one command may, so that the next sweep
// continues there. It also stops after a queue that has removed much, because what a turn writes is
// bounded. Each sweep also looks at a few rows that fallen spaces may have left in moved.
type Sweep struct {
	After QueueName
	Max   int

	// The answer: the last queue it is done with, and whether there are others after it. Moved
	// says that more rows in moved are to be looked at.
	Last        QueueName
	More, Moved bool
}

func (op *Sweep) apply(e *Engine, _ *Command) *Error {
	var seen []catalogued
	var graves []QueueName
	last := op.After
	for name, stored := range e.queuesIn(queuesBehind(op.After)) {
		last = name
		if stored.Deleted == 0 {
			seen = append(seen, catalogued{name, stored})
		} else if e.now >= stored.Deleted+e.cfg.RecreateDelay {
			graves = append(graves, name)
		}
		if len(seen)+len(graves) == op.Max {
			break
		}
	}
	op.Last, op.More = last, len(seen)+len(graves) == op.Max
	done, written := op.After, e.TurnBytes()
	for i := range seen {
		q := e.stale(seen[i].name, seen[i].row)
		if _, keeps := searchTag(seen[i].row.Tags, extension.History); keeps && q == nil {
			q, _ = e.lookup(seen[i].name) // its history may have to fall [HIST-5]
		}
		if q != nil && !e.ready(q) {
			op.Last, op.More = done, true
			break
		}
		done = seen[i].name
		if e.TurnBytes()-written > moveBytesMax {
			op.Last, op.More = done, true
			break
		}
	}
	e.sweepMoved()
	op.Moved = e.sys.Fallen
	for _, name := range graves {
		if q := e.queues[name]; q == nil {
			e.rows.delete(row.QueueKey(name))
		}
	}
	return nil
}
