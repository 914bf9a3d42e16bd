package queuetest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/queuetest"
)

// remind sends a message that is delivered a quarter of an hour later. It is the code under test.
func remind(ctx context.Context, client *sqs.Client, url, text string) error {
	_, err := client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &text, DelaySeconds: 900})
	return err
}

// testReminder waits a quarter of an hour, in a few milliseconds.
func testReminder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := queuetest.New(t)
		url := server.Queue("reminders", map[string]string{"ReceiveMessageWaitTimeSeconds": "20"})
		if err := remind(t.Context(), server.Client, url, "tea"); err != nil {
			t.Fatal(err)
		}
		if m := server.Messages("reminders"); len(m) != 1 || m[0].State != queuetest.Delayed {
			t.Fatalf("the queue has %+v, want one delayed message", m)
		}
		start := time.Now()
		for {
			out, err := server.Client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url})
			if err != nil {
				t.Fatal(err)
			}
			if len(out.Messages) == 0 {
				continue // a long poll of 20 s has ended
			}
			if got, after := aws.ToString(out.Messages[0].Body), time.Since(start); got != "tea" || after != 15*time.Minute {
				t.Errorf("received %q after %v, want tea after 15m", got, after)
			}
			return
		}
	})
}

// A test of a program that uses a queue. In a package of yours it is a function TestReminder.
func ExampleNew() {
	_ = testReminder
}
