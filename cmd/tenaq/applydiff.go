package main

import (
	"cmp"
	"maps"
	"slices"
)

// What became of a change, as the report says it.
const (
	actionCreated = "created"
	actionSet     = "set"
	actionRefused = "refused"
)

func actionSetOr(action string) string { return cmp.Or(action, actionSet) }

// A change is one line of the report: a whole queue, or one attribute or tag of it.
type change struct {
	Queue     string `json:"queue"`
	Attribute string `json:"attribute,omitempty"`
	Tag       string `json:"tag,omitempty"`
	Want      string `json:"want,omitempty"`
	Have      string `json:"have,omitempty"`
	Action    string `json:"action"`
}

func (ch change) what() string {
	if ch.Tag != "" {
		return "tag " + ch.Tag
	}
	return ch.Attribute
}

func orDash(s string) string { return cmp.Or(s, "-") }

// differences compares a queue with its declaration. What is not declared is not compared.
func differences(q declaredQueue, state queueState) (attributes, tags []change) {
	for _, name := range attributeOrder(q.Attributes) {
		want, have := q.Attributes[name], state.Attributes[name]
		if !sameAttribute(name, want, have) {
			attributes = append(attributes, change{Queue: q.Name, Attribute: name, Want: want, Have: have})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(q.Tags)) {
		have, ok := state.Tags[key]
		if want := q.Tags[key]; !ok || want != have {
			tags = append(tags, change{Queue: q.Name, Tag: key, Want: want, Have: have})
		}
	}
	return attributes, tags
}

// wanted collects what changes set.
func wanted(changes []change) map[string]string {
	m := map[string]string{}
	for _, ch := range changes {
		m[cmp.Or(ch.Tag, ch.Attribute)] = ch.Want
	}
	return m
}

// A creationStep creates a queue, or gives one that exists by then its redrive policy.
type creationStep struct {
	queue       declaredQueue
	withoutDLQ  bool // leave the redrive policy to a later step
	redriveOnly bool
}

// attributes returns what the queue is created with.
func (s creationStep) attributes() map[string]string {
	if !s.withoutDLQ {
		return s.queue.Attributes
	}
	m := maps.Clone(s.queue.Attributes)
	delete(m, "RedrivePolicy")
	return m
}

// creationOrder orders queues so that each is created after its dead-letter queue, which must exist when
// it is named. Where that is impossible, because a queue is its own dead-letter queue or some form a
// ring, one is created without its policy and gets it once all are there.
func creationOrder(queues []declaredQueue) []creationStep {
	waiting := map[string]bool{}
	for _, q := range queues {
		waiting[q.Name] = true
	}
	var steps, later []creationStep
	rest := slices.Clone(queues)
	for len(rest) > 0 {
		ready := func(q declaredQueue) bool { return !waiting[deadLetterTarget(q.Attributes)] }
		i := slices.IndexFunc(rest, ready)
		step := creationStep{}
		if i < 0 {
			i, step.withoutDLQ = 0, true
			later = append(later, creationStep{queue: rest[0], redriveOnly: true})
		}
		step.queue = rest[i]
		steps = append(steps, step)
		delete(waiting, rest[i].Name)
		rest = slices.Delete(rest, i, i+1)
	}
	return append(steps, later...)
}
