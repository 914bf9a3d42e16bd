package queuename

import "testing"

func TestOf(t *testing.T) {
	for queue, want := range map[string]string{
		"https://sqs.eu-west-1.amazonaws.com/123456789012/orders.fifo": "orders.fifo",
		"arn:aws:sqs:us-east-1:000000000000:orders":                    "orders",
		"orders": "orders",
		"":       "",
	} {
		if got := Of(queue); got != want {
			t.Errorf("Of(%q) = %q, want %q", queue, got, want)
		}
	}
}
