package queues

import (
	"cmp"
	"maps"
	"slices"

	"tenaq/internal/cli"
	"tenaq/internal/settings"
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

// differences compares a queue with its declaration. What is not declared is not compared.
func differences(q settings.DeclaredQueue, state queueState) (attributes, tags []change) {
	for _, name := range attributeOrder(q.Attributes) {
		want, have := q.Attributes[name], state.Attributes[name]
		if !cli.SameAttribute(name, want, have) {
			attributes = append(attributes,
				change{Queue: q.Name, Attribute: name, Want: want, Have: have})
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
