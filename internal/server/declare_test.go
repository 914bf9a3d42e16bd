package server

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestCreationOrder(t *testing.T) {
	plain := func(name string) Queue { return Queue{Name: name} }
	to := func(name, target string) Queue {
		return Queue{Name: name, Attributes: map[string]string{
			"DelaySeconds":  "1",
			"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:` + target + `","maxReceiveCount":5}`,
		}}
	}
	for _, test := range []struct {
		name   string
		queues []Queue
		want   string // a- is created without its policy, a+ is given it
	}{
		{"none", nil, ""},
		{"as declared", []Queue{plain("a"), plain("b")}, "a b"},
		{"target first", []Queue{to("a", "b"), to("b", "c"), plain("c")}, "c b a"},
		{"target elsewhere", []Queue{to("a", "z")}, "a"},
		{"own target", []Queue{to("a", "a")}, "a- a+"},
		{"ring", []Queue{to("a", "b"), to("b", "a")}, "a- b a+"},
		{"ring and a way into it", []Queue{to("x", "a"), to("a", "b"), to("b", "c"), to("c", "a")}, "a- x c b a+"},
		{"two rings", []Queue{to("a", "b"), to("b", "a"), to("c", "c")}, "a- b c- a+ c+"},
	} {
		before := slices.Clone(test.queues)
		for i := range before {
			before[i].Attributes = maps.Clone(before[i].Attributes)
		}
		var got []string
		for _, s := range CreationOrder(test.queues) {
			name, policy := s.Queue.Name, s.Queue.Attributes["RedrivePolicy"]
			switch {
			case s.Redrive != "":
				name += "+"
			case policy == "" && s.Queue.Attributes["DelaySeconds"] != "":
				name += "-"
			}
			got = append(got, name)
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("%s: got %q, want %q", test.name, s, test.want)
		}
		for i, q := range test.queues {
			if q.Name != before[i].Name || !maps.Equal(q.Attributes, before[i].Attributes) {
				t.Errorf("%s: queue %d has become %v, want what was given", test.name, i, q)
			}
		}
	}
}
