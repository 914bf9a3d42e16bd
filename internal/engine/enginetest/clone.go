package enginetest

import (
	"maps"
	"slices"

	"tenaq/internal/engine"
	"tenaq/internal/observe/tally"
)

// clone returns a player that knows the same and plays against nothing yet.
func (p *Player) clone() *Player {
	c := *p
	c.machine, c.world = nil, nil
	c.sent, c.handles, c.aliases = maps.Clone(p.sent), maps.Clone(p.handles), maps.Clone(p.aliases)
	c.versions, c.received = maps.Clone(p.versions), maps.Clone(p.received)
	c.tokens, c.tasks = slices.Clone(p.tokens), make(map[string][]moveTask)
	for source, tasks := range p.tasks { // order does not matter: a copy
		c.tasks[source] = slices.Clone(tasks)
	}
	c.selections, c.places = slices.Clone(p.selections), maps.Clone(p.places)
	return &c
}

// clone returns a model of the same state that goes its own way from here. It has counted nothing.
func (m *Model) clone() *Model {
	c := *m
	c.log = slices.Clone(m.log)
	c.graves, c.tally = maps.Clone(m.graves), new(tally.Queues)
	c.records = maps.Clone(m.records)
	c.tasks, c.queues = nil, make(map[engine.QueueName]*modelQueue)
	for _, t := range m.tasks {
		copied := *t
		c.tasks = append(c.tasks, &copied)
	}
	for name, q := range m.queues { // order does not matter: a copy
		c.queues[name] = q.clone()
	}
	return &c
}

func (q *modelQueue) clone() *modelQueue {
	c := *q
	copies := make(map[*modelMessage]*modelMessage)
	all := func(messages []*modelMessage) (list []*modelMessage) {
		for _, msg := range messages {
			if copies[msg] == nil {
				copied := *msg
				copies[msg] = &copied
			}
			list = append(list, copies[msg])
		}
		return list
	}
	c.attributes, c.tags, c.messages = maps.Clone(q.attributes), slices.Clone(q.tags),
		all(q.messages)
	c.handed, c.served = slices.Clone(q.handed), maps.Clone(q.served)
	c.sends, c.attempts = maps.Clone(q.sends), maps.Clone(q.attempts)
	c.calls = maps.Clone(q.calls)
	for id, a := range c.attempts { // order does not matter: each is changed by itself
		a.messages = all(a.messages)
		c.attempts[id] = a
	}
	return &c
}
