package enginetest

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tenaq/internal/engine"
)

// modelDefaults are the attributes a Model knows, and modelFIFODefaults those of FIFO queues alone.
var (
	modelDefaults = map[string]string{
		"DelaySeconds":                  "0",
		"MaximumMessageSize":            "1048576",
		"MessageRetentionPeriod":        "345600",
		"ReceiveMessageWaitTimeSeconds": "0",
		"VisibilityTimeout":             "30",
		"RedrivePolicy":                 "",
	}
	modelFIFODefaults = map[string]string{
		"FifoQueue":                 "true",
		"ContentBasedDeduplication": "false",
		"DeduplicationScope":        "queue",
		"FifoThroughputLimit":       "perQueue",
	}
)

// number is an attribute that is a number.
func (q *modelQueue) number(name string) int64 {
	n, _ := strconv.ParseInt(q.attributes[name], 10, 64)
	return n
}

func (q *modelQueue) fifo() bool { return q.attributes["FifoQueue"] == "true" }

func (m *Model) create(op *engine.CreateQueue) *engine.Error {
	fifo := op.Attributes["FifoQueue"] == "true"
	if no := m.checkRedrive(op.Queue, fifo, op.Attributes["RedrivePolicy"]); no != nil {
		return no
	}
	if q := m.queues[op.Queue]; q != nil {
		different := ""
		for k, v := range op.Attributes { // order does not matter: the first by name is named
			if v != "" && v != q.attributes[k] && (different == "" || k < different) {
				different = k
			}
		}
		if different != "" {
			return modelRefusal(engine.CodeQueueExists,
				"A queue already exists with the same name and a different value for attribute %s",
				different)
		}
		if given := new(modelQueue); len(op.Tags) > 0 {
			if given.tag(op.Tags); !slices.Equal(given.tags, q.tags) {
				return modelRefusal(engine.CodeQueueExists,
					"A queue already exists with the same name and different tags")
			}
		}
		return nil
	}
	if deleted, ok := m.graves[op.Queue]; ok && m.now-deleted < m.cfg.RecreateDelay {
		return modelRefusal(engine.CodeDeletedRecently,
			"You must wait 60 seconds after deleting a queue before you can create another with the same name.")
	}
	q := &modelQueue{name: op.Queue, incarnation: m.identity(), boot: m.boot, rated: m.now,
		attributes: make(map[string]string)}
	maps.Copy(q.attributes, modelDefaults)
	if fifo {
		maps.Copy(q.attributes, modelFIFODefaults)
	}
	maps.Copy(q.attributes, op.Attributes)
	q.tag(op.Tags)
	if no := q.clash(); no != nil {
		return no
	}
	q.beginFair()
	q.reschedule(nil, m.now)
	m.queues[op.Queue] = q
	return nil
}

func (m *Model) set(q *modelQueue, values map[string]string) *engine.Error {
	if no := m.checkRedrive(q.name, q.fifo(), values["RedrivePolicy"]); no != nil {
		return no
	}
	m.settle(q)
	maps.Copy(q.attributes, values)
	return nil
}

func (m *Model) list(op *engine.ListQueues) {
	op.Queues, op.Next = m.page(op.NextToken, op.MaxResults, func(q *modelQueue) bool {
		return q.name.Account == op.Account && strings.HasPrefix(q.name.Name, op.Prefix)
	})
}

// page lists the queues that have something, by name, from behind the one that the token names.
func (m *Model) page(
	token string, size engine.Int, has func(*modelQueue) bool,
) (page []engine.QueueName, next string) {
	for name, q := range m.queues { // order does not matter: sorted below
		if has(q) && name.Name > token {
			page = append(page, name)
		}
	}
	slices.SortFunc(page, func(a, b engine.QueueName) int {
		return cmp.Compare(a.Name, b.Name)
	})
	if n := int(size.Value); size.Set && len(page) > n {
		page = page[:n]
		next = page[n-1].Name
	}
	return page, next
}

func (m *Model) sweep() {
	for _, q := range m.queues { // order does not matter: each for itself
		m.settle(q)
	}
}

func (q *modelQueue) tag(tags []engine.Tag) {
	for _, t := range tags {
		q.tags = slices.DeleteFunc(q.tags, func(old engine.Tag) bool { return old.Key == t.Key })
		q.tags = append(q.tags, t)
	}
	slices.SortFunc(q.tags, func(a, b engine.Tag) int { return cmp.Compare(a.Key, b.Key) })
}

func (q *modelQueue) show(now int64) map[string]string {
	values := map[string]string{
		"ApproximateNumberOfMessages":           strconv.Itoa(q.count(available, now)),
		"ApproximateNumberOfMessagesNotVisible": strconv.Itoa(q.count(inFlight, now)),
		"ApproximateNumberOfMessagesDelayed":    strconv.Itoa(q.count(delayed, now)),
	}
	for k, v := range q.attributes { // order does not matter: a copy
		if v != "" {
			values[k] = v
		}
	}
	return values
}

func (q *modelQueue) count(kind modelKind, now int64) (n int) {
	for _, msg := range q.messages {
		if q.state(msg, now) == kind {
			n++
		}
	}
	return n
}
