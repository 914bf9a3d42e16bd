package sqswire

import (
	"slices"
	"strings"
	"testing"
)

// The header X-Amz-Target names an action exactly. [WIRE-1]
func TestLookup(t *testing.T) {
	tests := []struct {
		target, want string
	}{
		{"AmazonSQS.SendMessage", "SendMessage"},
		{"AmazonSQS.GetQueueUrl", "GetQueueUrl"},
		{"", ""},
		{"SendMessage", ""},
		{"AmazonSQS.", ""},
		{"AmazonSQS.sendMessage", ""},
		{"AmazonSQS.SendMessage ", ""},
		{"AmazonSQS.NoSuchAction", ""},
		{"AmazonSNS.SendMessage", ""},
		{"amazonsqs.SendMessage", ""},
	}
	for _, test := range tests {
		op, ok := Lookup(test.target)
		if op.Name != test.want || ok != (test.want != "") {
			t.Errorf("%q: got %q, %v, want %q", test.target, op.Name, ok, test.want)
		}
	}
}

func TestOperations(t *testing.T) {
	ops := Operations()
	if got, want := len(ops), 23; got != want {
		t.Errorf("got %d operations, want %d", got, want)
	}
	if !slices.IsSortedFunc(ops, func(a, b Operation) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("operations are not sorted by name")
	}
	for _, op := range ops {
		if a, b := op.NewRequest(), op.NewRequest(); a == b {
			t.Errorf("%s: two requests are the same", op.Name)
		}
	}
}
